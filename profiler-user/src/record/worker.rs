//! The thread that computes.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use super::pipeline::{Batch, Pipeline};
use super::reader::{Interpreters, Reader};
use super::scout::{Scout, ScoutThread, Scouted};
use super::{RecordError, RecordSettings, Scope};
use crate::cuda::LoaderPaths;
use crate::kernel::Kernel;
use crate::kernel::sideband::SidebandEvent;
use crate::profile::Profile;
use crate::recording::{RecordingError, Writer};

/// Batches waiting at most: beyond that, the rings wait in the kernel.
const QUEUE: usize = 64;
/// Events kept back at most while the queue is full: names have been read for them, which the rings cannot do.
const KEPT_BACK: usize = 16384;
/// How long a recording waits at its start for the unwind tables of what runs already.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often what was kept goes to the file.
const TICK: Duration = Duration::from_secs(1);

/// What comes out of a recording: the profile, and the file or why it could not be written.
pub(super) type Done<W> = (Profile, Option<Result<W, RecordingError>>);

/// What the worker is asked to do.
pub(super) enum Task<W: Write> {
    /// Write what is kept from here on with this.
    WriteTo(Box<Writer<W>>),
    /// Handle these events.
    Batch(Batch),
    /// Take the sampling off, and say when that is done.
    Stop(oneshot::Sender<()>),
    /// Look at the clock.
    Tick,
    /// What the scout found, after the last batch.
    Scouted(Scouted),
}

/// Figures for the progress line.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub samples: AtomicU64,
    pub lost: AtomicU64,
    pub own_cpu_ns: AtomicU64,
    pub targets_gone: AtomicBool,
}

/// A running worker.
pub(super) struct Worker<W: Write> {
    pub tasks: mpsc::Sender<Task<W>>,
    pub shared: Arc<Shared>,
    scout: ScoutThread,
    reader: Reader,
    /// What the queue has had no room for.
    waiting: Batch,
    thread: std::thread::JoinHandle<Result<Done<W>, RecordError>>,
}

impl<W: Write + Send + 'static> Worker<W> {
    /// Starts the thread; returns when recording has begun in the kernel.
    pub async fn start(
        kernel: Arc<Mutex<Kernel>>,
        profile: Profile,
        settings: &RecordSettings,
    ) -> Result<Self, RecordError> {
        let settings = settings.clone();
        let interpreters = Interpreters::default();
        let mut scout = Scout::new(
            Arc::clone(&kernel),
            settings.scope.targets(),
            settings.unwind_tables,
            interpreters.clone(),
        )?;
        // A command gets our environment.
        let library_path = matches!(settings.scope, Scope::Command(_))
            .then(|| std::env::var_os("LD_LIBRARY_PATH"))
            .flatten();
        scout.expect(&LoaderPaths { library_path });
        scout.scan(PATIENCE);
        let scout = scout.start()?;
        let (tasks, inbox) = mpsc::channel(QUEUE);
        let (begun, has_begun) = oneshot::channel();
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("wholestack-name".to_owned())
            .spawn(move || {
                let pipeline = Pipeline::start(kernel, profile, &settings)?;
                // Nobody waiting means that the recording was given up meanwhile.
                let _ = begun.send(());
                work(pipeline, inbox, &theirs)
            })
            .map_err(|source| RecordError::System {
                what: "cannot start a thread",
                source,
            })?;
        let worker = Self {
            tasks,
            shared,
            scout,
            reader: Reader::new(interpreters),
            waiting: Batch::default(),
            thread,
        };
        if has_begun.await.is_err() {
            // It ended before it began: its error says why.
            return Err(worker.join().err().unwrap_or(RecordError::Worker));
        }
        Ok(worker)
    }

    /// Has everything from here on written; to be called before the first batch.
    pub async fn write_to(&self, writer: Writer<W>) {
        // A thread that has ended is found out at the next batch.
        let _ = self.tasks.send(Task::WriteTo(Box::new(writer))).await;
    }

    /// Shows process records to the scout. Never waits.
    pub fn show(&self, records: &[SidebandEvent]) {
        self.scout.show(records);
    }

    /// Whether a batch would have to wait.
    pub fn is_full(&self) -> bool {
        self.waiting.events.len() >= KEPT_BACK
            && self.tasks.capacity() == 0
            && !self.tasks.is_closed()
    }

    /// Waits until there is room in the queue, or nobody is left to take anything from it.
    pub async fn room(&self) {
        // Whatever it is, the next batch finds it out.
        let _ = self.tasks.reserve().await;
    }

    /// Hands a batch over to the queue or, while that is full, to what waits for it. False if the thread has ended, which [`Worker::finish`] then explains.
    pub async fn handle(&mut self, mut batch: Batch) -> bool {
        self.reader.read(&mut batch);
        self.waiting.append(batch);
        if self.waiting.events.len() >= KEPT_BACK {
            return self.hand_over().await;
        }
        if self.waiting.is_empty() {
            return true;
        }
        match self.tasks.try_reserve() {
            Ok(place) => {
                place.send(Task::Batch(std::mem::take(&mut self.waiting)));
                true
            }
            Err(full_or_closed) => matches!(full_or_closed, TrySendError::Full(())),
        }
    }

    /// Hands over what waits, as soon as there is room.
    async fn hand_over(&mut self) -> bool {
        let waiting = std::mem::take(&mut self.waiting);
        waiting.is_empty() || self.tasks.send(Task::Batch(waiting)).await.is_ok()
    }

    /// Has the thread look at the clock, unless it is busy anyway.
    pub fn tick(&self) {
        // A full queue means that it is busy, a closed one is found out at the next batch.
        let _ = self.tasks.try_send(Task::Tick);
    }

    /// Takes the sampling off; returns when that is done.
    pub async fn stop(&self) {
        let (done, is_done) = oneshot::channel();
        if self.tasks.send(Task::Stop(done)).await.is_ok() {
            // A thread that failed is found out when it is joined.
            let _ = is_done.await;
        }
    }

    /// Waits for both threads to handle everything they were given.
    pub async fn finish(mut self) -> Result<Done<W>, RecordError> {
        // A thread that has ended is found out when it is joined.
        let _ = self.hand_over().await;
        let scouted = Scouted {
            codes: self.reader.losses(),
            ..self.scout.finish()
        };
        let told = self.tasks.send(Task::Scouted(scouted)).await;
        drop(self.tasks);
        let result = self.thread.join().unwrap_or(Err(RecordError::Worker));
        if told.is_err() && result.is_ok() {
            Err(RecordError::Worker)
        } else {
            result
        }
    }

    fn join(self) -> Result<Done<W>, RecordError> {
        drop(self.tasks);
        self.thread.join().unwrap_or(Err(RecordError::Worker))
    }
}

fn work<W: Write>(
    mut pipeline: Pipeline<W>,
    mut inbox: mpsc::Receiver<Task<W>>,
    shared: &Shared,
) -> Result<Done<W>, RecordError> {
    let mut ticked = Instant::now();
    let mut all_scouted = Scouted::default();
    while let Some(task) = inbox.blocking_recv() {
        match task {
            Task::WriteTo(writer) => pipeline.write_to(*writer),
            Task::Batch(batch) => pipeline.handle(batch)?,
            Task::Stop(done) => {
                pipeline.stop()?;
                let _ = done.send(());
            }
            Task::Tick => {
                let gone = pipeline.targets_gone();
                shared.targets_gone.store(gone, Ordering::Relaxed);
            }
            Task::Scouted(scouted) => all_scouted = scouted,
        }
        if ticked.elapsed() >= TICK {
            ticked = Instant::now();
            pipeline.tick();
        }
        share(&pipeline, shared);
    }
    Ok(pipeline.finish(all_scouted))
}

fn share<W: Write>(pipeline: &Pipeline<W>, shared: &Shared) {
    let books = &pipeline.profile().accounting;
    shared.samples.store(books.kept(), Ordering::Relaxed);
    shared.lost.store(books.lost_total(), Ordering::Relaxed);
    shared.own_cpu_ns.store(books.own_cpu_ns, Ordering::Relaxed);
}
