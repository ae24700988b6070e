//! Which of a profile's tables are already in the file, and the chunks that bring it up to date.
//!
//! Texts, frames and stacks only grow: a number each. Processes and threads may change after they were written
//! (a name, CPU time, the end): a copy of what was written, compared at each flush.

use super::RecordingError;
use super::chunk::ChunkWriter;
use super::format::{self, Kind};
use super::{encode, schema};
use crate::profile::{Process, Profile, Thread};

/// The state of the file's tables.
pub(super) struct Written {
    strings: usize,
    string_bytes: usize,
    frames: usize,
    stacks: usize,
    stack_frames: usize,
    processes: Vec<Process>,
    threads: Vec<Thread>,
}

impl Default for Written {
    /// Nothing yet; the empty text is never written, since it always has id 0.
    fn default() -> Self {
        Self {
            strings: 1,
            string_bytes: 0,
            frames: 0,
            stacks: 0,
            stack_frames: 0,
            processes: Vec::new(),
            threads: Vec::new(),
        }
    }
}

impl Written {
    /// Adds chunks for all that is new or changed, each after what it refers to.
    pub(super) fn bring_up_to_date(
        &mut self,
        profile: &Profile,
        out: &mut ChunkWriter,
    ) -> Result<(), RecordingError> {
        self.strings(profile, out)?;
        self.frames(profile, out)?;
        self.stacks(profile, out)?;
        self.processes(profile, out)?;
        self.threads(profile, out)
    }

    fn strings(&mut self, profile: &Profile, out: &mut ChunkWriter) -> Result<(), RecordingError> {
        limit("texts", profile.strings.len(), format::MAX_STRINGS)?;
        let fresh = || profile.strings.iter().skip(self.strings);
        let longest = fresh().map(str::len).max().unwrap_or(0);
        limit("bytes in one text", longest, format::MAX_STRING)?;
        self.string_bytes += fresh().map(str::len).sum::<usize>();
        limit("bytes of text", self.string_bytes, format::MAX_STRING_BYTES)?;
        let mut rest = fresh().peekable();
        while rest.peek().is_some() {
            out.append(Kind::Strings, &encode::strings(&mut rest))?;
        }
        self.strings = profile.strings.len();
        Ok(())
    }

    fn frames(&mut self, profile: &Profile, out: &mut ChunkWriter) -> Result<(), RecordingError> {
        limit("frames", profile.frames.len(), format::MAX_FRAMES)?;
        while self.frames < profile.frames.len() {
            let message = encode::frames(profile.frames[self.frames..].iter());
            self.frames += message.kind.len();
            out.append(Kind::Frames, &message)?;
        }
        Ok(())
    }

    fn stacks(&mut self, profile: &Profile, out: &mut ChunkWriter) -> Result<(), RecordingError> {
        limit("stacks", profile.stacks.len(), format::MAX_STACKS)?;
        let fresh = &profile.stacks[self.stacks..];
        let depths = fresh.iter().map(|stack| stack.0.len());
        self.stack_frames += depths.sum::<usize>();
        let (all, most) = (self.stack_frames, format::MAX_STACK_FRAMES);
        limit("frames in stacks", all, most)?;
        let mut rest = fresh.iter().peekable();
        while rest.peek().is_some() {
            out.append(Kind::Stacks, &encode::stacks(&mut rest))?;
        }
        self.stacks = profile.stacks.len();
        Ok(())
    }

    fn processes(
        &mut self,
        profile: &Profile,
        out: &mut ChunkWriter,
    ) -> Result<(), RecordingError> {
        limit("processes", profile.processes.len(), format::MAX_TASKS)?;
        let changed = take_changed(&mut self.processes, &profile.processes);
        for rows in changed.chunks(encode::ROWS) {
            let process = rows.iter().map(|row| encode::process(row.0, row.1));
            let process = process.collect();
            out.append(Kind::Processes, &schema::Processes { process })?;
        }
        Ok(())
    }

    fn threads(&mut self, profile: &Profile, out: &mut ChunkWriter) -> Result<(), RecordingError> {
        limit("threads", profile.threads.len(), format::MAX_TASKS)?;
        let changed = take_changed(&mut self.threads, &profile.threads);
        for rows in changed.chunks(encode::ROWS) {
            let thread = rows.iter().map(|row| encode::thread(row.0, row.1));
            let thread = thread.collect();
            out.append(Kind::Threads, &schema::Threads { thread })?;
        }
        Ok(())
    }
}

/// Refuses what a reader would refuse, so that no file is written that cannot be read.
pub(super) fn limit(what: &'static str, found: usize, limit: usize) -> Result<(), RecordingError> {
    if found <= limit {
        return Ok(());
    }
    let (found, limit) = (found as u64, limit as u64);
    Err(RecordingError::Limit { what, found, limit })
}

/// The rows that are new or not as written, with their ids; counts them as written.
fn take_changed<'a, T: Clone + PartialEq>(
    written: &mut Vec<T>,
    live: &'a [T],
) -> Vec<(u32, &'a T)> {
    let mut changed = Vec::new();
    for (id, row) in (0..).zip(live) {
        match written.get_mut(id as usize) {
            Some(known) if known == row => continue,
            Some(known) => *known = row.clone(),
            None => written.push(row.clone()),
        }
        changed.push((id, row));
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only new and changed rows are written again.
    #[test]
    fn changes() {
        let mut written = Vec::new();
        assert_eq!(take_changed(&mut written, &[5, 6]), [(0, &5), (1, &6)]);
        assert_eq!(take_changed(&mut written, &[5, 7, 8]), [(1, &7), (2, &8)]);
        assert!(take_changed(&mut written, &[5, 7, 8]).is_empty());
    }
}
