//! Native code of files.

use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::rc::Rc;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Sym, Symbolized, Symbolizer};
use rustc_hash::FxHashMap;

use super::calls::{CALL_BYTES, follows_call};
use super::debug_info::DebugInfo;
use super::extents::AllExtents;
use super::prologue::{
    PROLOGUE_BYTES, direct_call, frame_given_up, frame_set_up_after, only_jumps,
};
use crate::process::{FileId, MappedFile, TargetRoot};

/// Places kept; when there are more all are forgotten and asked again.
const MAX_PLACES: usize = 1 << 20;

/// A function at a place, and where in the source that is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcePlace {
    /// Function, demangled.
    pub function: String,
    /// Source file; empty if unknown.
    pub file: String,
    /// Line; 0 if unknown.
    pub line: u32,
}

/// What is known of one place in a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NativePlace {
    /// The functions there, innermost first: more than one where the compiler inlined. Empty if unnamed.
    pub functions: Vec<SourcePlace>,
    /// Where the function begins, as a file offset, by its symbol or, where it has no name, as the file's unwind
    /// data tells.
    pub start: Option<u64>,
    /// Whether the place right after can be returned to: its instruction is a call. `None` if the file could
    /// not be read.
    pub is_call: Option<bool>,
    /// The file offset of the function that this call leads to, if it is not computed as the program runs.
    pub calls: Option<u64>,
    /// Whether the frame pointer is the function's own.
    pub frame: FramePointer,
}

/// What the code of a function says of its frame pointer at a place in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FramePointer {
    /// It is the caller's or anything else, or nothing is known.
    #[default]
    Other,
    /// It was set up.
    Own,
    /// It was set up. If execution is here, and not in something called from here, it was given up again.
    OwnInCalls,
}

/// Names places, remembering what it was asked.
pub struct NativeSymbols {
    symbolizer: Symbolizer,
    places: FxHashMap<(FileId, u64), Rc<NativePlace>>,
    /// Where each file's debug information is.
    debug: DebugInfo,
    /// Function extents of files with unnamed code.
    extents: AllExtents,
    /// How often all places were forgotten.
    places_forgotten: u64,
}

impl Default for NativeSymbols {
    fn default() -> Self {
        let symbolizer = Symbolizer::builder()
            .enable_auto_reload(false)
            .enable_code_info(true)
            .enable_inlined_fns(true)
            .enable_demangling(true)
            // It would look in our root, not in the target's.
            .set_debug_dirs(Some([""; 0]))
            .build();
        Self {
            symbolizer,
            places: FxHashMap::default(),
            debug: DebugInfo::default(),
            extents: AllExtents::default(),
            places_forgotten: 0,
        }
    }
}

impl NativeSymbols {
    /// What executes at a file offset. For a caller give the offset of its return address minus one, which
    /// lies inside the call. `root` gives the root of a process that maps the file.
    pub fn place(
        &mut self,
        id: FileId,
        file: &MappedFile,
        offset: u64,
        root: impl FnOnce() -> Option<TargetRoot>,
    ) -> Rc<NativePlace> {
        if let Some(known) = self.places.get(&(id, offset)) {
            return Rc::clone(known);
        }
        if self.places.len() >= MAX_PLACES {
            self.places.clear();
            self.places_forgotten += 1;
        }
        let (functions, start) = match file.file().zip(file.handle_path()) {
            Some((handle, own)) => {
                self.debug.look(id, handle, &file.key.path, root);
                self.functions(id, &own, offset)
            }
            None => (Vec::new(), None),
        };
        let start = if functions.is_empty() {
            self.extents.start_of(id, file.file(), offset)
        } else {
            start
        };
        let place = Rc::new(NativePlace {
            functions,
            start,
            is_call: ends_call(file, offset + 1),
            calls: called(file, offset + 1),
            frame: start.map_or(FramePointer::Other, |start| {
                frame_pointer(file, start, offset)
            }),
        });
        self.places.insert((id, offset), Rc::clone(&place));
        place
    }

    /// How often places, or where functions begin, were forgotten since there were too many.
    pub fn forgotten(&self) -> u64 {
        self.places_forgotten + self.extents.forgotten
    }

    /// Debug files left out since there are too many.
    pub fn debug_files_over_limit(&self) -> u64 {
        self.debug.over_limit
    }

    /// The functions at an offset, and where the outermost begins.
    fn functions(&self, id: FileId, own: &Path, offset: u64) -> (Vec<SourcePlace>, Option<u64>) {
        let apart = self.debug.apart(id, offset);
        let from_debug_file =
            apart.map(|(path, address)| self.ask(path, Input::VirtOffset(address), offset, true));
        let found = from_debug_file.unwrap_or_default();
        if !found.0.is_empty() {
            return found;
        }
        // What is stripped of its debug information has none to be read; its link would be followed in our root.
        let has_own = !self.debug.has_link(id);
        self.ask(own, Input::FileOffset(offset), offset, has_own)
    }

    /// Asks for the functions at a place, which is at this file offset, and where the outermost begins; with or
    /// without reading debug information.
    fn ask(
        &self,
        path: &Path,
        at: Input<u64>,
        offset: u64,
        debug: bool,
    ) -> (Vec<SourcePlace>, Option<u64>) {
        let mut elf = Elf::new(path);
        elf.debug_syms = debug;
        match self.symbolizer.symbolize_single(&Source::Elf(elf), at) {
            Ok(Symbolized::Sym(symbol)) => {
                let functions = functions_of(&symbol);
                // A function in several pieces has no one start.
                let start = symbol.size.and(offset.checked_sub(symbol.offset as u64));
                (functions, start)
            }
            Ok(Symbolized::Unknown(_)) => (Vec::new(), None),
            Err(error) => {
                tracing::debug!("no symbols in {}: {error}", path.display());
                // Damaged debug information takes no symbols away.
                if debug {
                    self.ask(path, at, offset, false)
                } else {
                    (Vec::new(), None)
                }
            }
        }
    }
}

/// The functions of a symbol, innermost first; none if its extent does not prove that it is the function.
fn functions_of(symbol: &Sym<'_>) -> Vec<SourcePlace> {
    if !covers(symbol) {
        return Vec::new();
    }
    // blazesym gives each function the source place of the code in it: the outer one where it was called
    // into, the innermost where execution is.
    let outer = source_place(&symbol.name, symbol.code_info.as_deref());
    let inlined = symbol
        .inlined
        .iter()
        .map(|inner| source_place(&inner.name, inner.code_info.as_ref()));
    let mut functions: Vec<_> = std::iter::once(outer).chain(inlined).collect();
    functions.reverse();
    functions
}

/// Whether the address lies in the function, and not just somewhere behind its label.
fn covers(symbol: &Sym<'_>) -> bool {
    match symbol.size {
        Some(size) => symbol.offset < size,
        // Debug information that gives a function in several pieces has no one start and size: blazesym
        // then says address 0, having found the address in a piece.
        None => symbol.addr == 0 && symbol.code_info.is_some(),
    }
}

fn source_place(name: &str, code: Option<&blazesym::symbolize::CodeInfo<'_>>) -> SourcePlace {
    let (file, line) = match code {
        Some(code) => (
            code.to_path().to_string_lossy().into_owned(),
            code.line.unwrap_or(0),
        ),
        None => (String::new(), 0),
    };
    SourcePlace {
        function: name.to_owned(),
        file,
        line,
    }
}

fn ends_call(file: &MappedFile, return_offset: u64) -> Option<bool> {
    Some(follows_call(&before(file, return_offset)?))
}

/// Where the call before an offset leads, if that is told by the code alone.
fn called(file: &MappedFile, return_offset: u64) -> Option<u64> {
    let target = direct_call(&before(file, return_offset)?, return_offset)?;
    let mut code = [0; 8];
    file.file()?.read_exact_at(&mut code, target).ok()?;
    (!only_jumps(&code)).then_some(target)
}

fn before(file: &MappedFile, offset: u64) -> Option<[u8; CALL_BYTES]> {
    let mut before = [0; CALL_BYTES];
    let start = offset.checked_sub(CALL_BYTES as u64)?;
    file.file()?.read_exact_at(&mut before, start).ok()?;
    Some(before)
}

fn frame_pointer(file: &MappedFile, start: u64, offset: u64) -> FramePointer {
    let find = || {
        let mut code = [0; PROLOGUE_BYTES];
        let length = file.file()?.read_at(&mut code, start).ok()?;
        let after = frame_set_up_after(code.get(..length)?)?;
        if offset.checked_sub(start)? < after {
            return None;
        }
        let mut around = [0; 2];
        file.file()?.read_exact_at(&mut around, offset - 1).ok()?;
        let [before, here] = around;
        Some(if frame_given_up(before, here) {
            FramePointer::OwnInCalls
        } else {
            FramePointer::Own
        })
    };
    find().unwrap_or_default()
}
