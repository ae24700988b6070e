//! What a recording leaves in the kernel and does to its target: nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use nix::sys::signal::Signal;
use wholestack_tests::kernel::Held;
use wholestack_tests::recorder::{Recorder, Running};
use wholestack_tests::scratch::{Scratch, workload};
use wholestack_tests::target::{Target, Watch};
use wholestack_tests::{require_bpf, require_python, wait};

use crate::fixtures::trainings;

/// A process that has mapped a driver and sleeps, so that a recorder of it has probes of every kind in the kernel.
fn with_driver(scratch: &Scratch) -> Target {
    let program = scratch.build(
        "cuda_calls",
        &workload("cuda_calls.c"),
        &["-O2", "-pthread"],
    );
    let driver = scratch.driver("driver");
    let mut calls = Command::new(program);
    calls.args(["-m", "-w", "600"]).arg(driver).arg("1");
    let target = Target::start(&mut calls);
    wait::until("the driver is mapped", || {
        let maps = fs::read_to_string(format!("/proc/{}/maps", target.pid())).ok()?;
        maps.contains("/driver/libcuda.so.1").then_some(())
    });
    target
}

/// What the recorder has in the kernel, which must be programs, links and maps.
fn held(recorder: &Running) -> Held {
    let held = Held::by(recorder.pid());
    assert!(
        !held.programs.is_empty() && !held.links.is_empty() && !held.maps.is_empty(),
        "{held:?}"
    );
    assert_alive(&held);
    held
}

#[track_caller]
fn assert_alive(held: &Held) {
    let expected = Held {
        program_arrays: BTreeSet::new(),
        ..held.clone()
    };
    assert_eq!(
        held.alive(),
        expected,
        "what a living recorder holds is there"
    );
}

/// Settings of the kernel that a profiler could be tempted to change. Not among them: perf_event_max_sample_rate, which
/// the kernel lowers by itself.
fn settings() -> BTreeMap<String, String> {
    let names = [
        "kernel/perf_event_paranoid",
        "kernel/perf_event_mlock_kb",
        "kernel/perf_event_max_stack",
        "kernel/perf_cpu_time_max_percent",
        "kernel/kptr_restrict",
        "kernel/dmesg_restrict",
        "kernel/randomize_va_space",
        "kernel/unprivileged_bpf_disabled",
        "kernel/bpf_stats_enabled",
        "kernel/yama/ptrace_scope",
        "kernel/core_pattern",
        "kernel/nmi_watchdog",
        "kernel/ftrace_enabled",
        "net/core/bpf_jit_enable",
        "net/core/bpf_jit_harden",
        "net/core/bpf_jit_kallsyms",
        "fs/file-max",
        "fs/nr_open",
        "vm/max_map_count",
        "vm/overcommit_memory",
    ];
    let read = |name: &str| {
        Some((
            name.to_owned(),
            fs::read_to_string(format!("/proc/sys/{name}")).ok()?,
        ))
    };
    names.into_iter().filter_map(read).collect()
}

/// Names in the BPF file system, if there is one.
fn pinned() -> Vec<String> {
    let entries = fs::read_dir("/sys/fs/bpf").into_iter().flatten().flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// However a recording ends, by a signal, by its time or by being killed, no program, link, map, pin or changed setting of
/// the kernel is left, and the target was neither stopped nor traced.
#[test]
fn nothing_is_left_in_the_kernel() {
    require_bpf!();
    let scratch = Scratch::new();
    let target = with_driver(&scratch);
    let before = (settings(), pinned());
    assert!(
        before.0.len() > 5,
        "these are the kernel's settings: {before:?}"
    );
    let watch = Watch::on(target.pid());
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let recorder = Recorder::new().pid(target.pid()).start();
        let held = held(&recorder);
        recorder.end_with(signal);
        held.wait_until_gone();
    }
    let recorder = Recorder::new().pid(target.pid()).seconds(0.5).start();
    let held = held(&recorder);
    recorder.finish().report();
    held.wait_until_gone();
    let watched = watch.end();
    assert!(
        watched.looks > 0 && watched.stopped.is_empty() && watched.tracers.is_empty(),
        "{watched:?}"
    );
    assert!(target.is_running());
    assert_eq!((settings(), pinned()), before);
}

/// The training, watched for its whole length while it was recorded, was never stopped and never traced.
#[test]
fn a_target_is_never_stopped() {
    require_bpf!();
    require_python!();
    for run in trainings() {
        println!("{}: {} looks", run.python.version, run.watched.looks);
        assert!(run.watched.looks > 1000, "{:?}", run.watched);
        assert!(
            run.watched.stopped.is_empty() && run.watched.tracers.is_empty(),
            "{:?}",
            run.watched
        );
    }
}

/// Two recorders at once, on one target, do not disturb each other, and the end of one takes nothing from the other.
#[test]
fn two_recorders_get_along() {
    require_bpf!();
    let scratch = Scratch::new();
    let (driver, go) = (scratch.driver("driver"), scratch.path("go"));
    let program = scratch.build(
        "cuda_calls",
        &workload("cuda_calls.c"),
        &["-O2", "-pthread"],
    );
    let mut calls = Command::new(program);
    calls.arg("-m").arg("-f").arg(&go).arg(driver).arg("500");
    let target = Target::start(&mut calls);
    let long = Recorder::new().pid(target.pid()).start();
    let short = Recorder::new().pid(target.pid()).start();
    let others = held(&long);
    let own = held(&short);
    short.end_with(Signal::SIGINT).report();
    own.wait_until_gone();
    assert_alive(&others);
    scratch.signal("go");
    let report = long.finish().report();
    assert_eq!(report.calls()["cuLaunchKernel"], 500);
}
