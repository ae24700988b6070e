//! The first oracle: gimli's evaluation of every row, with every expression computed.

use gimli::{
    BaseAddresses, CfaRule, Encoding, EvaluationResult, Location, Register, RegisterRule,
    UnwindContext, UnwindExpression, UnwindSection, UnwindTableRow, Value, X86_64,
};
use profiler_ebpf::unwind::Registers;

use super::sections::{Bytes, Extent};
use super::stack::{MadeUp, registers};

/// What the information says of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Its registers; the frame pointer if that can be known from the three registers.
    Caller {
        /// Return address.
        pc: u64,
        /// Stack pointer.
        sp: u64,
        /// Frame pointer.
        fp: Option<u64>,
        /// Whether the frame address comes from an expression that reads memory.
        reads: bool,
    },
    /// There is none.
    End,
    /// It depends on other registers.
    Untracked,
    /// The information makes no sense from some address before this on.
    Malformed,
}

const ENCODING: Encoding = Encoding {
    address_size: 8,
    format: gimli::Format::Dwarf32,
    version: 4,
};

/// What holds at an address of a function.
pub fn at<'d, S: UnwindSection<Bytes<'d>>>(
    section: &S,
    bases: &BaseAddresses,
    context: &mut UnwindContext<usize>,
    extent: &Extent,
    address: u64,
) -> Expected {
    let entry = S::Offset::from(extent.entry);
    let entry = section
        .fde_from_offset(bases, entry, S::cie_from_offset)
        .unwrap();
    match entry.unwind_info_for_address(section, bases, context, address) {
        Ok(row) => evaluate(section, row, registers(address)),
        Err(_) => Expected::Malformed,
    }
}

fn evaluate<'d, S: UnwindSection<Bytes<'d>>>(
    section: &S,
    row: &UnwindTableRow<usize>,
    frame: Registers,
) -> Expected {
    let machine = Machine { section, frame };
    if row.register(X86_64::RA) == Some(RegisterRule::Undefined) {
        return Expected::End;
    }
    let (cfa, reads) = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => (
            machine
                .register(*register)
                .map(|base| base.wrapping_add_signed(*offset)),
            false,
        ),
        CfaRule::Expression(expression) => match machine.compute(expression, None) {
            Some((cfa, reads)) => (Some(cfa), reads),
            None => (None, false),
        },
    };
    let caller = |register, unsaid| machine.recover(row.register(register), cfa?, unsaid);
    match (caller(X86_64::RA, None), caller(X86_64::RSP, cfa)) {
        (Some(pc), Some(sp)) => Expected::Caller {
            pc,
            sp,
            fp: caller(X86_64::RBP, Some(frame.fp)),
            reads,
        },
        _ => Expected::Untracked,
    }
}

struct Machine<'s, S> {
    section: &'s S,
    frame: Registers,
}

impl<'d, S: UnwindSection<Bytes<'d>>> Machine<'_, S> {
    fn register(&self, register: Register) -> Option<u64> {
        match register {
            X86_64::RA => Some(self.frame.pc),
            X86_64::RSP => Some(self.frame.sp),
            X86_64::RBP => Some(self.frame.fp),
            _ => None,
        }
    }

    fn recover(
        &self,
        rule: Option<RegisterRule<usize>>,
        cfa: u64,
        unsaid: Option<u64>,
    ) -> Option<u64> {
        match rule {
            None | Some(RegisterRule::SameValue) => unsaid,
            Some(RegisterRule::Offset(offset)) => {
                Some(MadeUp::word(cfa.wrapping_add_signed(offset)))
            }
            Some(RegisterRule::ValOffset(offset)) => Some(cfa.wrapping_add_signed(offset)),
            Some(RegisterRule::Register(other)) => self.register(other),
            Some(RegisterRule::Expression(expression)) => {
                Some(MadeUp::word(self.compute(&expression, Some(cfa))?.0))
            }
            Some(RegisterRule::ValExpression(expression)) => {
                Some(self.compute(&expression, Some(cfa))?.0)
            }
            _ => None,
        }
    }

    /// The value of an expression, and whether memory was read for it.
    fn compute(
        &self,
        expression: &UnwindExpression<usize>,
        initial: Option<u64>,
    ) -> Option<(u64, bool)> {
        let code = expression.get(self.section).unwrap();
        let mut evaluation = code.evaluation(ENCODING);
        if let Some(initial) = initial {
            evaluation.set_initial_value(initial);
        }
        let mut reads = false;
        let mut state = evaluation.evaluate().unwrap();
        loop {
            state = match state {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    let value = Value::Generic(self.register(register)?);
                    evaluation.resume_with_register(value).unwrap()
                }
                EvaluationResult::RequiresMemory { address, .. } => {
                    reads = true;
                    let value = Value::Generic(MadeUp::word(address));
                    evaluation.resume_with_memory(value).unwrap()
                }
                other => panic!("unexpected in call frame information: {other:?}"),
            };
        }
        match evaluation.as_result().last()?.location {
            Location::Address { address } => Some((address, reads)),
            _ => None,
        }
    }
}
