//! Code objects: read once while the process lives, kept under a check that notices a reused address.

use std::collections::HashMap;
use std::sync::Arc;

use profiler_ebpf::python::fold_check;
use profiler_ebpf::wire::PythonFrame;

use super::Interpreter;
use super::layout::ObjectLayout;
use super::lines::LineTable;
use super::text::read_text;
use crate::process::TargetMemory;

/// Code objects kept; when there are more all are forgotten and read again.
const MAX_CODES: usize = 1 << 18;
/// Longest line table read.
const MAX_TABLE_BYTES: usize = 1 << 20;

/// A code object, as far as a profile needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    name: Arc<str>,
    file: Arc<str>,
    first_line: u32,
    line_table: Vec<u8>,
    lines: LineTable,
    /// Where in the object the instructions begin; 0 where frames have an index instead of an address.
    instructions: usize,
    check: u64,
}

/// A Python frame's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonPlace {
    /// Qualified name; before CPython 3.11 the bare one.
    pub function: Arc<str>,
    /// Source file as the code object has it.
    pub file: Arc<str>,
    /// Line being executed; 0 if the instruction has none.
    pub line: u32,
    /// Line where the function begins.
    pub first_line: u32,
}

impl Code {
    /// The place of a frame that runs this code.
    pub fn place(&self, frame: &PythonFrame) -> PythonPlace {
        let offset = match self.instructions {
            0 => frame.instruction,
            start => frame
                .instruction
                .wrapping_sub(frame.code.wrapping_add(start as u64)),
        };
        let line = self
            .lines
            .line_of(&self.line_table, self.first_line, offset.cast_signed());
        PythonPlace {
            function: Arc::clone(&self.name),
            file: Arc::clone(&self.file),
            line: line.unwrap_or(0),
            first_line: self.first_line,
        }
    }
}

/// Code objects of all processes, by process and address.
#[derive(Debug, Default)]
pub struct CodeReader {
    codes: HashMap<u32, HashMap<u64, Arc<Code>>>,
    /// How many there are.
    kept: usize,
    /// What was lost on the way.
    pub losses: CodeLosses,
}

/// Code objects that could not be had, or had to be read again.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct CodeLosses {
    /// Frames whose code object could not be read.
    pub unreadable: u64,
    /// Addresses found to hold another code object than before.
    pub replaced: u64,
    /// How often all were forgotten, being too many.
    pub forgotten: u64,
}

impl CodeReader {
    /// The code that a frame of process `pid` runs, which runs this interpreter; `None` if it cannot be read (any more).
    pub fn code(
        &mut self,
        pid: u32,
        interpreter: &Interpreter,
        frame: &PythonFrame,
    ) -> Option<Arc<Code>> {
        let known = self
            .codes
            .get(&pid)
            .and_then(|codes| codes.get(&frame.code));
        if let Some(code) = known {
            if code.check == frame.check {
                return Some(Arc::clone(code));
            }
            self.losses.replaced += 1;
        }
        // What is there now must be what was there at the sample.
        let code = read_code(
            TargetMemory::new(pid),
            &interpreter.layout.objects,
            frame.code,
        )
        .filter(|code| code.check == frame.check);
        let Some(code) = code else {
            self.losses.unreadable += 1;
            return None;
        };
        if self.kept >= MAX_CODES {
            self.codes.clear();
            self.kept = 0;
            self.losses.forgotten += 1;
        }
        let code = Arc::new(code);
        let codes = self.codes.entry(pid).or_default();
        if codes.insert(frame.code, Arc::clone(&code)).is_none() {
            self.kept += 1;
        }
        Some(code)
    }

    /// A process was made by fork: its code objects lie where its parent's do.
    pub fn fork(&mut self, parent: u32, child: u32) {
        self.forget(child);
        let inherited = self.codes.get(&parent).cloned().unwrap_or_default();
        if !inherited.is_empty() && self.kept + inherited.len() <= MAX_CODES {
            self.kept += inherited.len();
            self.codes.insert(child, inherited);
        }
    }

    /// A process ended or became another program.
    pub fn forget(&mut self, pid: u32) {
        self.kept -= self.codes.remove(&pid).map_or(0, |codes| codes.len());
    }
}

fn read_code(memory: TargetMemory, layout: &ObjectLayout, address: u64) -> Option<Code> {
    let length = layout.code_line_table + 8;
    let object = memory.read_bytes(address, length as u64, length)?;
    let word = |at: usize| Some(u64::from_le_bytes(object.get(at..at + 8)?.try_into().ok()?));
    let int = |at: usize| Some(u32::from_le_bytes(object.get(at..at + 4)?.try_into().ok()?));
    let (file, name) = (word(layout.code_file)?, word(layout.code_name)?);
    let first_line = int(layout.code_first_line)?;
    let shown_name = word(layout.code_qualified_name.unwrap_or(layout.code_name))?;
    Some(Code {
        name: read_text(memory, layout, shown_name)?.into(),
        file: read_text(memory, layout, file)?.into(),
        first_line,
        line_table: read_bytes_object(memory, layout, word(layout.code_line_table)?)?,
        lines: layout.lines,
        instructions: layout.code_instructions,
        check: fold_check(file, name, first_line),
    })
}

/// The content of a `bytes` object: behind the head its length, the hash, the data.
fn read_bytes_object(memory: TargetMemory, layout: &ObjectLayout, address: u64) -> Option<Vec<u8>> {
    let length_at = address.checked_add(layout.object_head)?;
    let length = memory.read::<u64>(length_at)?;
    memory.read_bytes(length_at.checked_add(16)?, length, MAX_TABLE_BYTES)
}
