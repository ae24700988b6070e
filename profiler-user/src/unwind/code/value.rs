//! What is known of registers and of the stack at one instruction.

use iced_x86::Register;

/// What a register or a word of the stack holds, as far as unwinding cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    /// Anything.
    Other,
    /// The frame address (CFA) plus this.
    Cfa(i32),
    /// The stack pointer as it was when the function last moved it by an unknown amount (to align it, or to
    /// make room), plus this.
    Moved(i32),
    /// The caller's frame pointer.
    CallersFp,
}

impl Value {
    /// The value plus a number of bytes.
    pub fn plus(self, bytes: i64) -> Self {
        let sum = |offset: i32| i32::try_from(i64::from(offset).checked_add(bytes)?).ok();
        match self {
            Self::Cfa(offset) => sum(offset).map_or(Self::Other, Self::Cfa),
            Self::Moved(offset) => sum(offset).map_or(Self::Other, Self::Moved),
            Self::Other | Self::CallersFp => Self::Other,
        }
    }

    /// How far it lies above another of the same kind.
    pub fn above(self, other: Self) -> Option<i64> {
        match (self, other) {
            (Self::Cfa(a), Self::Cfa(b)) | (Self::Moved(a), Self::Moved(b)) => {
                Some(i64::from(a) - i64::from(b))
            }
            _ => None,
        }
    }

    fn meet(self, other: Self) -> Self {
        if self == other { self } else { Self::Other }
    }
}

/// Words of the stack that are remembered. Functions keep one or two that matter.
const SLOTS: usize = 6;

/// A word of the stack: where it lies and what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    pub at: Value,
    pub value: Value,
}

/// Everything known at one instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    registers: [Value; 16],
    slots: [Option<Slot>; SLOTS],
}

/// Registers a called function need not keep: rax, rcx, rdx, rsi, rdi, r8 to r11.
const VOLATILE: [usize; 9] = [0, 1, 2, 6, 7, 8, 9, 10, 11];
/// Registers that instructions may change without naming them.
const IMPLICIT: [usize; 6] = [0, 1, 2, 3, 6, 7];

impl State {
    /// At the first instruction of a function.
    pub fn at_entry() -> Self {
        let mut state = Self {
            registers: [Value::Other; 16],
            slots: [None; SLOTS],
        };
        state.set(Register::RSP, Value::Cfa(-8));
        state.set(Register::RBP, Value::CallersFp);
        state
    }

    /// What a 64-bit register holds.
    pub fn get(&self, register: Register) -> Value {
        index(register).map_or(Value::Other, |index| self.registers[index])
    }

    /// A 64-bit register was written. Other registers are of no interest.
    pub fn set(&mut self, register: Register, value: Value) {
        if let Some(index) = index(register) {
            self.registers[index] = value;
        }
    }

    /// A register or a part of it was written with anything.
    pub fn spoil(&mut self, register: Register) {
        self.set(register.full_register(), Value::Other);
    }

    /// Whether writing a register, or a part of it, would matter.
    pub fn matters(&self, register: Register) -> bool {
        self.get(register.full_register()) != Value::Other
    }

    /// Whether an instruction could change what matters without naming it.
    pub fn implicit_matters(&self) -> bool {
        IMPLICIT
            .iter()
            .any(|index| self.registers[*index] != Value::Other)
    }

    /// What the word at an address of the stack holds.
    pub fn load(&self, at: Value) -> Value {
        self.slots()
            .find(|slot| slot.at == at)
            .map_or(Value::Other, |slot| slot.value)
    }

    /// `bytes` at an address of the stack were written, with a value if that matters.
    pub fn store(&mut self, at: Value, bytes: i64, value: Value) {
        let overlaps = |slot: &Slot| {
            slot.at
                .above(at)
                .is_some_and(|above| above > -8 && above < bytes)
        };
        for slot in &mut self.slots {
            if slot.as_ref().is_some_and(overlaps) {
                *slot = None;
            }
        }
        let place = matches!(at, Value::Cfa(_) | Value::Moved(_));
        if place && value != Value::Other && bytes == 8 {
            // What finds no room is not remembered: the rule then says less.
            if let Some(free) = self.slots.iter_mut().find(|slot| slot.is_none()) {
                *free = Some(Slot { at, value });
            }
        }
    }

    /// A function was called: it leaves alone what lies above the stack pointer, and the registers it must keep.
    pub fn call(&mut self) {
        for index in VOLATILE {
            self.registers[index] = Value::Other;
        }
        let sp = self.get(Register::RSP);
        for slot in &mut self.slots {
            if slot.is_some_and(|slot| slot.at.above(sp).is_some_and(|above| above < 0)) {
                *slot = None;
            }
        }
    }

    /// The remembered words.
    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        self.slots.iter().copied().flatten()
    }

    /// Whether anything but this register is relative to where the stack pointer was last moved.
    pub fn others_moved(&self, register: Register) -> bool {
        let moved = |value: Value| matches!(value, Value::Moved(_));
        let mut others = self.registers.iter().enumerate();
        others.any(|(other, value)| Some(other) != index(register) && moved(*value))
            || self.slots().any(|slot| moved(slot.at) || moved(slot.value))
    }

    /// Whether a return from here reaches the caller with its stack and frame pointer.
    pub fn can_leave(&self) -> bool {
        self.get(Register::RSP) == Value::Cfa(-8) && self.get(Register::RBP) == Value::CallersFp
    }

    /// What holds whether one comes from here or from there.
    pub fn meet(&self, other: &Self) -> Self {
        let mut met = *self;
        for (mine, theirs) in met.registers.iter_mut().zip(&other.registers) {
            *mine = mine.meet(*theirs);
        }
        for slot in &mut met.slots {
            if slot.is_some_and(|slot| other.load(slot.at) != slot.value) {
                *slot = None;
            }
        }
        met
    }
}

/// The number of a 64-bit general purpose register.
fn index(register: Register) -> Option<usize> {
    (register >= Register::RAX && register <= Register::R15)
        .then(|| register as usize - Register::RAX as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A word is found again until something overlaps it or a call may have overwritten it.
    #[test]
    fn slots_are_remembered() {
        let mut state = State::at_entry();
        state.store(Value::Cfa(-16), 8, Value::CallersFp);
        assert_eq!(state.load(Value::Cfa(-16)), Value::CallersFp);
        let mut overwritten = state;
        overwritten.store(Value::Cfa(-12), 4, Value::Other);
        assert_eq!(overwritten.load(Value::Cfa(-16)), Value::Other);
        let mut beside = state;
        beside.store(Value::Cfa(-8), 4, Value::Other);
        beside.store(Value::Cfa(-24), 8, Value::Other);
        assert_eq!(beside.load(Value::Cfa(-16)), Value::CallersFp);
        // It lies below the stack pointer: the called function may use it.
        beside.call();
        assert_eq!(beside.load(Value::Cfa(-16)), Value::Other);
    }

    /// Where two ways meet only what both know is known.
    #[test]
    fn ways_meet() {
        let mut one = State::at_entry();
        let mut two = State::at_entry();
        one.store(Value::Cfa(-16), 8, Value::CallersFp);
        one.set(Register::R11, Value::Cfa(0));
        two.set(Register::R11, Value::Cfa(8));
        let met = one.meet(&two);
        assert_eq!(met, State::at_entry());
        assert_eq!(met.meet(&one), met);
    }
}
