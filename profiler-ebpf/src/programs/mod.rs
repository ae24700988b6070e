//! What the entry points do.

pub mod cuda;
pub mod maps;
pub mod python;
pub mod sample;
pub mod task;
pub mod walk;

use aya_ebpf::helpers::{bpf_probe_read_kernel, bpf_probe_read_user};
use bytemuck::AnyBitPattern;
use profiler_ebpf::memory::UserMemory;
use profiler_ebpf::wire::{Config, Counter, TARGET};

use maps::{CONFIG, COUNTERS, TARGETS};

/// The current task's user memory.
pub struct CurrentTask;

impl UserMemory for CurrentTask {
    #[inline(always)]
    fn read<T: AnyBitPattern>(&self, address: u64) -> Option<T> {
        // SAFETY: the helper checks the address and copies; any bit pattern is a valid T.
        unsafe { bpf_probe_read_user(address as *const T) }.ok()
    }
}

/// Reads kernel memory at a pointer plus offset.
#[inline(always)]
pub fn read_kernel<T: AnyBitPattern>(base: u64, offset: u32) -> Option<T> {
    // SAFETY: the helper checks the address and copies; any bit pattern is a valid T.
    unsafe { bpf_probe_read_kernel((base + u64::from(offset)) as *const T) }.ok()
}

/// The settings, if recording is on.
#[inline(always)]
pub fn active_config() -> Option<&'static Config> {
    CONFIG.get(0).filter(|config| config.active != 0)
}

/// Whether a process is to be recorded.
#[inline(always)]
pub fn in_scope(config: &Config, tgid: u32) -> bool {
    // SAFETY: values are plain words, replaced whole; a torn read is not possible.
    config.only_targets == 0 || unsafe { TARGETS.get(tgid) }.is_some_and(|value| *value == TARGET)
}

/// Adds to one of this CPU's counters.
#[inline(always)]
pub fn count(counter: Counter, by: u64) {
    if let Some(value) = COUNTERS.get_ptr_mut(counter as u32) {
        // SAFETY: a per-CPU slot; an interrupting program of ours on this CPU counts whole, not in between.
        unsafe { *value += by }
    }
}

/// A log line in debugging builds (`cargo xtask ebpf build --bpf-log`); nothing in the shipped object.
#[macro_export]
macro_rules! log_line {
    ($($arg:tt)*) => {
        #[cfg(feature = "bpf-log")]
        aya_log_ebpf::debug!($($arg)*);
    };
}
