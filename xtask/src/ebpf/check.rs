//! `cargo xtask ebpf check`: sources, manifest and committed object must belong together.

use std::fs;

use anyhow::{Context, Result, anyhow, bail};

use super::manifest::{Manifest, Object};
use super::recipe::{self, Variant};
use super::toolchain::{self, Toolchain};
use super::{MEND, OBJECT, elf, install, sources};
use crate::repo::Repo;

/// What was asked for.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Not being able to rebuild is an error.
    pub full: bool,
    /// Install what rebuilding needs.
    pub install: bool,
}

/// Compares hashes, and where the machine can, rebuilds and compares bytes.
pub fn check(repo: &Repo, options: Options) -> Result<()> {
    let manifest = Manifest::read(repo)?;
    let object =
        fs::read(repo.path(OBJECT)).with_context(|| format!("cannot read {OBJECT}; {MEND}"))?;
    compare(&manifest, &sources::hash(repo)?, &object)?;
    if manifest != Manifest::of(repo, &object, &manifest.toolchain)? {
        bail!("the manifest's instruction counts are not the object's; {MEND}");
    }
    match rebuilding_toolchain(&manifest, options)? {
        Ok(toolchain) => compare_rebuilt(repo, &toolchain, &object)?,
        Err(why_not) if options.full => {
            bail!("the kernel object cannot be compared with a rebuild: {why_not}")
        }
        Err(why_not) => println!("kernel object: hashes match; not rebuilt here: {why_not}"),
    }
    Ok(())
}

/// Holds the manifest against the sources and the object as they are.
fn compare(manifest: &Manifest, sources: &str, object: &[u8]) -> Result<()> {
    if manifest.sources != sources {
        bail!("the kernel side's sources have changed since {OBJECT} was built; {MEND}");
    }
    if manifest.object != Object::of(object) {
        bail!("{OBJECT} is not the object that its manifest describes; {MEND}");
    }
    Ok(())
}

/// The toolchain that built the committed object; or, inside, why it is not to be had.
fn rebuilding_toolchain(
    manifest: &Manifest,
    options: Options,
) -> Result<Result<Toolchain, String>> {
    let wanted = &manifest.toolchain;
    if options.install {
        let missing = match toolchain::find(Some(wanted)) {
            Ok(found) => found.differences(wanted),
            Err(missing) => missing,
        };
        if missing.lacks_compiler() || missing.lacks_linker() {
            install::install(&missing)?;
        }
    }
    Ok(match toolchain::find(Some(wanted)) {
        Ok(found) if found.versions() == *wanted => Ok(found),
        Ok(found) => Err(format!(
            "it was built by {wanted}, here is {}; where that is newer, {MEND}",
            found.versions()
        )),
        Err(missing) => Err(format!(
            "no eBPF toolchain ({missing}); add --install, or type:\n{}",
            install::commands(&missing)
        )),
    })
}

fn compare_rebuilt(repo: &Repo, toolchain: &Toolchain, object: &[u8]) -> Result<()> {
    let folder = repo.target().join("ebpf");
    let rebuilt = recipe::build(repo, toolchain, Variant::Plain, &folder)?;
    if rebuilt != object {
        let kept = folder.join("rebuilt.bpf.o");
        fs::write(&kept, &rebuilt)?;
        let sections = elf::differing_sections(object, &rebuilt)?.join(", ");
        return Err(anyhow!(
            "{OBJECT} is not what its sources give: {} bytes, rebuilt {} (in {}), different in {sections}; {MEND}",
            object.len(),
            rebuilt.len(),
            kept.display()
        ));
    }
    println!(
        "kernel object: rebuilt, all {} bytes the same",
        object.len()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::ebpf::toolchain::Versions;

    fn manifest() -> Manifest {
        Manifest {
            sources: "as built".to_owned(),
            object: Object::of(b"object"),
            toolchain: Versions {
                rustc: String::new(),
                linker: String::new(),
            },
            programs: BTreeMap::new(),
            functions: BTreeMap::new(),
        }
    }

    /// Each kind of drift has its own message, and each message says what to type.
    #[test]
    fn drift_is_named() {
        assert!(compare(&manifest(), "as built", b"object").is_ok());
        let sources = compare(&manifest(), "edited", b"object")
            .unwrap_err()
            .to_string();
        assert!(
            sources.contains("sources have changed") && sources.contains("cargo xtask ebpf build"),
            "{sources}"
        );
        let object = compare(&manifest(), "as built", b"another")
            .unwrap_err()
            .to_string();
        assert!(
            object.contains("is not the object") && object.contains("cargo xtask ebpf build"),
            "{object}"
        );
    }
}
