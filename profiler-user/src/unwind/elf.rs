//! The parts of an ELF file that unwinding needs: where code lies, and where call frame information does.

use std::borrow::Cow;

use object::elf::{self, FileHeader64};
use object::endian::LittleEndian;
use object::read::CompressionFormat;
use object::read::elf::{
    CompressionHeader as _, FileHeader as _, ProgramHeader as _, SectionHeader as _, SymbolTable,
};
use object::{ReadRef, SectionIndex};

use super::UnwindError;
use super::expression::LE;
use super::text::Text;

/// Call frame information is read as a whole: at most this much.
const MAX_FRAME_BYTES: u64 = 256 << 20;
/// Of the dynamic section so much is looked at.
const MAX_DYNAMIC_BYTES: u64 = 1 << 16;
/// Section and program headers that are looked at. What runs has a few dozen.
const MAX_HEADERS: u64 = 4096;

/// An ELF file, as far as it has been read.
pub(super) struct Elf<'d, R: ReadRef<'d>> {
    data: R,
    segments: &'d [elf::ProgramHeader64<LittleEndian>],
    header: &'d FileHeader64<LittleEndian>,
}

/// The forms of call frame information, the better one first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameKind {
    /// `.eh_frame`: of everything that runs.
    EhFrame,
    /// `.debug_frame`: beside it, or instead.
    DebugFrame,
}

/// A section of call frame information.
#[derive(Debug)]
pub(super) struct FrameSource<'d> {
    /// Its form.
    pub kind: FrameKind,
    /// Its bytes.
    pub data: Cow<'d, [u8]>,
    /// Its address.
    pub address: u64,
}

impl<'d, R: ReadRef<'d>> Elf<'d, R> {
    /// Reads the headers.
    pub fn parse(data: R) -> Result<Self, UnwindError> {
        let unreadable = |_| UnwindError::Elf("damaged headers");
        let header = FileHeader64::<LittleEndian>::parse(data).map_err(|_| UnwindError::NotElf)?;
        let endian = header
            .endian()
            .map_err(|_| UnwindError::Elf("big-endian"))?;
        if header.e_machine(endian) != elf::EM_X86_64 {
            return Err(UnwindError::Machine(header.e_machine(endian)));
        }
        let count = header.phnum(endian, data).map_err(unreadable)? as u64;
        check_size("program header table", count, MAX_HEADERS)?;
        let segments = header.program_headers(endian, data).map_err(unreadable)?;
        Ok(Self {
            data,
            segments,
            header,
        })
    }

    /// Where code lies: the executable segments, as ranges that do not overlap.
    pub fn text(&self) -> Result<Text, UnwindError> {
        Text::of(self.segments)
    }

    /// Call frame information of a kind, if the file has it.
    pub fn frames(&self, kind: FrameKind) -> Result<Option<FrameSource<'d>>, UnwindError> {
        match kind {
            FrameKind::EhFrame => match self.section(b".eh_frame", kind)? {
                Some(found) => Ok(Some(found)),
                None => self.eh_frame_by_segment(),
            },
            FrameKind::DebugFrame => self.section(b".debug_frame", kind),
        }
    }

    /// Bytes of the file that are loaded at `address`, at most `size` of them.
    pub fn loaded(&self, address: u64, size: u64) -> Option<&'d [u8]> {
        let (offset, left) = self.segments.iter().find_map(|segment| {
            let at = address.checked_sub(segment.p_vaddr(LittleEndian))?;
            let left = segment.p_filesz(LittleEndian).checked_sub(at)?;
            let offset = segment.p_offset(LittleEndian).checked_add(at)?;
            (segment.p_type(LittleEndian) == elf::PT_LOAD && left > 0).then_some((offset, left))
        })?;
        self.data.read_bytes_at(offset, size.min(left)).ok()
    }

    /// The symbols of a table of the given kind, and their names; none if it is missing or damaged.
    pub fn symbols(&self, kind: u32) -> SymbolTable<'d, FileHeader64<LittleEndian>, R> {
        let find = || {
            let count = self.header.shnum(LittleEndian, self.data).ok()? as u64;
            check_size("section header table", count, MAX_HEADERS).ok()?;
            let sections = self.header.sections(LittleEndian, self.data).ok()?;
            sections.symbols(LittleEndian, self.data, kind).ok()
        };
        find().unwrap_or_default()
    }

    /// Address at which the kernel starts the program; `None` of a library, for which linkers put anything there, unless it
    /// is the loader.
    pub fn start(&self) -> Option<u64> {
        let executable = || {
            self.header.e_type(LittleEndian) == elf::ET_EXEC
                || self.segment(elf::PT_INTERP).is_some()
                || self
                    .dynamic(elf::DT_FLAGS_1)
                    .is_some_and(|flags| flags & u64::from(elf::DF_1_PIE) != 0)
        };
        let start = self.header.e_entry(LittleEndian);
        (start != 0 && (executable() || self.is_loader())).then_some(start)
    }

    /// Whether it is the library that loads all others, by its own name: the kernel starts programs in it.
    pub fn is_loader(&self) -> bool {
        let name = self.so_name();
        name.is_some_and(|name| name.starts_with(b"ld-linux") || name.starts_with(b"ld-musl"))
    }

    /// What a library calls itself.
    pub fn so_name(&self) -> Option<&'d [u8]> {
        const MAX_BYTES: u64 = 256;
        let strings = self.dynamic(elf::DT_STRTAB)?;
        let at = strings.checked_add(self.dynamic(elf::DT_SONAME)?)?;
        let bytes = self.loaded(at, MAX_BYTES)?;
        bytes.split(|byte| *byte == 0).next()
    }

    /// The first value of a dynamic tag.
    pub fn dynamic(&self, tag: i64) -> Option<u64> {
        let (address, size) = self.segment(elf::PT_DYNAMIC)?;
        let entries = self.loaded(address, size.min(MAX_DYNAMIC_BYTES))?;
        entries
            .chunks_exact(16)
            .filter_map(|entry| {
                let (tag, value) = entry.split_first_chunk::<8>()?;
                let value = value.first_chunk::<8>()?;
                Some((i64::from_le_bytes(*tag), u64::from_le_bytes(*value)))
            })
            .take_while(|(found, _)| *found != elf::DT_NULL)
            .find(|(found, _)| *found == tag)
            .map(|(_, value)| value)
    }

    /// The segment of the given type: address and size in the file.
    pub fn segment(&self, kind: u32) -> Option<(u64, u64)> {
        let found = self
            .segments
            .iter()
            .find(|segment| segment.p_type(LittleEndian) == kind)?;
        Some((found.p_vaddr(LittleEndian), found.p_filesz(LittleEndian)))
    }

    fn section(
        &self,
        name: &[u8],
        kind: FrameKind,
    ) -> Result<Option<FrameSource<'d>>, UnwindError> {
        let count = self.header.shnum(LittleEndian, self.data).unwrap_or(0) as u64;
        if count == 0 || count > MAX_HEADERS {
            return Ok(None);
        }
        // A file whose section headers are damaged is still one that runs: its segments remain.
        let Ok(sections) = self.header.sections(LittleEndian, self.data) else {
            return Ok(None);
        };
        let Some((SectionIndex(_), section)) = sections.section_by_name(LittleEndian, name) else {
            return Ok(None);
        };
        if section.sh_type(LittleEndian) == elf::SHT_NOBITS {
            return Ok(None);
        }
        let what = "call frame section";
        check_size(what, section.sh_size(LittleEndian), MAX_FRAME_BYTES)?;
        let Ok(data) = section.data(LittleEndian, self.data) else {
            return Ok(None);
        };
        let data = match section.compression(LittleEndian, self.data) {
            Ok(None) => Cow::Borrowed(data),
            Ok(Some((header, offset, size))) => {
                let full = header.ch_size(LittleEndian);
                check_size(what, full, MAX_FRAME_BYTES)?;
                match decompress(self.data, header.ch_type(LittleEndian), offset, size, full) {
                    Some(data) => data,
                    None => return Ok(None),
                }
            }
            Err(_) => return Ok(None),
        };
        Ok(Some(FrameSource {
            kind,
            data,
            address: section.sh_addr(LittleEndian),
        }))
    }

    /// `.eh_frame` of a file without section headers: its own search table points to it.
    fn eh_frame_by_segment(&self) -> Result<Option<FrameSource<'d>>, UnwindError> {
        let find = || {
            let (address, size) = self.segment(elf::PT_GNU_EH_FRAME)?;
            let header = gimli::EhFrameHdr::new(self.loaded(address, size.min(64))?, LE);
            let bases = gimli::BaseAddresses::default().set_eh_frame_hdr(address);
            match header.parse(&bases, 8).ok()?.eh_frame_ptr() {
                gimli::Pointer::Direct(at) => Some(at),
                gimli::Pointer::Indirect(_) => None,
            }
        };
        let Some(address) = find() else {
            return Ok(None);
        };
        // Its size is not told. It ends itself, at the latest with its segment.
        let Some(data) = self.loaded(address, MAX_FRAME_BYTES) else {
            return Ok(None);
        };
        Ok(Some(FrameSource {
            kind: FrameKind::EhFrame,
            data: Cow::Borrowed(data),
            address,
        }))
    }
}

fn decompress<'d, R: ReadRef<'d>>(
    data: R,
    kind: u32,
    offset: u64,
    size: u64,
    full: u64,
) -> Option<Cow<'d, [u8]>> {
    let format = match kind {
        elf::ELFCOMPRESS_ZLIB => CompressionFormat::Zlib,
        elf::ELFCOMPRESS_ZSTD => CompressionFormat::Zstandard,
        _ => return None,
    };
    let compressed = object::CompressedData {
        format,
        data: data.read_bytes_at(offset, size).ok()?,
        uncompressed_size: full,
    };
    compressed.decompress().ok()
}

fn check_size(what: &'static str, size: u64, limit: u64) -> Result<(), UnwindError> {
    if size > limit {
        return Err(UnwindError::PartTooLarge { what, size, limit });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is no ELF file is refused with the reason.
    #[test]
    fn refuses_other_files() {
        let parse = |bytes: &[u8]| Elf::parse(bytes).and_then(|elf| elf.text()).err();
        assert_eq!(parse(b"#!/bin/sh\n"), Some(UnwindError::NotElf));
        let mut header = [0u8; 64];
        header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        header[18] = 183;
        assert_eq!(parse(&header), Some(UnwindError::Machine(183)));
        header[18] = 62;
        assert_eq!(parse(&header), Some(UnwindError::NoText));
    }
}
