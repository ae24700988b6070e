//! `cargo xtask test`: everything a fresh machine needs to run every test, in one command.
//!
//! The end-to-end tests run the release build, because that is what users run: their timing limits and the profiler's
//! own cost would mean nothing for an unoptimised one. They run last and one at a time, so that no other test's work
//! shows up in what they measure.

mod libtest;
pub mod needs;
mod skips;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::command;
use crate::privilege::Way;
use crate::repo::Repo;
use libtest::Tally;
use skips::Skips;

/// The package of end-to-end tests.
const END_TO_END: &str = "wholestack-tests";

/// What was asked for.
#[derive(Debug)]
pub struct Options {
    /// Only tests whose name contains this.
    pub filter: Option<String>,
    /// Give the end-to-end tests the dev build.
    pub dev_binary: bool,
}

/// Installs, builds, runs, counts.
pub fn run(repo: &Repo, options: &Options) -> Result<()> {
    needs::provide()?;
    let way = Way::find();
    let binary = build(repo, options.dev_binary)?;
    let skips = Skips::start(repo)?;
    let mut tally = Tally::default();
    let mut all_well = true;
    for (package, threads) in [(Package::Others, None), (Package::EndToEnd, Some(1))] {
        let test = |arguments: &[&str]| {
            let mut cargo = cargo_test(repo, package, way);
            cargo
                .args(arguments)
                .env("WHOLESTACK_BIN", &binary)
                .env("WHOLESTACK_SKIPS", skips.file());
            cargo
        };
        command::run(&mut test(&["--no-run", "--quiet"]))?;
        let mut cargo = test(&["--no-fail-fast"]);
        cargo.args(options.filter.as_deref());
        if let Some(threads) = threads {
            cargo.arg("--").arg(format!("--test-threads={threads}"));
        }
        all_well &= libtest::run(&mut cargo, &mut tally, &mut io::stdout().lock())?;
    }
    conclude(&tally, &skips, all_well, way, options)
}

#[derive(Debug, Clone, Copy)]
enum Package {
    Others,
    EndToEnd,
}

fn cargo_test(repo: &Repo, package: Package, way: Way) -> Command {
    let mut cargo = repo.cargo();
    cargo.args(["test", "--locked"]).args(way.cargo_arguments());
    match package {
        Package::Others => cargo.args(["--workspace", "--exclude", END_TO_END]),
        Package::EndToEnd => cargo.args(["--package", END_TO_END]),
    };
    cargo
}

/// Builds the program the end-to-end tests run, and says where it is.
fn build(repo: &Repo, dev: bool) -> Result<PathBuf> {
    let mut cargo = repo.cargo();
    cargo.args(["build", "--locked"]);
    if !dev {
        cargo.arg("--release");
    }
    command::run(&mut cargo)?;
    let binary = repo
        .target()
        .join(if dev { "debug" } else { "release" })
        .join("wholestack");
    if !Path::new(&binary).is_file() {
        bail!("the build left no {}", binary.display());
    }
    Ok(binary)
}

/// Prints what was skipped and the sum of all, and decides whether that is good.
fn conclude(
    tally: &Tally,
    skips: &Skips,
    all_well: bool,
    way: Way,
    options: &Options,
) -> Result<()> {
    let skipped = skips.read()?;
    println!("\nskipped tests: {}", skipped.len());
    for line in &skipped {
        println!("  {line}");
    }
    if way == Way::Unprivileged {
        println!("Tests that need root were not run as root. To run them, type:");
        println!("  sudo -E env \"PATH=$PATH\" cargo xtask test");
    }
    let passed = tally.passed.saturating_sub(skipped.len());
    println!(
        "{passed} passed, {} failed, {} skipped",
        tally.failed,
        skipped.len()
    );
    if !all_well {
        bail!("tests failed; `cargo xtask test --filter NAME` runs some of them again");
    }
    match &options.filter {
        _ if tally.passed > 0 => skips::judge(&skipped),
        Some(name) => bail!("no test's name contains {name}"),
        None => bail!("no test was run"),
    }
}
