//! Code objects: read once while the process lives, kept under a check that notices a reused address.

use std::collections::HashMap;
use std::rc::Rc;

use profiler_ebpf::python::fold_check;
use profiler_ebpf::wire::PythonFrame;

use super::Interpreter;
use super::layout::ObjectLayout;
use super::text::read_text;
use crate::process::TargetMemory;

/// Code objects kept; when there are more all are forgotten and read again.
const MAX_CODES: usize = 1 << 18;
/// Longest line table read.
const MAX_TABLE_BYTES: usize = 1 << 20;

/// A code object, as far as a profile needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Code {
    name: Rc<str>,
    file: Rc<str>,
    first_line: u32,
    line_table: Vec<u8>,
    check: u64,
}

/// A Python frame's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonPlace {
    /// Qualified name; before CPython 3.11 the bare one.
    pub function: Rc<str>,
    /// Source file as the code object has it.
    pub file: Rc<str>,
    /// Line being executed; 0 if the instruction has none.
    pub line: u32,
    /// Line where the function begins.
    pub first_line: u32,
}

/// Code objects of all processes.
#[derive(Debug, Default)]
pub struct CodeCache {
    codes: HashMap<(u32, u64), Rc<Code>>,
    /// Frames whose code object could not be read.
    pub unreadable: u64,
    /// Addresses found to hold another code object than before.
    pub replaced: u64,
    /// How often everything was forgotten.
    pub forgotten: u64,
}

impl CodeCache {
    /// The place of a frame of process `pid`, which runs this interpreter; `None` if its code object cannot be read
    /// (any more).
    pub fn place(
        &mut self,
        pid: u32,
        interpreter: &Interpreter,
        frame: &PythonFrame,
    ) -> Option<PythonPlace> {
        let layout = &interpreter.layout.objects;
        let code = self.code(pid, layout, frame)?;
        let offset = match layout.code_instructions {
            0 => frame.instruction, // an index already
            start => frame
                .instruction
                .wrapping_sub(frame.code.wrapping_add(start as u64)),
        };
        let line = layout
            .lines
            .line_of(&code.line_table, code.first_line, offset.cast_signed());
        Some(PythonPlace {
            function: Rc::clone(&code.name),
            file: Rc::clone(&code.file),
            line: line.unwrap_or(0),
            first_line: code.first_line,
        })
    }

    fn code(&mut self, pid: u32, layout: &ObjectLayout, frame: &PythonFrame) -> Option<Rc<Code>> {
        let key = (pid, frame.code);
        if let Some(code) = self.codes.get(&key) {
            if code.check == frame.check {
                return Some(Rc::clone(code));
            }
            self.replaced += 1;
            self.codes.remove(&key);
        }
        // What is there now must be what was there at the sample.
        let code = read_code(TargetMemory::new(pid), layout, frame.code)
            .filter(|code| code.check == frame.check);
        let Some(code) = code else {
            self.unreadable += 1;
            return None;
        };
        if self.codes.len() >= MAX_CODES {
            self.codes.clear();
            self.forgotten += 1;
        }
        let code = Rc::new(code);
        self.codes.insert(key, Rc::clone(&code));
        Some(code)
    }

    /// A process was made by fork: its code objects lie where its parent's do.
    pub fn fork(&mut self, parent: u32, child: u32) {
        let inherited: Vec<_> = self
            .codes
            .iter()
            .filter(|((pid, _), _)| *pid == parent)
            .map(|((_, address), code)| ((child, *address), Rc::clone(code)))
            .collect();
        self.codes.extend(inherited);
    }

    /// A process ended or became another program.
    pub fn forget(&mut self, pid: u32) {
        self.codes.retain(|(owner, _), _| *owner != pid);
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
        check: fold_check(file, name, first_line),
    })
}

/// The content of a `bytes` object: behind the head its length, the hash, the data.
fn read_bytes_object(memory: TargetMemory, layout: &ObjectLayout, address: u64) -> Option<Vec<u8>> {
    let length_at = address.checked_add(layout.object_head)?;
    let length = memory.read::<u64>(length_at)?;
    memory.read_bytes(length_at.checked_add(16)?, length, MAX_TABLE_BYTES)
}
