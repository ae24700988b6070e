//! What is written: the same figures everywhere, readable by others, whole or not at all.

use std::fs;
use std::io::Read as _;
use std::process::Stdio;
use std::sync::Mutex;

use inferno::flamegraph;
use wholestack_tests::program::{Said, assert_says_once, run, wholestack};
use wholestack_tests::pythons::{Python, pythons};
use wholestack_tests::recorder::{Recorder, export};
use wholestack_tests::report::Report;
use wholestack_tests::scratch::{Scratch, small_program};
use wholestack_tests::{require_bpf, require_python};

use crate::fixtures::{machine, trainings};

/// What inferno had to say.
static COMPLAINTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Collect;

impl log::Log for Collect {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        if record.level() <= log::Level::Warn {
            COMPLAINTS.lock().unwrap().push(record.args().to_string());
        }
    }

    fn flush(&self) {}
}

/// inferno draws every sample of every recording, and warns of nothing.
#[test]
fn inferno_draws_every_sample() {
    require_bpf!();
    require_python!();
    log::set_logger(&Collect).unwrap();
    log::set_max_level(log::LevelFilter::Warn);
    let runs = trainings().iter().map(|run| (&run.folded, &run.report));
    for (folded, report) in runs.chain([(&machine().folded, &machine().report)]) {
        let mut drawn = Vec::new();
        flamegraph::from_lines(
            &mut flamegraph::Options::default(),
            folded.text.lines(),
            &mut drawn,
        )
        .unwrap();
        let drawn = String::from_utf8(drawn).unwrap().replace(',', "");
        let all = format!("<title>all ({} samples 100%)</title>", report.summary.kept);
        assert!(drawn.contains(&all), "inferno does not find {all}");
        assert_eq!(*COMPLAINTS.lock().unwrap(), Vec::<String>::new());
    }
}

/// The recording holds all of it: what is exported from it later is byte for byte what was written at once, and the
/// report of it is the one that was printed.
#[test]
fn a_recording_says_the_same_later() {
    require_bpf!();
    let scratch = Scratch::new();
    let wstk = machine().file(&scratch);
    let (folded, report) = export(&wstk);
    assert_eq!(folded.text, machine().folded.text);
    assert_eq!(report, machine().report);
    let later = run(["report".as_ref(), wstk.as_os_str()]);
    assert_eq!((later.code, &*later.err), (Some(0), ""));
    assert_eq!(later.out, machine().said.out);
}

/// `--json` prints on standard output what `-o x.json` writes, and nothing else; what is for people goes to standard
/// error.
#[test]
fn json_is_all_there_is_on_standard_output() {
    require_bpf!();
    let live = Recorder::new()
        .flag("--json")
        .option("--top", "1000000")
        .command(["true"])
        .run();
    let (printed, written) = (
        &live.said.out,
        fs::read_to_string(live.scratch.path("a.json")).unwrap(),
    );
    assert_eq!(Report::parse(printed), Report::parse(&written));
    let wstk = live.wstk();
    let later = run([
        "report".as_ref(),
        "--json".as_ref(),
        "--top".as_ref(),
        "1000000".as_ref(),
        wstk.as_os_str(),
    ]);
    assert_eq!((later.code, &later.out), (Some(0), printed));
}

/// Without -o the recording is wholestack.wstk in the current folder.
#[test]
fn the_recording_has_a_name_by_default() {
    require_bpf!();
    let scratch = Scratch::new();
    let done = wholestack(["record", "--", "true"])
        .current_dir(scratch.folder())
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    assert_eq!(scratch.names(), ["wholestack.wstk"]);
}

/// A reader that has seen enough, such as `head`, is no failure and no panic, whether it reads tables or data.
#[test]
fn a_reader_may_leave() {
    require_bpf!();
    let scratch = Scratch::new();
    let wstk = machine().file(&scratch);
    for options in [&[][..], &["--json"]] {
        let mut report = wholestack(["report"]);
        report
            .args(options)
            .arg(&wstk)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut report = report.spawn().unwrap();
        drop(report.stdout.take());
        let mut said = String::new();
        report
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        assert_eq!(
            (report.wait().unwrap().code(), &*said),
            (Some(0), ""),
            "{options:?}"
        );
    }
}

/// A report that cannot be written to standard output is exit code 5, and said.
#[test]
fn standard_output_may_be_full() {
    require_bpf!();
    let scratch = Scratch::new();
    let wstk = machine().file(&scratch);
    for options in [&[][..], &["--json"]] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let said = wholestack(["report"])
            .args(options)
            .arg(&wstk)
            .stdout(full)
            .output()
            .unwrap();
        let line = Said::from(said).refused_with(5).to_owned();
        assert!(line.contains("No space left"), "{line}");
    }
}

/// The report of several recordings is of all their samples, processes and losses.
#[test]
fn recordings_are_merged() {
    require_bpf!();
    let scratch = Scratch::new();
    let burner = scratch.burner();
    let other = Recorder::new()
        .command([burner.as_os_str(), "0.3".as_ref()])
        .run();
    let paths = [machine().file(&scratch), other.wstk()];
    let said = run(["report".as_ref(), "--json".as_ref()]
        .into_iter()
        .chain(paths.iter().map(|path| path.as_os_str())));
    assert_eq!(said.code, Some(0), "{said:#?}");
    let [merged, one, two] = [
        Report::parse(&said.out),
        machine().report.clone(),
        other.report(),
    ]
    .map(|report| report.summary);
    assert_eq!(merged.kept, one.kept + two.kept);
    assert_eq!(
        (merged.taken, merged.balanced),
        (one.taken + two.taken, true)
    );
    assert_eq!(merged.processes, one.processes + two.processes);
}

/// An output that fills its disk is exit code 5 and one line that names it; the recording beside it is whole.
#[test]
fn a_full_disk_costs_one_output_only() {
    require_bpf!();
    let scratch = Scratch::new();
    let full = scratch.path("full.folded");
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let recorded = Recorder::new().option("-o", &full).command(["true"]).run();
    assert_eq!(recorded.said.code, Some(5), "{:#?}", recorded.said);
    let last = recorded
        .said
        .complaints()
        .last()
        .copied()
        .unwrap_or_default();
    assert!(
        last.starts_with("wholestack: ")
            && last.contains("full.folded")
            && last.contains("No space left"),
        "{last}"
    );
    assert_says_once(last);
    let report = run([
        "report".as_ref(),
        recorded.scratch.path("a.wstk").as_os_str(),
    ]);
    assert_eq!((report.code, &*report.err), (Some(0), ""), "{report:#?}");
}

/// A recording that fills its disk ends with exit code 5, says so in one line, and does not hang.
#[test]
fn a_full_disk_ends_a_recording() {
    require_bpf!();
    let scratch = Scratch::new();
    let full = scratch.path("full.wstk");
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let mut command = wholestack(["record", "-d", "2", "-o"]);
    let done = command.arg(&full).output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(5), "{said}");
    let last = said.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("wholestack: ")
            && last.contains("full.wstk")
            && last.contains("No space left"),
        "{said}"
    );
    assert_says_once(last);
}

/// Names that break careless writers (separators, line breaks, escapes, numbers at the end, other scripts) come out of
/// the folded file as they were, from each version of the interpreter, and break no line of the report.
#[test]
fn odd_names_survive() {
    require_bpf!();
    require_python!();
    for python in pythons() {
        odd_names_of(python);
    }
}

fn odd_names_of(python: &Python) {
    let scratch = Scratch::new();
    let names = scratch.path("names");
    let words = [&python.path, &small_program("names.py"), &names]
        .map(|path| path.clone().into_os_string());
    let recorded = Recorder::new()
        .hertz(499)
        .command(words.into_iter().chain(["0.1".into()]))
        .run();
    let folded = recorded.folded();
    let names: Vec<String> = serde_json::from_str(&fs::read_to_string(names).unwrap()).unwrap();
    for name in &names {
        let found = folded.count(|stack| stack.has_function("names.py", name));
        // 50 samples each: as many, half or twice would be more than seven standard deviations off.
        let version = &python.version;
        assert!(
            (25..100).contains(&found),
            "{version}: {name:?} is in {found} samples"
        );
    }
    let control = |c: char| c.is_control() && c != '\n';
    assert!(
        !recorded.said.out.contains(control),
        "{:?}",
        recorded.said.out
    );
}
