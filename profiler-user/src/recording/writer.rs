//! Writing a recording while it grows.
//!
//! A profile's tables only grow, so a flush writes what is new since the last one, in an order in which
//! nothing names what is not yet there: texts, frames, stacks, processes, threads, books, samples. The books
//! stand ahead of the samples they count, so a cut between the two shows as samples missing, never as samples
//! too many. One flush is one `write_all`: killed at any moment, the file is whole up to some chunk.

use std::io::Write;

use super::RecordingError;
use super::chunk::ChunkWriter;
use super::format::{self, Kind};
use super::written::{Written, limit};
use super::{encode, schema};
use crate::profile::{Profile, Sample, Session};

/// The table of calls is written whole, so only at every so many flushes and at the end.
const FLUSHES_PER_CALLS: u64 = 10;

/// Writes one recording.
///
/// Each sample goes into the profile ([`Profile::add_sample`]) and here ([`Writer::push`]); about once a second
/// comes a [`Writer::flush`], at the end [`Writer::finish`]. After an error nothing more can be written: what was
/// flushed before stays readable.
pub struct Writer<W> {
    out: W,
    chunks: ChunkWriter,
    written: Written,
    samples: Vec<Sample>,
    samples_written: u64,
    latest_ns: u64,
    flushes: u64,
    failed: bool,
}

impl<W: Write> Writer<W> {
    /// Begins a recording. Header and session are written at once, so an output that takes nothing is
    /// noticed here.
    pub fn new(mut out: W, session: &Session) -> Result<Self, RecordingError> {
        let mut header = format::MAGIC.to_vec();
        header.extend_from_slice(&format::VERSION.to_le_bytes());
        let mut chunks = ChunkWriter::new(header)?;
        chunks.append(Kind::Session, &encode::session(session))?;
        chunks.send(&mut out)?;
        Ok(Self {
            out,
            chunks,
            written: Written::default(),
            samples: Vec::new(),
            samples_written: 0,
            latest_ns: 0,
            flushes: 0,
            failed: false,
        })
    }

    /// Takes one sample for the next flush.
    pub fn push(&mut self, sample: &Sample) {
        self.samples(std::slice::from_ref(sample));
    }

    /// Takes samples for the next flush. After an error they are dropped: nothing could be done with them.
    pub fn samples(&mut self, samples: &[Sample]) {
        if !self.failed {
            self.samples.extend_from_slice(samples);
        }
    }

    /// Samples that wait for the next flush.
    pub fn buffered(&self) -> usize {
        self.samples.len()
    }

    /// What is written to.
    pub fn get_ref(&self) -> &W {
        &self.out
    }

    /// Writes what is new in the profile, the books so far, and the samples taken since the last flush.
    pub fn flush(&mut self, profile: &Profile) -> Result<(), RecordingError> {
        self.guarded(|writer| {
            writer.advance(profile)?;
            writer.flushes += 1;
            if writer.flushes.is_multiple_of(FLUSHES_PER_CALLS) {
                writer.calls(profile)?;
            }
            Ok(writer.chunks.send(&mut writer.out)?)
        })
    }

    /// Writes the rest and closes the recording; gives back what was written to, for its own closing.
    pub fn finish(mut self, profile: &Profile) -> Result<W, RecordingError> {
        self.guarded(|writer| {
            writer.advance(profile)?;
            writer.calls(profile)?;
            let session = encode::session(&profile.session);
            writer.chunks.append(Kind::Session, &session)?;
            let samples = writer.samples_written;
            writer.chunks.append(Kind::End, &schema::End { samples })?;
            Ok(writer.chunks.send(&mut writer.out)?)
        })?;
        Ok(self.out)
    }

    /// Runs one step that may leave the file half written; after a failure there are no further steps.
    fn guarded(
        &mut self,
        step: impl FnOnce(&mut Self) -> Result<(), RecordingError>,
    ) -> Result<(), RecordingError> {
        if self.failed {
            return Err(RecordingError::Failed);
        }
        self.failed = true;
        step(self)?;
        self.failed = false;
        Ok(())
    }

    /// Collects chunks for tables, books and samples.
    fn advance(&mut self, profile: &Profile) -> Result<(), RecordingError> {
        check_ids(&self.samples, profile)?;
        let keys = profile.samples.len();
        limit("distinct samples", keys, format::MAX_SAMPLE_KEYS)?;
        self.written.bring_up_to_date(profile, &mut self.chunks)?;
        let times = self.samples.iter().map(|sample| sample.time_ns);
        let latest = times.max().unwrap_or(0).max(profile.session.duration_ns);
        self.latest_ns = self.latest_ns.max(latest);
        let books = encode::books(profile, self.latest_ns);
        self.chunks.append(Kind::Books, &books)?;
        for rows in self.samples.chunks(encode::ROWS) {
            self.chunks.append(Kind::Samples, &encode::samples(rows))?;
        }
        self.samples_written += self.samples.len() as u64;
        self.samples.clear();
        Ok(())
    }

    /// Collects chunks for the whole table of calls.
    fn calls(&mut self, profile: &Profile) -> Result<(), RecordingError> {
        limit("rows of calls", profile.calls.len(), format::MAX_CALLS)?;
        let parts = profile.calls.chunks(encode::CALL_ROWS);
        let last = parts.len();
        for (part, rows) in (1..).zip(parts) {
            let message = schema::Calls {
                call: rows.iter().map(encode::call).collect(),
                more: part < last,
                time_ns: self.latest_ns,
            };
            self.chunks.append(Kind::Calls, &message)?;
        }
        Ok(())
    }
}

/// Refuses samples whose thread or stack is not in the profile: a reader would have to.
fn check_ids(samples: &[Sample], profile: &Profile) -> Result<(), RecordingError> {
    let (threads, stacks) = (profile.threads.len(), profile.stacks.len());
    for &Sample { thread, stack, .. } in samples {
        if thread.0 as usize >= threads {
            let (what, id) = ("thread", thread.0);
            return Err(RecordingError::Dangling { what, id });
        }
        if stack.0 as usize >= stacks {
            let (what, id) = ("stack", stack.0);
            return Err(RecordingError::Dangling { what, id });
        }
    }
    Ok(())
}
