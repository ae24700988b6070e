//! What can be typed after `cargo xtask`; turned into each chore's own settings here.

use clap::{Args, Parser, Subcommand};

use crate::{ebpf, test};

/// Every chore of wholestack: the kernel object, the tests, the checks, CI.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    disable_version_flag = true
)]
pub struct Cli {
    #[command(subcommand)]
    pub chore: Chore,
}

#[derive(Debug, Subcommand)]
pub enum Chore {
    /// The kernel object: build it, or check the one that ships
    #[command(subcommand)]
    Ebpf(EbpfChore),
    /// Check what no compiler checks: the rooms' rules, file lengths, licences, links
    Tidy,
    /// Install what the tests need, build, run every test, count the skipped ones
    Test(TestArgs),
    /// Measure a hot path: ratios within one run, since machines differ
    Bench(BenchArgs),
    /// Fetch the Pythons of other Debian releases for the tests, and list which versions are there
    Interpreters,
    /// Everything a change must pass: formatting, lints, tidy, kernel object, docs, release build, tests
    Ci,
}

#[derive(Debug, Subcommand)]
pub enum EbpfChore {
    /// Build the kernel object and its manifest into profiler-ebpf/prebuilt
    ///
    /// Needs a rustc that can build `core` from source (Debian's rustc-web with rust-web-src, or rustup's nightly
    /// with rust-src) and bpf-linker. Two builds by the same toolchain are byte for byte the same, whatever the folder.
    Build(BuildArgs),
    /// Check that sources, manifest and committed object belong together
    ///
    /// The hashes are compared on any machine. Where the eBPF toolchain is present, the object is built again and
    /// compared byte by byte.
    Check(CheckArgs),
}

#[derive(Debug, Args)]
pub struct BenchArgs {
    /// What to measure
    #[arg(value_enum)]
    pub name: BenchName,
    /// For `tables`: the ELF files to build tables of, instead of a few that every host has
    pub files: Vec<std::path::PathBuf>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum BenchName {
    /// The native walk in the kernel, by unwind tables and by frame pointer (needs root)
    Unwind,
    /// Building unwind tables, against iterating the same call frame information
    Tables,
    /// How much of a PyTorch training's stacks is whole, and what its tables take (needs root; installs PyTorch)
    Torch,
}

#[derive(Debug, Args)]
pub struct BuildArgs {
    /// Install the eBPF toolchain first when it is missing
    #[arg(long)]
    install: bool,
    /// Keep aya-log's lines; the object goes to target/ebpf/wholestack-log.bpf.o and nowhere else
    #[arg(long)]
    bpf_log: bool,
}

impl From<BuildArgs> for ebpf::BuildOptions {
    fn from(args: BuildArgs) -> Self {
        Self {
            install: args.install,
            bpf_log: args.bpf_log,
        }
    }
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Fail when the object cannot be rebuilt and compared on this machine
    #[arg(long)]
    full: bool,
    /// Install the eBPF toolchain first when it is missing or not the one in the manifest
    #[arg(long)]
    install: bool,
}

impl From<CheckArgs> for ebpf::CheckOptions {
    fn from(args: CheckArgs) -> Self {
        Self {
            full: args.full,
            install: args.install,
        }
    }
}

#[derive(Debug, Args)]
pub struct TestArgs {
    /// Run only the tests whose name contains NAME; an error when there is none
    #[arg(long, value_name = "NAME")]
    filter: Option<String>,
    /// Give the end-to-end tests the dev build: quicker to build, slower, not what users run
    #[arg(long)]
    dev: bool,
}

impl From<TestArgs> for test::Options {
    fn from(args: TestArgs) -> Self {
        Self {
            filter: args.filter,
            dev_binary: args.dev,
        }
    }
}
