//! `cargo xtask ebpf build`.

use std::fs;

use anyhow::{Context, Result, bail};

use super::install;
use super::manifest::{self, Manifest};
use super::recipe::{self, Variant};
use super::toolchain::{self, Toolchain};
use super::{OBJECT, elf};
use crate::repo::Repo;

/// What was asked for.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Install a missing toolchain.
    pub install: bool,
    /// Build the object with aya-log's lines.
    pub bpf_log: bool,
}

/// Builds the object that ships and its manifest, or the one with log lines.
pub fn build(repo: &Repo, options: Options) -> Result<()> {
    let toolchain = toolchain_or_install(options.install)?;
    println!("toolchain: {}", toolchain.versions());
    let variant = if options.bpf_log {
        Variant::Log
    } else {
        Variant::Plain
    };
    let folder = repo.target().join("ebpf");
    let object = recipe::build(repo, &toolchain, variant, &folder)?;
    println!("\n{}", manifest::instruction_table(&object)?);
    let (place, shown) = match variant {
        Variant::Log => {
            let file = folder.join("wholestack-log.bpf.o");
            fs::write(&file, &object)
                .with_context(|| format!("cannot write {}", file.display()))?;
            (file.display().to_string(), "for debugging, never committed")
        }
        Variant::Plain => {
            let before = fs::read(repo.path(OBJECT)).unwrap_or_default();
            Manifest::of(repo, &object, &toolchain.versions())?.write(repo, &object)?;
            (
                OBJECT.to_owned(),
                if before == object {
                    "unchanged"
                } else {
                    "changed: commit profiler-ebpf/prebuilt"
                },
            )
        }
    };
    let programs = elf::functions(&object)?
        .values()
        .filter(|function| function.is_program())
        .count();
    println!(
        "{place}: {programs} programs, {} bytes, {shown}",
        object.len()
    );
    Ok(())
}

fn toolchain_or_install(install: bool) -> Result<Toolchain> {
    match toolchain::find(None) {
        Ok(toolchain) => return Ok(toolchain),
        Err(missing) if install => install::install(&missing)?,
        Err(missing) => bail!(
            "no eBPF toolchain: {missing}; add --install, or type:\n{}",
            install::commands(&missing)
        ),
    }
    toolchain::find(None).map_err(|missing| anyhow::anyhow!("still no eBPF toolchain: {missing}"))
}
