//! From what is known at one instruction to one rule.

use iced_x86::Register;
use profiler_ebpf::rows::{CfaKind, FpKind, Rule};

use super::value::{State, Value};

/// How the caller is found; [`Rule::UNKNOWN`] if no rule can say it.
pub(super) fn rule(state: &State) -> Rule {
    let (sp, fp) = (state.get(Register::RSP), state.get(Register::RBP));
    let (kind, below) = frame_pointer(state, fp);
    let found = match (sp, fp) {
        (Value::Cfa(sp), _) => offset(sp).and_then(|cfa| Rule::new(CfaKind::Sp, cfa, kind, below)),
        (_, Value::Cfa(fp)) => offset(fp).and_then(|cfa| Rule::new(CfaKind::Fp, cfa, kind, below)),
        _ => by_word(state, kind, below),
    };
    found.unwrap_or(Rule::UNKNOWN)
}

/// Where the caller's frame pointer is.
fn frame_pointer(state: &State, fp: Value) -> (FpKind, u64) {
    if fp == Value::CallersFp {
        return (FpKind::Same, 0);
    }
    let saved = |at: Value| state.load(at) == Value::CallersFp;
    if saved(fp) {
        return (FpKind::AtFp, 0);
    }
    let below = state.slots().find_map(|slot| match slot.at {
        Value::Cfa(at) if saved(slot.at) => offset(at),
        _ => None,
    });
    below.map_or((FpKind::Lost, 0), |below| (FpKind::Saved, below))
}

/// The stack pointer was moved: a word of the stack says what it was.
fn by_word(state: &State, kind: FpKind, below: u64) -> Option<Rule> {
    let (sp, fp) = (state.get(Register::RSP), state.get(Register::RBP));
    state.slots().find_map(|slot| {
        let Value::Cfa(kept) = slot.value else {
            return None;
        };
        if let Some(up) = slot.at.above(sp) {
            return Rule::sp_deref(up, offset(kept)?, kind, below);
        }
        let down = fp.above(slot.at)?;
        (kept == 0).then(|| Rule::new(CfaKind::FpDeref, u64::try_from(down).ok()?, kind, below))?
    })
}

/// How far the frame address lies above something that is the frame address plus `at`.
fn offset(at: i32) -> Option<u64> {
    u64::try_from(i64::from(at).checked_neg()?).ok()
}
