//! How an ELF file's parts are loaded: from addresses in the file to offsets in it and back.

use std::fs::File;

use object::read::elf::{ElfFile64, ProgramHeader as _};
use object::{Endianness, ReadCache, ReadRef, elf};

/// One loadable segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    file_offset: u64,
    address: u64,
    file_size: u64,
    executable: bool,
}

/// The loadable segments of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ElfLoad(Vec<Segment>);

impl ElfLoad {
    /// Reads them from a file; `None` if it is no 64-bit ELF file.
    pub fn read(file: &File) -> Option<Self> {
        let cache = ReadCache::new(file);
        let elf = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
        Some(Self::of(&elf))
    }

    /// Reads the program headers.
    pub fn of<'d, R: ReadRef<'d>>(file: &ElfFile64<'d, Endianness, R>) -> Self {
        let endian = file.endian();
        let loads = file
            .elf_program_headers()
            .iter()
            .filter(|header| header.p_type(endian) == elf::PT_LOAD);
        Self(
            loads
                .map(|header| Segment {
                    file_offset: header.p_offset(endian),
                    address: header.p_vaddr(endian),
                    file_size: header.p_filesz(endian),
                    executable: header.p_flags(endian) & elf::PF_X != 0,
                })
                .collect(),
        )
    }

    /// One executable segment of so many bytes, loaded at its offsets.
    pub fn of_bytes(bytes: u64) -> Self {
        Self(vec![Segment {
            file_offset: 0,
            address: 0,
            file_size: bytes,
            executable: true,
        }])
    }

    /// The file offset of an address in the file, if it lies in executable code.
    pub fn code_offset(&self, address: u64) -> Option<u64> {
        let inside = |segment: &&Segment| {
            segment.executable
                && address
                    .checked_sub(segment.address)
                    .is_some_and(|at| at < segment.file_size)
        };
        let segment = self.0.iter().find(inside)?;
        Some(address - segment.address + segment.file_offset)
    }

    /// The address in the file of a file offset, if executable code lies there.
    pub fn code_address(&self, offset: u64) -> Option<u64> {
        let inside = |segment: &&Segment| {
            segment.executable
                && offset
                    .checked_sub(segment.file_offset)
                    .is_some_and(|at| at < segment.file_size)
        };
        let segment = self.0.iter().find(inside)?;
        (offset - segment.file_offset).checked_add(segment.address)
    }

    /// What to add to an address in the file to get the run-time one, given that the file's code is mapped
    /// at `start` from `file_offset` on.
    pub fn bias(&self, start: u64, file_offset: u64) -> Option<u64> {
        // A mapping starts at a page border, up to a page before the segment it is for.
        let covers = |segment: &&Segment| {
            let end = segment.file_offset.saturating_add(segment.file_size);
            segment.executable && (segment.file_offset & !4095) <= file_offset && file_offset < end
        };
        let segment = self.0.iter().find(covers)?;
        // Address minus offset is the same for the whole segment, and for the page before it.
        Some(
            start
                .wrapping_sub(file_offset)
                .wrapping_sub(segment.address.wrapping_sub(segment.file_offset)),
        )
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Read-only data at 0, code whose addresses differ from its offsets.
    fn load() -> ElfLoad {
        ElfLoad(vec![
            Segment {
                file_offset: 0,
                address: 0,
                file_size: 0x800,
                executable: false,
            },
            Segment {
                file_offset: 0x1a40,
                address: 0x3a40,
                file_size: 0x5000,
                executable: true,
            },
        ])
    }

    /// Addresses outside the code have no code offset.
    #[test]
    fn code_offsets() {
        assert_eq!(load().code_offset(0x3a40), Some(0x1a40));
        assert_eq!(load().code_offset(0x4000), Some(0x2000));
        assert_eq!(load().code_offset(0x3a3f), None);
        assert_eq!(load().code_offset(0x100), None);
        assert_eq!(load().code_offset(0x3a40 + 0x5000), None);
        assert_eq!(load().code_address(0x2000), Some(0x4000));
        assert_eq!(load().code_address(0x1a3f), None);
        assert_eq!(load().code_address(0x1a40 + 0x5000), None);
    }

    /// The mapping starts at the page below the segment's offset.
    #[test]
    fn biases() {
        assert_eq!(
            load().bias(0x7f00_0000_3000, 0x1000),
            Some(0x7f00_0000_0000)
        );
        // The upper part of a mapping that was split.
        assert_eq!(
            load().bias(0x7f00_0000_5000, 0x3000),
            Some(0x7f00_0000_0000)
        );
        assert_eq!(load().bias(0x7f00_0000_3000, 0x9000), None);
    }
}
