//! Rows for code that no call frame information describes: hand-written assembly, such as the kernels of MKL
//! and OpenBLAS, in which programs that compute spend most of their time.
//!
//! Such code is followed from where its functions begin, instruction by instruction, keeping track of where
//! the stack pointer stands to the frame and where the frame pointer was saved. It is no guess: a function
//! whose every way out does not restore what its caller had is left out.

mod entries;
mod flow;
mod rule;
mod step;
#[cfg(test)]
mod tests;
mod value;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};
use profiler_ebpf::rows::Rule;

use entries::Entries;
pub(super) use entries::Extent;
use flow::{Flow, Function, Piece};
use step::Stepper;

/// Functions are aligned to this: where another might begin when one was not understood.
const ALIGNMENT: u32 = 16;

/// Instructions that a program may begin with before it calls something.
const MAX_START: usize = 32;

/// Where the kernel starts a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Start {
    /// Address, from the table's base on.
    pub at: u32,
    /// What is called there returns, as in the loader.
    pub goes_on: bool,
}

/// A stretch of code.
#[derive(Debug, Clone, Copy)]
pub(super) struct Code<'a> {
    /// Address of the first byte, from the table's base on.
    pub start: u32,
    /// Its bytes.
    pub bytes: &'a [u8],
}

impl<'a> Code<'a> {
    fn contains(&self, address: u32) -> bool {
        address >= self.start && ((address - self.start) as usize) < self.bytes.len()
    }

    /// One past the last address.
    pub fn end(&self) -> u32 {
        let bytes = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        self.start.saturating_add(bytes)
    }

    /// Decodes from an address on; behind the end every instruction is invalid.
    fn decoder(&self, address: u32) -> Decoder<'a> {
        let from = (address.saturating_sub(self.start) as usize).min(self.bytes.len());
        Decoder::with_ip(
            64,
            &self.bytes[from..],
            u64::from(address),
            DecoderOptions::NONE,
        )
    }
}

/// What was derived from a stretch of code.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Derived {
    /// Rules from each address on, in order. A rule of no information ends each part that was understood.
    pub rows: Vec<(u32, Rule)>,
    /// Functions that were understood.
    pub functions: u64,
    /// Functions by their symbols that were not.
    pub refused: u64,
}

/// Derives rows. `symbols` are the functions that lie in the stretch, sorted; `start` is where the kernel starts
/// the program, wherever that lies; `budget` is the number of instructions that may still be looked at.
pub(super) fn derive(
    code: Code,
    symbols: &[Extent],
    start: Option<Start>,
    budget: &mut u64,
) -> Derived {
    let mut finder = Finder {
        code,
        entries: Entries::new(symbols),
        stepper: Stepper::new(),
        budget,
        functions: Vec::new(),
        calls: Vec::new(),
    };
    if let Some(start) = start.filter(|start| code.contains(start.at)) {
        finder.begin(start);
    }
    let mut refused = 0;
    for (entry, _) in symbols {
        refused += u64::from(!finder.follow(*entry));
    }
    finder.follow_calls();
    finder.follow_rest();
    let functions = consistent(finder.functions);
    Derived {
        functions: functions.len() as u64,
        refused,
        rows: join(functions),
    }
}

/// Finds functions.
struct Finder<'a> {
    code: Code<'a>,
    entries: Entries<'a>,
    stepper: Stepper,
    budget: &'a mut u64,
    functions: Vec<Function>,
    /// Where functions call that have not been looked at.
    calls: Vec<u32>,
}

impl Finder<'_> {
    /// Where the program starts there is no caller, up to where something is called or, if that returns, up to where
    /// execution goes elsewhere for good.
    fn begin(&mut self, Start { at: start, goes_on }: Start) {
        let mut instruction = Instruction::default();
        let mut end = start;
        for _ in 0..MAX_START {
            self.code.decoder(end).decode_out(&mut instruction);
            if instruction.is_invalid() {
                return;
            }
            end = u32::try_from(instruction.next_ip()).unwrap_or(u32::MAX);
            match instruction.flow_control() {
                FlowControl::Next => {}
                FlowControl::Call | FlowControl::IndirectCall if goes_on => {}
                _ => break,
            }
        }
        self.entries.claim(start, end);
        let rows = vec![(start, Rule::END)];
        self.functions.push(Function {
            pieces: vec![Piece { start, end, rows }],
            ..Function::default()
        });
    }

    /// Follows a function; false if it was not understood.
    fn follow(&mut self, entry: u32) -> bool {
        if self.entries.is_claimed(entry) {
            return true;
        }
        let flow = Flow::new(
            self.code,
            &self.entries,
            entry,
            &mut self.stepper,
            self.budget,
        );
        let Ok(mut function) = flow.run() else {
            return false;
        };
        for piece in &function.pieces {
            self.entries.claim(piece.start, piece.end);
        }
        self.calls.append(&mut function.calls);
        self.functions.push(function);
        true
    }

    /// Where something is called, a function begins.
    fn follow_calls(&mut self) {
        while let Some(entry) = self.calls.pop() {
            if self.entries.symbol_to(entry).is_none() {
                self.follow(entry);
            }
        }
    }

    /// Functions that nothing tells of begin where the stretch does, or behind others.
    fn follow_rest(&mut self) {
        let mut at = self.code.start;
        while at < self.code.end() && *self.budget > 0 {
            if let Some(end) = self.entries.claimed_to(at) {
                at = end;
            } else if let Some(end) = self.entries.symbol_to(at) {
                at = end;
            } else if let Some(next) = self.zeros_to(at).or_else(|| self.padding_to(at)) {
                at = next;
            } else if self.follow(at) {
                self.follow_calls();
            } else {
                at = self.next_beginning(at);
            }
        }
    }

    /// Where a run of zeros ends at the latest, if it is one: memory in which no code was made yet.
    fn zeros_to(&self, address: u32) -> Option<u32> {
        let bytes = self
            .code
            .bytes
            .get((address - self.code.start) as usize..)?;
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        let end = address.saturating_add(u32::try_from(zeros).ok()?);
        // The first instruction may begin with zeros, but at an aligned address.
        let end = if end < self.code.end() {
            end / ALIGNMENT * ALIGNMENT
        } else {
            end
        };
        (zeros >= ALIGNMENT as usize && end > address).then_some(end)
    }

    /// The end of an instruction that fills space.
    fn padding_to(&self, address: u32) -> Option<u32> {
        let mut instruction = Instruction::default();
        self.code.decoder(address).decode_out(&mut instruction);
        fills(&instruction).then(|| u32::try_from(instruction.next_ip()).ok())?
    }

    /// Where another function may begin behind code that was not understood: at an aligned address, after a
    /// way out and what fills the space behind it.
    fn next_beginning(&mut self, from: u32) -> u32 {
        let mut decoder = self.code.decoder(from);
        let mut instruction = Instruction::default();
        let (mut left, mut filled) = (false, false);
        while *self.budget > 0 && decoder.can_decode() {
            *self.budget -= 1;
            let at = u32::try_from(decoder.ip()).unwrap_or(u32::MAX);
            let begins = left && filled && at.is_multiple_of(ALIGNMENT);
            if begins || self.entries.is_claimed(at) || at > from && self.zeros_to(at).is_some() {
                return at;
            }
            decoder.decode_out(&mut instruction);
            if instruction.is_invalid() {
                left = false;
            } else if fills(&instruction) {
                filled = true;
            } else {
                left = matches!(
                    instruction.flow_control(),
                    FlowControl::Return
                        | FlowControl::UnconditionalBranch
                        | FlowControl::IndirectBranch
                );
                filled = false;
            }
        }
        self.code.end()
    }
}

fn fills(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3)
}

/// Leaves out functions that go on in each other's code with different rules.
fn consistent(mut functions: Vec<Function>) -> Vec<Function> {
    let mut bad = vec![false; functions.len()];
    {
        let mut pieces: Vec<(usize, &Piece)> = (0..)
            .zip(&functions)
            .flat_map(|(owner, function)| function.pieces.iter().map(move |piece| (owner, piece)))
            .collect();
        pieces.sort_unstable_by_key(|(_, piece)| piece.start);
        for (index, function) in functions.iter().enumerate() {
            for (address, rule) in &function.joins {
                let next = pieces.partition_point(|(_, piece)| piece.start <= *address);
                let there = next.checked_sub(1).and_then(|at| pieces.get(at));
                let there = there.filter(|(_, piece)| *address < piece.end);
                if there.and_then(|(_, piece)| rule_at(piece, *address)) != Some(*rule) {
                    bad[index] = true;
                    if let Some((owner, _)) = there {
                        bad[*owner] = true;
                    }
                }
            }
        }
    }
    let mut bad = bad.into_iter();
    functions.retain(|_| bad.next() == Some(false));
    functions
}

fn rule_at(piece: &Piece, address: u32) -> Option<Rule> {
    let next = piece.rows.partition_point(|(at, _)| *at <= address);
    Some(piece.rows.get(next.checked_sub(1)?)?.1)
}

/// The pieces of all functions as one list of rows.
fn join(functions: Vec<Function>) -> Vec<(u32, Rule)> {
    let mut pieces: Vec<Piece> = functions
        .into_iter()
        .flat_map(|function| function.pieces)
        .collect();
    pieces.sort_unstable_by_key(|piece| piece.start);
    let mut rows = Vec::new();
    let mut end = 0;
    for piece in pieces {
        if piece.start < end {
            continue;
        }
        if piece.start > end && !rows.is_empty() {
            rows.push((end, Rule::GAP));
        }
        rows.extend(piece.rows);
        end = piece.end;
    }
    if !rows.is_empty() {
        rows.push((end, Rule::GAP));
    }
    rows
}
