//! Every map of the kernel side. Sizes are upper bounds; each has a counter that says when it was hit.

use aya_ebpf::bindings::BPF_F_NO_PREALLOC;
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap, PerCpuArray, RingBuf};
use profiler_ebpf::python::FRAME_WORDS;
use profiler_ebpf::wire::{
    COUNTERS as COUNTER_COUNT, CallKey, CallStats, Config, MAX_FRAME_WORDS, OpenCalls, PythonInfo,
    SampleHeader,
};

/// Scratch of one sample in the making. Too large for the stack of a program (512 bytes).
#[repr(C)]
pub struct Scratch {
    /// Head of the record.
    pub header: SampleHeader,
    /// Its frames; follows the header without a gap.
    pub words: [u64; MAX_FRAME_WORDS],
    /// Room for one raw interpreter frame.
    pub python: [u64; FRAME_WORDS],
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

/// One all-zero [`CallStats`], never written: too large to be made on the stack.
#[map]
pub static NO_CALLS: Array<CallStats> = Array::with_max_entries(1, 0);
