//! Whether a mapped file holds a CPython runtime, and which.
//!
//! By content, not by name: the runtime's state `_PyRuntime` is exported by every CPython since 3.7, in
//! executables, shared libraries and programs that embed it, stripped or not. From 3.11 on `Py_Version`
//! holds the version.

use std::fmt;
use std::fs::File;

use object::read::elf::{ElfFile64, Sym as _, VersionTable};
use object::{Object as _, ObjectSection as _, ReadCache, ReadRef, elf};

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

fn find<'d, R: ReadRef<'d>>(file: &ElfFile64<'d, object::Endianness, R>) -> Option<PythonBuild> {
    let (runtime, runtime_size) = exported(file, b"_PyRuntime")?;
    let version_at = exported(file, b"Py_Version");
    let version = version_at.and_then(|(address, size)| {
        let section = file.sections().find(|section| {
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

/// Address and size of an exported symbol. By the file's own hash table, if it has one: a library can export a
/// hundred thousand, and every file that is mapped is asked.
fn exported<'d, R: ReadRef<'d>>(
    file: &ElfFile64<'d, object::Endianness, R>,
    name: &[u8],
) -> Option<(u64, u64)> {
    let endian = file.endian();
    let (sections, symbols) = (file.elf_section_table(), file.elf_dynamic_symbol_table());
    let header = sections.gnu_hash_header(endian, file.data()).ok()?;
    let usable = header.is_some_and(|header| {
        header.bucket_count.get(endian) != 0
            && header.bloom_count.get(endian) != 0
            && header.bloom_shift.get(endian) < u32::BITS
    });
    let symbol = if usable {
        let (hashes, _) = sections.gnu_hash(endian, file.data()).ok()??;
        let hash = elf::gnu_hash(name);
        hashes
            .find(endian, name, hash, None, symbols, &VersionTable::default())?
            .1
    } else {
        let names = symbols.strings();
        symbols
            .iter()
            .find(|symbol| symbol.name(endian, names) == Ok(name))?
    };
    let defined = symbol.st_shndx(endian) != elf::SHN_UNDEF;
    defined.then(|| (symbol.st_value(endian), symbol.st_size(endian)))
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

    /// What a library exports is found with its hash table and, where that has been made unusable, without.
    #[test]
    fn finds_exports() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let library = maps
            .lines()
            .filter_map(|line| line.split_whitespace().nth(5))
            .find(|path| path.contains("/libc.so"));
        let Some(mut image) = library.map(|path| std::fs::read(path).unwrap()) else {
            return;
        };
        let export = |image: &[u8], name: &[u8]| {
            exported(
                &ElfFile64::<object::Endianness>::parse(image).unwrap(),
                name,
            )
        };
        let found = export(&image, b"clock_gettime");
        assert!(found.is_some() && export(&image, b"no_such_function").is_none());
        let (start, _) = ElfFile64::<object::Endianness>::parse(&*image)
            .unwrap()
            .section_by_name(".gnu.hash")
            .and_then(|section| section.file_range())
            .unwrap();
        for (field, value) in [(0, 0u32), (8, 0), (12, 32)] {
            let at = usize::try_from(start).unwrap() + field;
            let before = image[at..at + 4].to_vec();
            image[at..at + 4].copy_from_slice(&value.to_le_bytes());
            assert_eq!(export(&image, b"clock_gettime"), found);
            assert!(export(&image, b"no_such_function").is_none());
            image[at..at + 4].copy_from_slice(&before);
        }
    }

    /// A program that is no Python, and a file that is no program, are neither.
    #[test]
    fn finds_nothing_in_others() {
        assert!(detect(&File::open("/proc/self/exe").unwrap()).is_none());
        assert!(detect(&File::open("/proc/version").unwrap()).is_none());
    }
}
