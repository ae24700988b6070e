//! Loading, attaching, and the tables shared with the kernel side.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

use aya::maps::{Array, HashMap, MapData, PerCpuArray, ProgramArray, RingBuf};
use aya::programs::links::Link as _;
use aya::programs::perf_event::{
    HardwareEvent, PerfEventConfig, PerfEventLinkId, PerfEventScope, SamplePolicy, SoftwareEvent,
};
use aya::programs::uprobe::{UProbeAttachLocation, UProbeAttachPoint, UProbeScope};
use aya::programs::{PerfEvent, ProgramError, RawTracePoint, UProbe};
use aya::{Ebpf, EbpfLoader, VerifierLogLevel};
use bytemuck::{bytes_of, pod_read_unaligned};
use profiler_ebpf::wire::{
    COUNTERS, CallKey, CallStats, Config, Counter, PythonInfo, TARGET, TARGET_CHILDREN,
};
use tokio::io::unix::AsyncFd;

use super::arena::Arena;
use super::multi::{CallSite, MultiProbes};
use super::ring::RawEvent;
use super::{KernelError, object, offsets};
use crate::profile::Clock;

/// What the kernel side needs to know before it starts.
#[derive(Debug, Clone, Copy)]
pub struct KernelSettings<'a> {
    /// Size of the ring to user space in bytes: a power of two, at least a page.
    pub ring_bytes: u32,
    /// Only processes named by [`Kernel::watch`] (and their children), or the whole machine.
    pub only_targets: bool,
    /// The object to load; [`super::kernel_object`] unless debugging.
    pub object: &'a [u8],
}

/// The loaded kernel side. Dropping it detaches and unloads everything.
pub struct Kernel {
    pub(super) ebpf: Ebpf,
    config: Config,
    sampling: Vec<PerfEventLinkId>,
    stages: Option<ProgramArray<MapData>>,
    /// For many probes at once, where the kernel can do that.
    multi: Option<MultiProbes>,
    /// The probes put on that way.
    multi_links: Vec<OwnedFd>,
    pub(super) arena: Arena,
}

impl Kernel {
    /// Checks and loads the object and attaches the process events. Nothing is recorded yet.
    pub fn load(settings: KernelSettings<'_>) -> Result<(Self, EventRing), KernelError> {
        object::check_abi(settings.object)?;
        let mut config = offsets::task_offsets()?;
        config.only_targets = u32::from(settings.only_targets);
        let mut ebpf = EbpfLoader::new()
            .verifier_log_level(VerifierLogLevel::STATS)
            .map_max_entries("EVENTS", settings.ring_bytes)
            .load(settings.object)
            .map_err(|error| KernelError::Load(with_causes(&error)))?;
        let ring = ebpf
            .take_map("EVENTS")
            .ok_or_else(|| missing_map("EVENTS"))?;
        let ring = RingBuf::try_from(ring).map_err(|error| map_error("EVENTS", &error))?;
        let mut kernel = Self {
            ebpf,
            config,
            sampling: Vec::new(),
            stages: None,
            multi: None,
            multi_links: Vec::new(),
            arena: Arena::default(),
        };
        kernel.write_config()?;
        kernel.load_programs()?;
        kernel.multi = MultiProbes::load(settings.object, &kernel.ebpf)?;
        Ok((kernel, EventRing(ring)))
    }

    fn load_programs(&mut self) -> Result<(), KernelError> {
        for name in ["sample", "walk_native", "walk_python"] {
            let program = self.program::<PerfEvent>(name)?;
            loaded(|| program.load()).map_err(|error| refused(name, &error))?;
        }
        self.set_stages()?;
        for name in ["cuda_enter", "cuda_exit"] {
            let program = self.program::<UProbe>(name)?;
            loaded(|| program.load()).map_err(|error| refused(name, &error))?;
        }
        for (name, tracepoint) in [
            ("task_fork", "sched_process_fork"),
            ("task_exec", "sched_process_exec"),
            ("task_exit", "sched_process_exit"),
        ] {
            let program = self.program::<RawTracePoint>(name)?;
            loaded(|| program.load()).map_err(|error| refused(name, &error))?;
            program
                .attach(tracepoint)
                .map_err(|error| not_attached(tracepoint, &error))?;
        }
        Ok(())
    }

    /// The sampler's later stages, in the order the kernel side numbers them.
    fn set_stages(&mut self) -> Result<(), KernelError> {
        let map = self
            .ebpf
            .take_map("STAGES")
            .ok_or_else(|| missing_map("STAGES"))?;
        let mut stages =
            ProgramArray::try_from(map).map_err(|error| map_error("STAGES", &error))?;
        for (index, name) in (0u32..).zip(["walk_native", "walk_python"]) {
            let program = self.program::<PerfEvent>(name)?;
            let fd = program.fd().map_err(|error| refused(name, &error))?;
            stages
                .set(index, fd, 0)
                .map_err(|error| map_error("STAGES", &error))?;
        }
        // The kernel empties a program array that no process holds.
        self.stages = Some(stages);
        Ok(())
    }

    /// Puts the sampling clock on each CPU: hardware cycles where they exist, else the cpu-clock timer.
    pub fn attach_sampling(
        &mut self,
        cpus: &[u32],
        frequency_hz: u32,
    ) -> Result<Clock, KernelError> {
        let cycles = PerfEventConfig::Hardware(HardwareEvent::CpuCycles);
        let timer = PerfEventConfig::Software(SoftwareEvent::CpuClock);
        let mut clock = Clock::Cycles;
        for &cpu in cpus {
            let policy = SamplePolicy::Frequency(frequency_hz.into());
            let scope = PerfEventScope::AllProcessesOneCpu { cpu };
            let program = self.program::<PerfEvent>("sample")?;
            let link = match clock {
                Clock::Cycles => program.attach(cycles, scope, policy, false),
                Clock::CpuClock => program.attach(timer, scope, policy, false),
            };
            let link = match link {
                Err(_) if clock == Clock::Cycles && self.sampling.is_empty() => {
                    clock = Clock::CpuClock;
                    let program = self.program::<PerfEvent>("sample")?;
                    program.attach(timer, scope, policy, false)
                }
                other => other,
            };
            let link = link.map_err(|error| {
                not_attached(&format!("the sampling clock on CPU {cpu}"), &error)
            })?;
            self.sampling.push(link);
        }
        Ok(clock)
    }

    /// Takes the sampling clock off again.
    pub fn detach_sampling(&mut self) -> Result<(), KernelError> {
        for link in std::mem::take(&mut self.sampling) {
            let link = self.program::<PerfEvent>("sample")?.take_link(link);
            let link = link.map_err(|error| not_attached("the sampling clock", &error))?;
            link.detach()
                .map_err(|error| not_attached("the sampling clock", &error))?;
        }
        Ok(())
    }

    /// Puts a pair of probes on each of these functions of a file: its entry, and its return. Returns how many are
    /// left out: where each probe goes on and off by itself, only the common ones get one.
    pub fn attach_calls(&mut self, file: &Path, sites: &[CallSite]) -> Result<usize, KernelError> {
        if self.multi.is_some() {
            return self.attach_together(file, sites).map(|()| 0);
        }
        let mut failed = Ok(());
        for site in sites.iter().filter(|site| site.common) {
            failed = failed.and(self.attach_call(file, *site));
        }
        let left_out = sites.iter().filter(|site| !site.common).count();
        failed.map(|()| left_out)
    }

    /// One link for all; if one place cannot be probed, the halves, down to that place.
    fn attach_together(&mut self, file: &Path, sites: &[CallSite]) -> Result<(), KernelError> {
        let Some(multi) = &self.multi else {
            return Ok(());
        };
        let error = match multi.attach(file, sites) {
            Ok(links) => {
                self.multi_links.extend(links);
                return Ok(());
            }
            Err(error) => error,
        };
        tracing::debug!("{} probes on {}: {error}", sites.len(), file.display());
        match sites {
            [] => Ok(()),
            [site] => self.attach_call(file, *site),
            _ => {
                let (first, second) = sites.split_at(sites.len() / 2);
                let first = self.attach_together(file, first);
                self.attach_together(file, second).and(first)
            }
        }
    }

    fn attach_call(&mut self, file: &Path, site: CallSite) -> Result<(), KernelError> {
        for name in ["cuda_exit", "cuda_enter"] {
            let point = UProbeAttachPoint {
                location: UProbeAttachLocation::AbsoluteOffset(site.file_offset),
                cookie: Some(site.cookie.0),
            };
            self.program::<UProbe>(name)?
                .attach(point, file, UProbeScope::AllProcesses)
                .map_err(|error| not_attached(&format!("{name} in {}", file.display()), &error))?;
        }
        Ok(())
    }

    /// Starts or stops recording in every program at once.
    pub fn set_active(&mut self, active: bool) -> Result<(), KernelError> {
        self.config.active = u32::from(active);
        self.write_config()
    }

    fn write_config(&mut self) -> Result<(), KernelError> {
        let map = self
            .ebpf
            .map_mut("CONFIG")
            .ok_or_else(|| missing_map("CONFIG"))?;
        let mut map: Array<_, [u8; size_of::<Config>()]> =
            Array::try_from(map).map_err(|error| map_error("CONFIG", &error))?;
        map.set(0, bytes_array(&self.config), 0)
            .map_err(|error| map_error("CONFIG", &error))
    }

    /// Records this process and every child it makes from now on.
    pub fn watch(&mut self, pid: u32) -> Result<(), KernelError> {
        self.insert("TARGETS", pid, TARGET.to_ne_bytes())
    }

    /// Records the children this process makes from now on, but not itself.
    pub fn watch_children(&mut self, pid: u32) -> Result<(), KernelError> {
        self.insert("TARGETS", pid, TARGET_CHILDREN.to_ne_bytes())
    }

    /// Forgets a process that ended or need not be watched.
    pub fn unwatch(&mut self, pid: u32) {
        self.remove::<4>("TARGETS", pid);
    }

    /// The processes watched now, children added by the kernel side included.
    pub fn watched(&self) -> Vec<u32> {
        let Some(map) = self.ebpf.map("TARGETS") else {
            return Vec::new();
        };
        let Ok(map) = HashMap::<_, u32, [u8; 4]>::try_from(map) else {
            return Vec::new();
        };
        map.iter()
            .filter_map(Result::ok)
            .filter(|(_, value)| u32::from_ne_bytes(*value) == TARGET)
            .map(|(pid, _)| pid)
            .collect()
    }

    /// Tells the kernel side how to find the interpreter of a process.
    pub fn set_python(&mut self, pid: u32, info: &PythonInfo) -> Result<(), KernelError> {
        self.insert::<{ size_of::<PythonInfo>() }>("PYTHON", pid, bytes_array(info))
    }

    /// Takes that back.
    pub fn forget_python(&mut self, pid: u32) {
        self.remove::<{ size_of::<PythonInfo>() }>("PYTHON", pid);
    }

    /// The kernel side's counters, summed over CPUs.
    pub fn counters(&self) -> Result<Counters, KernelError> {
        let map = self
            .ebpf
            .map("COUNTERS")
            .ok_or_else(|| missing_map("COUNTERS"))?;
        let map: PerCpuArray<_, u64> =
            PerCpuArray::try_from(map).map_err(|error| map_error("COUNTERS", &error))?;
        let mut sums = [0; COUNTERS];
        for (index, sum) in (0u32..).zip(&mut sums) {
            let values = map
                .get(&index, 0)
                .map_err(|error| map_error("COUNTERS", &error))?;
            *sum = values.iter().sum();
        }
        Ok(Counters(sums))
    }

    /// The figures of all driver calls.
    pub fn calls(&self) -> Result<Vec<(CallKey, CallStats)>, KernelError> {
        let map = self.ebpf.map("CALLS").ok_or_else(|| missing_map("CALLS"))?;
        let map: HashMap<_, [u8; size_of::<CallKey>()], [u8; size_of::<CallStats>()]> =
            HashMap::try_from(map).map_err(|error| map_error("CALLS", &error))?;
        map.iter()
            .map(|entry| {
                let (key, stats) = entry.map_err(|error| map_error("CALLS", &error))?;
                Ok((pod_read_unaligned(&key), pod_read_unaligned(&stats)))
            })
            .collect()
    }

    /// How often calls returned which error: the key's code.
    pub fn call_errors(&self) -> Result<Vec<(CallKey, u64)>, KernelError> {
        let name = "CALL_ERRORS";
        let map = self.ebpf.map(name).ok_or_else(|| missing_map(name))?;
        let map: HashMap<_, [u8; size_of::<CallKey>()], u64> =
            HashMap::try_from(map).map_err(|error| map_error(name, &error))?;
        map.iter()
            .map(|entry| {
                let (key, count) = entry.map_err(|error| map_error(name, &error))?;
                Ok((pod_read_unaligned(&key), count))
            })
            .collect()
    }

    fn insert<const N: usize>(
        &mut self,
        name: &'static str,
        pid: u32,
        value: [u8; N],
    ) -> Result<(), KernelError> {
        let map = self.ebpf.map_mut(name).ok_or_else(|| missing_map(name))?;
        let mut map: HashMap<_, u32, [u8; N]> =
            HashMap::try_from(map).map_err(|error| map_error(name, &error))?;
        map.insert(pid, value, 0)
            .map_err(|error| map_error(name, &error))
    }

    pub(super) fn remove<const N: usize>(&mut self, name: &'static str, pid: u32) {
        let Some(map) = self.ebpf.map_mut(name) else {
            return;
        };
        if let Ok(mut map) = HashMap::<_, u32, [u8; N]>::try_from(map) {
            // An entry that is not there is what was wanted.
            let _ = map.remove(&pid);
        }
    }

    fn program<'p, P>(&'p mut self, name: &str) -> Result<&'p mut P, KernelError>
    where
        &'p mut P: TryFrom<&'p mut aya::programs::Program>,
    {
        self.ebpf
            .program_mut(name)
            .and_then(|program| program.try_into().ok())
            .ok_or_else(|| {
                KernelError::WrongObject(format!("it has no program `{name}` of the right kind"))
            })
    }

    /// Lets the kernel side's log lines through (debugging objects only). What is returned passes on those that
    /// wait, to the log, and is to be called often.
    #[cfg(feature = "bpf-log")]
    pub fn attach_log(&mut self) -> Result<impl FnMut() + use<>, KernelError> {
        let mut logger = aya_log::EbpfLogger::init(&mut self.ebpf)
            .map_err(|error| KernelError::WrongObject(format!("no log lines: {error}")))?;
        Ok(move || logger.flush())
    }
}

/// The kernel side's counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters([u64; COUNTERS]);

impl Counters {
    /// One counter.
    pub fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }
}

/// The ring of samples and thread ends.
pub struct EventRing(RingBuf<MapData>);

impl EventRing {
    /// The ring with its readiness, for waiting.
    pub fn watched(self) -> io::Result<AsyncFd<Self>> {
        // SAFETY: the ring owns its descriptor, always gives the same one, and keeps it open until dropped.
        Ok(unsafe { AsyncFd::register(self) }?)
    }

    /// Decodes at most `limit` waiting records, oldest first.
    pub fn drain(&mut self, events: &mut Vec<RawEvent>, limit: usize) {
        for _ in 0..limit {
            match self.0.next() {
                Some(record) => events.push(RawEvent::decode(&record)),
                None => break,
            }
        }
    }
}

impl AsFd for EventRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for EventRing {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// The CPUs that are online.
pub fn online_cpus() -> Result<Vec<u32>, KernelError> {
    aya::util::online_cpus().map_err(|(path, source): (&str, io::Error)| KernelError::Cpus {
        path: path.to_owned(),
        source,
    })
}

/// A value as the byte array aya stores.
pub(super) fn bytes_array<T: bytemuck::NoUninit, const N: usize>(value: &T) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(bytes_of(value));
    bytes
}

pub(super) fn missing_map(name: &'static str) -> KernelError {
    KernelError::WrongObject(format!("it has no map `{name}`"))
}

pub(super) fn map_error(map: &'static str, error: &dyn std::error::Error) -> KernelError {
    KernelError::Map {
        map,
        reason: with_causes(error),
    }
}

/// Loads, again if need be: the verifier gives up (EAGAIN) when a signal comes in.
fn loaded(load: impl FnMut() -> Result<(), ProgramError>) -> Result<(), ProgramError> {
    retried(load, |error| {
        matches!(error, ProgramError::LoadError { io_error, .. }
            if io_error.kind() == io::ErrorKind::WouldBlock)
    })
}

/// Tries again what a signal has interrupted.
pub(super) fn retried<T, E>(
    mut attempt: impl FnMut() -> Result<T, E>,
    is_interrupted: impl Fn(&E) -> bool,
) -> Result<T, E> {
    /// As many signals as a user sends in the half second of loading.
    const TRIES: usize = 10;
    for _ in 1..TRIES {
        match attempt() {
            Err(error) if is_interrupted(&error) => {}
            other => return other,
        }
    }
    attempt()
}

fn refused(program: &str, error: &dyn std::error::Error) -> KernelError {
    KernelError::Load(format!("{program}: {}", with_causes(error)))
}

fn not_attached(what: &str, error: &dyn std::error::Error) -> KernelError {
    KernelError::Attach {
        what: what.to_owned(),
        reason: with_causes(error),
    }
}

/// An error and everything behind it, in one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
