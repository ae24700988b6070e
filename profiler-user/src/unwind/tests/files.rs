//! Real files: what runs on every host.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::compare::{Compared, compare};
use super::skip;
use crate::unwind::{build, build_from_bytes};

/// Functions compared of each file; all of them when WHOLESTACK_ORACLE_ALL is set.
const FUNCTIONS: usize = 1500;

/// Compares the first of these files that is there, or skips.
fn first_of(test: &str, candidates: &[&str]) -> Option<Compared> {
    let expanded = candidates.iter().flat_map(|pattern| expand(pattern));
    let Some(path) = expanded.into_iter().find(|path| path.is_file()) else {
        skip(test, &format!("none of {candidates:?} is here"));
        return None;
    };
    Some(one(&path))
}

fn one(path: &Path) -> Compared {
    let all = std::env::var_os("WHOLESTACK_ORACLE_ALL").is_some();
    let table = build(&File::open(path).unwrap()).unwrap();
    let compared = compare(path, &table, if all { usize::MAX } else { FUNCTIONS });
    println!("{}: {compared:?} {:?}", path.display(), table.stats);
    assert!(compared.same > 100);
    compared
}

/// Paths that match: a `*` stands for anything in one directory.
pub fn expand(pattern: &str) -> Vec<PathBuf> {
    let home = std::env::var("HOME").unwrap_or_default();
    let pattern = pattern.replace('~', &home);
    let Some((before, after)) = pattern.split_once('*') else {
        return vec![PathBuf::from(pattern)];
    };
    let (directory, prefix) = before.rsplit_once('/').unwrap();
    let (suffix, below) = after.split_at(after.find('/').unwrap_or(after.len()));
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with(prefix) && name[prefix.len()..].ends_with(suffix))
        .map(|name| format!("{directory}/{name}{below}"))
        .collect();
    found.sort();
    found.iter().flat_map(|path| expand(path)).collect()
}

/// glibc: signal trampoline, clean ends, cancellation points, hand-written assembly.
#[test]
fn libc() {
    let paths = [
        "/lib/x86_64-linux-gnu/libc.so.6",
        "/lib64/libc.so.6",
        "/usr/lib/libc.so.6",
    ];
    if let Some(compared) = first_of("unwind::files::libc", &paths) {
        assert_eq!(compared.lost_fp, 0);
    }
}

/// The dynamic linker.
#[test]
fn dynamic_linker() {
    first_of(
        "unwind::files::dynamic_linker",
        &["/lib64/ld-linux-x86-64.so.2"],
    );
}

/// Python as a shared library, at -O3.
#[test]
fn libpython() {
    let paths = [
        "~/.pyenv/versions/3.11*/lib/libpython3.11.so.1.0",
        "~/.pyenv/versions/3*/lib/libpython3.so",
    ];
    first_of("unwind::files::libpython", &paths);
}

/// Python as a program.
#[test]
fn python() {
    first_of(
        "unwind::files::python",
        &[
            "/usr/bin/python3.11",
            "/usr/bin/python3.13",
            "/usr/bin/python3",
        ],
    );
}

/// OpenSSL: assembly that keeps the old stack pointer on the stack or in other registers.
#[test]
fn libcrypto() {
    let paths = [
        "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
        "/usr/lib64/libcrypto.so.3",
    ];
    first_of("unwind::files::libcrypto", &paths);
}

/// C++.
#[test]
fn libstdcxx() {
    let paths = [
        "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
        "/usr/lib64/libstdc++.so.6",
    ];
    first_of("unwind::files::libstdcxx", &paths);
}

/// V8: much assembly, and a big text.
#[test]
fn node() {
    first_of(
        "unwind::files::node",
        &["/usr/bin/node", "/usr/local/bin/node"],
    );
}

/// A big C++ library whose functions are not in order.
#[test]
fn llvm() {
    let paths = [
        "/usr/lib/x86_64-linux-gnu/libLLVM*",
        "~/.rustup/toolchains/*/lib/libLLVM.so.*",
    ];
    first_of("unwind::files::llvm", &paths);
}

/// The Rust compiler.
#[test]
fn rustc() {
    first_of(
        "unwind::files::rustc",
        &["~/.rustup/toolchains/*/lib/librustc_driver-*.so"],
    );
}

/// What WHOLESTACK_ORACLE_FILES names, separated by colons: torch's libraries, say.
#[test]
fn named() {
    let named = std::env::var("WHOLESTACK_ORACLE_FILES").unwrap_or_default();
    for path in named.split(':').filter(|path| !path.is_empty()) {
        one(Path::new(path));
    }
}

/// The kernel's own code in every process, as it lies in this one.
#[test]
fn vdso() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let Some(line) = maps.lines().find(|line| line.ends_with("[vdso]")) else {
        return skip("unwind::files::vdso", "this kernel maps none");
    };
    let (start, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
    let [start, end] = [start, end].map(|at| u64::from_str_radix(at, 16).unwrap());
    let mut image = vec![0; (end - start) as usize];
    let memory = File::open("/proc/self/mem").unwrap();
    memory.read_exact_at(&mut image, start).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &image).unwrap();
    let table = build_from_bytes(&image).unwrap();
    let compared = compare(file.path(), &table, usize::MAX);
    println!("vdso: {compared:?} {:?}", table.stats);
    assert!(compared.same > 10 && compared.unfit == 0);
}

/// Rust: this very test.
#[test]
fn this_test() {
    let compared = one(&std::env::current_exe().unwrap());
    assert_eq!((compared.unfit, compared.lost_fp), (0, 0));
}
