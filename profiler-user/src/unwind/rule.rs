//! From one row of call frame information to one rule.

use gimli::{CfaRule, Register, RegisterRule, UnwindSection, UnwindTableRow, X86_64};
use profiler_ebpf::rows::{CfaKind, FpKind, Rule};

use super::Unfit;
use super::expression::{Bytes, Known};

/// Where the kernel puts the interrupted stack pointer, seen from the signal trampoline's stack pointer.
const SIGNAL_FRAME_SP: i64 = 160;

/// Room for evaluating call frame information. A hostile file cannot make it grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Storage;

impl gimli::UnwindContextStorage<usize> for Storage {
    type Rules = [(Register, RegisterRule<usize>); 32];
    type Stack = Box<[UnwindTableRow<usize, Self>; 16]>;
}

/// A row as gimli gives it.
pub(super) type CfiRow = UnwindTableRow<usize, Storage>;

/// What one row becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Translated {
    /// The rule.
    pub rule: Rule,
    /// Whether the frame pointer is kept somewhere, but not in a way the rule can say.
    pub lost_fp: bool,
}

/// Rules of the three registers that count, each `None` where nothing is said.
#[derive(Default)]
struct Kept<'r> {
    fp: Option<&'r RegisterRule<usize>>,
    sp: Option<&'r RegisterRule<usize>>,
    return_address: Option<&'r RegisterRule<usize>>,
}

/// Translates a row of `section`. `signal` tells a function marked as a signal frame.
pub(super) fn translate<'d, S>(section: &S, row: &CfiRow, signal: bool) -> Result<Translated, Unfit>
where
    S: UnwindSection<Bytes<'d>>,
{
    let mut kept = Kept::default();
    for (register, rule) in row.registers() {
        match *register {
            X86_64::RBP => kept.fp = Some(rule),
            X86_64::RSP => kept.sp = Some(rule),
            X86_64::RA => kept.return_address = Some(rule),
            _ => {}
        }
    }
    let certain = |rule| {
        Ok(Translated {
            rule,
            lost_fp: false,
        })
    };
    if kept.return_address == Some(&RegisterRule::Undefined) {
        return certain(Rule::END);
    }
    let known = match row.cfa() {
        CfaRule::RegisterAndOffset { .. } => None,
        CfaRule::Expression(expression) => Some(
            expression
                .get(section)
                .ok()
                .and_then(|expression| Known::parse(expression.0))
                .ok_or(Unfit::Expression)?,
        ),
    };
    if signal && known == Some(SIGNAL_FRAME) {
        return certain(Rule::SIGNAL);
    }
    if kept.return_address != Some(&RegisterRule::Offset(-8)) || !keeps_sp(kept.sp) {
        return Err(Unfit::ReturnAddress);
    }
    let fp = fp_rule(section, kept.fp);
    let (kind, offset) = fp.unwrap_or((FpKind::Lost, 0));
    let rule = match (row.cfa(), known) {
        (
            CfaRule::RegisterAndOffset {
                register,
                offset: cfa,
            },
            _,
        ) => {
            let base = match *register {
                X86_64::RSP => CfaKind::Sp,
                X86_64::RBP => CfaKind::Fp,
                _ => return Err(Unfit::Register),
            };
            Rule::new(base, unsigned(*cfa)?, kind, offset)
        }
        (_, Some(Known::FpDeref(cfa))) => {
            let below = cfa.checked_neg().ok_or(Unfit::Offset)?;
            Rule::new(CfaKind::FpDeref, unsigned(below)?, kind, offset)
        }
        (_, Some(Known::SpDeref { offset: cfa, extra })) => {
            Rule::sp_deref(unsigned(cfa)?, extra, kind, offset)
        }
        (_, Some(Known::Plt(11))) => Rule::new(CfaKind::Plt11, 0, kind, offset),
        (_, Some(Known::Plt(10))) => Rule::new(CfaKind::Plt10, 0, kind, offset),
        _ => return Err(Unfit::Expression),
    };
    Ok(Translated {
        rule: rule.ok_or(Unfit::Offset)?,
        lost_fp: fp.is_none(),
    })
}

const SIGNAL_FRAME: Known = Known::SpDeref {
    offset: SIGNAL_FRAME_SP,
    extra: 0,
};

fn unsigned(offset: i64) -> Result<u64, Unfit> {
    u64::try_from(offset).map_err(|_| Unfit::Offset)
}

/// Whether the caller's stack pointer is the frame address, as it is unless said otherwise.
fn keeps_sp(rule: Option<&RegisterRule<usize>>) -> bool {
    matches!(
        rule,
        None | Some(RegisterRule::SameValue | RegisterRule::ValOffset(0))
    )
}

/// Where the caller's frame pointer is; `None` if that cannot be said.
fn fp_rule<'d, S>(section: &S, rule: Option<&RegisterRule<usize>>) -> Option<(FpKind, u64)>
where
    S: UnwindSection<Bytes<'d>>,
{
    match rule {
        None | Some(RegisterRule::SameValue) => Some((FpKind::Same, 0)),
        Some(RegisterRule::Undefined) => Some((FpKind::Lost, 0)),
        Some(RegisterRule::Offset(offset)) => {
            let below = u64::try_from(offset.checked_neg()?).ok()?;
            // Asks the format whether it can hold the distance.
            Rule::new(CfaKind::Sp, 0, FpKind::Saved, below)?;
            Some((FpKind::Saved, below))
        }
        Some(RegisterRule::Expression(expression)) => {
            match Known::parse(expression.get(section).ok()?.0)? {
                Known::Fp(0) => Some((FpKind::AtFp, 0)),
                _ => None,
            }
        }
        Some(_) => None,
    }
}
