//! One function, followed through all its branches.
//!
//! What is known at a place is what holds on every way to it. The function counts only if it proves itself:
//! every return and every jump to another function leaves with the stack and the frame pointer of its caller.
//! An analysis that went astray, or that began where no function begins, does not survive that.

use std::collections::BTreeMap;

use iced_x86::{FlowControl, Instruction, OpKind, Register};
use profiler_ebpf::rows::Rule;

use super::Code;
use super::entries::Entries;
use super::rule::rule;
use super::step::Stepper;
use super::value::{State, Value};

/// Blocks a function may have.
const MAX_BLOCKS: usize = 1 << 16;

/// Instructions that run one after the other, up to the next branch or branch target.
struct Block {
    state: State,
    /// One past the last instruction; 0 until it has been walked.
    end: u32,
}

/// A stretch of a function's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// First address.
    pub start: u32,
    /// End address.
    pub end: u32,
    /// Rules from each address on, in order; the first holds from the start.
    pub rows: Vec<(u32, Rule)>,
}

/// A function that proved itself.
#[derive(Debug, Default)]
pub(super) struct Function {
    /// Its code, in order.
    pub pieces: Vec<Piece>,
    /// Where it calls.
    pub calls: Vec<u32>,
    /// Where it goes on in code that an earlier function had, and by which rule.
    pub joins: Vec<(u32, Rule)>,
}

/// Why a function's code was not understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// It leaves with another stack or frame pointer than its caller's.
    Exit,
    /// Bytes that are no instruction, or one that is not followed.
    Instruction,
    /// Blocks that overlap.
    Overlap,
    /// It is too large, or too much was looked at.
    Limit,
    /// It never returns, which would prove it; or it calls where nothing says that what follows is still of
    /// this function.
    Uncertain,
}

/// A function being followed.
pub(super) struct Flow<'a> {
    code: Code<'a>,
    entries: &'a Entries<'a>,
    entry: u32,
    /// The end of what is known to belong to it; its entry if nothing is.
    known_to: u32,
    stepper: &'a mut Stepper,
    /// Instructions that may still be looked at, for the whole file.
    budget: &'a mut u64,
    blocks: BTreeMap<u32, Block>,
    pending: Vec<u32>,
    /// Returns, all of them right.
    returns: u64,
    calls: Vec<u32>,
    joins: Vec<(u32, Rule)>,
}

impl<'a> Flow<'a> {
    pub fn new(
        code: Code<'a>,
        entries: &'a Entries<'a>,
        entry: u32,
        stepper: &'a mut Stepper,
        budget: &'a mut u64,
    ) -> Self {
        Self {
            code,
            entries,
            entry,
            known_to: entries.symbol_to(entry).unwrap_or(entry),
            stepper,
            budget,
            blocks: BTreeMap::new(),
            pending: Vec::new(),
            returns: 0,
            calls: Vec::new(),
            joins: Vec::new(),
        }
    }

    /// Follows the function.
    pub fn run(mut self) -> Result<Function, Refused> {
        self.arrive(self.entry, State::at_entry())?;
        while let Some(start) = self.pending.pop() {
            self.walk(start)?;
        }
        if self.returns == 0 {
            return Err(Refused::Uncertain);
        }
        self.finish()
    }

    /// Control reaches `address` with `state`.
    fn arrive(&mut self, address: u32, state: State) -> Result<(), Refused> {
        if let Some(block) = self.blocks.get_mut(&address) {
            let met = block.state.meet(&state);
            if met != block.state {
                block.state = met;
                self.pending.push(address);
            }
            return Ok(());
        }
        if self.blocks.len() >= MAX_BLOCKS {
            return Err(Refused::Limit);
        }
        // Into a block that was walked: it ends here now, and its own way on is looked at again.
        if let Some((start, _)) = self
            .blocks
            .range(..address)
            .next_back()
            .filter(|(_, block)| block.end > address)
        {
            self.pending.push(*start);
        }
        self.blocks.insert(address, Block { state, end: 0 });
        self.pending.push(address);
        Ok(())
    }

    /// Control jumps.
    fn jump(&mut self, target: u64, state: State) -> Result<(), Refused> {
        let inside = u32::try_from(target)
            .ok()
            .filter(|address| self.code.contains(*address));
        match inside {
            Some(address) if address == self.entry => self.arrive(address, state),
            Some(address) if self.entries.is_certain(address) => self.leave(&state),
            Some(address) if self.entries.is_claimed(address) => {
                self.joins.push((address, rule(&state)));
                Ok(())
            }
            Some(address) => self.arrive(address, state),
            None => self.leave(&state),
        }
    }

    /// Control leaves the function for its caller or for another function.
    fn leave(&self, state: &State) -> Result<(), Refused> {
        state.can_leave().then_some(()).ok_or(Refused::Exit)
    }

    fn walk(&mut self, start: u32) -> Result<(), Refused> {
        let Some(block) = self.blocks.get(&start) else {
            return Err(Refused::Overlap);
        };
        let mut state = block.state;
        let mut next_block = self.next_block(start);
        let border = self.entries.next_border(start);
        let mut decoder = self.code.decoder(start);
        let mut instruction = Instruction::default();
        loop {
            *self.budget = self.budget.checked_sub(1).ok_or(Refused::Limit)?;
            decoder.decode_out(&mut instruction);
            if instruction.is_invalid() {
                return Err(Refused::Instruction);
            }
            let flow = instruction.flow_control();
            let next = u32::try_from(instruction.next_ip()).map_err(|_| Refused::Limit)?;
            match flow {
                FlowControl::Next => self.stepper.step(&instruction, &mut state),
                FlowControl::Call | FlowControl::IndirectCall => {
                    self.call(&instruction, &mut state)?;
                }
                FlowControl::ConditionalBranch => {
                    // It may lead back into this very block.
                    self.end(start, next)?;
                    self.jump(instruction.near_branch_target(), state)?;
                    next_block = self.next_block(start);
                    if next_block < next {
                        return Ok(()); // split, and to be walked again
                    }
                }
                FlowControl::UnconditionalBranch => {
                    if instruction.op0_kind() != OpKind::NearBranch64 {
                        return Err(Refused::Instruction);
                    }
                    self.end(start, next)?;
                    self.jump(instruction.near_branch_target(), state)?;
                }
                // To another function, or within this one by a table: code that only it reaches stays unknown.
                FlowControl::IndirectBranch | FlowControl::Interrupt | FlowControl::Exception => {}
                FlowControl::Return => {
                    // One that takes arguments off the stack is of another world, or no code.
                    if instruction.op_count() != 0 {
                        return Err(Refused::Instruction);
                    }
                    self.leave(&state)?;
                    self.returns += 1;
                }
                FlowControl::XbeginXabortXend => return Err(Refused::Instruction),
            }
            let ends = !matches!(
                flow,
                FlowControl::Next
                    | FlowControl::Call
                    | FlowControl::IndirectCall
                    | FlowControl::ConditionalBranch
            );
            if ends || next >= next_block {
                self.end(start, next)?;
                // A block that begins inside an instruction of this one makes no sense of either.
                return match (ends, next == next_block) {
                    (true, _) if next <= next_block => Ok(()),
                    (false, true) => self.arrive(next, state),
                    _ => Err(Refused::Overlap),
                };
            }
            if next >= border {
                self.end(start, next)?;
                let called = matches!(flow, FlowControl::Call | FlowControl::IndirectCall);
                return self.cross(next, border, called, &state);
            }
        }
    }

    /// Control runs on into code that another function begins with or has.
    fn cross(
        &mut self,
        next: u32,
        border: u32,
        called: bool,
        state: &State,
    ) -> Result<(), Refused> {
        if next > border {
            Err(Refused::Overlap)
        } else if self.entries.is_claimed(next) {
            self.joins.push((next, rule(state)));
            Ok(())
        } else if called {
            // What was called does not return.
            Ok(())
        } else {
            self.leave(state)
        }
    }

    fn call(&mut self, instruction: &Instruction, state: &mut State) -> Result<(), Refused> {
        // Whether it returns cannot be told, so what follows must be known to be of this function.
        let known = u64::from(self.entry)..u64::from(self.known_to);
        if !known.contains(&instruction.ip()) {
            return Err(Refused::Uncertain);
        }
        let target = instruction.near_branch_target();
        if instruction.op0_kind() == OpKind::NearBranch64 && target != instruction.next_ip() {
            let target = u32::try_from(target).ok();
            self.calls
                .extend(target.filter(|target| self.code.contains(*target)));
        }
        call(instruction, state);
        Ok(())
    }

    fn end(&mut self, start: u32, end: u32) -> Result<(), Refused> {
        self.blocks.get_mut(&start).ok_or(Refused::Overlap)?.end = end;
        Ok(())
    }

    fn next_block(&self, start: u32) -> u32 {
        self.blocks
            .range(start + 1..)
            .next()
            .map_or(u32::MAX, |(address, _)| *address)
    }

    /// The rules of the blocks, in order.
    fn finish(self) -> Result<Function, Refused> {
        let mut pieces: Vec<Piece> = Vec::new();
        for (start, block) in &self.blocks {
            let continued = match pieces.last_mut() {
                Some(piece) if piece.end > *start => return Err(Refused::Overlap),
                Some(piece) if piece.end == *start => Some(piece),
                _ => None,
            };
            let piece = match continued {
                Some(piece) => piece,
                None => {
                    pieces.push(Piece {
                        start: *start,
                        end: *start,
                        rows: Vec::new(),
                    });
                    pieces.last_mut().ok_or(Refused::Overlap)?
                }
            };
            let mut state = block.state;
            let mut decoder = self.code.decoder(*start);
            let mut instruction = Instruction::default();
            while piece.end < block.end {
                let rule = rule(&state);
                if piece.rows.last().is_none_or(|(_, last)| *last != rule) {
                    piece.rows.push((piece.end, rule));
                }
                decoder.decode_out(&mut instruction);
                match instruction.flow_control() {
                    FlowControl::Next => self.stepper.step(&instruction, &mut state),
                    FlowControl::Call | FlowControl::IndirectCall => call(&instruction, &mut state),
                    _ => {}
                }
                piece.end = u32::try_from(instruction.next_ip()).map_err(|_| Refused::Limit)?;
            }
        }
        Ok(Function {
            pieces,
            calls: self.calls,
            joins: self.joins,
        })
    }
}

/// What a call does to what is known. One to the next instruction only asks where it is: a push.
fn call(instruction: &Instruction, state: &mut State) {
    let near = instruction.op0_kind() == OpKind::NearBranch64;
    if near && instruction.near_branch_target() == instruction.next_ip() {
        let sp = state.get(Register::RSP).plus(-8);
        state.set(Register::RSP, sp);
        state.store(sp, 8, Value::Other);
    } else {
        state.call();
    }
}
