//! Builds a profile from a recording's messages, one after the other.
//!
//! Knows what each kind of chunk adds; not where its bytes come from, nor what a cut means for the books.

use prost::Message;

use super::check::{self, Checked};
use super::decode::{self, Totals};
use super::format::{self, Kind};
use super::{Window, ids, schema};
use crate::profile::{Accounting, CallStat, Profile, Sample, StackId, ThreadId};

/// What a chunk did.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// More may follow.
    Further,
    /// It closed the recording.
    Closed,
}

/// The accounting and notes as they stood at one moment of the recording.
#[derive(Debug, Clone, Default)]
pub(super) struct Books {
    pub(super) time_ns: u64,
    pub(super) accounting: Accounting,
    pub(super) notes: Vec<String>,
}

/// A profile in the making.
pub(super) struct Loader<F> {
    /// Tables and samples so far. Its accounting holds what was really read.
    pub(super) profile: Profile,
    pub(super) window: Window,
    pub(super) has_session: bool,
    /// The latest books at or before the window's start.
    pub(super) books_before: Books,
    /// The first books at or after the window's end, or the latest.
    pub(super) books_until: Option<Books>,
    /// The latest books.
    pub(super) books_last: Books,
    /// Samples read, also those outside the window.
    pub(super) samples_read: u64,
    /// The latest time of a sample.
    pub(super) latest_ns: u64,
    /// How many samples the end chunk announced.
    pub(super) announced: Option<u64>,
    /// Chunks of kinds that are not known.
    pub(super) skipped: u64,
    /// When the table of calls was taken.
    pub(super) calls_ns: Option<u64>,
    pending_calls: Vec<CallStat>,
    totals: Totals,
    on_sample: F,
}

impl<F: FnMut(&Sample)> Loader<F> {
    pub(super) fn new(window: Window, on_sample: F) -> Self {
        Self {
            profile: Profile::default(),
            window,
            has_session: false,
            books_before: Books::default(),
            books_until: None,
            books_last: Books::default(),
            samples_read: 0,
            latest_ns: 0,
            announced: None,
            skipped: 0,
            calls_ns: None,
            pending_calls: Vec::new(),
            totals: Totals::default(),
            on_sample,
        }
    }

    /// Takes one chunk.
    pub(super) fn take(&mut self, kind: u32, payload: &[u8]) -> Checked<Step> {
        let kind = Kind::from_id(kind);
        if !self.has_session && kind != Some(Kind::Session) {
            return Err("the session does not come first".into());
        }
        let profile = &mut self.profile;
        match kind {
            Some(Kind::Session) => {
                profile.session = decode::session(parse(payload)?)?;
                self.has_session = true;
            }
            Some(Kind::Strings) => decode::strings(&parse(payload)?, profile, &mut self.totals)?,
            Some(Kind::Frames) => decode::frames(&parse(payload)?, profile)?,
            Some(Kind::Stacks) => decode::stacks(&parse(payload)?, profile, &mut self.totals)?,
            Some(Kind::Processes) => decode::processes(&parse(payload)?, profile)?,
            Some(Kind::Threads) => decode::threads(&parse(payload)?, profile, &mut self.totals)?,
            Some(Kind::Samples) => self.samples(&parse(payload)?)?,
            Some(Kind::Calls) => self.calls(parse(payload)?)?,
            Some(Kind::Books) => self.books(parse(payload)?)?,
            Some(Kind::End) => {
                self.announced = Some(parse::<schema::End>(payload)?.samples);
                return Ok(Step::Closed);
            }
            None => self.skipped += 1,
        }
        Ok(Step::Further)
    }

    fn samples(&mut self, message: &schema::Samples) -> Checked {
        let rows = message.time_delta_ns.len();
        check::same_length(&[
            rows,
            message.cpu.len(),
            message.thread.len(),
            message.stack.len(),
            message.gil.len(),
            message.truncation.len(),
        ])?;
        let mut time_ns = 0u64;
        for row in 0..rows {
            time_ns = time_ns.wrapping_add_signed(message.time_delta_ns[row]);
            check::at_most("time of a sample", time_ns, format::MAX_TIME_NS)?;
            let threads = self.profile.threads.len();
            let stacks = self.profile.stacks.len();
            self.sample(Sample {
                time_ns,
                cpu: message.cpu[row],
                thread: ThreadId(check::index("thread", message.thread[row], threads)?),
                stack: StackId(check::index("stack", message.stack[row], stacks)?),
                gil: check::known("GIL state", message.gil[row], ids::gil)?,
                truncation: check::known("truncation", message.truncation[row], ids::truncation)?,
            })?;
        }
        Ok(())
    }

    fn sample(&mut self, mut sample: Sample) -> Checked {
        let keys = self.profile.samples.len();
        check::capped("distinct samples", keys, format::MAX_SAMPLE_KEYS)?;
        self.samples_read += 1;
        self.latest_ns = self.latest_ns.max(sample.time_ns);
        if self.window.contains(sample.time_ns) {
            sample.time_ns -= self.window.from_ns;
            self.profile.add_sample(&sample);
            (self.on_sample)(&sample);
        }
        Ok(())
    }

    fn calls(&mut self, message: schema::Calls) -> Checked {
        check::at_most("time of calls", message.time_ns, format::MAX_TIME_NS)?;
        for row in message.call {
            let call = decode::call(row, &self.profile)?;
            self.pending_calls.push(call);
            check::capped("rows of calls", self.pending_calls.len(), format::MAX_CALLS)?;
        }
        if message.more {
            return Ok(());
        }
        let calls = std::mem::take(&mut self.pending_calls);
        let counts = check::sum(calls.iter().map(|call| call.count));
        let times = check::sum(calls.iter().map(|call| call.total_ns));
        for figure in [counts, times] {
            check::at_most(
                "sum over calls",
                figure.unwrap_or(u64::MAX),
                format::MAX_COUNT,
            )?;
        }
        self.profile.calls = calls;
        self.calls_ns = Some(message.time_ns);
        Ok(())
    }

    fn books(&mut self, message: schema::Books) -> Checked {
        let books = super::books::decode(message)?;
        if books.time_ns <= self.window.from_ns {
            self.books_before = books.clone();
        }
        let reached = |until: &Books| until.time_ns >= self.window.to_ns;
        if !self.books_until.as_ref().is_some_and(reached) {
            self.books_until = Some(books.clone());
        }
        self.books_last = books;
        Ok(())
    }
}

fn parse<M: Message + Default>(payload: &[u8]) -> Checked<M> {
    M::decode(payload).map_err(|error| error.to_string())
}
