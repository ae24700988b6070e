//! The call frame program of one function, run for the three registers that count.
//!
//! gimli decodes the instructions. Its own evaluation keeps every register and copies them about, which
//! would take most of the time of building a table.

use gimli::{CallFrameInstruction, CallFrameInstructionIter, Register, UnwindExpression, X86_64};

use super::expression::Bytes;

/// Instructions of one entry.
pub(super) type Instructions<'a, 'd> = CallFrameInstructionIter<'a, Bytes<'d>>;

/// What is known at one place in the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    /// How the frame address is found.
    pub cfa: Cfa,
    /// Where the caller's `rbp` is.
    pub fp: Kept,
    /// Where the caller's `rsp` is.
    pub sp: Kept,
    /// Where the return address is.
    pub return_address: Kept,
}

/// How the frame address (CFA) is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cfa {
    /// Register plus offset.
    Offset(Register, i64),
    /// By an expression.
    Expression(UnwindExpression<usize>),
}

/// Where a register of the caller is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// Nothing was said.
    Unsaid,
    /// Where it was.
    Same,
    /// Nowhere.
    Undefined,
    /// At the frame address plus this.
    At(i64),
    /// It is the frame address plus this.
    Cfa(i64),
    /// Where an expression says.
    Expression(UnwindExpression<usize>),
    /// Somewhere else.
    Elsewhere,
}

impl State {
    /// Before the first instruction.
    pub const NOTHING: Self = Self {
        cfa: Cfa::Offset(Register(0), 0),
        fp: Kept::Unsaid,
        sp: Kept::Unsaid,
        return_address: Kept::Unsaid,
    };

    fn register(&mut self, register: Register) -> Option<&mut Kept> {
        match register {
            X86_64::RBP => Some(&mut self.fp),
            X86_64::RSP => Some(&mut self.sp),
            X86_64::RA => Some(&mut self.return_address),
            _ => None,
        }
    }

    fn set(&mut self, register: Register, kept: Kept) {
        if let Some(place) = self.register(register) {
            *place = kept;
        }
    }
}

/// An instruction that makes no sense where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// Where the state ceases to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// So many bytes further on.
    By(u64),
    /// At this address in the file.
    To(u64),
    /// At the end of the function.
    End,
}

/// States that can be remembered. Compilers remember one.
const MAX_REMEMBERED: usize = 64;

/// A program being run.
#[derive(Debug)]
pub(super) struct Program {
    /// What is known now.
    pub state: State,
    /// What the common entry said; `None` while that itself is run.
    pub initial: Option<State>,
    /// Factor of code offsets.
    pub code_factor: u64,
    /// Factor of data offsets.
    pub data_factor: i64,
    remembered: Vec<State>,
}

impl Program {
    /// With an empty memory.
    pub fn new() -> Self {
        Self {
            state: State::NOTHING,
            initial: None,
            code_factor: 1,
            data_factor: 1,
            remembered: Vec::with_capacity(MAX_REMEMBERED),
        }
    }

    /// Begins anew with what the common entry said.
    pub fn begin(&mut self, initial: Option<State>, code_factor: u64, data_factor: i64) {
        self.state = initial.unwrap_or(State::NOTHING);
        self.initial = initial;
        self.code_factor = code_factor;
        self.data_factor = data_factor;
        self.remembered.clear();
    }

    /// Runs instructions until the state holds for some code.
    pub fn run(&mut self, instructions: &mut Instructions<'_, '_>) -> Result<Step, Malformed> {
        use CallFrameInstruction as I;
        while let Some(instruction) = instructions.next().map_err(|_| Malformed)? {
            match instruction {
                I::AdvanceLoc { delta } => {
                    return Ok(Step::By(u64::from(delta).wrapping_mul(self.code_factor)));
                }
                I::SetLoc { address } => return Ok(Step::To(address)),
                I::DefCfaOffset { offset } => self.set_cfa_offset(offset as i64)?,
                I::DefCfaOffsetSf { factored_offset } => {
                    self.set_cfa_offset(self.factored(factored_offset))?;
                }
                I::DefCfaRegister { register } => match &mut self.state.cfa {
                    Cfa::Offset(base, _) => *base = register,
                    Cfa::Expression(_) => return Err(Malformed),
                },
                I::DefCfa { register, offset } => {
                    self.state.cfa = Cfa::Offset(register, offset as i64);
                }
                I::DefCfaSf {
                    register,
                    factored_offset,
                } => self.state.cfa = Cfa::Offset(register, self.factored(factored_offset)),
                I::DefCfaExpression { expression } => self.state.cfa = Cfa::Expression(expression),
                I::RememberState => {
                    if self.remembered.len() == MAX_REMEMBERED {
                        return Err(Malformed);
                    }
                    self.remembered.push(self.state);
                }
                I::RestoreState => self.state = self.remembered.pop().ok_or(Malformed)?,
                I::Restore { register } => {
                    let mut initial = self.initial.ok_or(Malformed)?;
                    if let Some(kept) = initial.register(register) {
                        self.state.set(register, *kept);
                    }
                }
                other => self.keep(other),
            }
        }
        Ok(Step::End)
    }

    /// Instructions that say where a register is.
    #[inline(always)]
    fn keep(&mut self, instruction: CallFrameInstruction<usize>) {
        use CallFrameInstruction as I;
        let (register, kept) = match instruction {
            I::Offset {
                register,
                factored_offset,
            } => (register, Kept::At(self.factored(factored_offset as i64))),
            I::OffsetExtendedSf {
                register,
                factored_offset,
            } => (register, Kept::At(self.factored(factored_offset))),
            I::ValOffset {
                register,
                factored_offset,
            } => (register, Kept::Cfa(self.factored(factored_offset as i64))),
            I::ValOffsetSf {
                register,
                factored_offset,
            } => (register, Kept::Cfa(self.factored(factored_offset))),
            I::Undefined { register } => (register, Kept::Undefined),
            I::SameValue { register } => (register, Kept::Same),
            I::Expression {
                register,
                expression,
            } => (register, Kept::Expression(expression)),
            I::ValExpression { register, .. } => (register, Kept::Elsewhere),
            I::Register { dest_register, .. } => (dest_register, Kept::Elsewhere),
            // What is left says nothing about registers.
            _ => return,
        };
        self.state.set(register, kept);
    }

    fn set_cfa_offset(&mut self, offset: i64) -> Result<(), Malformed> {
        match &mut self.state.cfa {
            Cfa::Offset(_, old) => *old = offset,
            Cfa::Expression(_) => return Err(Malformed),
        }
        Ok(())
    }

    fn factored(&self, offset: i64) -> i64 {
        offset.wrapping_mul(self.data_factor)
    }
}
