//! `cargo xtask bench unwind`: what a sample and a frame cost in the kernel, walked by unwind tables and by
//! frame pointer, on the same program in one run. Needs root.
#![allow(clippy::unwrap_used)]

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use wholestack::kernel::{RunTime, RunTimeCounting, missing_rights};
use wholestack::profile::FrameKind;
use wholestack::record::{RecordSettings, Scope, record};

/// A hundred frames that keep both a frame pointer and unwind data.
const DEEP: &str = "#include <stdlib.h>
#include <time.h>
volatile long sink;
__attribute__((noinline)) long deep(int left) {
    if (left > 0) return deep(left - 1) + 1;
    for (long turn = 0; turn < 1000000; turn++) sink += turn;
    return sink;
}
int main(int count, char **words) {
    time_t end = time(0) + atoi(words[1]);
    while (time(0) < end) deep(100);
    return 0;
}
";

/// One way of walking, measured.
struct Measured {
    run_time: RunTime,
    samples: f64,
    native_frames_per_sample: f64,
}

fn main() {
    if !missing_rights().is_empty() {
        println!("bench unwind: skipped, it needs root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path());
    println!("walk            ns/sample  frames/sample  ns/frame  samples");
    let tables = measure(&program, true);
    let frame_pointer = measure(&program, false);
    let (by_table, by_pointer) = (
        show("unwind tables", &tables),
        show("frame pointer", &frame_pointer),
    );
    println!(
        "ratio per frame, tables to frame pointer: {:.2}",
        by_table / by_pointer
    );
    println!(
        "instructions verified, all stages: {}",
        tables.run_time.verified_instructions
    );
}

fn build(folder: &Path) -> OsString {
    let (source, program) = (folder.join("deep.c"), folder.join("deep"));
    std::fs::write(&source, DEEP).unwrap();
    let flags = [
        "-O1",
        "-fno-omit-frame-pointer",
        "-fno-optimize-sibling-calls",
        "-o",
    ];
    let built = Command::new("cc")
        .args(flags)
        .arg(&program)
        .arg(&source)
        .status()
        .unwrap();
    assert!(built.success(), "cc failed");
    program.into_os_string()
}

fn measure(program: &OsString, unwind_tables: bool) -> Measured {
    let settings = RecordSettings {
        frequency_hz: 999,
        duration: Some(Duration::from_secs(6)),
        scope: Scope::Command(vec![program.clone(), "4".into()]),
        ring_bytes: 8 << 20,
        unwind_tables,
        native_all: false,
        debug_object: None,
    };
    let counting = RunTimeCounting::start().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let recorded = record::<Vec<u8>>(&settings, |_| Ok(None), || (), |_| ());
    let recorded = runtime.block_on(recorded).unwrap();
    let run_time = counting.read();
    let profile = recorded.profile;
    let frames: u64 = profile
        .samples
        .iter()
        .map(|(key, count)| {
            let stack = profile.stack(key.stack).iter();
            count
                * stack
                    .filter(|id| profile.frame(**id).kind == FrameKind::Native)
                    .count() as u64
        })
        .sum();
    Measured {
        run_time,
        samples: profile.kept() as f64,
        native_frames_per_sample: frames as f64 / profile.kept() as f64,
    }
}

fn show(name: &str, measured: &Measured) -> f64 {
    // The sampler also runs, for some 50 ns, on idle CPUs and for other programs: that is in the time.
    let samples = measured.samples;
    let per_sample = measured.run_time.total_ns as f64 / samples;
    let per_frame = per_sample / measured.native_frames_per_sample;
    println!(
        "{name:<15} {per_sample:>9.0}  {:>13.1}  {per_frame:>8.1}  {samples:>7}",
        measured.native_frames_per_sample
    );
    per_frame
}
