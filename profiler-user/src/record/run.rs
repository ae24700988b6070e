//! The event loop of a recording.

use std::io::Write;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::io::unix::AsyncFd;
use tokio::process::Child;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::pipeline::Batch;
use super::priority::Urgent;
use super::reader::Event;
use super::worker::Worker;
use super::{RecordError, RecordSettings, Scope, command};
use crate::kernel::sideband::{Sideband, SidebandEvent};
use crate::kernel::{
    EventRing, Kernel, KernelSettings, kernel_object, max_frequency_hz, missing_rights, online_cpus,
};
use crate::process::{children_of, exists};
use crate::profile::{Profile, Session};
use crate::recording::{RecordingError, Writer};

/// Records taken from the ring at once.
const BATCH_EVENTS: usize = 4096;
/// Process records taken ahead at most; further ones wait in the kernel, which says how many it lost.
const MAX_AHEAD: usize = 65536;
/// The rings are looked at this often even if nothing wakes us.
const DRAIN_EVERY: Duration = Duration::from_millis(100);

/// Why a recording ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The time asked for was over.
    Duration,
    /// A signal: Ctrl-C, SIGTERM or SIGHUP.
    Signal,
    /// The command ended, with this exit code if it was not killed.
    Command(Option<i32>),
    /// No watched process was left.
    TargetsGone,
    /// It could not go on; the recording's own error says why.
    Failed,
}

/// Figures for people who wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Since recording began.
    pub elapsed: Duration,
    /// Samples kept.
    pub samples: u64,
    /// Samples lost.
    pub lost: u64,
    /// CPU time of wholestack itself.
    pub own_cpu: Duration,
}

/// A finished recording.
pub struct Recorded<W> {
    /// What was recorded.
    pub profile: Profile,
    /// Where it was written to, or why that failed; `None` if no file was asked for.
    pub out: Option<Result<W, RecordingError>>,
    /// Why it ended.
    pub ended: Ended,
    /// The command's pid, if it goes on.
    pub command_left: Option<u32>,
    /// The kernel side. Taking its probes off can take seconds, a tenth for each: drop it when the results
    /// have been shown.
    pub kernel: Arc<Mutex<Kernel>>,
}

/// Makes a recording. `writer` turns the session into the file's writer, if there is a file; `started` is
/// called when recording has begun, `progress` about twice a second from then on.
pub async fn record<W: Write + Send + 'static>(
    settings: &RecordSettings,
    writer: impl FnOnce(&Session) -> Result<Option<Writer<W>>, RecordError>,
    started: impl FnOnce(),
    mut progress: impl FnMut(Progress),
) -> Result<Recorded<W>, RecordError> {
    let (scope, what) = check(settings)?;
    let mut signals = Signals::new()?;
    let cpus = online_cpus()?;
    let (mut kernel, ring) = Kernel::load(KernelSettings {
        ring_bytes: settings.ring_bytes,
        only_targets: scope != Scope::Machine,
        object: settings.debug_object.as_deref().unwrap_or(kernel_object()),
    })?;
    #[cfg(feature = "bpf-log")]
    let mut log = settings
        .debug_object
        .is_some()
        .then(|| kernel.attach_log())
        .transpose()?;
    let sideband = Sideband::open(&cpus)?;
    let clock = kernel.attach_sampling(&cpus, settings.frequency_hz)?;
    let session = Session {
        clock,
        cpus: u32::try_from(cpus.len()).unwrap_or(u32::MAX),
        frequency_hz: settings.frequency_hz,
        scope: what,
        ..describe_host()
    };
    let profile = Profile {
        session: session.clone(),
        ..Profile::default()
    };
    let kernel = Arc::new(Mutex::new(kernel));
    let mut worker = Worker::start(Arc::clone(&kernel), profile, settings).await?;
    let begun = Instant::now();
    let mut rings = Rings::new(ring, sideband)?;
    // Told to stop before it began: nothing is started any more.
    let told_to_stop = tokio::select! {
        biased;
        () = signals.any() => true,
        () = std::future::ready(()) => false,
    };
    let mut child = match &scope {
        Scope::Command(line) if !told_to_stop => Some(command::start(line)?),
        Scope::Command(_) | Scope::Machine | Scope::Pids(_) => None,
    };
    // Only now: a command that could not be started leaves no file behind.
    if let Some(writer) = writer(&session)? {
        worker.write_to(writer).await;
    }
    // After the command was started, which is no more urgent than anything else.
    let _urgent = Urgent::begin();
    started();

    let mut tick = every(DRAIN_EVERY);
    let mut ticks = 0u32;
    let ended = loop {
        if told_to_stop {
            break Ended::Signal;
        }
        let left = settings
            .duration
            .map(|duration| duration.saturating_sub(begun.elapsed()));
        tokio::select! {
            () = signals.any() => break Ended::Signal,
            code = exit_of(child.as_mut()) => break Ended::Command(code),
            () = sleep_for(left) => break Ended::Duration,
            ready = rings.ready() => ready?,
            () = worker.room(), if rings.behind => {}
            _ = tick.tick() => {
                ticks = ticks.wrapping_add(1);
                #[cfg(feature = "bpf-log")]
                if let Some(pass_on) = &mut log {
                    pass_on();
                }
                if ticks.is_multiple_of(5) {
                    worker.tick();
                    let shared = &worker.shared;
                    progress(Progress {
                        elapsed: begun.elapsed(),
                        samples: shared.samples.load(Ordering::Relaxed),
                        lost: shared.lost.load(Ordering::Relaxed),
                        own_cpu: Duration::from_nanos(shared.own_cpu_ns.load(Ordering::Relaxed)),
                    });
                }
            }
        }
        if !rings.pass_on(&mut worker, false).await {
            break Ended::Failed;
        }
        if matches!(scope, Scope::Pids(_)) && worker.shared.targets_gone.load(Ordering::Relaxed) {
            break Ended::TargetsGone;
        }
    };
    worker.stop().await;
    rings.pass_on(&mut worker, true).await;
    let (profile, out) = worker.finish().await?;
    Ok(Recorded {
        profile,
        out,
        ended,
        command_left: child.as_ref().and_then(Child::id),
        kernel,
    })
}

/// Refuses to go on without the rights that recording needs.
pub fn check_rights() -> Result<(), RecordError> {
    let missing = missing_rights();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(RecordError::MissingRights(missing))
    }
}

/// Refuses what cannot be done, before anything is loaded. Returns the scope with children of pids
/// resolved, and its description.
fn check(settings: &RecordSettings) -> Result<(Scope, String), RecordError> {
    check_rights()?;
    let limit = max_frequency_hz().unwrap_or(u32::MAX);
    if settings.frequency_hz == 0 || settings.frequency_hz > limit {
        return Err(RecordError::Frequency {
            asked: settings.frequency_hz,
            limit,
        });
    }
    match &settings.scope {
        Scope::Machine => Ok((Scope::Machine, "whole machine".to_owned())),
        Scope::Command(line) => {
            command::find(line)?;
            let words: Vec<_> = line.iter().map(|word| word.to_string_lossy()).collect();
            Ok((
                settings.scope.clone(),
                format!("command: {}", words.join(" ")),
            ))
        }
        Scope::Pids(pids) => {
            if let Some(missing) = pids.iter().find(|pid| !exists(**pid)) {
                return Err(RecordError::NoProcess(*missing));
            }
            let mut family: Vec<u32> = pids.iter().flat_map(|pid| children_of(*pid)).collect();
            family.sort_unstable();
            family.dedup();
            let list: Vec<String> = pids.iter().map(u32::to_string).collect();
            let noun = if pids.len() == 1 { "pid" } else { "pids" };
            Ok((
                Scope::Pids(family),
                format!("{noun} {} and children", list.join(", ")),
            ))
        }
    }
}

fn describe_host() -> Session {
    let host = rustix::system::uname();
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Session {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        host: host.nodename().to_string_lossy().into_owned(),
        kernel: host.release().to_string_lossy().into_owned(),
        started_unix_ns: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX),
        ..Session::default()
    }
}

/// Both rings, and when they have something.
struct Rings {
    events: AsyncFd<EventRing>,
    sideband: AsyncFd<Sideband>,
    /// Process records taken ahead of the samples that come with them.
    ahead: Vec<SidebandEvent>,
    /// Samples wait in the kernel for room in the queue.
    behind: bool,
}

impl Rings {
    fn new(events: EventRing, sideband: Sideband) -> Result<Self, RecordError> {
        let failed = |source| RecordError::System {
            what: "cannot wait for events",
            source,
        };
        Ok(Self {
            events: events.watched().map_err(failed)?,
            sideband: sideband.watched().map_err(failed)?,
            ahead: Vec::new(),
            behind: false,
        })
    }

    /// Waits until either has something.
    async fn ready(&mut self) -> Result<(), RecordError> {
        let failed = |source| RecordError::System {
            what: "cannot wait for events",
            source,
        };
        tokio::select! {
            guard = self.events.readable() => guard.map_err(failed)?.clear_ready(),
            guard = self.sideband.readable() => guard.map_err(failed)?.clear_ready(),
        }
        Ok(())
    }

    /// Passes on what waits: all of it if asked, else a batch or so. Samples are taken first: then every
    /// process record older than one of them is taken with it, or was before. While the queue is full, samples
    /// wait in the kernel; process records go to the scout all the same.
    /// False if nobody takes it any more.
    async fn pass_on<W: Write + Send + 'static>(
        &mut self,
        worker: &mut Worker<W>,
        all: bool,
    ) -> bool {
        loop {
            self.behind = !all && worker.is_full();
            if self.behind {
                self.look_ahead(worker);
                return true;
            }
            let mut batch = Batch::default();
            let mut events = Vec::new();
            self.events.get_mut().drain(&mut events, BATCH_EVENTS);
            batch.events.extend(events.into_iter().map(Event::from));
            self.look_ahead(worker);
            batch.sideband = std::mem::take(&mut self.ahead);
            batch.sideband.sort_by_key(SidebandEvent::time_ns);
            let full = batch.events.len() == BATCH_EVENTS;
            if !worker.handle(batch).await {
                return false;
            }
            if !full {
                return true;
            }
        }
    }

    /// Takes process records and shows them to the scout.
    fn look_ahead<W: Write + Send + 'static>(&mut self, worker: &Worker<W>) {
        if self.ahead.len() < MAX_AHEAD {
            let seen = self.ahead.len();
            self.sideband.get_mut().drain(&mut self.ahead);
            worker.show(&self.ahead[seen..]);
        }
    }
}

/// The signals that end a recording.
struct Signals([Signal; 3]);

impl Signals {
    fn new() -> Result<Self, RecordError> {
        let listen = |kind| {
            signal(kind).map_err(|source| RecordError::System {
                what: "cannot listen for signals",
                source,
            })
        };
        Ok(Self([
            listen(SignalKind::interrupt())?,
            listen(SignalKind::terminate())?,
            listen(SignalKind::hangup())?,
        ]))
    }

    async fn any(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

async fn exit_of(child: Option<&mut Child>) -> Option<i32> {
    match child {
        Some(child) => child.wait().await.ok().and_then(|status| status.code()),
        None => std::future::pending().await,
    }
}

async fn sleep_for(left: Option<Duration>) {
    match left {
        Some(left) => tokio::time::sleep(left).await,
        None => std::future::pending().await,
    }
}

fn every(period: Duration) -> Interval {
    let mut interval = interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
