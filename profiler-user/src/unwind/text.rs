//! Where a file's code lies, and what row addresses count from.

use object::LittleEndian;
use object::elf::{self, ProgramHeader64};
use object::read::elf::ProgramHeader as _;

use super::UnwindError;

/// Address ranges of a file that hold code, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Text {
    /// First address, rounded down to 64 KiB: what row addresses count from.
    pub base: u64,
    /// Start and end of each range, from the base on.
    pub ranges: Vec<(u32, u32)>,
}

impl Text {
    /// Of a file's segments: the executable ones, as ranges that do not overlap.
    pub fn of(segments: &[ProgramHeader64<LittleEndian>]) -> Result<Self, UnwindError> {
        let mut found: Vec<(u64, u64)> = segments
            .iter()
            .filter(|segment| {
                segment.p_type(LittleEndian) == elf::PT_LOAD
                    && segment.p_flags(LittleEndian) & elf::PF_X != 0
            })
            .map(|segment| {
                let start = segment.p_vaddr(LittleEndian);
                (start, start.saturating_add(segment.p_filesz(LittleEndian)))
            })
            .filter(|(start, end)| start < end)
            .collect();
        found.sort_unstable();
        let base = found.first().ok_or(UnwindError::NoText)?.0 & !0xffff;
        let mut ranges: Vec<(u32, u32)> = Vec::with_capacity(found.len());
        for (start, end) in found {
            let span = end - base;
            // The last page is left out: so the end of code and every page number fit.
            let to = u32::try_from(span).ok().filter(|to| *to <= 0xffff_0000);
            let to = to.ok_or(UnwindError::TextTooLarge(span))?;
            let from = ((start - base) as u32).max(ranges.last().map_or(0, |range| range.1));
            if from < to {
                ranges.push((from, to));
            }
        }
        Ok(Self { base, ranges })
    }

    /// The end of the last range, from the base on.
    pub fn end(&self) -> u32 {
        self.ranges.last().map_or(0, |(_, end)| *end)
    }

    /// The part of `start..end` that is code, from the base on; `None` if it does not start in code.
    pub fn clip(&self, start: u64, end: u64) -> Option<(u32, u32)> {
        let from = u32::try_from(start.checked_sub(self.base)?).ok()?;
        let to = u32::try_from(end.saturating_sub(self.base)).unwrap_or(u32::MAX);
        let next = self.ranges.partition_point(|range| range.0 <= from);
        let range = self.ranges.get(next.checked_sub(1)?)?;
        let to = to.min(range.1);
        (from < to).then_some((from, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only what lies in a range of code is kept, up to its end.
    #[test]
    fn clips_to_code() {
        let text = Text {
            base: 0x40_0000,
            ranges: vec![(0x1000, 0x2000), (0x5000, 0x6000)],
        };
        assert_eq!(text.clip(0x40_0fff, 0x40_1100), None);
        assert_eq!(text.clip(0x40_1000, 0x40_1100), Some((0x1000, 0x1100)));
        assert_eq!(text.clip(0x40_1ff0, 0x40_5100), Some((0x1ff0, 0x2000)));
        assert_eq!(text.clip(0x40_2000, 0x40_2100), None);
        assert_eq!(text.clip(0x40_5800, u64::MAX), Some((0x5800, 0x6000)));
        assert_eq!(text.clip(0x10, 0x20), None);
        assert_eq!(text.end(), 0x6000);
    }
}
