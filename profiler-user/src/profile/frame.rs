//! Frames and stacks.

use std::borrow::Borrow;

use super::{StringId, Strings};

/// Index of a [`Frame`] in a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(pub u32);

/// Index of a [`Stack`] in a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(pub u32);

/// What executes a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FrameKind {
    /// Python code, named by its code object.
    Python,
    /// Machine code of a user-space file.
    Native,
    /// Kernel code.
    Kernel,
    /// A CUDA driver call, named by a probe, not by a symbol.
    Cuda,
    /// Not code: says that something is missing here, and why.
    Marker,
}

/// One place in a stack. Two samples at different lines of a function are different frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Frame {
    /// What executes it.
    pub kind: FrameKind,
    /// Function name, demangled, qualified where the source language gives that; empty if unnamed.
    pub function: StringId,
    /// Full path of the source file; empty if unknown.
    pub file: StringId,
    /// Line in `file` being executed, from 1; 0 if unknown.
    pub line: u32,
    /// Line where the function begins: keeps two functions of one name in one file apart; 0 if unknown.
    pub first_line: u32,
    /// Full path of the ELF file the code comes from, or `[vdso]`, `[anon]`; empty for Python and kernel.
    pub module: StringId,
    /// For an unnamed frame the file offset of its function's start where the file's unwind data tells, else of
    /// the place itself (or the kernel address); 0 for a named frame.
    pub offset: u64,
}

impl Frame {
    /// A marker that says why frames are missing.
    pub fn marker(text: StringId) -> Self {
        Self {
            kind: FrameKind::Marker,
            function: text,
            file: StringId::default(),
            line: 0,
            first_line: 0,
            module: StringId::default(),
            offset: 0,
        }
    }

    /// Whether the frame has a name. Markers count as named: they say what they are. A Python function may be
    /// called nothing: it is known all the same if its file is.
    pub fn is_named(&self) -> bool {
        let known_python = self.kind == FrameKind::Python && self.file != StringId::default();
        self.function != StringId::default() || known_python
    }

    /// The frame as every table and format shows it: Python `function (file.py:line)`, native
    /// `symbol (module)` or `symbol (file.cpp:line)`, kernel `symbol [kernel]`, a driver call
    /// `cuLaunchKernel [cuda]`, unnamed `module+0xoffset`.
    pub fn label(&self, strings: &Strings) -> String {
        let function = strings.get(self.function);
        let file = base_name(strings.get(self.file));
        let module = base_name(strings.get(self.module));
        match self.kind {
            FrameKind::Marker => function.to_owned(),
            FrameKind::Cuda => format!("{function} [cuda]"),
            FrameKind::Kernel if self.is_named() => format!("{function} [kernel]"),
            FrameKind::Kernel => format!("[kernel]+{:#x}", self.offset),
            FrameKind::Python if !self.is_named() => format!("[python]+{:#x}", self.offset),
            FrameKind::Python => format!("{function} ({file}:{})", self.line),
            FrameKind::Native if !self.is_named() => format!("{module}+{:#x}", self.offset),
            FrameKind::Native if self.line > 0 && !file.is_empty() => {
                format!("{function} ({file}:{})", self.line)
            }
            FrameKind::Native => format!("{function} ({module})"),
        }
    }

    /// As [`Frame::label`], but of the function as a whole: without the line.
    pub fn function_label(&self, strings: &Strings) -> String {
        let function = strings.get(self.function);
        match self.kind {
            FrameKind::Python if self.is_named() => {
                format!("{function} ({})", base_name(strings.get(self.file)))
            }
            FrameKind::Native if self.is_named() => {
                format!("{function} ({})", base_name(strings.get(self.module)))
            }
            _ => self.label(strings),
        }
    }
}

/// What stands after the last slash.
pub(super) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The frames of one stack, leaf first.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Stack(pub Box<[FrameId]>);

impl Borrow<[FrameId]> for Stack {
    fn borrow(&self) -> &[FrameId] {
        &self.0
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Every kind of frame is written as the report's contract says.
    #[test]
    fn labels() {
        let mut strings = Strings::default();
        let mut frame = Frame {
            kind: FrameKind::Python,
            function: strings.intern("_chunk_fwd"),
            file: strings.intern("/home/me/dflash_model.py"),
            line: 1028,
            first_line: 1000,
            module: StringId::default(),
            offset: 0,
        };
        assert_eq!(frame.label(&strings), "_chunk_fwd (dflash_model.py:1028)");
        assert_eq!(
            frame.function_label(&strings),
            "_chunk_fwd (dflash_model.py)"
        );
        frame.kind = FrameKind::Native;
        assert_eq!(frame.label(&strings), "_chunk_fwd (dflash_model.py:1028)");
        frame.line = 0;
        frame.module = strings.intern("/usr/lib/libc.so.6");
        assert_eq!(frame.label(&strings), "_chunk_fwd (libc.so.6)");
        frame.function = StringId::default();
        frame.offset = 0x1234;
        assert_eq!(frame.label(&strings), "libc.so.6+0x1234");
        frame.function = strings.intern("vfs_read");
        frame.kind = FrameKind::Kernel;
        assert_eq!(frame.label(&strings), "vfs_read [kernel]");
        frame.kind = FrameKind::Cuda;
        assert_eq!(frame.label(&strings), "vfs_read [cuda]");
    }
}
