//! Every chore of wholestack behind one entry point: `cargo xtask --help`.

mod apt;
mod bench;
mod ci;
mod cli;
mod command;
mod ebpf;
mod interpreters;
mod privilege;
mod repo;
mod table;
mod test;
mod tidy;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use cli::{Chore, Cli, EbpfChore};
use repo::Repo;

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<()> {
    let repo = Repo::find()?;
    match cli.chore {
        Chore::Ebpf(EbpfChore::Build(args)) => ebpf::build(&repo, args.into()),
        Chore::Ebpf(EbpfChore::Check(args)) => ebpf::check(&repo, args.into()),
        Chore::Tidy => tidy::run(&repo),
        Chore::Test(args) => test::run(&repo, &args.into()),
        Chore::Bench(args) => bench::run(&repo, &args),
        Chore::Interpreters => interpreters::run(),
        Chore::Ci => ci::run(&repo),
    }
}
