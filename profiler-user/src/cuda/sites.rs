//! Where to probe a driver or runtime library.

use std::collections::HashSet;
use std::fs::File;

use object::read::elf::{Dyn as _, ElfFile64};
use object::{Endianness, Object as _, ObjectSymbol as _, ReadCache, ReadRef, elf};
use profiler_ebpf::wire::Cookie;

use super::{Library, catalogue};
use crate::process::ElfLoad;

/// A place to put probes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeSite {
    /// File offset of the instruction: arguments and return address are in place there.
    pub file_offset: u64,
    /// What the probes carry.
    pub cookie: Cookie,
    /// It is worth a probe of its own where many cannot be put on at once.
    pub common: bool,
}

/// Which library of CUDA's a mapped file is, by its file name or by what it calls itself.
pub fn library_of(path: &str, file: &File) -> Option<Library> {
    let name = path.rsplit('/').next().unwrap_or_default();
    by_name(name.as_bytes()).or_else(|| {
        let cache = ReadCache::new(file);
        let elf = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
        by_name(so_name(&elf)?)
    })
}

/// `libcuda.so.1`, `libcudart.so.12`, and what wheels that bring a copy make of it: `libcudart-1b2a3c4d.so.12`.
fn by_name(name: &[u8]) -> Option<Library> {
    if name.starts_with(b"libcuda.so") {
        Some(Library::Driver)
    } else if name.starts_with(b"libcudart.so") || name.starts_with(b"libcudart-") {
        Some(Library::Runtime)
    } else {
        None
    }
}

/// The probe sites of a library, one for each address: an alias at the address of another function is the same code
/// and is counted once, under the name that comes first in the catalogue. A function may have several addresses, one
/// for each symbol version.
pub fn probe_sites(library: Library, file: &File) -> Vec<ProbeSite> {
    let cache = ReadCache::new(file);
    let Ok(elf) = ElfFile64::<Endianness, _>::parse(&cache) else {
        return Vec::new();
    };
    let load = ElfLoad::of(&elf);
    let mut found = Vec::new();
    for symbol in elf
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition())
    {
        if let Ok(name) = symbol.name()
            && let Some((id, function)) = catalogue().find(library, name)
            && let Some(offset) = load.code_offset(symbol.address())
        {
            found.push((id, offset, function));
        }
    }
    found.sort_by_key(|(id, offset, _)| (*id, *offset));
    let mut taken = HashSet::new();
    found.retain(|(_, offset, _)| taken.insert(*offset));
    let sites = found.iter().map(|(_, offset, function)| ProbeSite {
        file_offset: offset + cheap_entry(&&cache, *offset),
        cookie: function.cookie,
        common: function.row.common,
    });
    sites.collect()
}

/// How far behind its start a function is best probed.
///
/// From driver 470 on an export is `cmpl $0x321cba00, flag(%rip)` (10 bytes), `je`, `jmp *slot(%rip)`. A
/// probe on the compare makes the kernel single-step it; one on the short jump behind it is emulated,
/// a third of the cost, and nothing the call has brought has changed there. Other bytes: the start.
fn cheap_entry<'d>(data: &impl ReadRef<'d>, offset: u64) -> u64 {
    let Ok(code) = data.read_bytes_at(offset, 12) else {
        return 0;
    };
    let compares = code.starts_with(&[0x81, 0x3d]) && code[6..10] == 0x321c_ba00_u32.to_le_bytes();
    if compares && code[10] == 0x74 { 10 } else { 0 }
}

fn so_name<'d, R: ReadRef<'d>>(file: &ElfFile64<'d, Endianness, R>) -> Option<&'d [u8]> {
    use object::read::elf::FileHeader as _;
    let endian = file.endian();
    let sections = file.elf_header().sections(endian, file.data()).ok()?;
    let (dynamic, strings) = sections.dynamic(endian, file.data()).ok()??;
    let strings = sections.strings(endian, file.data(), strings).ok()?;
    let entry = dynamic
        .iter()
        .find(|entry| entry.tag(endian) == elf::DT_SONAME)?;
    entry.string(endian, strings).ok()
}
