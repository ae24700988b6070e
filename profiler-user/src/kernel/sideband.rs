//! The kernel's own records of processes: new mappings, execs, forks, ends.
//!
//! One dummy perf event per CPU carries them, in a ring of its own, so a mapping is known before the first
//! sample that falls into it. Records carry CLOCK_MONOTONIC times, like samples.

mod decode;
mod perf_ring;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use perf_event_open_sys::bindings::{
    PERF_COUNT_SW_DUMMY, PERF_FLAG_FD_CLOEXEC, PERF_SAMPLE_TIME, PERF_TYPE_SOFTWARE,
    perf_event_attr,
};
use rustix::event::epoll;
use tokio::io::unix::AsyncFd;

use super::KernelError;
use perf_ring::PerfRing;

/// Data pages of each CPU's ring: 512 KiB hold some 4,000 mappings.
const RING_PAGES: usize = 128;

/// A mapping that can be executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappingRecord {
    /// First address.
    pub start: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Offset in the file.
    pub file_offset: u64,
    /// Device number as `/proc/PID/maps` shows it.
    pub device: (u32, u32),
    /// Inode; 0 for memory without a file.
    pub inode: u64,
    /// Path as the process sees it, or `[vdso]`, `//anon`.
    pub path: Vec<u8>,
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SidebandEvent {
    /// An executable mapping was made.
    Mapping {
        /// Process.
        pid: u32,
        /// When.
        time_ns: u64,
        /// What.
        mapping: MappingRecord,
    },
    /// A thread changed its name.
    Name {
        /// Process.
        pid: u32,
        /// Thread.
        tid: u32,
        /// When.
        time_ns: u64,
        /// The new name.
        name: Vec<u8>,
        /// Whether it did so by an exec: old mappings and threads are gone.
        exec: bool,
    },
    /// A process or thread was made.
    Fork {
        /// Its process.
        pid: u32,
        /// Its thread id; equal to `pid` for a new process.
        tid: u32,
        /// The process that made it.
        parent: u32,
        /// When.
        time_ns: u64,
    },
    /// A thread ended.
    Exit {
        /// Process.
        pid: u32,
        /// Thread.
        tid: u32,
        /// When.
        time_ns: u64,
    },
    /// The kernel had no room for this many records.
    Lost(u64),
}

impl SidebandEvent {
    /// When it happened, CLOCK_MONOTONIC.
    pub fn time_ns(&self) -> u64 {
        match self {
            Self::Mapping { time_ns, .. }
            | Self::Name { time_ns, .. }
            | Self::Fork { time_ns, .. }
            | Self::Exit { time_ns, .. } => *time_ns,
            Self::Lost(_) => 0,
        }
    }
}

/// The rings of all CPUs.
pub struct Sideband {
    rings: Vec<PerfRing>,
    /// Readable when any ring has something.
    ready: OwnedFd,
}

impl Sideband {
    /// Opens a ring on each CPU; records flow from now on.
    pub fn open(cpus: &[u32]) -> Result<Self, KernelError> {
        let failed = |cpu, source| KernelError::Sideband { cpu, source };
        let ready =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| failed(0, error.into()))?;
        let mut rings = Vec::new();
        for &cpu in cpus {
            let event = open_event(cpu).map_err(|error| failed(cpu, error))?;
            let ring = PerfRing::map(event, RING_PAGES).map_err(|error| failed(cpu, error))?;
            epoll::add(
                &ready,
                &ring,
                epoll::EventData::new_u64(cpu.into()),
                epoll::EventFlags::IN,
            )
            .map_err(|error| failed(cpu, error.into()))?;
            rings.push(ring);
        }
        Ok(Self { rings, ready })
    }

    /// The rings with their readiness, for waiting.
    pub fn watched(self) -> io::Result<AsyncFd<Self>> {
        // SAFETY: the side-band owns its descriptor, always gives the same one, and keeps it open until dropped.
        Ok(unsafe { AsyncFd::register(self) }?)
    }

    /// Takes all waiting records of all CPUs, in order of time.
    pub fn drain(&mut self, events: &mut Vec<SidebandEvent>) {
        let first = events.len();
        for ring in &mut self.rings {
            ring.drain(|record| events.extend(decode::decode(record)));
        }
        events[first..].sort_by_key(SidebandEvent::time_ns);
    }
}

impl AsFd for Sideband {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}

impl AsRawFd for Sideband {
    fn as_raw_fd(&self) -> RawFd {
        self.ready.as_raw_fd()
    }
}

fn open_event(cpu: u32) -> io::Result<OwnedFd> {
    let mut attr = perf_event_attr {
        type_: PERF_TYPE_SOFTWARE,
        size: u32::try_from(size_of::<perf_event_attr>()).unwrap_or(u32::MAX),
        config: PERF_COUNT_SW_DUMMY.into(),
        sample_type: PERF_SAMPLE_TIME.into(),
        // CLOCK_MONOTONIC, as bpf_ktime_get_ns.
        clockid: 1,
        ..perf_event_attr::default()
    };
    attr.set_use_clockid(1);
    attr.set_sample_id_all(1);
    attr.set_mmap(1);
    attr.set_mmap2(1);
    attr.set_comm(1);
    attr.set_comm_exec(1);
    attr.set_task(1);
    // Wake us for every record: a byte is reached by any.
    attr.set_watermark(1);
    attr.__bindgen_anon_2.wakeup_watermark = 1;
    let cpu = i32::try_from(cpu).map_err(io::Error::other)?;
    // SAFETY: the attributes are valid for the call's duration; the kernel checks everything else.
    let fd = unsafe {
        perf_event_open_sys::perf_event_open(&mut attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC.into())
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave us this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
