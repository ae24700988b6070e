//! Whether a mapped file holds a CPython runtime, and which.
//!
//! By content, not by name: the runtime's state `_PyRuntime` is exported by every CPython since 3.7, in
//! executables, shared libraries and programs that embed it, stripped or not. From 3.11 on `Py_Version`
//! holds the version.

use std::fmt;
use std::fs::File;

use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, ReadCache, ReadRef};

use crate::process::ElfLoad;

/// A version as `PY_VERSION_HEX` encodes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PythonVersion {
    /// Major.
    pub major: u8,
    /// Minor.
    pub minor: u8,
    /// Patch release.
    pub patch: u8,
}

impl PythonVersion {
    fn from_hex(hex: u32) -> Self {
        let [major, minor, patch, _] = hex.to_be_bytes();
        Self {
            major,
            minor,
            patch,
        }
    }
}

impl fmt::Display for PythonVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// A CPython found in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PythonBuild {
    /// `_PyRuntime` as an address in the file.
    pub runtime: u64,
    /// Its size: a check of the layout.
    pub runtime_size: u64,
    /// The version; `None` where the file does not say (before 3.11).
    pub version: Option<PythonVersion>,
}

/// Looks for a CPython in an ELF file. Also returns how the file is loaded, to turn addresses in it into
/// run-time ones.
pub fn detect(file: &File) -> Option<(PythonBuild, ElfLoad)> {
    let cache = ReadCache::new(file);
    let elf = ElfFile64::<object::Endianness, _>::parse(&cache).ok()?;
    let build = find(&elf)?;
    Some((build, ElfLoad::of(&elf)))
}

fn find<'d, R: ReadRef<'d>>(elf: &ElfFile64<'d, object::Endianness, R>) -> Option<PythonBuild> {
    let mut runtime = None;
    let mut version_at = None;
    for symbol in elf
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition())
    {
        match symbol.name_bytes() {
            Ok(b"_PyRuntime") => runtime = Some((symbol.address(), symbol.size())),
            Ok(b"Py_Version") => version_at = Some((symbol.address(), symbol.size())),
            _ => {}
        }
    }
    let (runtime, runtime_size) = runtime?;
    let version = version_at.and_then(|(address, size)| {
        let section = elf.sections().find(|section| {
            address >= section.address() && address - section.address() < section.size()
        })?;
        // An unsigned long; the version is its low half.
        let bytes = section.data_range(address, size.clamp(4, 8)).ok()??;
        Some(PythonVersion::from_hex(u32::from_le_bytes(
            bytes.get(..4)?.try_into().ok()?,
        )))
    });
    Some(PythonBuild {
        runtime,
        runtime_size,
        version,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The version's hexadecimal form is read as CPython writes it.
    #[test]
    fn versions() {
        assert_eq!(PythonVersion::from_hex(0x030b_07f0).to_string(), "3.11.7");
    }

    /// A program that is no Python, and a file that is no program, are neither.
    #[test]
    fn finds_nothing_in_others() {
        assert!(detect(&File::open("/proc/self/exe").unwrap()).is_none());
        assert!(detect(&File::open("/proc/version").unwrap()).is_none());
    }
}
