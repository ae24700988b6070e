//! Whether a mapped file holds a CPython runtime, and which.
//!
//! By content, not by name: the runtime's state `_PyRuntime` is exported by every CPython since 3.7, in
//! executables, shared libraries and programs that embed it, stripped or not. From 3.11 on `Py_Version`
//! holds the version; before, texts in the file do.

use std::fs::File;

use object::read::elf::{Dyn as _, ElfFile64, ProgramHeader as _, Sym as _, VersionTable};
use object::{Object as _, ObjectSection as _, ReadCache, ReadRef, elf};

use super::debug_offsets::{self, DebugOffsets};
use super::evaluator;
use super::version::PythonVersion;
use crate::process::ElfLoad;

/// A CPython found in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonBuild {
    /// `_PyRuntime` as an address in the file; 0 where there is none (before 3.7).
    pub runtime: u64,
    /// The version; `None` where the file does not say.
    pub version: Option<PythonVersion>,
    /// Where things lie, by the file's own word (3.13 on).
    pub(super) offsets: Option<DebugOffsets>,
    /// It is linked against musl, which keeps a thread's values elsewhere than glibc.
    pub(super) musl: bool,
    /// Where its code lies that evaluates Python frames: ranges of addresses in the file.
    pub(super) evaluator: Vec<(u64, u64)>,
}

impl PythonBuild {
    /// Whether an address in the file is in the code that evaluates Python frames.
    pub fn evaluates_at(&self, address: u64) -> bool {
        let inside = |(start, end): &(u64, u64)| (*start..*end).contains(&address);
        self.evaluator.iter().any(inside)
    }

    /// What a reader should call it.
    pub fn title(&self) -> String {
        let version = self.version.map_or_else(
            || "of unknown version".to_owned(),
            |version| version.to_string(),
        );
        let free = self.offsets.is_some_and(|offsets| offsets.free_threaded);
        if free {
            format!("{version} (free-threaded)")
        } else {
            version
        }
    }
}

/// Looks for a CPython in an ELF file. Also returns how the file is loaded, to turn addresses in it into
/// run-time ones.
pub fn detect(file: &File) -> Option<(PythonBuild, ElfLoad)> {
    let cache = ReadCache::new(file);
    let elf = ElfFile64::<object::Endianness, _>::parse(&cache).ok()?;
    let build = find(&elf)?;
    Some((build, ElfLoad::of(&elf)))
}

type Elf<'d, R> = ElfFile64<'d, object::Endianness, R>;

fn find<'d, R: ReadRef<'d>>(elf: &Elf<'d, R>) -> Option<PythonBuild> {
    let runtime = exported(elf, b"_PyRuntime").map(|(address, _)| address);
    if runtime.is_none() {
        exported(elf, b"PyEval_EvalFrameEx")?;
    }
    let version_at = exported(elf, b"Py_Version").map(|(address, _)| address);
    let evaluator = exported(elf, evaluator::SYMBOL.as_bytes());
    let version = match version_at {
        // An unsigned long; the version is its low half.
        Some(address) => bytes_at(elf, address, 4)
            .and_then(|bytes| Some(u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?)))
            .map(PythonVersion::from_hex),
        None => section_data(elf, ".rodata").and_then(PythonVersion::from_texts),
    };
    let offsets = runtime
        .and_then(|address| bytes_at(elf, address, debug_offsets::BYTES as u64))
        .and_then(DebugOffsets::read);
    Some(PythonBuild {
        runtime: runtime.unwrap_or(0),
        version,
        offsets,
        musl: needs_musl(elf),
        evaluator: evaluator
            .map(|(address, size)| evaluator::parts(elf, address, size))
            .unwrap_or_default(),
    })
}

/// What a section holds from an address in the file on.
fn bytes_at<'d, R: ReadRef<'d>>(elf: &Elf<'d, R>, address: u64, size: u64) -> Option<&'d [u8]> {
    let section = elf.sections().find(|section| {
        address >= section.address() && address - section.address() < section.size()
    })?;
    section.data_range(address, size).ok()?
}

fn section_data<'d, R: ReadRef<'d>>(elf: &Elf<'d, R>, name: &str) -> Option<&'d [u8]> {
    elf.section_by_name(name)?.data().ok()
}

/// Whether a needed library is musl: `libc.musl-x86_64.so.1`, or `libc.so` where it is installed beside glibc, which
/// is `libc.so.6`.
fn needs_musl<'d, R: ReadRef<'d>>(elf: &Elf<'d, R>) -> bool {
    let endian = elf.endian();
    let Some(strings) = section_data(elf, ".dynstr") else {
        return false;
    };
    let entries = elf
        .elf_program_headers()
        .iter()
        .find_map(|header| header.dynamic(endian, elf.data()).ok().flatten())
        .unwrap_or_default();
    entries
        .iter()
        .filter(|entry| entry.tag32(endian).map(i64::from) == Some(elf::DT_NEEDED))
        .filter_map(|entry| strings.get(usize::try_from(entry.d_val(endian)).ok()?..))
        .filter_map(|name| name.split(|byte| *byte == 0).next())
        .any(|name| name == b"libc.so" || name.starts_with(b"libc.musl-"))
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
