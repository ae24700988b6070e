//! What one instruction does to what is known.

use iced_x86::{
    Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, UsedMemory,
};

use super::value::{State, Value};

/// Applies instructions; keeps what the decoder needs to look deeper.
pub(super) struct Stepper {
    infos: InstructionInfoFactory,
}

impl Stepper {
    pub fn new() -> Self {
        Self {
            infos: InstructionInfoFactory::new(),
        }
    }

    /// Applies an instruction that is no branch, call or return.
    pub fn step(&mut self, instruction: &Instruction, state: &mut State) {
        let (first, second) = (operand(instruction, 0), operand(instruction, 1));
        match (instruction.mnemonic(), first, second) {
            (Mnemonic::Push, pushed, _) => push(instruction, state, pushed),
            (Mnemonic::Pop, popped, _) => pop(instruction, state, popped),
            (Mnemonic::Mov, Operand::Register(to), Operand::Register(from)) => {
                state.set(to, state.get(from));
            }
            (Mnemonic::Mov, Operand::Register(to), Operand::Memory) => {
                let value = address(instruction, state).map_or(Value::Other, |at| state.load(at));
                state.set(to, value);
            }
            (Mnemonic::Mov, Operand::Memory, Operand::Register(from)) => {
                if let Some(at) = address(instruction, state) {
                    state.store(at, 8, state.get(from));
                }
            }
            (Mnemonic::Lea, Operand::Register(to), _) => {
                let value = address(instruction, state).unwrap_or(Value::Other);
                state.set(to, value);
            }
            (Mnemonic::Add, Operand::Register(to), Operand::Immediate(by)) => {
                state.set(to, state.get(to).plus(by));
            }
            (Mnemonic::Sub, Operand::Register(to), Operand::Immediate(by)) => {
                state.set(to, state.get(to).plus(by.wrapping_neg()));
            }
            (Mnemonic::And, Operand::Register(to), Operand::Immediate(mask)) if mask < 0 => {
                lower(state, to);
            }
            (Mnemonic::Sub, Operand::Register(to), Operand::Register(_)) => lower(state, to),
            (Mnemonic::Leave, ..) => {
                state.set(Register::RSP, state.get(Register::RBP));
                take(state, Register::RBP);
            }
            _ => self.other(instruction, state),
        }
    }

    /// Any other instruction: what it writes is no longer known.
    fn other(&mut self, instruction: &Instruction, state: &mut State) {
        let named = |index| match instruction.op_kind(index) {
            OpKind::Register => state.matters(instruction.op_register(index)),
            OpKind::Memory => index == 0 && address(instruction, state).is_some(),
            _ => false,
        };
        let operands = instruction.op_count().min(2);
        if !(0..operands).any(named)
            && !instruction.is_stack_instruction()
            && !state.implicit_matters()
        {
            return;
        }
        let info = self.infos.info(instruction);
        for memory in info.used_memory() {
            if let Some(at) = written(memory, state) {
                let bytes = memory.memory_size().size() as i64;
                state.store(at, bytes.max(1), Value::Other);
            }
        }
        for used in info.used_registers() {
            if writes(used.access()) {
                state.spoil(used.register());
            }
        }
        if instruction.is_stack_instruction() {
            // Pushes and pops of flags; what moves the stack pointer otherwise has no fixed amount.
            state.spoil(Register::RSP);
        }
    }
}

/// An operand, as far as it is told apart.
#[derive(Clone, Copy)]
enum Operand {
    /// A 64-bit general purpose register.
    Register(Register),
    /// A number, extended to 64 bits.
    Immediate(i64),
    /// 64 bits of memory.
    Memory,
    /// Anything else, or none.
    Else,
}

fn operand(instruction: &Instruction, index: u32) -> Operand {
    if index >= instruction.op_count() {
        return Operand::Else;
    }
    match instruction.op_kind(index) {
        OpKind::Register if instruction.op_register(index).is_gpr64() => {
            Operand::Register(instruction.op_register(index))
        }
        OpKind::Immediate8to64 | OpKind::Immediate32to64 => {
            Operand::Immediate(instruction.immediate(index).cast_signed())
        }
        // `lea` only computes an address: it has no size.
        OpKind::Memory if matches!(instruction.memory_size().size(), 0 | 8) => Operand::Memory,
        _ => Operand::Else,
    }
}

/// Where the memory operand lies, if that is on the stack at a known place.
fn address(instruction: &Instruction, state: &State) -> Option<Value> {
    if instruction.memory_index() != Register::None
        || instruction.segment_prefix() != Register::None
    {
        return None;
    }
    let at = state.get(instruction.memory_base());
    let displacement = instruction.memory_displacement64().cast_signed();
    match at.plus(displacement) {
        Value::Other => None,
        at => Some(at),
    }
}

/// Where an instruction writes, if that is on the stack at a known place.
fn written(memory: &UsedMemory, state: &State) -> Option<Value> {
    if !writes(memory.access()) || memory.index() != Register::None {
        return None;
    }
    let displacement = memory.displacement().cast_signed();
    match state.get(memory.base()).plus(displacement) {
        Value::Other => None,
        at => Some(at),
    }
}

fn writes(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

fn push(instruction: &Instruction, state: &mut State, pushed: Operand) {
    if instruction.stack_pointer_increment() != -8 {
        state.spoil(Register::RSP);
        return;
    }
    let value = match pushed {
        Operand::Register(from) => state.get(from),
        Operand::Memory => address(instruction, state).map_or(Value::Other, |at| state.load(at)),
        Operand::Immediate(_) | Operand::Else => Value::Other,
    };
    let sp = state.get(Register::RSP).plus(-8);
    state.set(Register::RSP, sp);
    state.store(sp, 8, value);
}

fn pop(instruction: &Instruction, state: &mut State, popped: Operand) {
    match popped {
        Operand::Register(to) if instruction.stack_pointer_increment() == 8 => take(state, to),
        Operand::Memory if instruction.stack_pointer_increment() == 8 => {
            let sp = state.get(Register::RSP).plus(8);
            state.set(Register::RSP, sp);
            if let Some(at) = address(instruction, state) {
                state.store(at, 8, Value::Other);
            }
        }
        _ => state.spoil(Register::RSP),
    }
}

/// Takes the word at the stack pointer into a register.
fn take(state: &mut State, to: Register) {
    let sp = state.get(Register::RSP);
    let value = state.load(sp);
    state.set(Register::RSP, sp.plus(8));
    state.set(to, value);
}

/// The stack pointer, or a copy of it, goes down by an unknown amount: a new base for what comes then.
fn lower(state: &mut State, register: Register) {
    let on_stack = matches!(state.get(register), Value::Cfa(_) | Value::Moved(_));
    let value = if on_stack && !state.others_moved(register) {
        Value::Moved(0)
    } else {
        Value::Other
    };
    state.set(register, value);
}
