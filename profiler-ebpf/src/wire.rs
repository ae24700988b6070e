//! Every struct and constant that crosses the kernel boundary.
//!
//! All structs are `repr(C)` with explicit padding, and their sizes are asserted here. Any change to this
//! file that alters layout or meaning raises [`ABI_VERSION`]; the loader compares [`Abi`] as found in
//! the kernel object with its own before it attaches anything.

use bytemuck::{Pod, Zeroable};

pub use crate::cookie::{Cookie, MAX_CALL_BYTES, MAX_SUM_BYTES, NOT_READY, bytes_at};

/// Raised with every change of layout or meaning.
pub const ABI_VERSION: u32 = 11;

/// Marks the start of [`Abi`] inside the object.
pub const ABI_MAGIC: u64 = u64::from_le_bytes(*b"WSTKABI\0");

/// Kernel frames kept per sample: the kernel's own default limit (`kernel.perf_event_max_stack`).
pub const MAX_KERNEL_FRAMES: usize = 127;
/// Native user frames kept per sample.
pub const MAX_NATIVE_FRAMES: usize = 240;
/// Python frames kept per sample. How many of them are walked depends on the native walk, which goes first: 192 behind
/// the deepest one ([`MAX_NATIVE_FRAMES`]), and 96 more for each 8 native frames less.
pub const MAX_PYTHON_FRAMES: usize = 512;

/// Words of one [`NativeFrame`].
pub const NATIVE_FRAME_WORDS: usize = 3;
/// Words of one [`PythonFrame`].
pub const PYTHON_FRAME_WORDS: usize = 4;
/// Words of the largest sample's frames.
pub const MAX_FRAME_WORDS: usize = MAX_KERNEL_FRAMES
    + NATIVE_FRAME_WORDS * MAX_NATIVE_FRAMES
    + PYTHON_FRAME_WORDS * MAX_PYTHON_FRAMES;

/// Driver calls of one thread that can be open inside each other.
pub const MAX_OPEN_CALLS: usize = 4;

/// What the object says of itself; lies in its read-only data behind [`ABI_MAGIC`].
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct Abi {
    /// [`ABI_MAGIC`].
    pub magic: u64,
    /// [`ABI_VERSION`].
    pub version: u32,
    /// Size of [`SampleHeader`].
    pub sample_header: u32,
    /// Size of [`ThreadExit`].
    pub thread_exit: u32,
    /// Size of [`Config`].
    pub config: u32,
    /// Size of [`PythonInfo`].
    pub python_info: u32,
    /// Size of [`CallKey`].
    pub call_key: u32,
    /// Size of [`CallStats`].
    pub call_stats: u32,
    /// Size of [`SpaceEntry`].
    pub space_entry: u32,
    /// Words of a [`NativeFrame`].
    pub native_frame_words: u32,
    /// Number of [`Counter`]s.
    pub counters: u32,
}

/// This build's [`Abi`].
pub const ABI: Abi = Abi {
    magic: ABI_MAGIC,
    version: ABI_VERSION,
    sample_header: size_of::<SampleHeader>() as u32,
    thread_exit: size_of::<ThreadExit>() as u32,
    config: size_of::<Config>() as u32,
    python_info: size_of::<PythonInfo>() as u32,
    call_key: size_of::<CallKey>() as u32,
    call_stats: size_of::<CallStats>() as u32,
    space_entry: size_of::<SpaceEntry>() as u32,
    native_frame_words: NATIVE_FRAME_WORDS as u32,
    counters: COUNTERS as u32,
};

/// Kind of a ring record: a [`SampleHeader`] and its frames.
pub const RECORD_SAMPLE: u32 = 1;
/// Kind of a ring record: a [`ThreadExit`].
pub const RECORD_THREAD_EXIT: u32 = 2;
/// Kind of a ring record: a [`ThreadExit`] of a thread that became another program. It goes on as the main
/// thread of that, with the CPU time it has used so far.
pub const RECORD_EXEC: u32 = 3;

/// Settings and kernel struct offsets, one entry of an array map, written before attaching.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable, Default)]
pub struct Config {
    /// 0: programs do nothing. 1: they record.
    pub active: u32,
    /// 0: the whole machine. 1: only processes in the targets map.
    pub only_targets: u32,
    /// `task_struct.mm`.
    pub task_mm: u32,
    /// `task_struct.thread.fsbase`.
    pub task_fsbase: u32,
    /// `task_struct.pid`.
    pub task_pid: u32,
    /// `task_struct.tgid`.
    pub task_tgid: u32,
    /// `task_struct.se.sum_exec_runtime`.
    pub task_runtime: u32,
    /// Explicit padding.
    pub _pad: u32,
}

/// A value of the targets map: this process is recorded.
pub const TARGET: u32 = 1;
/// A value of the targets map: this process is not recorded, but the children it makes are.
pub const TARGET_CHILDREN: u32 = 2;

/// How the native walk of a sample ended. Ids are never reused.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NativeEnd {
    /// The thread has no user stack: a kernel thread, or a process on its way out.
    NoUserStack = 0,
    /// The end mark of the outermost frame was met.
    Root = 1,
    /// The next frame pointer cannot be one.
    NoFramePointer = 2,
    /// The frame the pointer leads to could not be read.
    Unreadable = 3,
    /// The depth limit was met.
    Depth = 4,
    /// A 32-bit program.
    ThirtyTwoBit = 5,
    /// Unwind data says that this is the outermost frame.
    Outermost = 6,
    /// Code whose unwind data says nothing of this place, and no frame pointer helps.
    NoUnwindData = 7,
    /// Code of which no unwind data is known (yet), and no frame pointer helps.
    NoTable = 8,
    /// The walk could not go on for a reason of ours: a tail call failed.
    Abandoned = 9,
}

/// How a native frame was found, as bits.
pub mod how {
    /// Its `pc` is a return address: the call lies before it.
    pub const RETURN_ADDRESS: u64 = 1;
    /// Found by frame pointer where unwind data was missing: a guess until user space has checked it.
    pub const GUESSED: u64 = 2;
    /// Found out of code made at run time, by following that: a guess too, since the code may have changed since.
    pub const FOLLOWED: u64 = 4;
}

impl NativeEnd {
    /// The end with this id.
    pub fn from_id(id: u8) -> Option<Self> {
        Some(match id {
            0 => Self::NoUserStack,
            1 => Self::Root,
            2 => Self::NoFramePointer,
            3 => Self::Unreadable,
            4 => Self::Depth,
            5 => Self::ThirtyTwoBit,
            6 => Self::Outermost,
            7 => Self::NoUnwindData,
            8 => Self::NoTable,
            9 => Self::Abandoned,
            _ => return None,
        })
    }
}

/// How the Python walk of a sample ended. Ids are never reused.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PythonEnd {
    /// The process was not known to run Python.
    NotPython = 0,
    /// The thread has no thread state: not a Python thread, or the interpreter is not up.
    NoThreadState = 1,
    /// All frames were walked.
    Root = 2,
    /// A frame or the thread state could not be read.
    Unreadable = 3,
    /// The depth limit was met.
    Depth = 4,
    /// A thread state was found but is not this thread's: the layout does not fit.
    WrongThread = 5,
}

impl PythonEnd {
    /// The end with this id.
    pub fn from_id(id: u8) -> Option<Self> {
        Some(match id {
            0 => Self::NotPython,
            1 => Self::NoThreadState,
            2 => Self::Root,
            3 => Self::Unreadable,
            4 => Self::Depth,
            5 => Self::WrongThread,
            _ => return None,
        })
    }
}

/// The global interpreter lock as read with a sample. Ids are never reused.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gil {
    /// No thread state, so no question.
    None = 0,
    /// The sampled thread holds it.
    Held = 1,
    /// Another thread holds it, or nobody.
    NotHeld = 2,
    /// It could not be read, or changed while being read.
    Unknown = 3,
    /// The interpreter runs without one.
    Absent = 4,
}

impl Gil {
    /// The state with this id.
    pub fn from_id(id: u8) -> Option<Self> {
        Some(match id {
            0 => Self::None,
            1 => Self::Held,
            2 => Self::NotHeld,
            3 => Self::Unknown,
            4 => Self::Absent,
            _ => return None,
        })
    }
}

/// Head of a sample. The frames follow as 8-byte words: `kernel_frames` addresses, then
/// `native_frames` [`NativeFrame`]s, then `python_frames` [`PythonFrame`]s, each leaf first.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct SampleHeader {
    /// [`RECORD_SAMPLE`].
    pub kind: u32,
    /// CPU it was taken on.
    pub cpu: u32,
    /// CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Process, in the initial pid namespace.
    pub tgid: u32,
    /// Thread, in the initial pid namespace.
    pub tid: u32,
    /// The kernel's name of the thread, NUL padded.
    pub comm: [u8; 16],
    /// Kernel addresses that follow.
    pub kernel_frames: u16,
    /// [`NativeFrame`]s that follow.
    pub native_frames: u16,
    /// [`PythonFrame`]s that follow.
    pub python_frames: u16,
    /// [`NativeEnd`].
    pub native_end: u8,
    /// [`PythonEnd`].
    pub python_end: u8,
    /// [`Gil`].
    pub gil: u8,
    /// 1: the sample was in the kernel but its kernel stack could not be taken.
    pub kernel_missing: u8,
    /// Explicit padding.
    pub _pad: u16,
    /// Catalogue id of the driver call the thread is in, plus one; 0 if in none.
    pub open_call: u32,
    /// Stack pointer at that call's entry: frames below it are inside the call.
    pub open_call_sp: u64,
}

/// One native user frame.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct NativeFrame {
    /// The leaf's program counter, or a return address.
    pub pc: u64,
    /// Stack pointer in that frame: the callee's canonical frame address.
    pub sp: u64,
    /// How it was found: bits of [`how`].
    pub how: u64,
}

/// One interpreter frame.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct PythonFrame {
    /// Address of its code object. 0: no frame, only the `anchor` of an evaluation whose frame is not linked (yet).
    pub code: u64,
    /// Its saved instruction: an address, or an index where the layout has one ([`PythonInfo::frame_last_index`]).
    pub instruction: u64,
    /// For the outermost frame of an evaluation: an address inside the native frame that evaluates it.
    /// Else, and where it is not known, 0.
    pub anchor: u64,
    /// Folded facts of the code object, to notice that its address is used for another one. 0 if unreadable.
    pub check: u64,
}

/// A thread ended.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct ThreadExit {
    /// [`RECORD_THREAD_EXIT`] or [`RECORD_EXEC`].
    pub kind: u32,
    /// Explicit padding.
    pub _pad: u32,
    /// CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Process.
    pub tgid: u32,
    /// Thread.
    pub tid: u32,
    /// CPU time of its whole life, by the scheduler; at most one tick short.
    pub runtime_ns: u64,
    /// The kernel's name of the thread.
    pub comm: [u8; 16],
}

/// Which interpreter frames tell where on the C stack they are evaluated: values of [`PythonInfo::anchors`].
pub mod anchors {
    /// None does: one evaluation a frame, of which nothing lies on the C stack (CPython 3.8, 3.9).
    pub const NONE: u8 = 0;
    /// Every one: one evaluation a frame, and a record of each on the C stack (3.10).
    pub const EVERY: u8 = 1;
    /// Those flagged as entry: the evaluation's record on the C stack is theirs (3.11).
    pub const ENTRY: u8 = 2;
    /// None but the shims, which are no frames: one lies on the C stack behind each evaluation's frames (3.12 on).
    pub const SHIM: u8 = 3;
}

/// Where and how to find the interpreter's state in one process.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable, Default)]
pub struct PythonInfo {
    /// Run-time address of `_PyRuntime`.
    pub runtime: u64,
    /// Offset in `_PyRuntime` of the pthread key of the thread state (an `int`).
    pub tss_key: u32,
    /// Offset in `_PyRuntime` of the running thread state; 0 where there is none.
    pub tstate_current: u32,
    /// Offset of the lock in `_PyRuntime`, or of the pointer to it in the interpreter state.
    pub gil: u32,
    /// 1: each interpreter has its lock, `gil` is a pointer's offset.
    pub gil_of_interpreter: u8,
    /// Offset in the lock of its last holder.
    pub gil_last_holder: u8,
    /// Offset in the lock of its state (an `int`, 1 = taken).
    pub gil_locked: u8,
    /// 1: the lock begins with an `int` that says whether it is used at all.
    pub gil_optional: u8,
    /// Offset in the thread state of its interpreter state.
    pub tstate_interpreter: u16,
    /// Offset in the thread state of its pthread id (the fs base).
    pub tstate_thread_id: u16,
    /// Offset in the thread state of the innermost frame; 0 where the C frame record has it.
    pub tstate_frame: u16,
    /// Offset in the thread state of the current C frame record; 0 where there is none.
    pub tstate_cframe: u16,
    /// Offset in the C frame record of the innermost frame.
    pub cframe_current_frame: u16,
    /// Offset in the C frame record of the one before.
    pub cframe_previous: u16,
    /// Where in the frame the words begin that the following are indices of.
    pub frame_start: u8,
    /// Word (8 bytes) of the frame's code object.
    pub frame_code_word: u8,
    /// Word of the caller's frame.
    pub frame_previous_word: u8,
    /// Word of the saved instruction pointer.
    pub frame_instruction_word: u8,
    /// Word that holds the entry flag or the owner.
    pub frame_flags_word: u8,
    /// Bit position of that (a byte) in the word.
    pub frame_flags_shift: u8,
    /// One of [`anchors`].
    pub anchors: u8,
    /// 1: the C library is musl, not glibc.
    pub musl: u8,
    /// Offset in the frame of the last instruction's index (an `int`); 0 where there is a pointer instead.
    pub frame_last_index: u16,
    /// Offset in the code object of its first line (an `int`).
    pub code_first_line: u16,
    /// Offset in the code object of the pointers to its file name and name, which lie side by side.
    pub code_names: u16,
    /// Offset in the thread state of the outermost C frame record, which is no evaluation's; 0 where nothing depends on it.
    pub tstate_root_cframe: u16,
    /// Explicit padding.
    pub _pad: [u16; 2],
}

/// Whose calls of which function; for the table of errors also, with which outcome.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Pod, Zeroable)]
pub struct CallKey {
    /// Process.
    pub tgid: u32,
    /// Thread.
    pub tid: u32,
    /// Catalogue id.
    pub function: u32,
    /// The error code that was returned; 0 in the table of figures.
    pub code: u32,
}

/// Exact figures of one [`CallKey`].
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct CallStats {
    /// Calls that began.
    pub count: u64,
    /// Of these, begun inside another call that is counted.
    pub nested: u64,
    /// Calls whose return was seen.
    pub returned: u64,
    /// Returned with an error.
    pub errors: u64,
    /// Returned with [`NOT_READY`] where that is an answer.
    pub not_ready: u64,
    /// Bytes asked for, of all calls that began.
    pub bytes: u64,
    /// Time in returned calls.
    pub total_ns: u64,
    /// Of that, in nested ones.
    pub nested_ns: u64,
    /// The longest of them.
    pub max_ns: u64,
    /// Returned calls per [`crate::latency`] bucket.
    pub latency: [u32; crate::latency::BUCKETS],
    /// Explicit padding.
    pub _pad: u32,
}

/// A driver call that has begun and not returned.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable, Default)]
pub struct OpenCall {
    /// Stack pointer at entry, pointing at the return address.
    pub sp: u64,
    /// The return address at `sp`, which a return probe replaces on the stack.
    pub return_address: u64,
    /// When it began, CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// Catalogue id.
    pub function: u32,
    /// Explicit padding.
    pub _pad: u32,
}

/// The open calls of one thread, outermost first.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable, Default)]
pub struct OpenCalls {
    /// How many of `calls` are in use.
    pub depth: u32,
    /// Explicit padding.
    pub _pad: u32,
    /// The calls.
    pub calls: [OpenCall; MAX_OPEN_CALLS],
}

/// Words of one chunk of the memory both sides see: 4 MiB.
pub const CHUNK_WORDS: u32 = 1 << 19;
/// Chunks at most: 2 GiB.
pub const MAX_CHUNKS: u32 = 512;
/// Mappings of one process at most.
pub const MAX_SPACE_ENTRIES: u32 = 1 << 12;
/// Words of one [`SpaceEntry`].
pub const SPACE_ENTRY_WORDS: u32 = 4;

/// The executable mappings of a process: where in the memory both sides see they lie, sorted by address.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable, Default)]
pub struct SpaceRef {
    /// First word.
    pub start: u32,
    /// [`SpaceEntry`]s.
    pub count: u32,
}

/// Pages of a mapping that has no table and will have none: code made at run time, or a file without unwind data.
pub const NO_TABLE_EVER: u32 = 1;

/// Bit of a mapping's `pages`: the code was made at run time and may have changed since its table was made, so
/// callers found by it are guesses.
pub const GENERATED: u32 = 1 << 31;

/// One executable mapping.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable, Default)]
pub struct SpaceEntry {
    /// First run-time address.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// Run-time address of the table's base.
    pub origin: u64,
    /// First word of the unwind table; 0 if there is none.
    pub table: u32,
    /// Pages of the table, with [`GENERATED`] if it is of code made at run time. Without a table:
    /// [`NO_TABLE_EVER`], or 0 if it is still to come.
    pub pages: u32,
}

/// Per-CPU counters of the kernel side, an index each. Ids are never reused.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counter {
    /// Samples taken: a busy CPU, a watched process, recording on.
    Taken = 0,
    /// Samples lost: ring full.
    RingFull = 1,
    /// Samples lost: the scratch was in use on that CPU.
    Nested = 2,
    /// Thread ends lost: ring full.
    ExitRingFull = 3,
    /// Calls that could not be booked on their thread: the call table was full.
    CallTableFull = 4,
    /// Calls not timed: too many open inside each other, or the table of open calls was full.
    CallsNotTimed = 5,
    /// Calls whose return was never seen (a long jump, a thread that ended inside).
    ReturnsMissed = 6,
    /// Children not watched: the targets map was full.
    TargetsFull = 7,
    /// Calls whose bytes were not added: the count could not be read, or is beyond belief.
    BytesUnknown = 8,
    /// Errors booked without their code: the table of errors was full.
    ErrorTableFull = 9,
}

/// How many [`Counter`]s there are.
pub const COUNTERS: usize = 10;

const _: () = {
    assert!(size_of::<Abi>() == 48);
    assert!(size_of::<Config>() == 32);
    assert!(size_of::<SampleHeader>() == 64);
    assert!(size_of::<NativeFrame>() == 8 * NATIVE_FRAME_WORDS);
    assert!(size_of::<PythonFrame>() == 8 * PYTHON_FRAME_WORDS);
    assert!(size_of::<ThreadExit>() == 48);
    assert!(size_of::<PythonInfo>() == 56);
    assert!(size_of::<CallKey>() == 16);
    assert!(size_of::<CallStats>() == 9 * 8 + 4 * (crate::latency::BUCKETS + 1));
    assert!(size_of::<OpenCalls>() == 8 + 32 * MAX_OPEN_CALLS);
    assert!(size_of::<SpaceRef>() == 8);
    assert!(size_of::<SpaceEntry>() == 8 * SPACE_ENTRY_WORDS as usize);
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids that come back from the kernel side are understood, others refused.
    #[test]
    fn ids() {
        for id in 0..=255u8 {
            assert!(NativeEnd::from_id(id).is_none_or(|end| end as u8 == id));
            assert!(PythonEnd::from_id(id).is_none_or(|end| end as u8 == id));
            assert!(Gil::from_id(id).is_none_or(|gil| gil as u8 == id));
        }
        assert_eq!(NativeEnd::from_id(10), None);
        assert_eq!(PythonEnd::from_id(6), None);
        assert_eq!(Gil::from_id(5), None);
    }
}
