//! A program in C, built in many ways.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object as _, ObjectSymbol as _};
use profiler_ebpf::rows::Rule;
use tempfile::TempDir;

use super::compare::{Compared, compare};
use super::skip;
use crate::unwind::{Table, build};

const SOURCE: &str = include_str!("fixture.c");

/// A built program.
pub struct Fixture {
    directory: TempDir,
    /// Where it is.
    pub path: PathBuf,
}

impl Fixture {
    /// Compiles it with these flags; skips where that is not possible.
    pub fn build(test: &str, flags: &[&str]) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("fixture.c");
        std::fs::write(&source, SOURCE).unwrap();
        let path = directory.path().join("fixture");
        let mut command = Command::new("cc");
        command
            .arg("-O2")
            .args(flags)
            .arg("-o")
            .arg(&path)
            .arg(&source);
        if run(&mut command) {
            return Some(Self { directory, path });
        }
        skip(test, &format!("no cc that takes {flags:?}"));
        None
    }

    /// A copy of it, changed by a command that takes the path of the old and the new file.
    pub fn changed(&self, test: &str, command: &[&str]) -> Option<PathBuf> {
        let path = self.directory.path().join(command.concat());
        let mut full = Command::new(command[0]);
        full.args(&command[1..]).arg(&self.path).arg(&path);
        if run(&mut full) {
            return Some(path);
        }
        skip(test, &format!("{command:?} is not possible"));
        None
    }

    /// Address and size of a function.
    pub fn symbol(&self, name: &str) -> (u64, u64) {
        let data = std::fs::read(&self.path).unwrap();
        let elf = object::File::parse(&*data).unwrap();
        let symbol = elf
            .symbols()
            .find(|symbol| symbol.name() == Ok(name))
            .unwrap();
        (symbol.address(), symbol.size())
    }

    /// Its table, and all of it compared.
    pub fn compared(&self) -> (Table, Compared) {
        let table = table(&self.path);
        let compared = compare(&self.path, &table, usize::MAX);
        println!("{compared:?} {:?}", table.stats);
        (table, compared)
    }
}

fn run(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

/// The table of a file.
pub fn table(path: &Path) -> Table {
    build(&File::open(path).unwrap()).unwrap()
}

/// The rules of a function, in order.
pub fn rules(table: &Table, (start, size): (u64, u64)) -> Vec<Rule> {
    let mut rules: Vec<Rule> = (start..start + size)
        .filter_map(|at| table.find(at))
        .collect();
    rules.dedup();
    rules
}
