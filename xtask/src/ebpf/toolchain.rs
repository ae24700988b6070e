//! Finds what builds the kernel object: a rustc that takes `-Z` flags and has the library's source, and bpf-linker.
//!
//! Two sources of rustc are known: Debian's packages (in /usr/bin, beside rustup's) and rustup's nightly.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::install;
use crate::command;

/// The oldest rustc that builds this workspace.
const OLDEST_RUSTC: &str = env!("CARGO_PKG_RUST_VERSION");

/// What decides the object's bytes besides sources and recipe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Versions {
    /// `rustc --version`.
    pub rustc: String,
    /// `bpf-linker --version`.
    pub linker: String,
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.rustc, self.linker)
    }
}

/// A complete eBPF toolchain.
#[derive(Debug)]
pub struct Toolchain {
    pub compiler: Compiler,
    pub linker: Linker,
}

impl Toolchain {
    /// Its versions, as the manifest keeps them.
    pub fn versions(&self) -> Versions {
        Versions {
            rustc: self.compiler.version.clone(),
            linker: self.linker.version.clone(),
        }
    }

    /// What of it is not as wanted, in the form of what is missing.
    pub fn differences(&self, wanted: &Versions) -> Missing {
        let differs = |have: &String, want: &String| {
            if have == want {
                vec![]
            } else {
                vec![format!("{have}, not {want}")]
            }
        };
        Missing {
            compilers: differs(&self.compiler.version, &wanted.rustc),
            linkers: differs(&self.linker.version, &wanted.linker),
        }
    }
}

/// A rustc that can build `core` for the BPF target.
#[derive(Debug)]
pub struct Compiler {
    pub cargo: PathBuf,
    pub rustc: PathBuf,
    /// The folder that holds `library/core`.
    pub source: PathBuf,
    version: String,
}

/// A bpf-linker.
#[derive(Debug)]
pub struct Linker {
    pub file: PathBuf,
    version: String,
}

/// What is missing: why each candidate was no use. An empty list means that this part is there.
#[derive(Debug)]
pub struct Missing {
    pub compilers: Vec<String>,
    pub linkers: Vec<String>,
}

impl Missing {
    /// Whether a compiler has to be brought in.
    pub fn lacks_compiler(&self) -> bool {
        !self.compilers.is_empty()
    }

    /// Whether bpf-linker has to be brought in.
    pub fn lacks_linker(&self) -> bool {
        !self.linkers.is_empty()
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reasons: Vec<_> = self
            .compilers
            .iter()
            .chain(&self.linkers)
            .map(String::as_str)
            .collect();
        f.write_str(&reasons.join("; "))
    }
}

/// The toolchain to build with: its parts in the preferred versions where they are here, else the first found.
pub fn find(preferred: Option<&Versions>) -> Result<Toolchain, Missing> {
    let compilers = choose([debian(), rustup_nightly()], |compiler| {
        preferred.is_some_and(|versions| versions.rustc == compiler.version)
    });
    let installed = install::linker_folder().map(|folder| folder.join("bin/bpf-linker"));
    let name = installed
        .as_ref()
        .map_or_else(String::new, |file| file.display().to_string());
    let linkers = [
        linker(command::on_path("bpf-linker"), "bpf-linker on PATH"),
        linker(installed, &name),
    ];
    let linkers = choose(linkers, |linker| {
        preferred.is_some_and(|versions| versions.linker == linker.version)
    });
    match (compilers, linkers) {
        (Ok(compiler), Ok(linker)) => Ok(Toolchain { compiler, linker }),
        (compilers, linkers) => Err(Missing {
            compilers: compilers.err().unwrap_or_default(),
            linkers: linkers.err().unwrap_or_default(),
        }),
    }
}

/// The preferred one of those that are of use, else the first; or why none is.
fn choose<T>(
    candidates: [Result<T, String>; 2],
    preferred: impl Fn(&T) -> bool,
) -> Result<T, Vec<String>> {
    let mut reasons = Vec::new();
    let mut first = None;
    for candidate in candidates {
        match candidate {
            Ok(found) if preferred(&found) => return Ok(found),
            Ok(found) => first = first.or(Some(found)),
            Err(reason) => reasons.push(reason),
        }
    }
    first.ok_or(reasons)
}

/// Debian's rustc, which lies beside rustup's without disturbing it.
fn debian() -> Result<Compiler, String> {
    compiler("/usr/bin/cargo".into(), "/usr/bin/rustc".into())
}

/// Rustup's nightly, if that is installed.
fn rustup_nightly() -> Result<Compiler, String> {
    let which = |tool: &str| {
        let mut rustup = Command::new("rustup");
        rustup
            .env_remove("RUSTUP_TOOLCHAIN")
            .args(["which", "--toolchain", "nightly", tool]);
        command::output(&mut rustup).map(|path| PathBuf::from(path.trim()))
    };
    match (which("cargo"), which("rustc")) {
        (Ok(cargo), Ok(rustc)) => compiler(cargo, rustc),
        _ => Err("rustup has no nightly".to_owned()),
    }
}

/// A compiler that is new enough and has its library's source, or why it is no use.
fn compiler(cargo: PathBuf, rustc: PathBuf) -> Result<Compiler, String> {
    let name = rustc.display().to_string();
    let ask = |question: &[&str]| {
        let answer = command::output(Command::new(&rustc).args(question));
        answer
            .map(|text| text.trim().to_owned())
            .map_err(|_| format!("no {name}"))
    };
    let version = ask(&["--version"])?;
    if !at_least(&version, OLDEST_RUSTC) {
        return Err(format!("{name} is {version}, older than {OLDEST_RUSTC}"));
    }
    if !cargo.is_file() {
        return Err(format!("no {}", cargo.display()));
    }
    let source = Path::new(&ask(&["--print", "sysroot"])?).join("lib/rustlib/src/rust");
    if !source.join("library/core/Cargo.toml").is_file() {
        return Err(format!("{name} has no library source"));
    }
    Ok(Compiler {
        cargo,
        rustc,
        source,
        version,
    })
}

/// Whether `rustc --version`'s line names this version or a later one.
fn at_least(line: &str, oldest: &str) -> bool {
    let parts = |text: &str| -> Vec<u32> {
        text.split(['.', '-'])
            .take(2)
            .flat_map(str::parse)
            .collect()
    };
    let version = line
        .split_whitespace()
        .nth(1)
        .map(parts)
        .unwrap_or_default();
    version.len() == 2 && version >= parts(oldest)
}

/// The bpf-linker in one place, if it runs.
fn linker(file: Option<PathBuf>, name: &str) -> Result<Linker, String> {
    let nothing = || format!("no {name}");
    let file = file.ok_or_else(nothing)?;
    let version = command::output(Command::new(&file).arg("--version")).map_err(|_| nothing())?;
    Ok(Linker {
        file,
        version: version.trim().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Versions are compared as numbers, and a line without one is too old.
    #[test]
    fn versions_compare() {
        assert!(at_least(
            "rustc 1.96.0 (ac68faa20 2026-05-25) (built from a source tarball)",
            "1.95"
        ));
        assert!(at_least(
            "rustc 1.100.0-nightly (e50aa6fba 2026-05-19)",
            "1.95"
        ));
        assert!(at_least("rustc 2.0.0", "1.95"));
        assert!(!at_least("rustc 1.63.0", "1.95"));
        assert!(!at_least("rustc", "1.95"));
    }

    /// The preferred candidate wins over an earlier one; without one, the first; without any, all the reasons.
    #[test]
    fn preferred_then_first_then_reasons() {
        assert_eq!(choose([Ok(1), Ok(2)], |n| *n == 2), Ok(2));
        assert_eq!(choose([Ok(1), Ok(2)], |n| *n == 3), Ok(1));
        assert_eq!(choose([Err("a".into()), Ok(2)], |_| false), Ok(2));
        assert_eq!(
            choose::<u8>([Err("a".into()), Err("b".into())], |_| true),
            Err(vec!["a".into(), "b".into()])
        );
    }
}
