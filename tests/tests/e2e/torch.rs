//! PyTorch on the CPU: Python callers above libtorch's frames of the same thread, and data loaders' workers with whole
//! stacks from their first moment.

use std::collections::BTreeMap;

use wholestack::profile::{FrameKind, Profile, Sample};
use wholestack::recording::{Window, load_samples};
use wholestack_tests::pythons::python_with_torch;
use wholestack_tests::recorder::Recorder;
use wholestack_tests::require_bpf;
use wholestack_tests::rights::skip;
use wholestack_tests::scratch::workload;

/// The first moments of a process, in which its stacks have to be whole already.
const FIRST_NS: u64 = 100_000_000;
const WORKERS: usize = 6;

/// The frames of a sample, root first.
fn labels(profile: &Profile, sample: &Sample) -> Vec<String> {
    let frames = profile.stack(sample.stack).iter().rev();
    frames.map(|frame| profile.label(*frame)).collect()
}

/// Whether a frame is native code of libtorch.
fn first_of_libtorch(profile: &Profile, sample: &Sample) -> Option<usize> {
    let stack = profile.stack(sample.stack);
    let is_libtorch = |frame: &wholestack::profile::Frame| {
        frame.kind == FrameKind::Native && profile.text(frame.module).contains("/libtorch_cpu.so")
    };
    let mut frames = stack.iter().rev();
    frames.position(|frame| is_libtorch(profile.frame(*frame)))
}

/// Forward and backward: whatever libtorch does in the main thread stands above the line of `train_step` that asked for
/// it. Workers, made by fork: their stacks are whole and have the function that makes the data from the start.
#[test]
fn training_and_its_workers() {
    require_bpf!();
    let Some(python) = python_with_torch() else {
        return skip("no PyTorch: `cargo xtask bench torch` installs it");
    };
    let workers = WORKERS.to_string();
    let program = workload("torch_training.py");
    let recorded = Recorder::new()
        .hertz(999)
        .command([
            python.as_os_str(),
            program.as_os_str(),
            "--seconds".as_ref(),
            "6".as_ref(),
            "--workers".as_ref(),
            workers.as_ref(),
        ])
        .run();
    let mut samples = Vec::new();
    let profile = load_samples(&recorded.wstk(), Window::ALL, |sample| {
        samples.push(*sample)
    })
    .unwrap();
    let of = |sample: &Sample| profile.process(profile.thread(sample.thread).process).pid;

    let trains = |sample: &&Sample| {
        let labels = labels(&profile, sample);
        labels
            .iter()
            .any(|label| label.starts_with("train_step (torch_training.py:"))
    };
    let training: Vec<&Sample> = samples.iter().filter(trains).collect();
    let main = of(training.first().expect("it trains"));
    let while_training = training[0].time_ns..=training[training.len() - 1].time_ns;
    let (mut forward, mut backward, mut cut) = (0, 0, 0);
    for sample in samples.iter().filter(|sample| of(sample) == main) {
        let Some(at) = first_of_libtorch(&profile, sample) else {
            continue;
        };
        if profile.thread(sample.thread).tid != main || !while_training.contains(&sample.time_ns) {
            continue;
        }
        if sample.truncation.is_some() {
            cut += 1;
            continue;
        }
        let labels = labels(&profile, sample);
        let asks = |name: &str| labels[..at].iter().any(|label| label.starts_with(name));
        assert!(asks("main (torch_training.py:"), "{labels:#?}");
        backward += u32::from(asks("_engine_run_backward (graph.py:"));
        forward += u32::from(asks("Model.forward (torch_training.py:"));
    }
    println!("{forward} samples in forward, {backward} in backward, {cut} cut");
    assert!(forward > 200 && backward > 200, "{forward} {backward}");
    assert!(cut * 100 < forward + backward, "{cut} cut");

    // Every process that was made by fork and makes data.
    let mut first: BTreeMap<u32, u64> = BTreeMap::new();
    let mut makes: BTreeMap<u32, u32> = BTreeMap::new();
    for sample in &samples {
        first.entry(of(sample)).or_insert(sample.time_ns);
        let labels = labels(&profile, sample);
        if labels
            .iter()
            .any(|label| label.starts_with("_worker_loop (worker.py:"))
        {
            *makes.entry(of(sample)).or_default() += 1;
        }
    }
    assert_eq!(makes.len(), WORKERS, "{makes:?}");
    let (mut early, mut whole) = (0, 0);
    for sample in &samples {
        let pid = of(sample);
        if !makes.contains_key(&pid) || sample.time_ns >= first[&pid] + FIRST_NS {
            continue;
        }
        let labels = labels(&profile, sample);
        early += 1;
        // Its main thread goes on in the call that made it: the parent's Python frames are its own too.
        let is_main = profile.thread(sample.thread).tid == pid;
        let has_callers = |label: &String| label.starts_with("main (torch_training.py:");
        // The loader's resolver keeps its frame's address in rbx, which the walk does not follow; a new process binds lazily.
        let binds = |label: &String| label.starts_with("_dl_runtime_resolve");
        let whole_or_binding = sample.truncation.is_none() || labels.iter().any(binds);
        let good = whole_or_binding && (!is_main || labels.iter().any(has_callers));
        if !good {
            println!("{pid} {:?} {labels:?}", sample.truncation);
        }
        whole += u32::from(good);
    }
    println!("workers' first 100 ms: {whole} of {early} whole; {makes:?} samples in their loops");
    assert!(early > 30, "{early}");
    assert!(whole * 100 >= early * 97, "{whole} of {early}");
}
