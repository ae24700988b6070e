//! Where to probe a driver library.

use std::collections::HashSet;
use std::fs::File;

use object::read::elf::{Dyn as _, ElfFile64};
use object::{Endianness, Object as _, ObjectSymbol as _, ReadCache, ReadRef, elf};

use super::CATALOGUE;
use crate::process::ElfLoad;

/// A place to put probes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeSite {
    /// Index in [`CATALOGUE`].
    pub function: u32,
    /// File offset of the instruction: arguments and return address are in place there.
    pub file_offset: u64,
}

/// Whether a mapped file is the CUDA driver library, by its file name or by what it calls itself.
pub fn is_driver(path: &str, file: &File) -> bool {
    path.rsplit('/')
        .next()
        .is_some_and(|name| name.starts_with("libcuda.so"))
        || calls_itself_driver(file)
}

/// The probe sites of a driver library, one for each address: an alias at the address of another function
/// is the same code and is counted once, under the name that comes first in the catalogue.
pub fn probe_sites(file: &File) -> Vec<ProbeSite> {
    let cache = ReadCache::new(file);
    let Ok(elf) = ElfFile64::<Endianness, _>::parse(&cache) else {
        return Vec::new();
    };
    let load = ElfLoad::of(&elf);
    let mut offsets: Vec<Option<u64>> = vec![None; CATALOGUE.len()];
    for symbol in elf
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition())
    {
        let Ok(name) = symbol.name() else { continue };
        let Some(index) = CATALOGUE.iter().position(|function| function.name == name) else {
            continue;
        };
        offsets[index] = load.code_offset(symbol.address());
    }
    let mut taken = HashSet::new();
    let mut sites = Vec::new();
    for (function, offset) in (0u32..).zip(offsets) {
        if let Some(offset) = offset.filter(|offset| taken.insert(*offset)) {
            sites.push(ProbeSite {
                function,
                file_offset: offset + cheap_entry(&&cache, offset),
            });
        }
    }
    sites
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

fn calls_itself_driver(file: &File) -> bool {
    let cache = ReadCache::new(file);
    let Ok(elf) = ElfFile64::<Endianness, _>::parse(&cache) else {
        return false;
    };
    so_name(&elf).is_some_and(|name| name == b"libcuda.so.1")
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
