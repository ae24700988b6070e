//! Every kind of call of driver and runtime: counts, bytes and error codes are the stand-ins' own, whichever way the
//! calls come.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use wholestack_tests::recorder::Recorder;
use wholestack_tests::report::{Report, ThreadCall};
use wholestack_tests::scratch::{Scratch, workload};
use wholestack_tests::target::Target;
use wholestack_tests::truth::{Cuda, CudaMix};
use wholestack_tests::{require_bpf, wait};

/// Functions without a byte count are those whose arguments have none.
const BYTES: [&str; 27] = [
    "cuMemcpyAsync",
    "cuMemcpyAsync_ptsz",
    "cuMemcpyHtoD_v2",
    "cuMemcpyHtoD_v2_ptds",
    "cuMemcpyDtoH_v2",
    "cuMemcpyPeerAsync",
    "cuMemcpy2DAsync_v2",
    "cuMemcpy3D_v2",
    "cuMemsetD8Async",
    "cuMemsetD32Async",
    "cuMemsetD32Async_ptsz",
    "cuMemsetD2D16_v2",
    "cuMemAlloc_v2",
    "cuMemAlloc",
    "cuMemAllocPitch_v2",
    "cuMemAllocAsync",
    "cuMemAllocAsync_ptsz",
    "cuMemAllocFromPoolAsync",
    "cuMemAddressReserve",
    "cuMemCreate",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemHostAlloc",
    "cuMemAllocHost_v2",
    "cuMemHostRegister_v2",
    "cudaMemcpyArrayToArray",
    "cudaMalloc",
];

/// `cuda_mix`, and where its truth goes.
struct Mix {
    scratch: Scratch,
    dynamic: PathBuf,
    driver: PathBuf,
}

impl Mix {
    fn new() -> Self {
        let scratch = Scratch::new();
        let flags = ["-O2", "-pthread"];
        let dynamic = scratch.build("cuda_mix", &workload("cuda_mix.c"), &flags);
        let driver = scratch.driver("driver");
        Self {
            scratch,
            dynamic,
            driver,
        }
    }

    fn with_runtime_inside(&self) -> PathBuf {
        let flags = ["-O2", "-pthread", "-s", "-DSTATIC_RUNTIME"];
        self.scratch
            .build("cuda_mix_static", &workload("cuda_mix.c"), &flags)
    }

    fn words(&self, program: &PathBuf, options: &[&str], rounds: u32) -> Vec<OsString> {
        let options = options.iter().map(Into::into);
        std::iter::once(program.into())
            .chain(options)
            .chain([self.driver.clone().into(), rounds.to_string().into()])
            .collect()
    }
}

/// The rows of a process.
fn rows(report: &Report, pid: u32) -> BTreeMap<(u32, &str), &ThreadCall> {
    let rows = report.cuda_driver_by_thread.iter();
    rows.filter(|row| row.pid == Some(pid))
        .map(|row| ((row.tid.unwrap(), row.call.function.as_str()), row))
        .collect()
}

/// Each row's count, bytes, error codes and answers are those of the truth.
#[track_caller]
fn assert_exact(rows: &BTreeMap<(u32, &str), &ThreadCall>, truth: &Cuda) {
    let tallies = truth.tallies();
    for ((tid, function), tally) in &tallies {
        let row = rows
            .get(&(*tid, function))
            .unwrap_or_else(|| panic!("no row for {function} of {tid}"));
        let call = &row.call;
        assert_eq!(call.count, tally.calls, "{row:?}");
        if BYTES.contains(function) {
            assert!(tally.bytes > 0, "{function} is called with bytes");
            assert_eq!(call.bytes, Some(tally.bytes), "{row:?}");
        } else if tally.bytes == 0 {
            assert_eq!(call.bytes.unwrap_or(0), 0, "{row:?}");
        } else {
            assert_eq!(call.bytes, Some(tally.bytes), "{row:?}");
        }
        assert_eq!(call.returned, call.count, "{row:?}");
        let codes: BTreeMap<u32, u64> = call
            .error_codes
            .iter()
            .map(|error| (error.code, error.count))
            .collect();
        assert_eq!(codes, tally.codes, "{row:?}");
        assert_eq!(
            (call.errors, call.not_ready),
            (tally.errors, tally.not_ready),
            "{row:?}"
        );
    }
}

/// Both tables hold these rows and no others, and the driver's calls inside the runtime's are marked as such.
#[track_caller]
fn assert_mix(report: &Report, truth: &CudaMix, runtime_is_probed: bool) {
    let rows = rows(report, truth.pid);
    assert_exact(&rows, &truth.library);
    let mut expected = truth.library.tallies().len();
    let runtime = truth.runtime.as_ref().filter(|_| runtime_is_probed);
    if let Some(runtime) = runtime {
        assert_exact(&rows, runtime);
        expected += runtime.tallies().len();
    }
    assert_eq!(rows.len(), expected, "{:?}", rows.keys());
    let mut nested: BTreeMap<&str, u64> = BTreeMap::new();
    for ((_, function), row) in &rows {
        *nested.entry(function).or_default() += row.call.nested;
        let most = row.call.total_seconds + 1e-9;
        assert!(row.call.nested_seconds <= most, "{row:?}");
    }
    nested.retain(|_, count| *count > 0);
    let inner = truth.inner.iter().filter(|_| runtime_is_probed).flatten();
    let inner: BTreeMap<&str, u64> = inner.map(|(name, count)| (name.as_str(), *count)).collect();
    assert_eq!(nested, inner);
}

fn gaps(report: &Report, folder: &Scratch) -> Vec<String> {
    let folder = folder.folder().to_string_lossy().into_owned();
    let notes = report.summary.notes.iter();
    notes
        .filter(|note| note.starts_with("CUDA ") && note.contains(&folder))
        .cloned()
        .collect()
}

/// A million calls from ten threads, through `dlsym`; and fewer through `cuGetProcAddress_v2`, through a runtime library
/// and through a runtime that is linked in, stripped: all exact, all at once.
#[test]
fn every_way_is_exact() {
    require_bpf!();
    let mix = Mix::new();
    let runtime = mix.scratch.runtime("runtime");
    let inside = mix.with_runtime_inside();
    let go = mix.scratch.path("go");
    let (go, runtime) = (go.to_str().unwrap(), runtime.to_str().unwrap());
    // 59 calls a round through the driver.
    let ways: [(&PathBuf, &[&str], u32, bool); 4] = [
        (&mix.dynamic, &["-f", go, "-t", "10"], 1700, false),
        (&mix.dynamic, &["-f", go, "-t", "10", "-g"], 150, false),
        (
            &mix.dynamic,
            &["-f", go, "-t", "10", "-r", runtime],
            150,
            true,
        ),
        (&inside, &["-f", go, "-t", "10", "-g"], 150, false),
    ];
    let mut recorder = Recorder::new();
    let mut targets = Vec::new();
    for (index, (program, options, rounds, _)) in ways.iter().enumerate() {
        let words = mix.words(program, options, *rounds);
        let out = mix.scratch.path(&format!("truth{index}"));
        let target = Target::start_into(Command::new(&words[0]).args(&words[1..]), &out);
        wait::until("the driver is mapped", || {
            let maps = std::fs::read_to_string(format!("/proc/{}/maps", target.pid())).ok()?;
            maps.contains("/driver/libcuda.so.1").then_some(())
        });
        recorder = recorder.pid(target.pid());
        targets.push(target);
    }
    let running = recorder.start();
    mix.scratch.signal("go");
    let report = running.finish().report();
    targets.into_iter().for_each(Target::finish);
    assert_eq!(gaps(&report, &mix.scratch), Vec::<String>::new());
    let mut calls = 0;
    for (index, (.., runtime_is_probed)) in ways.iter().enumerate() {
        let text = std::fs::read_to_string(mix.scratch.path(&format!("truth{index}"))).unwrap();
        let truth = CudaMix::find(&text);
        assert_eq!(
            truth.library.threads.len(),
            11,
            "ten, and the one that began"
        );
        assert_mix(&report, &truth, *runtime_is_probed);
        let tallies = truth.library.tallies();
        calls += tallies.values().map(|tally| tally.calls).sum::<u64>();
    }
    assert!(calls > 1_000_000, "{calls}");
}

/// A command whose LD_LIBRARY_PATH names the driver and the runtime: both are probed before it maps them, so its very
/// first call counts, and there is no gap to state.
#[test]
fn a_library_path_is_known_before() {
    require_bpf!();
    let mix = Mix::new();
    let runtime = mix.scratch.runtime("driver");
    let folder = mix.scratch.path("driver");
    // By names that only the loader resolves.
    let program = mix.dynamic.to_str().unwrap();
    let words = [program, "-r", "libcudart.so.12", "libcuda.so.1", "40"];
    let recorded = Recorder::new()
        .variable("LD_LIBRARY_PATH", folder.to_str().unwrap())
        .command(words)
        .run();
    let report = recorded.report();
    assert_mix(&report, &CudaMix::find(&recorded.said.out), true);
    assert_eq!(gaps(&report, &mix.scratch), Vec::<String>::new());
    assert!(runtime.is_file());
}

/// One file under two names, mapped by two processes: one set of probes, so that a call counts once.
#[test]
fn two_names_of_a_file_count_once() {
    require_bpf!();
    let mix = Mix::new();
    let other = mix.scratch.path("other");
    std::fs::create_dir(&other).unwrap();
    let other = other.join("libcuda.so.1");
    std::fs::hard_link(&mix.driver, &other).unwrap();
    let running = Recorder::new().start();
    let mut truths = Vec::new();
    for driver in [&mix.driver, &other] {
        let out = mix.scratch.path("truth");
        let mut command = Command::new(&mix.dynamic);
        Target::start_into(command.arg(driver).arg("30"), &out).finish();
        truths.push(CudaMix::find(&std::fs::read_to_string(&out).unwrap()));
    }
    let recorded = running.end_with(nix::sys::signal::Signal::SIGINT);
    for truth in &truths {
        assert_mix(&recorded.report(), truth, false);
    }
}

/// A sample inside a call carries the driver's name on the leaf side, and the runtime's where its own symbol stands: once
/// each. What the probes themselves cost is no hole in the stack.
#[test]
fn both_levels_are_in_stacks() {
    require_bpf!();
    let mix = Mix::new();
    mix.scratch.runtime("driver");
    let folder = mix.scratch.path("driver");
    let program = mix.dynamic.to_str().unwrap();
    let words = [
        program,
        "-t",
        "2",
        "-r",
        "libcudart.so.12",
        "libcuda.so.1",
        "4000",
    ];
    let recorded = Recorder::new()
        .hertz(997)
        .variable("LD_LIBRARY_PATH", folder.to_str().unwrap())
        .command(words)
        .run();
    let (mut inside, mut unnamed, mut under_runtime, mut holes, mut all) = (0, 0, 0, 0, 0);
    for stack in &recorded.folded().stacks {
        let called = |frame: &String| frame.ends_with(" [cuda]");
        let frames = &stack.frames;
        all += stack.count;
        // The truth is put together by the stand-in too.
        let in_driver = frames
            .iter()
            .any(|frame| frame.starts_with("libcuda.so.1+"))
            && !frames.iter().any(|frame| frame == "print_json (cuda_mix)");
        inside += stack.count * u64::from(in_driver);
        let Some(at) = frames.iter().position(called) else {
            unnamed += stack.count * u64::from(in_driver);
            continue;
        };
        assert!(!frames[at + 1..].iter().any(called), "one name: {stack:#?}");
        let name = frames[at].strip_suffix(" [cuda]").unwrap();
        let runtime = frames[..at]
            .last()
            .filter(|frame| frame.ends_with(" (libcudart.so.12)"));
        if let Some(runtime) = runtime {
            assert!(
                name.starts_with("cu") && !name.starts_with("cuda"),
                "{stack:#?}"
            );
            let same = [
                ("cudaStreamSynchronize", "cuStreamSynchronize"),
                ("cudaFree", "cuMemFree_v2"),
            ];
            for (outer, inner) in same {
                if *runtime == format!("{outer} (libcudart.so.12)") {
                    assert_eq!(name, inner, "{stack:#?}");
                    under_runtime += stack.count;
                }
            }
        }
        let own = format!("{name} (libcudart.so.12)");
        assert!(frames.get(at + 1) != Some(&own), "named twice: {stack:#?}");
        holes += stack.count * u64::from(frames[0] == "[native frames cut]");
    }
    println!(
        "{all}: in the driver {inside}, unnamed {unnamed}, under both {under_runtime}, cut {holes}"
    );
    assert!(inside > 100 && under_runtime > 10);
    assert!(unnamed * 100 <= inside, "{unnamed} of {inside} are unnamed");
    assert!(holes * 100 <= all, "{holes} of {all} are cut inside a call");
}
