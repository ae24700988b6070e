//! Hand-built stacks with exact addresses.

use super::*;
use crate::memory::fake::FakeMemory;

const SP: u64 = 0x7fff_0000_1000;

fn stack(words: &[(u64, u64)]) -> FakeMemory {
    let mut memory = FakeMemory::default();
    for (offset, word) in words {
        memory.put(SP + offset, *word);
    }
    memory
}

fn leaf(fp: u64) -> Registers {
    Registers {
        pc: 0x40_1000,
        sp: SP,
        fp,
    }
}

/// Two frames by frame pointer, then the zero mark `_start` leaves.
#[test]
fn walks_by_frame_pointer_to_the_root() {
    let memory = stack(&[
        (0x20, SP + 0x40),
        (0x28, 0x40_1234),
        (0x40, 0),
        (0x48, 0x40_5678),
    ]);
    let caller = step_by_frame_pointer(&memory, leaf(SP + 0x20)).unwrap();
    let expected = Registers {
        pc: 0x40_1234,
        sp: SP + 0x30,
        fp: SP + 0x40,
    };
    assert_eq!((caller.registers, caller.slot), (expected, SP + 0x28));
    let root = step_by_frame_pointer(&memory, caller.registers).unwrap();
    assert_eq!(root.registers.pc, 0x40_5678);
    assert_eq!(
        step_by_frame_pointer(&memory, root.registers),
        Err(NativeEnd::Root)
    );
}

/// A register that holds something else is never taken for a frame pointer.
#[test]
fn refuses_what_is_no_frame_pointer() {
    let memory = stack(&[(0x20, SP + 0x40), (0x28, 0x10), (0x30, 1), (0x38, 2)]);
    for fp in [
        SP - 0x10,
        SP + 0x21,
        SP + 0x28,
        SP + MAX_FRAME_BYTES + 0x10,
        0x55aa,
        16,
    ] {
        let found = step_by_frame_pointer(&memory, leaf(fp));
        assert_eq!(found, Err(NativeEnd::NoFramePointer), "{fp:#x}");
    }
    // The right shape, but what lies there is no code address.
    let found = step_by_frame_pointer(&memory, leaf(SP + 0x20));
    assert_eq!(found, Err(NativeEnd::NoFramePointer));
}

/// Memory that is not present ends the walk with that reason.
#[test]
fn says_when_memory_is_missing() {
    let nothing = FakeMemory::default();
    assert_eq!(
        step_by_frame_pointer(&nothing, leaf(SP + 0x20)),
        Err(NativeEnd::Unreadable)
    );
    let rule = Rule::new(CfaKind::Sp, 16, FpKind::Same, 0).unwrap();
    assert_eq!(
        step_by_rule(&nothing, leaf(0), rule),
        Err(NativeEnd::Unreadable)
    );
}

/// Each kind of rule gives the frame its formula says.
#[test]
fn every_rule() {
    let memory = stack(&[
        (0x08, 0x1111),
        (0x10, 0x2222),
        (0x18, 0x3333),
        (0x20, SP + 0x50),
        (0x48, 0x4444),
        (0x30, 0x5555),
        (0x38, SP + 0x20),
        (0x40, 0x7777),
    ]);
    let rule = |kind, offset, fp, fp_offset| Rule::new(kind, offset, fp, fp_offset).unwrap();
    let step = |fp, rule| step_by_rule(&memory, leaf(fp), rule).map(|caller| caller.registers);
    let registers = |pc, sp, fp| {
        Ok(Registers {
            pc,
            sp: SP + sp,
            fp,
        })
    };
    // CFA = rsp + 0x18, rbp kept.
    assert_eq!(
        step(9, rule(CfaKind::Sp, 0x18, FpKind::Same, 0)),
        registers(0x2222, 0x18, 9)
    );
    // CFA = rbp + 0x10, rbp at CFA - 0x10.
    assert_eq!(
        step(SP + 0x08, rule(CfaKind::Fp, 0x10, FpKind::Saved, 0x10)),
        registers(0x2222, 0x18, 0x1111)
    );
    // CFA = *(rbp - 0x10), rbp at *(rbp).
    assert_eq!(
        step(SP + 0x30, rule(CfaKind::FpDeref, 0x10, FpKind::AtFp, 0)),
        registers(0x4444, 0x50, 0x5555)
    );
    // CFA = *(rsp + 0x38) + 0x28: SP + 0x48, RA at SP + 0x40.
    let deref = Rule::sp_deref(0x38, 0x28, FpKind::Lost, 0).unwrap();
    assert_eq!(step(9, deref), registers(0x7777, 0x48, 0));
    assert_eq!(step(0, Rule::END), Err(NativeEnd::Outermost));
    assert_eq!(step(0, Rule::UNKNOWN), Err(NativeEnd::NoUnwindData));
}

/// A PLT entry has pushed one word more in its second half.
#[test]
fn plt_entries() {
    let memory = stack(&[(0, 0x1111), (8, 0x2222)]);
    let rule = Rule::new(CfaKind::Plt11, 0, FpKind::Same, 0).unwrap();
    let at = |pc| {
        let frame = Registers { pc, sp: SP, fp: 5 };
        step_by_rule(&memory, frame, rule).unwrap().registers.pc
    };
    assert_eq!(at(0x40_100a), 0x1111);
    assert_eq!(at(0x40_100b), 0x2222);
}

/// A frame that would lie below its callee is refused.
#[test]
fn frames_go_up() {
    let memory = stack(&[(0, 0x1111)]);
    let rule = Rule::new(CfaKind::Fp, 0x10, FpKind::Same, 0).unwrap();
    assert_eq!(
        step_by_rule(&memory, leaf(SP - 0x100), rule),
        Err(NativeEnd::NoUnwindData)
    );
}

/// Out of a signal handler the interrupted registers come back whole, on whatever stack.
#[test]
fn leaves_a_signal_handler() {
    let memory = stack(&[
        (SIGNAL_RBP, 7),
        (SIGNAL_RSP, 0x1234_5678),
        (SIGNAL_RIP, 0x40_2222),
    ]);
    let caller = step_by_rule(&memory, leaf(0), Rule::SIGNAL).unwrap();
    assert!(caller.interrupted);
    let expected = Registers {
        pc: 0x40_2222,
        sp: 0x1234_5678,
        fp: 7,
    };
    assert_eq!(caller.registers, expected);
}

/// Mappings are found by address, gaps hold nothing.
#[test]
fn finds_mappings() {
    let space: Vec<SpaceEntry> = (1..=5)
        .map(|index| SpaceEntry {
            start: index * 0x1000,
            end: index * 0x1000 + 0x800,
            table: index as u32,
            ..SpaceEntry::default()
        })
        .collect();
    let words: Vec<u64> = std::iter::repeat_n(0, 7)
        .chain(
            space
                .iter()
                .flat_map(|entry| bytemuck::cast::<_, [u64; 4]>(*entry)),
        )
        .collect();
    let find = |address| {
        let word = |index: u32| words.get(index as usize).copied();
        find_mapping(address, 7, 5, word).map(|found| found.table)
    };
    assert_eq!(find(0xfff), None);
    assert_eq!(find(0x1000), Some(1));
    assert_eq!(find(0x17ff), Some(1));
    assert_eq!(find(0x1800), None);
    assert_eq!(find(0x5000), Some(5));
    assert_eq!(find(0x9000), None);
}
