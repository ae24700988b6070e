//! Compares a table with both oracles, function by function.

use std::ops::Range;
use std::path::Path;

use gimli::{DebugFrame, EhFrame, EndianSlice, LittleEndian, UnwindContext, UnwindSection};
use profiler_ebpf::rows::{CfaKind, FpKind, Rule};
use profiler_ebpf::unwind::step_by_rule;
use profiler_ebpf::wire::NativeEnd;

use super::framehop::Framehop;
use super::reference::{self, Expected};
use super::sections::{Bytes, Extent, Sections, extents};
use super::stack::{MadeUp, registers};
use crate::unwind::Table;
use crate::unwind::check::check;

/// How many addresses were compared, and with what result.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Compared {
    /// Addresses whose caller is the one both oracles find.
    pub same: u64,
    /// Addresses whose caller is the one gimli finds; framehop does not read memory for a frame address.
    pub same_as_gimli: u64,
    /// Addresses at which both we and gimli see the stack end.
    pub ends: u64,
    /// Addresses of no information whose caller depends on registers that are not tracked.
    pub untracked: u64,
    /// Addresses of no information that are described in a way that makes no sense.
    pub malformed: u64,
    /// Addresses of no information whose caller could be known, but not in a rule.
    pub unfit: u64,
    /// Callers found without their frame pointer, which the rule cannot say.
    pub lost_fp: u64,
    /// Gaps between functions that the table says it knows nothing of.
    pub gaps: u64,
}

/// Compares at most so many functions of a file, spread evenly; panics at the first difference.
pub fn compare(path: &Path, table: &Table, functions: usize) -> Compared {
    compare_sections(&Sections::read(path), table, functions)
}

/// Compares with what `.debug_frame` says in a file that has an `.eh_frame`, too, for other code.
pub fn compare_debug(path: &Path, table: &Table) -> Compared {
    let mut sections = Sections::read_debug(path);
    sections.whole = false;
    compare_sections(&sections, table, usize::MAX)
}

fn compare_sections(sections: &Sections, table: &Table, functions: usize) -> Compared {
    assert_eq!(check(table), Ok(()));
    let bytes = EndianSlice::new(&sections.frames, LittleEndian);
    if sections.debug {
        compare_section(&DebugFrame::from(bytes), sections, table, functions)
    } else {
        compare_section(&EhFrame::from(bytes), sections, table, functions)
    }
}

fn compare_section<'d, S: UnwindSection<Bytes<'d>>>(
    section: &S,
    sections: &Sections,
    table: &Table,
    functions: usize,
) -> Compared {
    let bases = sections.bases();
    let mut framehop = Framehop::new(sections);
    let mut context = UnwindContext::new();
    let mut compared = Compared::default();
    let mut random = Random(1);
    let all = extents(section, &bases);
    let stride = all.len().div_ceil(functions).max(1);
    for (index, extent) in all.iter().enumerate().step_by(stride) {
        for address in addresses(extent, &mut random) {
            let expected = reference::at(section, &bases, &mut context, extent, address);
            let rule = table.find(address).unwrap();
            compare_step(address, rule, expected, &mut framehop, &mut compared);
        }
        let gap = extent.end..all.get(index + 1).map_or(extent.end, |next| next.start);
        compared.gaps += u64::from(sections.whole && compare_gap(gap, table));
    }
    compared
}

/// A gap that is more than padding is known to be one, unless a signal trampoline lies in it or what is there
/// was derived from the code.
fn compare_gap(gap: Range<u64>, table: &Table) -> bool {
    let mut code = gap.clone().take(4096);
    if gap.end - gap.start <= 15 || code.any(|at| table.find(at) == Some(Rule::SIGNAL)) {
        return false;
    }
    for address in [gap.start, gap.end - 1] {
        let rule = table.find(address).unwrap();
        let derived = table.stats.derived > 0 && rule.cfa_kind() != CfaKind::Unknown;
        assert!(rule == Rule::GAP || derived, "gap {address:#x}: {rule:x?}");
    }
    true
}

/// The first two addresses, the last, and eight between.
fn addresses(extent: &Extent, random: &mut Random) -> Vec<u64> {
    let size = extent.end - extent.start;
    let inner = (0..8).map(|_| random.next() % size);
    let mut all: Vec<u64> = [0, 1.min(size - 1), size - 1]
        .into_iter()
        .chain(inner)
        .collect();
    all.sort_unstable();
    all.dedup();
    all.iter().map(|offset| extent.start + offset).collect()
}

fn compare_step(
    address: u64,
    rule: Rule,
    expected: Expected,
    framehop: &mut Framehop,
    compared: &mut Compared,
) {
    let ours = step_by_rule(&MadeUp, registers(address), rule);
    match (ours, expected) {
        (Ok(ours), Expected::Caller { pc, sp, fp, reads }) => {
            let ours = ours.registers;
            assert_eq!((ours.pc, ours.sp), (pc, sp), "{address:#x}: {rule:x?}");
            let lost = rule.fp_kind() == FpKind::Lost && rule.cfa_kind() != CfaKind::Signal;
            if !lost {
                assert_eq!(Some(ours.fp), fp, "{address:#x}: {rule:x?}");
            }
            compared.lost_fp += u64::from(lost);
            if reads {
                compared.same_as_gimli += 1;
                return;
            }
            let theirs = framehop.caller(address).unwrap();
            assert_eq!(
                (theirs.pc, theirs.sp),
                (pc, sp),
                "{address:#x}: {theirs:x?}"
            );
            if !lost {
                assert_eq!(theirs.fp, ours.fp, "{address:#x}: {theirs:x?}");
            }
            compared.same += 1;
        }
        (Err(NativeEnd::Outermost), Expected::End) => {
            assert_eq!(framehop.caller(address), None, "{address:#x}");
            compared.ends += 1;
        }
        (Err(_), Expected::Untracked) => compared.untracked += 1,
        (Err(_), Expected::Malformed) => compared.malformed += 1,
        (Err(_), Expected::Caller { .. }) if rule == Rule::UNKNOWN => compared.unfit += 1,
        other => panic!("{address:#x}: {rule:x?}: {other:x?}"),
    }
}

/// Numbers that are the same in every run (xorshift).
pub struct Random(pub u64);

impl Random {
    /// The next one.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
