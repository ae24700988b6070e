//! Several recordings as one profile: one per host of a run, or several runs on one host.
//!
//! Samples and calls are added up; text, frames and stacks are shared. Processes of different hosts stay apart,
//! and carry the host in their name. On one host a process or thread that had not ended goes on in the next
//! recording; one that had ended does not. The result does not depend on the order of the input: recordings are
//! taken in the order in which they began.

mod session;
mod tasks;

use super::{Accounting, CallStat, Frame, FrameId, Profile, StackId, StringId, ThreadId};
use indexmap::IndexMap;
use tasks::Tasks;

/// Merges recordings. What that does to the session is described in `docs/formats/recording.md`; what makes
/// their figures hard to compare is named in the notes.
pub fn merge(mut profiles: Vec<Profile>) -> Profile {
    if profiles.len() == 1 {
        return profiles.remove(0);
    }
    profiles.sort_by_key(|profile| profile.session.started_unix_ns);
    let sessions: Vec<_> = profiles.iter().map(|p| (&p.session, p.kept())).collect();
    let (session, notes) = session::combine(&sessions);
    let many_hosts = session::hosts(&sessions).len() > 1;
    let mut merger = Merger {
        merged: Profile {
            session,
            ..Profile::default()
        },
        tasks: Tasks::new(many_hosts),
        calls: IndexMap::new(),
    };
    for profile in &profiles {
        merger.add(profile);
        for note in &profile.notes {
            let note = match many_hosts {
                true => format!("{}: {note}", profile.session.host),
                false => note.clone(),
            };
            merger.note(note);
        }
    }
    notes.into_iter().for_each(|note| merger.note(note));
    merger.merged.calls = merger.calls.into_values().collect();
    merger.merged
}

/// A merge under way.
struct Merger {
    merged: Profile,
    tasks: Tasks,
    calls: IndexMap<(Option<ThreadId>, StringId), CallStat>,
}

/// Where a recording's ids are in the merged profile.
struct Ids {
    strings: Vec<StringId>,
    /// The stack, and whether it found no room.
    stacks: Vec<(StackId, bool)>,
    threads: Vec<ThreadId>,
}

impl Merger {
    fn add(&mut self, profile: &Profile) {
        let ids = self.ids(profile);
        for (key, count) in &profile.samples {
            let (stack, over_limit) = ids.stacks[key.stack.0 as usize];
            if over_limit {
                add(&mut self.merged.accounting.stacks_over_limit, *count);
            }
            let mut key = *key;
            key.stack = stack;
            key.thread = ids.threads[key.thread.0 as usize];
            add(self.merged.samples.entry(key).or_insert(0), *count);
        }
        for call in &profile.calls {
            self.add_call(call, &ids);
        }
        add_books(&mut self.merged.accounting, &profile.accounting);
    }

    fn ids(&mut self, profile: &Profile) -> Ids {
        let merged = &mut self.merged;
        let texts = profile.strings.iter();
        let strings: Vec<StringId> = texts.map(|text| merged.strings.intern(text)).collect();
        let string = |id: StringId| strings[id.0 as usize];
        let frames: Vec<FrameId> = (profile.frames.iter())
            .map(|frame| {
                merged.intern_frame(Frame {
                    function: string(frame.function),
                    file: string(frame.file),
                    module: string(frame.module),
                    ..*frame
                })
            })
            .collect();
        let stacks = (profile.stacks.iter())
            .map(|stack| {
                let stack: Vec<FrameId> = stack.0.iter().map(|id| frames[id.0 as usize]).collect();
                let over_limit = merged.accounting.stacks_over_limit;
                let id = merged.intern_stack(&stack);
                // That counted one stack; the samples in it are counted where they are added.
                let full = merged.accounting.stacks_over_limit > over_limit;
                merged.accounting.stacks_over_limit = over_limit;
                (id, full)
            })
            .collect();
        let threads = self.tasks.add(profile, &strings, merged);
        Ids {
            strings,
            stacks,
            threads,
        }
    }

    fn add_call(&mut self, call: &CallStat, ids: &Ids) {
        let thread = call.thread.map(|thread| ids.threads[thread.0 as usize]);
        let function = ids.strings[call.function.0 as usize];
        let Some(sum) = self.calls.get_mut(&(thread, function)) else {
            let call = CallStat {
                thread,
                function,
                ..call.clone()
            };
            self.calls.insert((thread, function), call);
            return;
        };
        sum.merge(call);
    }

    /// Adds a note, once.
    fn note(&mut self, note: String) {
        if !self.merged.notes.contains(&note) {
            self.merged.notes.push(note);
        }
    }
}

fn add_books(sum: &mut Accounting, books: &Accounting) {
    add(&mut sum.taken, books.taken);
    add(&mut sum.complete, books.complete);
    add(&mut sum.guessed, books.guessed);
    for (reason, count) in &books.truncated {
        add(sum.truncated.entry(*reason).or_insert(0), *count);
    }
    for (reason, count) in &books.lost {
        add(sum.lost.entry(*reason).or_insert(0), *count);
    }
    add(&mut sum.frames, books.frames);
    add(&mut sum.unnamed_frames, books.unnamed_frames);
    add(&mut sum.stacks_over_limit, books.stacks_over_limit);
    add(&mut sum.own_cpu_ns, books.own_cpu_ns);
    // Figures of one moment: no two recordings need to have had it together.
    sum.unwind_tables = sum.unwind_tables.max(books.unwind_tables);
    sum.unwind_table_bytes = sum.unwind_table_bytes.max(books.unwind_table_bytes);
    for (limit, count) in &books.limits {
        add(sum.limits.entry(limit.clone()).or_insert(0), *count);
    }
}

/// Figures may come from files made to mislead: no sum of them may end the program.
fn add(sum: &mut u64, figure: u64) {
    *sum = sum.saturating_add(figure);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
