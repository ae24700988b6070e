//! Benchmarks: thin ways into `cargo bench`, so that every chore has one entry point.

use anyhow::Result;

use crate::cli::BenchName;
use crate::command;
use crate::repo::Repo;

/// Runs one benchmark.
pub fn run(repo: &Repo, name: BenchName) -> Result<()> {
    let bench = match name {
        BenchName::Unwind => "unwind",
    };
    command::run(
        repo.cargo()
            .args(["bench", "--package", "profiler-user", "--bench", bench]),
    )
}
