//! Every map of the kernel side. Sizes are upper bounds; each has a counter that says when it was hit.

use aya_ebpf::bindings::{BPF_F_MMAPABLE, BPF_F_NO_PREALLOC};
use aya_ebpf::btf_maps::{self, ArrayOfMaps};
use aya_ebpf::macros::{btf_map, map};
use aya_ebpf::maps::{Array, HashMap, PerCpuArray, ProgramArray, RingBuf};
use profiler_ebpf::python::{Cursor, FRAME_ROOM};
use profiler_ebpf::unwind::Registers;
use profiler_ebpf::wire::{
    CHUNK_WORDS, COUNTERS as COUNTER_COUNT, CallKey, CallStats, Config, MAX_CHUNKS,
    MAX_FRAME_WORDS, OpenCalls, PythonFrame, PythonInfo, SampleHeader, SpaceRef,
};

/// Where a walk stands.
#[repr(C)]
pub struct Walk {
    /// Registers of the frame to record next.
    pub registers: Registers,
    /// How that frame was found.
    pub how: u64,
    /// The process's mappings.
    pub space: SpaceRef,
    /// The thread's fs base; 0 if unknown.
    pub fs_base: u64,
    /// The thread's open driver calls.
    pub open: OpenCalls,
}

/// Scratch of one sample in the making. Too large for the stack of a program (512 bytes).
#[repr(C)]
pub struct Scratch {
    /// Head of the record.
    pub header: SampleHeader,
    /// Its frames; follows the header without a gap.
    pub words: [u64; MAX_FRAME_WORDS],
    /// Where the walk stands.
    pub walk: Walk,
    /// Room for one raw interpreter frame.
    pub python: [u64; FRAME_ROOM],
    /// The frame just read.
    pub python_frame: PythonFrame,
    /// Where the Python walk stands.
    pub python_cursor: Cursor,
    /// First word of the next Python frame.
    pub python_next: u64,
    /// Not 0 once the Python walk has begun.
    pub python_begun: u64,
    /// Not 0 while in use.
    pub busy: u64,
}

/// Samples and thread ends on their way to user space (kernel 5.8). The loader sets the size.
#[map]
pub static EVENTS: RingBuf = RingBuf::with_byte_size(8 << 20, 0);

/// Settings.
#[map]
pub static CONFIG: Array<Config> = Array::with_max_entries(1, 0);

/// Counters.
#[map]
pub static COUNTERS: PerCpuArray<u64> = PerCpuArray::with_max_entries(COUNTER_COUNT as u32, 0);

/// The sampler's scratch; probes do not use it.
#[map]
pub static SCRATCH: PerCpuArray<Scratch> = PerCpuArray::with_max_entries(1, 0);

/// Processes to record, when not the whole machine.
#[map]
pub static TARGETS: HashMap<u32, u32> = HashMap::with_max_entries(65536, BPF_F_NO_PREALLOC);

/// Processes that run a Python which is understood. Preallocated: read from the sampling interrupt.
#[map]
pub static PYTHON: HashMap<u32, PythonInfo> = HashMap::with_max_entries(16384, 0);

/// Open driver calls of each thread. Preallocated: read from the sampling interrupt.
#[map]
pub static OPEN_CALLS: HashMap<u64, OpenCalls> = HashMap::with_max_entries(16384, 0);

/// Exact figures of driver calls.
#[map]
pub static CALLS: HashMap<CallKey, CallStats> = HashMap::with_max_entries(65536, BPF_F_NO_PREALLOC);

/// How often a call returned which error.
#[map]
pub static CALL_ERRORS: HashMap<CallKey, u64> = HashMap::with_max_entries(16384, BPF_F_NO_PREALLOC);

/// One all-zero [`CallStats`], never written: too large to be made on the stack.
#[map]
pub static NO_CALLS: Array<CallStats> = Array::with_max_entries(1, 0);

/// Programs of the sampler's later stages.
#[map]
pub static STAGES: ProgramArray = ProgramArray::with_max_entries(2, 0);

/// Each process's mappings. Preallocated: read from the sampling interrupt.
#[map]
pub static SPACE_OF: HashMap<u32, SpaceRef> = HashMap::with_max_entries(65536, 0);

/// The memory both sides see: sorted mappings ([`profiler_ebpf::wire::SpaceEntry`]) and unwind tables (page
/// directory, then rows: [`profiler_ebpf::rows`]), as words. Chunks are added by user space (mapped: kernel
/// 5.5).
#[btf_map]
pub static MEMORY: ArrayOfMaps<Chunk, { MAX_CHUNKS as usize }> = ArrayOfMaps::new();

/// One chunk.
type Chunk = btf_maps::Array<u64, { CHUNK_WORDS as usize }, { BPF_F_MMAPABLE as usize }>;
