//! Benchmarks: thin ways into `cargo bench`, so that every chore has one entry point.

mod torch;

use std::ffi::OsString;

use anyhow::Result;

use crate::cli::{BenchArgs, BenchName};
use crate::command;
use crate::repo::Repo;

/// Runs one benchmark.
pub fn run(repo: &Repo, args: &BenchArgs) -> Result<()> {
    match args.name {
        BenchName::Unwind => bench(repo, "unwind", &[]),
        BenchName::Tables => {
            let files: Vec<OsString> = args.files.iter().map(OsString::from).collect();
            bench(repo, "tables", &files)
        }
        BenchName::Torch => match torch::python()? {
            Some(python) => bench(repo, "torch", &[python.into()]),
            None => Ok(()),
        },
    }
}

fn bench(repo: &Repo, name: &str, arguments: &[OsString]) -> Result<()> {
    let mut cargo = repo.cargo();
    cargo.args(["bench", "--package", "profiler-user", "--bench", name]);
    command::run(cargo.arg("--").args(arguments))
}
