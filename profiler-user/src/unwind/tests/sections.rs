//! The sections the oracles read, by another way than the one under test.

use std::path::Path;

use gimli::{BaseAddresses, CieOrFde, EndianSlice, LittleEndian, UnwindSection};
use object::{Object as _, ObjectSection as _};

/// Call frame information of one file.
pub struct Sections {
    /// `.eh_frame`, with its address; or `.debug_frame`.
    pub frames: Vec<u8>,
    /// Address of `.eh_frame`.
    pub address: u64,
    /// Whether it is `.debug_frame`.
    pub debug: bool,
    /// Whether it is all that is known of the file's code.
    pub whole: bool,
    /// `.eh_frame_hdr` with its address.
    pub header: Option<(Vec<u8>, u64)>,
}

impl Sections {
    /// Reads them.
    pub fn read(path: &Path) -> Self {
        Self::read_one(path, &[".eh_frame", ".debug_frame"])
    }

    /// Reads `.debug_frame`, whatever else there is.
    pub fn read_debug(path: &Path) -> Self {
        Self::read_one(path, &[".debug_frame"])
    }

    fn read_one(path: &Path, names: &[&str]) -> Self {
        let data = std::fs::read(path).unwrap();
        let elf = object::File::parse(&*data).unwrap();
        let section = |name| {
            let section = elf.section_by_name(name)?;
            let data = section.uncompressed_data().ok()?;
            (!data.is_empty()).then(|| (data.into_owned(), section.address()))
        };
        let found = names
            .iter()
            .find_map(|name| section(name).map(|of| (of, *name)));
        let ((frames, address), name) = found.unwrap();
        let debug = name == ".debug_frame";
        Self {
            frames,
            address,
            debug,
            whole: true,
            header: if debug {
                None
            } else {
                section(".eh_frame_hdr")
            },
        }
    }

    /// For gimli.
    pub fn bases(&self) -> BaseAddresses {
        BaseAddresses::default().set_eh_frame(self.address)
    }
}

/// Bytes of a section.
pub type Bytes<'d> = EndianSlice<'d, LittleEndian>;

/// A function as its entry describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Extent {
    /// First address in the file.
    pub start: u64,
    /// Where it or the code another entry describes begins.
    pub end: u64,
    /// Where its entry lies.
    pub entry: usize,
}

/// Functions in order, without those of which another one starts at the same place and is longer.
pub fn extents<'d, S: UnwindSection<Bytes<'d>>>(section: &S, bases: &BaseAddresses) -> Vec<Extent> {
    let mut found = Vec::new();
    let mut entries = section.entries(bases);
    while let Some(entry) = entries.next().unwrap() {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let entry = partial.parse(S::cie_from_offset).unwrap();
        if entry.initial_address() != 0 && entry.len() != 0 {
            found.push(Extent {
                start: entry.initial_address(),
                end: entry.end_address(),
                entry: entry.offset(),
            });
        }
    }
    found.sort_by_key(|extent| (extent.start, u64::MAX - extent.end, extent.entry));
    found.dedup_by_key(|extent| extent.start);
    for index in 1..found.len() {
        found[index - 1].end = found[index - 1].end.min(found[index].start);
    }
    found
}
