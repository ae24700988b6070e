//! Where in a file the code lies that evaluates Python frames.
//!
//! It is the function `_PyEval_EvalFrameDefault`, which every CPython exports. Compilers move parts of it elsewhere: in
//! some builds the symbol covers a few hundred bytes, and the loop itself lies where no symbol is. Such a part is
//! reached by jumps, and its unwind data shows that it begins in the middle of a function, with a frame already made.

use std::ops::ControlFlow;

use gimli::{CfaRule, UnwindContext};
use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSection as _, ReadRef};

use crate::unwind::{FrameEntry, for_each_frame_entry};

/// The function's symbol.
pub(super) const SYMBOL: &str = "_PyEval_EvalFrameDefault";
/// Parts kept; compilers make one or two.
const MAX_PARTS: usize = 16;
/// `rsp` in DWARF, x86-64.
const RSP: gimli::Register = gimli::Register(7);
/// Longest code of it that is looked through.
const MAX_CODE: u64 = 1 << 20;

/// The address ranges in the file, `[start, end)`, of the function with this symbol and of its other parts.
pub(super) fn parts<'d, R: ReadRef<'d>>(
    elf: &ElfFile64<'d, Endianness, R>,
    address: u64,
    size: u64,
) -> Vec<(u64, u64)> {
    let mut parts = vec![(address, address.saturating_add(size))];
    let code = elf
        .sections()
        .find(|section| {
            address >= section.address() && address - section.address() < section.size()
        })
        .and_then(|section| section.data_range(address, size.min(MAX_CODE)).ok()?);
    let mut targets: Vec<u64> = jumps(code.unwrap_or_default(), address)
        .filter(|target| !(address..address.saturating_add(size)).contains(target))
        .collect();
    targets.sort_unstable();
    if !targets.is_empty() {
        let found = middles(elf, &targets).unwrap_or_default();
        parts.extend(found);
    }
    parts
}

/// Targets of direct jumps with a 32-bit distance: `jmp` and `jcc`. Bytes that only look like one give targets too,
/// which lead nowhere.
fn jumps(code: &[u8], address: u64) -> impl Iterator<Item = u64> {
    code.windows(6).enumerate().filter_map(move |(at, bytes)| {
        let (distance, length) = match bytes {
            [0xe9, a, b, c, d, _] => ([*a, *b, *c, *d], 5),
            [0x0f, 0x80..=0x8f, a, b, c, d] => ([*a, *b, *c, *d], 6),
            _ => return None,
        };
        let next = address.wrapping_add(at as u64 + length);
        Some(next.wrapping_add_signed(i32::from_le_bytes(distance).into()))
    })
}

/// The pieces of code around these addresses, which are sorted, that begin in the middle of a function.
fn middles<'d, R: ReadRef<'d>>(
    elf: &ElfFile64<'d, Endianness, R>,
    targets: &[u64],
) -> Option<Vec<(u64, u64)>> {
    let mut context = UnwindContext::new();
    let mut found = Vec::new();
    for_each_frame_entry(
        elf,
        |FrameEntry {
             entry,
             frames,
             bases,
         }| {
            let start = entry.initial_address();
            let range = start..start.saturating_add(entry.len());
            let next = targets.partition_point(|target| *target < range.start);
            let is_target = targets
                .get(next)
                .is_some_and(|target| range.contains(target));
            if is_target {
                let row = entry.unwind_info_for_address(frames, bases, &mut context, start);
                let at_entry = row.is_ok_and(|row| {
                matches!(row.cfa(), CfaRule::RegisterAndOffset { register, offset: 8 } if *register == RSP)
            });
                if !at_entry && found.len() < MAX_PARTS {
                    found.push((range.start, range.end));
                }
            }
            ControlFlow::Continue(())
        },
    )?;
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Near jumps are found wherever they stand, and nothing is read beyond the end.
    #[test]
    fn finds_jumps() {
        let code = [
            0x90, 0xe9, 0x10, 0, 0, 0, // at 1, 5 bytes: 0x1006 + 0x10
            0x0f, 0x84, 0xf0, 0xff, 0xff, 0xff, // at 6, 6 bytes: 0x100c - 0x10
            0x0f, 0x84, 0, 0,
        ];
        let targets: Vec<u64> = jumps(&code, 0x1000).collect();
        assert_eq!(targets, [0x1016, 0xffc]);
        assert_eq!(jumps(&[0xe9], 0).count(), 0);
    }
}
