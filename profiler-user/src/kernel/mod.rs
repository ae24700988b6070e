//! The only room that knows aya, perf events and the kernel's structures.
//!
//! It checks rights, loads and attaches the committed object, and hands out raw events: samples and
//! thread ends from the BPF ring ([`ring`]), mappings and process events from the kernel's perf side-band
//! ([`sideband`]). It names nothing and interprets nothing.

mod arena;
mod as_user;
mod error;
mod load;
mod multi;
mod object;
mod offsets;
mod rights;
pub mod ring;
mod run_time;
pub mod sideband;
mod words;

pub use arena::SharedMemory;
pub use as_user::run_as;
pub use error::KernelError;
pub use load::{Counters, EventRing, Kernel, KernelSettings, online_cpus};
pub use multi::CallSite;
pub use object::kernel_object;
pub use rights::{Right, missing_rights};
pub use run_time::{RunTime, RunTimeCounting};

/// The kernel's ceiling for samples per second and CPU (`kernel.perf_event_max_sample_rate`).
pub fn max_frequency_hz() -> Option<u32> {
    let text = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate").ok()?;
    text.trim().parse().ok()
}

/// CLOCK_MONOTONIC now: the clock of every time stamp that comes from the kernel side.
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}
