//! Merging.
//!
//! A native frame covers the stack from its own stack pointer up to its caller's. A Python evaluation left
//! an anchor inside the native frame that runs it, a driver call its stack pointer at entry: so each finds
//! its place among the native frames by address, without any symbol. Where the native walk ended early,
//! the Python frames that no native frame could claim follow behind a marker; nothing is dropped.

use profiler_ebpf::wire::{Gil, NativeEnd, NativeFrame, PythonEnd, PythonFrame, how};

use super::evaluations::{Extent, Walks, anchored};
use crate::kernel::ring::RawSample;
use crate::profile::{GilState, Truncation};

/// Names a native frame may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NativeName<F> {
    /// The frame or, where functions were inlined, how many frames it stands for is up to [`Names`].
    pub frame: F,
    /// It is the function that evaluates Python frames: a Python frame stands for it.
    pub evaluator: bool,
    /// It is the interpreter's calling machinery, which is not shown unless execution is in it.
    pub plumbing: bool,
    /// It is one that threads or programs begin with: a stack that ends in it is whole.
    pub root: bool,
    /// For a caller: its return address follows a call. If not, the walk went astray here.
    pub plausible: bool,
    /// What speaks for and against a guess on either side of it.
    pub evidence: Evidence,
}

/// What the code at a frame says about guesses: about the one that led to it, and the one that leads on from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Evidence {
    /// The function's address, where that is known.
    pub start: Option<u64>,
    /// For a caller: the address of the function it calls, where the instruction tells.
    pub calls: Option<u64>,
    /// Whether the function has a frame pointer of its own here; `None` if its code is not known.
    pub frame_pointer: Option<bool>,
    /// It writes another return address over its own, so that its caller is a guess whatever unwind data says.
    pub returns_elsewhere: bool,
}

impl Evidence {
    /// Whether a caller that was found by a guess is the one that called. By frame pointer, the caller of a function that
    /// has not set up its own is passed over.
    fn allows(self, caller: Self) -> bool {
        match (self.start, caller.calls) {
            (Some(start), Some(called)) => start == called,
            _ => self.frame_pointer != Some(false),
        }
    }
}

/// A Python frame's name, or what stands in for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PythonName<F> {
    /// The frame.
    pub frame: F,
    /// Its code object could be read.
    pub known: bool,
}

/// Where names come from.
pub trait Names {
    /// A named frame, as the caller keeps it.
    type Frame;
    /// A kernel address. The leaf is exact, callers are return addresses.
    fn kernel(&mut self, address: u64, leaf: bool) -> Self::Frame;
    /// A native frame: its functions, innermost first.
    fn native(&mut self, frame: &NativeFrame) -> NativeName<Vec<Self::Frame>>;
    /// A Python frame.
    fn python(&mut self, frame: &PythonFrame) -> PythonName<Self::Frame>;
    /// A driver call by its catalogue id; `None` where the frame directly inside, its own code, has the name already.
    fn call(&mut self, function: u32, inside: Option<&Self::Frame>) -> Option<Self::Frame>;
    /// A marker.
    fn marker(&mut self, text: &'static str) -> Self::Frame;
    /// Whether the process was found to run a Python that is understood.
    fn runs_python(&self) -> bool;
    /// Whether the interpreter's calling machinery is to be shown too, its evaluators below the Python frames they run.
    fn keeps_machinery(&self) -> bool;
    /// Whether that Python's frames say nothing of the native frames that evaluate them.
    fn frames_match_by_order(&self) -> bool;
    /// Told of a native frame that was found to evaluate Python frames.
    fn evaluates(&mut self, frame: &NativeFrame);
}

/// A merged stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged<F> {
    /// Frames, leaf first.
    pub frames: Vec<F>,
    /// Why it is not whole; `None` if it is.
    pub truncation: Option<Truncation>,
    /// Whether a frame in it was found without unwind data: a guess, checked.
    pub guessed: bool,
    /// The interpreter's lock.
    pub gil: GilState,
}

/// Marks where native frames are missing between what is shown on either side.
const NATIVE_CUT: &str = "[native frames cut]";
/// Stands at the root of a Python stack deeper than is walked.
const PYTHON_CUT: &str = "[Python frames cut]";
/// Stands for a thread of which nothing is known.
const NOTHING: &str = "[no stack]";

/// Merges one sample.
pub fn merge<N: Names>(sample: &RawSample, names: &mut N) -> Merged<N::Frame> {
    let mut frames = Vec::new();
    for (index, address) in sample.kernel.iter().enumerate() {
        frames.push(names.kernel(*address, index == 0));
    }
    let walk = user_frames(sample, names, &mut frames);
    let python_end = PythonEnd::from_id(sample.header.python_end);
    if python_end == Some(PythonEnd::Depth) {
        frames.push(names.marker(PYTHON_CUT));
    }
    if frames.is_empty() {
        frames.push(names.marker(NOTHING));
    }
    Merged {
        frames,
        truncation: truncation(sample, walk.whole, names.runs_python()),
        guessed: walk.guessed,
        gil: gil(sample),
    }
}

/// How far the native walk got.
struct NativeWalk {
    /// It reached the thread's root.
    whole: bool,
    /// A frame of it that is shown was guessed.
    guessed: bool,
}

/// Adds the user part.
fn user_frames<N: Names>(
    sample: &RawSample,
    names: &mut N,
    frames: &mut Vec<N::Frame>,
) -> NativeWalk {
    let mut call = sample
        .header
        .open_call
        .checked_sub(1)
        .map(|id| (id, sample.header.open_call_sp));
    let end = NativeEnd::from_id(sample.header.native_end);
    let native = plausible(sample, names);
    let all = native.len() == sample.native.len();
    // An end mark in `rbp` may be chance; unwind data that says so is not.
    let whole = all
        && match end {
            Some(NativeEnd::Outermost) => true,
            Some(NativeEnd::Root) => native.last().is_some_and(|name| name.root),
            _ => false,
        };
    let walks = Walks {
        native_whole: whole,
        python_whole: PythonEnd::from_id(sample.header.python_end) == Some(PythonEnd::Root),
        by_order: names.frames_match_by_order(),
    };
    let known = native.iter().map(|name| name.evaluator);
    let mut extents = Extent::of(&sample.native[..native.len()], known);
    let python = anchored(&sample.python, &mut extents, walks);
    let mut python = python.iter().peekable();

    let mut ended_in_evaluator = false;
    let mut any_guessed = false;
    for (index, (name, extent)) in native.into_iter().zip(&extents).enumerate() {
        let leaf = index == 0;
        if extent.evaluator && !name.evaluator {
            names.evaluates(&sample.native[index]);
        }
        any_guessed |= sample.native[index].how & (how::GUESSED | how::FOLLOWED) != 0;
        // Everything up to here has a stack pointer below the call's: it is inside.
        if let Some((id, _)) = call.take_if(|(_, sp)| extent.start > *sp) {
            let call = names.call(id, frames.last());
            frames.extend(call);
        }
        // Python frames stand for their evaluator, and for the machinery that led to it. An evaluator that has none is
        // about to begin one, or has just ended it.
        let evaluates = match extent.end {
            Some(end) => holds_anchor(extent.start, end, &mut python.clone()),
            None => extent.evaluator && python.peek().is_some(),
        };
        let machinery = evaluates || name.plumbing && !leaf && !sample.python.is_empty();
        let folded = machinery && !names.keeps_machinery();
        if !folded {
            frames.extend(name.frame);
        }
        match extent.end {
            Some(end) => take_evaluations(names, frames, &mut python, extent.start, end),
            None => ended_in_evaluator = extent.evaluator,
        }
    }
    let mut joined = whole || ended_in_evaluator || sample.native.is_empty();
    if ended_in_evaluator && call.is_none() {
        // Its own frames join; what led to it is missing.
        take_evaluation(names, frames, &mut python);
        joined = python.peek().is_none();
    }
    let left: Vec<PythonFrame> = python.copied().collect();
    rest(names, frames, &left, call, joined);
    NativeWalk {
        whole,
        guessed: any_guessed,
    }
}

/// A frame, given its caller. A signal trampoline, known by a caller that was interrupted rather than calls, is
/// where the kernel lets a handler return to: no call stands before it, and its address is the place itself.
fn as_entered(frame: &NativeFrame, caller: Option<&NativeFrame>) -> NativeFrame {
    let interrupted = caller.is_some_and(|caller| caller.how & how::RETURN_ADDRESS == 0);
    let not = if interrupted { how::RETURN_ADDRESS } else { 0 };
    NativeFrame {
        how: frame.how & !not,
        ..*frame
    }
}

/// The native frames' names, up to a caller that the walk cannot have come to in a right way.
fn plausible<N: Names>(sample: &RawSample, names: &mut N) -> Vec<NativeName<Vec<N::Frame>>> {
    let mut found = Vec::new();
    let mut callee = Evidence::default();
    for (index, frame) in sample.native.iter().enumerate() {
        let name = names.native(&as_entered(frame, sample.native.get(index + 1)));
        let guessed = frame.how & how::GUESSED != 0 || callee.returns_elsewhere;
        if index > 0 && !name.plausible || guessed && !callee.allows(name.evidence) {
            break;
        }
        callee = name.evidence;
        found.push(name);
    }
    found
}

/// Whether the next anchor among the Python frames lies in `[start, end)`.
fn holds_anchor<'a>(
    start: u64,
    end: u64,
    python: &mut impl Iterator<Item = &'a PythonFrame>,
) -> bool {
    python
        .map(|frame| frame.anchor)
        .find(|anchor| *anchor != 0)
        .is_some_and(|at| (start..end).contains(&at))
}

/// Adds the Python evaluations whose anchors lie in `[start, end)`.
fn take_evaluations<'a, N: Names>(
    names: &mut N,
    frames: &mut Vec<N::Frame>,
    python: &mut (impl Iterator<Item = &'a PythonFrame> + Clone),
    start: u64,
    end: u64,
) {
    while holds_anchor(start, end, &mut python.clone()) {
        take_evaluation(names, frames, python);
    }
}

/// Adds the Python frames of one evaluation.
fn take_evaluation<'a, N: Names>(
    names: &mut N,
    frames: &mut Vec<N::Frame>,
    python: &mut impl Iterator<Item = &'a PythonFrame>,
) {
    for frame in python {
        frames.push(names.python(frame).frame);
        if frame.anchor != 0 {
            break;
        }
    }
}

/// Adds what no native frame could claim: the Python frames inside the open driver call, the call, the
/// Python frames around it. `joined`: nothing native is missing before the first of them.
fn rest<N: Names>(
    names: &mut N,
    frames: &mut Vec<N::Frame>,
    python: &[PythonFrame],
    call: Option<(u32, u64)>,
    joined: bool,
) {
    let (inner, outer) = python.split_at(call.map_or(0, |(_, sp)| inside_call(python, sp)));
    // The gap is where native code leads to the next thing known: shown once, on its caller's side.
    if !joined && !inner.is_empty() {
        frames.push(names.marker(NATIVE_CUT));
    }
    frames.extend(inner.iter().map(|frame| names.python(frame).frame));
    let call = call.and_then(|(id, _)| names.call(id, frames.last()));
    frames.extend(call);
    if !joined && inner.is_empty() {
        frames.push(names.marker(NATIVE_CUT));
    }
    frames.extend(outer.iter().map(|frame| names.python(frame).frame));
}

/// How many of the Python frames, leaf first, run inside a call whose stack pointer at entry this is.
fn inside_call(python: &[PythonFrame], sp: u64) -> usize {
    let mut inside = 0;
    for (index, frame) in python.iter().enumerate() {
        if frame.anchor == 0 {
            continue;
        }
        if frame.anchor > sp {
            break;
        }
        inside = index + 1;
    }
    inside
}

fn truncation(sample: &RawSample, native_whole: bool, runs_python: bool) -> Option<Truncation> {
    let header = &sample.header;
    match PythonEnd::from_id(header.python_end) {
        Some(PythonEnd::Depth) => return Some(Truncation::PythonDepth),
        Some(PythonEnd::Unreadable | PythonEnd::WrongThread) | None => {
            return Some(Truncation::PythonUnreadable);
        }
        Some(PythonEnd::NotPython) if runs_python && !sample.native.is_empty() => {
            return Some(Truncation::PythonLate);
        }
        Some(PythonEnd::NotPython | PythonEnd::NoThreadState | PythonEnd::Root) => {}
    }
    if header.kernel_missing != 0 {
        return Some(Truncation::KernelStack);
    }
    match NativeEnd::from_id(header.native_end) {
        Some(NativeEnd::NoUserStack) => None,
        Some(NativeEnd::Root | NativeEnd::Outermost) if native_whole => None,
        Some(NativeEnd::Root | NativeEnd::Outermost | NativeEnd::NoFramePointer) | None => {
            Some(Truncation::NoFramePointers)
        }
        Some(NativeEnd::NoUnwindData) => Some(Truncation::NoUnwindData),
        Some(NativeEnd::NoTable) => Some(Truncation::NoTable),
        Some(NativeEnd::Abandoned) => Some(Truncation::Abandoned),
        Some(NativeEnd::Unreadable) => Some(Truncation::StackUnreadable),
        Some(NativeEnd::Depth) => Some(Truncation::NativeDepth),
        Some(NativeEnd::ThirtyTwoBit) => Some(Truncation::ThirtyTwoBit),
    }
}

fn gil(sample: &RawSample) -> GilState {
    match Gil::from_id(sample.header.gil) {
        Some(Gil::None) => GilState::None,
        Some(Gil::Held) => GilState::Held,
        Some(Gil::NotHeld) => GilState::NotHeld,
        Some(Gil::Absent) => GilState::None,
        Some(Gil::Unknown) | None => GilState::Unknown,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
