//! Frames of one sample, named for the profile.

use std::collections::{HashMap, HashSet};

use profiler_ebpf::wire::{NativeFrame, PythonFrame, how};

use super::generated::{GeneratedNames, is_memory};
use super::reader::Codes;
use crate::cuda::catalogue;
use crate::process::{ElfLoad, FileId, FileTable, ProcessState, TargetMemory, TargetRoot};
use crate::profile::{Frame, FrameId, FrameKind, Profile, StringId};
use crate::python::{Interpreter, PythonBuild, is_plumbing};
use crate::stack::{Evidence, Names, NativeName, PythonName};
use crate::symbols::{
    CALL_BYTES, FramePointer, KernelSymbols, NativeSymbols, SourcePlace, follows_call,
};

/// A caller that may be none.
const GUESS: u64 = how::GUESSED | how::FOLLOWED;

/// Functions that threads and programs begin with.
const ROOTS: [&str; 8] = [
    "_start",
    "start_thread",
    "clone",
    "__clone",
    "clone3",
    "__clone3",
    "_dl_start_user",
    "thread_start",
];

/// Functions without a name kept as evaluators: each interpreter file has one or two.
const MAX_EVALUATORS: usize = 4096;

/// Functions that go on in an exception's handler: towards their end they replace what they saved at their start, their own
/// return address included, by what the handler's function saved.
const TO_HANDLERS: [&str; 4] = [
    "_Unwind_RaiseException",
    "_Unwind_Resume",
    "_Unwind_Resume_or_Rethrow",
    "_Unwind_ForcedUnwind",
];

/// Where x86-64 Linux puts that page: the last below the end of user space (kernel/events/uprobes.c).
const UPROBES_PAGE: u64 = 0x7fff_ffff_e000;

/// Stands for the module of code that a program generated and gave a name.
const GENERATED: &str = "[jit]";

/// Every source of names, kept for the whole recording.
#[derive(Default)]
pub(super) struct NameSources {
    /// Show the interpreter's calling machinery too.
    pub keep_machinery: bool,
    pub native: NativeSymbols,
    pub kernel: KernelSymbols,
    pub generated: GeneratedNames,
    /// Files looked at for a Python runtime, and what was found.
    pub interpreters: HashMap<FileId, Option<(PythonBuild, ElfLoad)>>,
    /// Functions without a name that were found to evaluate Python frames: file, and file offset of their start.
    pub evaluators: HashSet<(FileId, u64)>,
}

/// Names the frames of one sample.
pub(super) struct SampleNames<'a> {
    pub profile: &'a mut Profile,
    pub sources: &'a mut NameSources,
    pub files: &'a FileTable,
    pub process: Option<&'a ProcessState>,
    pub pid: u32,
    /// The Python it was found to run.
    pub interpreter: Option<Interpreter>,
    /// What its Python frames run.
    pub codes: &'a Codes,
}

impl SampleNames<'_> {
    fn intern(&mut self, text: &str) -> StringId {
        self.profile.strings.intern(text)
    }

    fn unnamed(&mut self, kind: FrameKind, module: &str, offset: u64) -> FrameId {
        let module = self.intern(module);
        self.profile.intern_frame(Frame {
            kind,
            module,
            offset,
            ..Frame::marker(StringId::default())
        })
    }

    /// A native frame that is in no known file.
    fn nowhere(&mut self, module: &str, frame: &NativeFrame) -> NativeName<Vec<FrameId>> {
        let named = self.unnamed(FrameKind::Native, module, frame.pc);
        // Without the file there is no telling whether a call comes before: a guess stays one.
        one_frame(named, frame.how & GUESS == 0)
    }

    /// A native frame in memory without a file.
    fn in_memory(&mut self, frame: &NativeFrame, pc: u64) -> NativeName<Vec<FrameId>> {
        match self.generated(frame, pc) {
            Some(name) => name,
            None => {
                let named = self.unnamed(FrameKind::Native, "[anon]", frame.pc);
                one_frame(named, self.is_believed(frame))
            }
        }
    }

    /// A native frame in code that the process generated and gave a name.
    fn generated(&mut self, frame: &NativeFrame, pc: u64) -> Option<NativeName<Vec<FrameId>>> {
        let function = self.sources.generated.name(self.pid, pc)?;
        let function = self.profile.strings.intern(&function);
        let module = self.intern(GENERATED);
        let named = self.profile.intern_frame(Frame {
            kind: FrameKind::Native,
            module,
            ..Frame::marker(function)
        });
        Some(one_frame(named, self.is_believed(frame)))
    }

    /// Whether a frame in memory is to be believed: a guess only if a call stands right before its address, in the
    /// memory as it is now.
    fn is_believed(&self, frame: &NativeFrame) -> bool {
        if frame.how & GUESS == 0 {
            return true;
        }
        let mut before = [0; CALL_BYTES];
        let memory = TargetMemory::new(self.pid);
        // Code may begin with its page, and what comes before not be there.
        let in_page = CALL_BYTES.min((frame.pc % 4096) as usize);
        [CALL_BYTES, in_page].into_iter().any(|bytes| {
            let before = &mut before[..bytes];
            let start = frame.pc.checked_sub(bytes as u64);
            start.is_some_and(|start| memory.read_into(start, before)) && follows_call(before)
        })
    }
}

/// One frame, and whether it is to be believed.
fn one_frame(frame: FrameId, plausible: bool) -> NativeName<Vec<FrameId>> {
    NativeName {
        frame: vec![frame],
        evaluator: false,
        plumbing: false,
        root: false,
        plausible,
        evidence: Evidence::default(),
    }
}

/// The functions at a place that calls, innermost first, without the calling machinery that the compiler put into another
/// function; all of them where there is nothing else.
fn without_machinery(functions: &[SourcePlace]) -> &[SourcePlace] {
    let machinery = functions
        .iter()
        .take_while(|place| is_plumbing(&place.function))
        .count();
    match &functions[machinery..] {
        [] => functions,
        others => others,
    }
}

impl Names for SampleNames<'_> {
    type Frame = FrameId;

    fn kernel(&mut self, address: u64, leaf: bool) -> FrameId {
        let at = if leaf { address } else { address - 1 };
        let name = self.sources.kernel.name(at).map(ToOwned::to_owned);
        match name {
            Some(name) => {
                let function = self.intern(&name);
                self.profile.intern_frame(Frame {
                    kind: FrameKind::Kernel,
                    ..Frame::marker(function)
                })
            }
            None => self.unnamed(FrameKind::Kernel, "", address),
        }
    }

    fn native(&mut self, frame: &NativeFrame) -> NativeName<Vec<FrameId>> {
        // A return address lies behind its call, perhaps in the next function: look inside the call.
        let returns = frame.how & how::RETURN_ADDRESS;
        let pc = frame.pc - returns;
        let Some(process) = self.process else {
            return self.nowhere("[exited]", frame);
        };
        let Some(mapping) = process.space.find(pc).copied() else {
            // Nothing calls from where there is no code.
            return NativeName {
                plausible: returns == 0,
                ..self.nowhere("[unmapped]", frame)
            };
        };
        let Some(id) = mapping.file else {
            // The page the kernel puts its return probes' code on; it reports no mapping for it.
            if (UPROBES_PAGE..UPROBES_PAGE + 4096).contains(&pc) {
                return self.nowhere("[uprobes]", frame);
            }
            return self.in_memory(frame, pc);
        };
        let Some(file) = self.files.get(id) else {
            return self.nowhere("[unmapped]", frame);
        };
        let offset = mapping.file_offset_of(pc);
        let root = || TargetRoot::of(self.pid);
        let place = self.sources.native.place(id, file, offset, root);
        let outermost = place
            .functions
            .last()
            .map_or("", |function| function.function.as_str());
        let python = self.sources.interpreters.get(&id).and_then(Option::as_ref);
        let in_python = python.is_some();
        let address = |at: u64| pc.wrapping_sub(offset).wrapping_add(at);
        let name = NativeName {
            frame: Vec::new(),
            evaluator: python.is_some_and(|(build, load)| {
                load.code_address(offset)
                    .is_some_and(|address| build.evaluates_at(address))
            }) || place
                .start
                .is_some_and(|start| self.sources.evaluators.contains(&(id, start))),
            plumbing: in_python
                && !place.functions.is_empty()
                && place
                    .functions
                    .iter()
                    .all(|place| is_plumbing(&place.function)),
            root: ROOTS.contains(&outermost),
            plausible: returns == 0 || place.is_call.unwrap_or(frame.how & GUESS == 0),
            evidence: Evidence {
                start: place.start.map(address),
                calls: place.calls.map(address),
                frame_pointer: Some(match place.frame {
                    FramePointer::Own => true,
                    FramePointer::OwnInCalls => returns != 0,
                    FramePointer::Other => false,
                }),
                returns_elsewhere: TO_HANDLERS.contains(&outermost),
            },
        };
        if place.functions.is_empty()
            && is_memory(&file.path)
            && let Some(generated) = self.generated(frame, pc)
        {
            return generated;
        }
        let module = self.intern(&file.path);
        if place.functions.is_empty() {
            let start = place.start.unwrap_or(offset);
            let frame = self.unnamed(FrameKind::Native, &file.path, start);
            return NativeName {
                frame: vec![frame],
                ..name
            };
        }
        let folds = !self.sources.keep_machinery && in_python && self.interpreter.is_some();
        let shown = if returns != 0 && folds {
            without_machinery(&place.functions)
        } else {
            &place.functions
        };
        let frames = shown.iter().map(|function| {
            let frame = Frame {
                kind: FrameKind::Native,
                function: self.profile.strings.intern(&function.function),
                file: self.profile.strings.intern(&function.file),
                line: function.line,
                module,
                ..Frame::marker(StringId::default())
            };
            self.profile.intern_frame(frame)
        });
        NativeName {
            frame: frames.collect(),
            ..name
        }
    }

    fn python(&mut self, frame: &PythonFrame) -> PythonName<FrameId> {
        let place = self.codes.get(frame.code).map(|code| code.place(frame));
        let Some(place) = place else {
            return PythonName {
                frame: self.unnamed(FrameKind::Python, "[python]", frame.code),
                known: false,
            };
        };
        let frame = Frame {
            kind: FrameKind::Python,
            function: self.intern(&place.function),
            file: self.intern(&place.file),
            line: place.line,
            first_line: place.first_line,
            ..Frame::marker(StringId::default())
        };
        PythonName {
            frame: self.profile.intern_frame(frame),
            known: true,
        }
    }

    fn call(&mut self, function: u32, inside: Option<&FrameId>) -> Option<FrameId> {
        let name = catalogue()
            .get(function)
            .map_or("[unknown driver call]", |function| &function.name);
        let function = self.intern(name);
        // The runtime's functions have their names in the file, as the driver's had before 470.
        let named = |frame: &FrameId| {
            let frame = self.profile.frame(*frame);
            frame.kind == FrameKind::Native && frame.function == function
        };
        let frame = Frame {
            kind: FrameKind::Cuda,
            ..Frame::marker(function)
        };
        (!inside.is_some_and(named)).then(|| self.profile.intern_frame(frame))
    }

    fn marker(&mut self, text: &'static str) -> FrameId {
        let text = self.intern(text);
        self.profile.intern_frame(Frame::marker(text))
    }

    fn runs_python(&self) -> bool {
        self.interpreter.is_some()
    }

    fn keeps_machinery(&self) -> bool {
        self.sources.keep_machinery
    }

    fn frames_match_by_order(&self) -> bool {
        self.interpreter
            .is_some_and(|interpreter| interpreter.frames_match_by_order())
    }

    fn evaluates(&mut self, frame: &NativeFrame) {
        if frame.how & how::GUESSED != 0 || self.sources.evaluators.len() >= MAX_EVALUATORS {
            return;
        }
        let pc = frame.pc - (frame.how & how::RETURN_ADDRESS);
        let mapping = self.process.and_then(|process| process.space.find(pc));
        let Some((mapping, id)) = mapping.and_then(|mapping| Some((mapping, mapping.file?))) else {
            return;
        };
        let offset = mapping.file_offset_of(pc);
        let Some(file) = self.files.get(id) else {
            return;
        };
        let root = || TargetRoot::of(self.pid);
        let place = self.sources.native.place(id, file, offset, root);
        if let Some(start) = place.start
            && place.functions.is_empty()
        {
            self.sources.evaluators.insert((id, start));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use bytemuck::{Zeroable as _, bytes_of};
    use profiler_ebpf::wire::{Gil, NativeEnd, PythonEnd, RECORD_SAMPLE, SampleHeader};

    use super::*;
    use crate::kernel::ring::RawEvent;
    use crate::process::ProcessTable;
    use crate::profile::{GilState, Truncation};
    use crate::stack::merge;

    /// Of which only its presence matters here.
    fn interpreter() -> Interpreter {
        let mut found = None;
        for name in ["/usr/bin/python3", "/usr/bin/python3.11"] {
            found = found.or_else(|| {
                let (build, _) = crate::python::detect(&std::fs::File::open(name).ok()?)?;
                Interpreter::new(&build, 0)
            });
        }
        found.unwrap()
    }

    #[inline(never)]
    fn a_function_to_be_found() -> u64 {
        std::hint::black_box(7)
    }

    /// The bytes of a sample of this very process: in a function of ours, called from nowhere plausible, inside the
    /// first driver call of the catalogue, with a Python frame whose code object cannot be read.
    fn stored_sample() -> Vec<u8> {
        let pid = std::process::id();
        let native = [
            NativeFrame {
                pc: a_function_to_be_found as *const () as u64,
                sp: 0x1000,
                how: 0,
            },
            NativeFrame {
                pc: 0x10,
                sp: 0x2000,
                how: how::RETURN_ADDRESS | how::GUESSED,
            },
        ];
        let python = PythonFrame {
            code: 8,
            instruction: 0,
            anchor: 0x3000,
            check: 0,
        };
        let header = SampleHeader {
            kind: RECORD_SAMPLE,
            tgid: pid,
            tid: pid,
            native_frames: 2,
            python_frames: 1,
            native_end: NativeEnd::NoTable as u8,
            python_end: PythonEnd::Root as u8,
            gil: Gil::Held as u8,
            open_call: 1,
            open_call_sp: 0x1800,
            ..SampleHeader::zeroed()
        };
        let mut bytes = bytes_of(&header).to_vec();
        native
            .iter()
            .for_each(|frame| bytes.extend(bytes_of(frame)));
        bytes.extend(bytes_of(&python));
        bytes
    }

    /// Machinery inside another function is left out where that function calls, and stays where it stands alone.
    #[test]
    fn machinery_within_functions() {
        let place = |function: &str| SourcePlace {
            function: function.to_owned(),
            file: String::new(),
            line: 0,
        };
        let functions = [
            "_PyObject_VectorcallTstate",
            "PyObject_CallOneArg",
            "list_sort_impl",
        ];
        let places = functions.map(place);
        assert_eq!(without_machinery(&places), &places[2..]);
        assert_eq!(without_machinery(&places[..2]), &places[..2]);
        assert!(without_machinery(&[]).is_empty());
    }

    /// Stored bytes of the ring go all the way to named frames, with no kernel side and no rights.
    #[test]
    fn stored_bytes_are_replayed() {
        assert_eq!(a_function_to_be_found(), 7);
        let RawEvent::Sample(raw) = RawEvent::decode(&stored_sample()) else {
            panic!("no sample")
        };
        let pid = raw.header.tgid;
        let mut processes = ProcessTable::new();
        processes.read(pid, 0);
        let mut profile = Profile::default();
        let mut names = SampleNames {
            profile: &mut profile,
            sources: &mut NameSources::default(),
            files: &processes.files,
            process: processes.get(pid),
            pid,
            interpreter: Some(interpreter()),
            codes: &Codes::default(),
        };
        let merged = merge(&raw, &mut names);
        let labels: Vec<String> = merged
            .frames
            .iter()
            .map(|frame| profile.label(*frame))
            .collect();
        assert!(labels[0].contains("a_function_to_be_found"), "{labels:?}");
        assert_eq!(
            labels[1..],
            [
                "cuLaunchKernel [cuda]",
                "[native frames cut]",
                "[python]+0x8"
            ]
        );
        assert_eq!(
            (merged.truncation, merged.gil),
            (Some(Truncation::NoTable), GilState::Held)
        );
    }
}
