//! From what call frame information says at one place to one rule.

use gimli::{UnwindSection, X86_64};
use profiler_ebpf::rows::{CfaKind, FpKind, MAX_FP_OFFSET, Rule};

use super::Unfit;
use super::expression::{Bytes, Known};
use super::program::{Cfa, Kept, State};

/// The kernel puts the interrupted stack pointer 160 bytes above the signal trampoline's.
const SIGNAL_FRAME: Known = Known::SpDeref {
    offset: 160,
    extra: 0,
};

/// What one row becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Translated {
    /// The rule.
    pub rule: Rule,
    /// Whether the frame pointer is kept somewhere, but not in a way the rule can say.
    pub lost_fp: bool,
}

/// Translates a state. `signal` tells a function marked as a signal frame.
pub(super) fn translate<'d, S>(
    section: &S,
    state: &State,
    signal: bool,
) -> Result<Translated, Unfit>
where
    S: UnwindSection<Bytes<'d>>,
{
    let certain = |rule| {
        Ok(Translated {
            rule,
            lost_fp: false,
        })
    };
    if state.return_address == Kept::Undefined {
        return certain(Rule::END);
    }
    let known = match state.cfa {
        Cfa::Offset(..) => None,
        Cfa::Expression(expression) => Some(
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
    // The caller's stack pointer is the frame address unless said otherwise.
    let keeps_sp = matches!(state.sp, Kept::Unsaid | Kept::Same | Kept::Cfa(0));
    if state.return_address != Kept::At(-8) || !keeps_sp {
        return Err(Unfit::ReturnAddress);
    }
    if let Some(fp) = fp_rule(section, state.fp)
        && let Ok(rule) = rule_with(state.cfa, known, fp)
    {
        return certain(rule);
    }
    // The caller can be found all the same.
    Ok(Translated {
        rule: rule_with(state.cfa, known, (FpKind::Lost, 0))?,
        lost_fp: true,
    })
}

/// The rule for a frame address and where the frame pointer is.
fn rule_with(cfa: Cfa, known: Option<Known>, (kind, below): (FpKind, u64)) -> Result<Rule, Unfit> {
    let rule = match (cfa, known) {
        (Cfa::Offset(X86_64::RSP, offset), _) => {
            Rule::new(CfaKind::Sp, unsigned(offset)?, kind, below)
        }
        (Cfa::Offset(X86_64::RBP, offset), _) => {
            Rule::new(CfaKind::Fp, unsigned(offset)?, kind, below)
        }
        (Cfa::Offset(..), _) => return Err(Unfit::Register),
        (_, Some(Known::FpDeref(offset))) => {
            let offset = offset.checked_neg().ok_or(Unfit::Offset)?;
            Rule::new(CfaKind::FpDeref, unsigned(offset)?, kind, below)
        }
        (_, Some(Known::SpDeref { offset, extra })) => Rule::sp_deref(offset, extra, kind, below),
        (_, Some(Known::Plt(11))) => Rule::new(CfaKind::Plt11, 0, kind, below),
        (_, Some(Known::Plt(10))) => Rule::new(CfaKind::Plt10, 0, kind, below),
        _ => return Err(Unfit::Expression),
    };
    rule.ok_or(Unfit::Offset)
}

fn unsigned(offset: i64) -> Result<u64, Unfit> {
    u64::try_from(offset).map_err(|_| Unfit::Offset)
}

/// Where the caller's frame pointer is; `None` if a rule cannot say it.
fn fp_rule<'d, S>(section: &S, kept: Kept) -> Option<(FpKind, u64)>
where
    S: UnwindSection<Bytes<'d>>,
{
    match kept {
        Kept::Unsaid | Kept::Same => Some((FpKind::Same, 0)),
        Kept::Undefined => Some((FpKind::Lost, 0)),
        Kept::At(offset) => {
            let below = u64::try_from(offset.checked_neg()?).ok()?;
            let fits = below <= MAX_FP_OFFSET && below.is_multiple_of(8);
            fits.then_some((FpKind::Saved, below))
        }
        Kept::Expression(expression) => match Known::parse(expression.get(section).ok()?.0)? {
            Known::Fp(0) => Some((FpKind::AtFp, 0)),
            _ => None,
        },
        Kept::Cfa(_) | Kept::Elsewhere => None,
    }
}
