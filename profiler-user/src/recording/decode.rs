//! Persisted tables into live ones, checked: every id, every enumeration, every total. The bytes are hostile.
//!
//! A row that refers to something must come after it, and a table's rows must be distinct, so ids in the file
//! are ids in the profile. The first row that breaks a rule ends the reading; rows before it stay.

use super::check::{Checked, at_most, capped, index, known, same_length, sum};
use super::format;
use super::{ids, schema};
use crate::profile::{
    CallStat, Frame, FrameId, LatencyHistogram, Process, ProcessId, Profile, Session, Stack,
    StringId, Thread, ThreadId,
};

/// Running totals of what the tables hold, for limits that no single row shows.
#[derive(Default)]
pub(super) struct Totals {
    string_bytes: usize,
    stack_frames: usize,
    cpu_ns: u64,
}

pub(super) fn session(message: schema::Session) -> Checked<Session> {
    let clock = known("clock", message.clock, ids::clock)?;
    at_most("duration", message.duration_ns, format::MAX_TIME_NS)?;
    at_most("start", message.started_unix_ns, i64::MAX.unsigned_abs())?;
    Ok(Session {
        version: message.version,
        host: message.host,
        kernel: message.kernel,
        cpus: message.cpus,
        frequency_hz: message.frequency_hz,
        clock,
        started_unix_ns: message.started_unix_ns,
        duration_ns: message.duration_ns,
        scope: message.scope,
        closed: false,
    })
}

pub(super) fn strings(
    message: &schema::Strings,
    profile: &mut Profile,
    totals: &mut Totals,
) -> Checked {
    for text in &message.text {
        let next = profile.strings.len();
        totals.string_bytes += text.len();
        capped("texts", next + 1, format::MAX_STRINGS)?;
        capped(
            "bytes of text",
            totals.string_bytes,
            format::MAX_STRING_BYTES,
        )?;
        if profile.strings.intern(text).0 as usize != next {
            return Err(format!("text {next} is there twice"));
        }
    }
    Ok(())
}

pub(super) fn frames(message: &schema::Frames, profile: &mut Profile) -> Checked {
    let rows = message.kind.len();
    same_length(&[
        rows,
        message.function.len(),
        message.file.len(),
        message.line.len(),
        message.first_line.len(),
        message.module.len(),
        message.offset.len(),
    ])?;
    for row in 0..rows {
        let next = profile.frames.len();
        capped("frames", next + 1, format::MAX_FRAMES)?;
        let frame = Frame {
            kind: known("frame kind", message.kind[row], ids::frame_kind)?,
            function: text(message.function[row], profile)?,
            file: text(message.file[row], profile)?,
            line: message.line[row],
            first_line: message.first_line[row],
            module: text(message.module[row], profile)?,
            offset: message.offset[row],
        };
        if !profile.frames.insert(frame) {
            return Err(format!("frame {next} is there twice"));
        }
    }
    Ok(())
}

pub(super) fn stacks(
    message: &schema::Stacks,
    profile: &mut Profile,
    totals: &mut Totals,
) -> Checked {
    let known = profile.frames.len();
    let mut rest = message.frame.as_slice();
    for &depth in &message.depth {
        let next = profile.stacks.len();
        capped("stacks", next + 1, format::MAX_STACKS)?;
        let Some((stack, behind)) = rest.split_at_checked(depth as usize) else {
            return Err(format!("stack {next} has fewer frames than it says"));
        };
        rest = behind;
        totals.stack_frames += stack.len();
        capped(
            "frames in stacks",
            totals.stack_frames,
            format::MAX_STACK_FRAMES,
        )?;
        if let Some(id) = stack.iter().find(|id| **id as usize >= known) {
            return Err(format!("stack {next} names frame {id} of {known}"));
        }
        let frames = stack.iter().map(|id| FrameId(*id)).collect();
        if !profile.stacks.insert(Stack(frames)) {
            return Err(format!("stack {next} is there twice"));
        }
    }
    if rest.is_empty() {
        return Ok(());
    }
    Err("frames that belong to no stack".into())
}

pub(super) fn processes(message: &schema::Processes, profile: &mut Profile) -> Checked {
    for row in &message.process {
        at_most(
            "end of a process",
            row.ended_ns.unwrap_or(0),
            format::MAX_TIME_NS,
        )?;
        let process = Process {
            pid: row.pid,
            name: text(row.name, profile)?,
            command: text(row.command, profile)?,
            ended_ns: row.ended_ns,
        };
        upsert("process", row.id, process, &mut profile.processes)?;
    }
    Ok(())
}

pub(super) fn threads(
    message: &schema::Threads,
    profile: &mut Profile,
    totals: &mut Totals,
) -> Checked {
    for row in &message.thread {
        let thread = Thread {
            process: ProcessId(index("process", row.process, profile.processes.len())?),
            tid: row.tid,
            name: text(row.name, profile)?,
            cpu_ns: row.cpu_ns,
        };
        let cpu_ns = row.cpu_ns.unwrap_or(0);
        at_most("CPU time of a thread", cpu_ns, format::MAX_COUNT)?;
        let before = profile.threads.get(row.id as usize);
        totals.cpu_ns -= before.and_then(|thread| thread.cpu_ns).unwrap_or(0);
        totals.cpu_ns += cpu_ns;
        at_most("CPU time of all threads", totals.cpu_ns, format::MAX_COUNT)?;
        upsert("thread", row.id, thread, &mut profile.threads)?;
    }
    Ok(())
}

pub(super) fn call(row: schema::Call, profile: &Profile) -> Checked<CallStat> {
    let threads = profile.threads.len();
    let thread = row
        .thread
        .map(|id| index("thread", id, threads))
        .transpose()?;
    capped(
        "latency counts",
        row.latency.len(),
        profiler_ebpf::latency::BUCKETS,
    )?;
    let latencies = sum(row.latency.iter().copied());
    for (what, figure) in [
        ("count of a call", Some(row.count)),
        ("returns of a call", Some(row.returned)),
        ("errors of a call", Some(row.errors)),
        ("latencies of a call", latencies),
        ("nested calls", Some(row.nested)),
        ("polls of a call", Some(row.not_ready)),
        ("bytes of a call", row.bytes.or(Some(0))),
        ("error codes", sum(row.error_count.iter().copied())),
    ] {
        at_most(what, figure.unwrap_or(u64::MAX), format::MAX_COUNT)?;
    }
    at_most("time in a call", row.max_ns, format::MAX_COUNT)?;
    at_most("time in a call", row.total_ns, format::MAX_COUNT)?;
    at_most("time in nested calls", row.nested_ns, format::MAX_COUNT)?;
    capped("error codes", row.error_code.len(), format::MAX_ERROR_CODES)?;
    if row.error_code.len() != row.error_count.len() {
        return Err("error codes and their counts differ in number".to_owned());
    }
    Ok(CallStat {
        thread: thread.map(ThreadId),
        function: text(row.function, profile)?,
        class: known("class of a call", row.class, ids::call_class)?,
        count: row.count,
        nested: row.nested,
        returned: row.returned,
        errors: row.errors,
        error_codes: row.error_code.into_iter().zip(row.error_count).collect(),
        not_ready: row.not_ready,
        bytes: row.bytes,
        total_ns: row.total_ns,
        nested_ns: row.nested_ns,
        max_ns: row.max_ns,
        latency: LatencyHistogram {
            counts: row.latency,
        },
    })
}

/// Replaces a row, or adds the next one.
fn upsert<T>(what: &str, id: u32, row: T, table: &mut Vec<T>) -> Checked {
    let known = table.len();
    match table.get_mut(id as usize) {
        Some(place) => *place = row,
        None if id as usize == known => {
            capped(what, known + 1, format::MAX_TASKS)?;
            table.push(row);
        }
        None => return Err(format!("{what} {id} comes before {what} {known}")),
    }
    Ok(())
}

fn text(id: u32, profile: &Profile) -> Checked<StringId> {
    index("text", id, profile.strings.len()).map(StringId)
}
