//! Live values into persisted ones. Plain copies, in pieces that fit a chunk; decides nothing.

use super::ids;
use super::schema;
use crate::profile::{CallStat, Frame, Process, Profile, Sample, Session, Stack, Thread};

/// Bytes of text after which a new chunk begins.
const TEXT_BYTES: usize = 1 << 20;
/// Stack frames after which a new chunk begins.
const STACK_FRAMES: usize = 1 << 18;
/// Rows a chunk of frames, tasks or samples holds.
pub(super) const ROWS: usize = 1 << 15;
/// Rows a chunk of calls holds: each may carry 121 latency counts.
pub(super) const CALL_ROWS: usize = 1 << 11;

pub(super) fn session(session: &Session) -> schema::Session {
    schema::Session {
        version: session.version.clone(),
        host: session.host.clone(),
        kernel: session.kernel.clone(),
        cpus: session.cpus,
        frequency_hz: session.frequency_hz,
        clock: ids::clock_id(session.clock),
        started_unix_ns: session.started_unix_ns,
        duration_ns: session.duration_ns,
        scope: session.scope.clone(),
    }
}

/// The next piece of a table of texts.
pub(super) fn strings<'a>(
    texts: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>,
) -> schema::Strings {
    let mut message = schema::Strings::default();
    let mut bytes = 0;
    while let Some(text) = texts.next_if(|text| bytes == 0 || bytes + text.len() <= TEXT_BYTES) {
        bytes += text.len() + 2;
        message.text.push(text.to_owned());
    }
    message
}

/// The next piece of a table of frames.
pub(super) fn frames<'a>(frames: impl Iterator<Item = &'a Frame>) -> schema::Frames {
    let mut message = schema::Frames::default();
    for frame in frames.take(ROWS) {
        message.kind.push(ids::frame_kind_id(frame.kind));
        message.function.push(frame.function.0);
        message.file.push(frame.file.0);
        message.line.push(frame.line);
        message.first_line.push(frame.first_line);
        message.module.push(frame.module.0);
        message.offset.push(frame.offset);
    }
    message
}

/// The next piece of a table of stacks.
pub(super) fn stacks<'a>(
    stacks: &mut std::iter::Peekable<impl Iterator<Item = &'a Stack>>,
) -> schema::Stacks {
    let mut message = schema::Stacks::default();
    let fits = |message: &schema::Stacks| {
        message.frame.len() < STACK_FRAMES && message.depth.len() < STACK_FRAMES
    };
    while let Some(stack) = stacks.next_if(|_| fits(&message)) {
        let depth = u32::try_from(stack.0.len()).expect("a table's frames are capped below 2^32");
        message.depth.push(depth);
        message.frame.extend(stack.0.iter().map(|frame| frame.0));
    }
    message
}

pub(super) fn process(id: u32, process: &Process) -> schema::Process {
    schema::Process {
        id,
        pid: process.pid,
        name: process.name.0,
        command: process.command.0,
        ended_ns: process.ended_ns,
    }
}

pub(super) fn thread(id: u32, thread: &Thread) -> schema::Thread {
    schema::Thread {
        id,
        process: thread.process.0,
        tid: thread.tid,
        name: thread.name.0,
        cpu_ns: thread.cpu_ns,
    }
}

pub(super) fn samples(samples: &[Sample]) -> schema::Samples {
    let mut message = schema::Samples::default();
    let mut before = 0u64;
    for sample in samples {
        // Wrapping on both sides is exact; samples of two CPUs may arrive slightly out of order.
        let delta = sample.time_ns.wrapping_sub(before).cast_signed();
        before = sample.time_ns;
        message.time_delta_ns.push(delta);
        message.cpu.push(sample.cpu);
        message.thread.push(sample.thread.0);
        message.stack.push(sample.stack.0);
        message.gil.push(ids::gil_id(sample.gil));
        message
            .truncation
            .push(ids::truncation_id(sample.truncation));
    }
    message
}

pub(super) fn call(call: &CallStat) -> schema::Call {
    schema::Call {
        thread: call.thread.map(|thread| thread.0),
        function: call.function.0,
        class: u32::from(call.class as u8),
        count: call.count,
        returned: call.returned,
        errors: call.errors,
        total_ns: call.total_ns,
        max_ns: call.max_ns,
        latency: call.latency.counts.clone(),
        nested: call.nested,
        nested_ns: call.nested_ns,
        not_ready: call.not_ready,
        bytes: call.bytes,
        error_code: call.error_codes.keys().copied().collect(),
        error_count: call.error_codes.values().copied().collect(),
    }
}

pub(super) fn books(profile: &Profile, time_ns: u64) -> schema::Books {
    let books = &profile.accounting;
    let reason = |id: u8, count: &u64| schema::Reason {
        id: u32::from(id),
        count: *count,
    };
    let limit = |(name, count): (&String, &u64)| schema::LimitHit {
        name: name.clone(),
        count: *count,
    };
    schema::Books {
        time_ns,
        taken: books.taken,
        complete: books.complete,
        truncated: books
            .truncated
            .iter()
            .map(|(why, n)| reason(*why as u8, n))
            .collect(),
        lost: books
            .lost
            .iter()
            .map(|(why, n)| reason(*why as u8, n))
            .collect(),
        frames: books.frames,
        unnamed_frames: books.unnamed_frames,
        stacks_over_limit: books.stacks_over_limit,
        own_cpu_ns: books.own_cpu_ns,
        limits: books.limits.iter().map(limit).collect(),
        notes: profile.notes.clone(),
        guessed: books.guessed,
        unwind_tables: books.unwind_tables,
        unwind_table_bytes: books.unwind_table_bytes,
    }
}
