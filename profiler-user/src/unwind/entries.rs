//! The entries (FDEs) of a file's `.eh_frame`, one after the other, for those who need no table.

use std::ops::ControlFlow;

use gimli::{
    BaseAddresses, CieOrFde, EhFrame, EndianSlice, FrameDescriptionEntry, LittleEndian,
    UnwindSection as _,
};
use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSection as _, ReadRef};

/// Bytes of the section.
type Bytes<'d> = EndianSlice<'d, LittleEndian>;

/// An entry, and where it stands.
pub struct FrameEntry<'a, 'd> {
    /// The entry.
    pub entry: FrameDescriptionEntry<Bytes<'d>>,
    /// Its section.
    pub frames: &'a EhFrame<Bytes<'d>>,
    /// What its pointers are relative to.
    pub bases: &'a BaseAddresses,
}

/// Visits entries until one says that it is enough. Entries that cannot be understood are left out; one whose length
/// is wrong ends the list, and what came before it stands. `None` if the file has no such section.
pub fn for_each_frame_entry<'d, R: ReadRef<'d>>(
    elf: &ElfFile64<'d, Endianness, R>,
    mut visit: impl FnMut(FrameEntry<'_, 'd>) -> ControlFlow<()>,
) -> Option<()> {
    let section = elf.section_by_name(".eh_frame")?;
    let frames = EhFrame::new(section.data().ok()?, LittleEndian);
    let text = elf.section_by_name(".text");
    let bases = BaseAddresses::default()
        .set_eh_frame(section.address())
        .set_text(text.map_or(0, |text| text.address()));
    let mut entries = frames.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let Ok(entry) =
            partial.parse(|section, bases, offset| section.cie_from_offset(bases, offset))
        else {
            continue;
        };
        let entry = FrameEntry {
            entry,
            frames: &frames,
            bases: &bases,
        };
        if visit(entry).is_break() {
            break;
        }
    }
    Some(())
}
