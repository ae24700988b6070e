//! The books of what was read: kept + lost = taken must hold for a cut recording and for a window of one.
//!
//! The recorder's books say what was taken and what was lost on the way; what was kept is counted from the
//! samples read, never believed. Where both differ, the difference is lost to the cut and a note names it.

use super::check::{self, Checked};
use super::chunk::Halt;
use super::loader::{Books, Loader};
use super::{Window, format, ids, schema};
use crate::profile::{Accounting, Loss, Profile, Sample};

/// Persisted books into live ones.
pub(super) fn decode(message: schema::Books) -> Checked<Books> {
    check::at_most("time of the books", message.time_ns, format::MAX_TIME_NS)?;
    let mut accounting = Accounting {
        taken: message.taken,
        complete: message.complete,
        guessed: message.guessed,
        frames: message.frames,
        unnamed_frames: message.unnamed_frames,
        stacks_over_limit: message.stacks_over_limit,
        own_cpu_ns: message.own_cpu_ns,
        unwind_tables: message.unwind_tables,
        unwind_table_bytes: message.unwind_table_bytes,
        ..Accounting::default()
    };
    for row in message.truncated {
        let reason = check::known("truncation", row.id, ids::truncation)?;
        let reason = reason.ok_or("a truncation without a reason")?;
        accounting.truncated.insert(reason, row.count);
    }
    for row in message.lost {
        let reason = check::known("loss", row.id, ids::loss)?;
        accounting.lost.insert(reason, row.count);
    }
    for row in message.limits {
        accounting.limits.insert(row.name, row.count);
    }
    for figure in [
        Some(accounting.taken),
        check::sum(
            accounting
                .truncated
                .values()
                .copied()
                .chain([accounting.complete]),
        ),
        check::sum(accounting.lost.values().copied()),
        check::sum(accounting.limits.values().copied()),
        Some(accounting.guessed),
        Some(accounting.frames),
        Some(accounting.unnamed_frames),
        Some(accounting.stacks_over_limit),
        Some(accounting.own_cpu_ns),
        Some(accounting.unwind_tables),
        Some(accounting.unwind_table_bytes),
    ] {
        check::at_most(
            "figure in the books",
            figure.unwrap_or(u64::MAX),
            format::MAX_COUNT,
        )?;
    }
    Ok(Books {
        time_ns: message.time_ns,
        accounting,
        notes: message.notes,
    })
}

/// Turns what was loaded into a profile whose books balance and whose notes say what is missing.
///
/// `halt` is why reading stopped at byte `offset`; `None` if the recording was closed.
pub(super) fn settle<F: FnMut(&Sample)>(
    mut loaded: Loader<F>,
    halt: Option<Halt>,
    offset: u64,
) -> Profile {
    let mut profile = std::mem::take(&mut loaded.profile);
    let counted = std::mem::replace(
        &mut profile.accounting,
        loaded.books_last.accounting.clone(),
    );
    let claimed = profile.accounting.kept();
    profile.accounting.complete = counted.complete;
    profile.accounting.truncated = counted.truncated;
    // Not counted from the samples, which do not say: those of the latest books, which may be ahead of them.
    cap_guessed(&mut profile.accounting);
    profile.notes = std::mem::take(&mut loaded.books_last.notes);
    profile.session.closed = halt.is_none();
    let mut missing = 0;
    if let Some(halt) = &halt {
        let reached = loaded.latest_ns.max(loaded.books_last.time_ns);
        profile.session.duration_ns = profile.session.duration_ns.max(reached);
        missing = missing_samples(&loaded);
        let note = halt_note(halt, offset, profile.session.duration_ns, missing);
        profile.notes.push(note);
        if let Some(calls_ns) = loaded.calls_ns.filter(|at| *at < reached) {
            let at = seconds(calls_ns);
            profile.notes.push(format!(
                "driver calls are counted up to {at} s, where the recording last has them"
            ));
        }
    } else if loaded.announced != Some(loaded.samples_read) || claimed != loaded.samples_read {
        profile.notes.push(format!(
            "the recording holds {} samples, its own books say {claimed}: the figures here are of those it holds",
            loaded.samples_read
        ));
    }
    if loaded.skipped > 0 {
        let note = format!(
            "{} chunks of a later wholestack were skipped",
            loaded.skipped
        );
        profile.notes.push(note);
    }
    if loaded.window != Window::ALL {
        narrow(&mut profile, &loaded, missing);
    } else if halt.is_some() {
        profile.accounting.lose(Loss::Cut, missing);
        balance(&mut profile);
    } else if claimed != loaded.samples_read {
        count_frames(&mut profile);
    }
    profile
}

/// Samples of the whole recording that were taken and neither read nor lost before.
fn missing_samples<F>(loaded: &Loader<F>) -> u64 {
    let books = &loaded.books_last.accounting;
    let known = loaded.samples_read + books.lost_total();
    books.taken.saturating_sub(known)
}

/// Makes the profile's books, session and tasks those of the window.
fn narrow<F>(profile: &mut Profile, loaded: &Loader<F>, missing: u64) {
    let Window { from_ns, to_ns } = loaded.window;
    let whole_ns = profile.session.duration_ns;
    let before = &loaded.books_before;
    let until = loaded.books_until.as_ref().unwrap_or(&loaded.books_last);
    let since = |figure: fn(&Accounting) -> u64| {
        figure(&until.accounting).saturating_sub(figure(&before.accounting))
    };
    let books = &mut profile.accounting;
    books.lost.clear();
    for reason in Loss::ALL {
        let lost = |books: &Books| books.accounting.lost.get(&reason).copied().unwrap_or(0);
        books.lose(reason, lost(until).saturating_sub(lost(before)));
    }
    if to_ns > loaded.books_last.time_ns {
        books.lose(Loss::Cut, missing);
    }
    let window_ns = to_ns.min(whole_ns).saturating_sub(from_ns);
    let books_ns = until.time_ns.saturating_sub(before.time_ns);
    books.guessed = since(|books| books.guessed);
    cap_guessed(books);
    books.stacks_over_limit = since(|books| books.stacks_over_limit);
    books.own_cpu_ns = scale(since(|books| books.own_cpu_ns), window_ns, books_ns);
    balance(profile);

    profile.session.duration_ns = window_ns;
    profile.session.started_unix_ns += from_ns.min(whole_ns);
    for process in &mut profile.processes {
        process.ended_ns = process.ended_ns.map(|ended| ended.saturating_sub(from_ns));
    }
    for thread in &mut profile.threads {
        thread.cpu_ns = None;
    }
    profile.calls.clear();
    profile.notes.push(format!(
        "a window of the recording, {} s to {} s of {} s; losses are known about once a second, so some of the \
         second before and behind may be counted here; driver calls and the kernel's CPU time per thread are \
         known for the whole run only and left out",
        seconds(from_ns),
        seconds(to_ns.min(whole_ns)),
        seconds(whole_ns)
    ));
}

/// No more samples hold a guess than are kept.
fn cap_guessed(books: &mut Accounting) {
    books.guessed = books.guessed.min(books.kept());
}

/// Books as taken what is kept and lost, and counts frames anew.
fn balance(profile: &mut Profile) {
    profile.accounting.taken = profile.accounting.kept() + profile.accounting.lost_total();
    count_frames(profile);
}

fn count_frames(profile: &mut Profile) {
    let (mut frames, mut unnamed) = (0, 0);
    for (key, count) in &profile.samples {
        let stack = profile.stack(key.stack);
        let without_name = stack.iter().filter(|id| !profile.frame(**id).is_named());
        frames += count * stack.len() as u64;
        unnamed += count * without_name.count() as u64;
    }
    profile.accounting.frames = frames;
    profile.accounting.unnamed_frames = unnamed;
}

fn halt_note(halt: &Halt, offset: u64, duration_ns: u64, missing: u64) -> String {
    let at = seconds(duration_ns);
    match halt {
        Halt::Damaged(what) => format!(
            "the recording is damaged at byte {offset} ({what}): it was read up to there, {at} s after its \
             start; samples taken by then and missing: {missing}, and all that followed"
        ),
        _ => format!(
            "the recording is not closed (wholestack was killed or still records, or the file is cut): it was read up to byte \
             {offset}, {at} s after its start; samples taken by then and missing: {missing}"
        ),
    }
}

fn seconds(ns: u64) -> String {
    format!("{}.{}", ns / 1_000_000_000, ns / 100_000_000 % 10)
}

/// `figure * part / whole`, at most `figure`.
fn scale(figure: u64, part: u64, whole: u64) -> u64 {
    if part >= whole {
        return figure;
    }
    let scaled = u128::from(figure) * u128::from(part) / u128::from(whole);
    u64::try_from(scaled).unwrap_or(figure)
}
