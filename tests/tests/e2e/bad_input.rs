//! Wrong input: the right exit code, one line that says what is wrong, nothing left behind, and never a panic.

use std::fs;
use std::path::Path;

use wholestack_tests::program::{Said, assert_says_once, run, wholestack};
use wholestack_tests::recorder::Recorder;
use wholestack_tests::require_bpf;
use wholestack_tests::scratch::Scratch;
use wholestack_tests::target::no_pid;

use crate::fixtures::machine;

/// Runs `record` with these arguments in an empty folder; nothing may be left there, and no command may have run.
#[track_caller]
fn refused(arguments: &[&str], code: i32) -> String {
    let scratch = Scratch::new();
    let done = wholestack(["record"])
        .args(arguments)
        .current_dir(scratch.folder())
        .output()
        .unwrap();
    let said = Said::from(done);
    let line = said.refused_with(code).to_owned();
    assert_eq!(
        scratch.names(),
        Vec::<String>::new(),
        "nothing may be left: {line}"
    );
    line
}

/// A pid that no process has: exit code 4, and the pid is named.
#[test]
fn a_missing_process() {
    require_bpf!();
    let pid = no_pid().to_string();
    assert!(refused(&["-p", &pid], 4).contains(&pid));
    let own = std::process::id().to_string();
    assert!(refused(&["-p", &own, "-p", &pid], 4).contains(&pid));
}

/// A command that is not there, or cannot be run: exit code 4, the command is named, nothing is recorded.
#[test]
fn a_missing_command() {
    require_bpf!();
    let scratch = Scratch::new();
    let no_interpreter = scratch.script("script", "#!/no/such/interpreter\n");
    for command in ["no-such-command", "/etc/passwd", "/"] {
        let line = refused(&["--", command], 4);
        assert!(line.contains(&format!("`{command}`")), "{line}");
    }
    // Only starting it shows that it cannot be: the recording has been announced then.
    let folder = Scratch::new();
    let mut record = wholestack(["record", "--"]);
    let said = Said::from(
        record
            .arg(&no_interpreter)
            .current_dir(folder.folder())
            .output()
            .unwrap(),
    );
    assert_eq!((said.code, &*said.out), (Some(4), ""), "{said:#?}");
    let last = said.complaints().last().copied().unwrap_or_default();
    assert!(
        last.contains(&format!("cannot start `{}`", no_interpreter.display())),
        "{said:#?}"
    );
    assert_says_once(last);
    assert_eq!(
        folder.names(),
        Vec::<String>::new(),
        "nothing was recorded, nothing may be left"
    );
}

/// A frequency of nothing, or above what the kernel takes: exit code 2, and the kernel's limit is named.
#[test]
fn a_frequency_out_of_range() {
    require_bpf!();
    let limit = fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate").unwrap();
    let limit = limit.trim();
    let above = (limit.parse::<u64>().unwrap() + 1).to_string();
    for hertz in ["0", &above, "4294967295"] {
        let line = refused(&["-F", hertz, "--", "touch", "started"], 2);
        assert!(line.contains(limit) && line.contains(hertz), "{line}");
    }
}

/// An output that cannot be written is refused before the command is started, with exit code 5 and its name.
#[test]
fn an_output_that_cannot_be_written() {
    require_bpf!();
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("folder.wstk")).unwrap();
    let missing = scratch.path("missing/x.wstk");
    let folder = scratch.path("folder.wstk");
    let under_a_file = Path::new("/etc/passwd/x.wstk");
    let in_proc = Path::new("/proc/x.wstk");
    for output in [&*missing, &*folder, under_a_file, in_proc] {
        let output = output.to_str().unwrap();
        let line = refused(&["-o", output, "--", "touch", "started"], 5);
        assert!(line.contains(output), "{line}");
        let other = output.replace(".wstk", ".json");
        if !output.contains("folder") {
            assert!(
                refused(
                    &["-o", "good.wstk", "-o", &other, "--", "touch", "started"],
                    5
                )
                .contains(&other)
            );
        }
    }
}

/// An ending that stands for no format: exit code 2, and those that do are named.
#[test]
fn an_unknown_ending() {
    require_bpf!();
    for name in ["x.xyz", "x", "/dev/null"] {
        let line = refused(&["-o", name, "--", "touch", "started"], 2);
        for ending in [name, ".wstk", ".folded", ".json"] {
            assert!(line.contains(ending), "{ending} is not named: {line}");
        }
    }
    assert!(
        refused(
            &["-o", "a.wstk", "-o", "b.wstk", "--", "touch", "started"],
            2
        )
        .contains("more than one")
    );
}

/// Arguments that make no sense: exit code 2 and a usage message, before anything happens.
#[test]
fn wrong_usage() {
    let scratch = Scratch::new();
    for arguments in [
        &["record", "-p", "1", "--", "touch", "started"][..],
        &["record", "touch", "started"],
        &["record", "-p", "nothing"],
        &["record", "-p", "-1"],
        &["record", "-d", "0", "--", "touch", "started"],
        &["record", "-d", "soon"],
        &["record", "-F", "-1"],
        &["record", "-F", "4294967296"],
        &["record", "--buffer-kib", "5"],
        &["record", "--buffer-kib", "0"],
        &["report"],
        &["export", "a.wstk"],
        &["nothing"],
        &[],
    ] {
        let said = Said::from(
            wholestack(arguments)
                .current_dir(scratch.folder())
                .output()
                .unwrap(),
        );
        assert_eq!(
            (said.code, &*said.out),
            (Some(2), ""),
            "{arguments:?}: {said:#?}"
        );
        assert!(
            said.err.contains("Usage: ") || said.err.contains("error: "),
            "{arguments:?}: {said:#?}"
        );
        assert_eq!(scratch.names(), Vec::<String>::new(), "{arguments:?}");
    }
}

/// What is no recording is called that, with exit code 2 and its name: text, another format, nothing, a folder, a
/// missing file, a device.
#[test]
fn what_is_no_recording() {
    let scratch = Scratch::new();
    let text = scratch.file("text.wstk", "this is not it\n".repeat(100));
    let empty = scratch.file("empty.wstk", "");
    let zeros = scratch.file("zeros.wstk", [0; 4096]);
    let other = std::env::current_exe().unwrap();
    let missing = scratch.path("missing.wstk");
    for (path, why) in [
        (&*text, "not a wholestack recording"),
        (&*other, "not a wholestack recording"),
        (&*zeros, "not a wholestack recording"),
        (&*empty, "ends at byte 0"),
        (scratch.folder(), "directory"),
        (&*missing, "No such file"),
        (Path::new("/dev/null"), "ends at byte 0"),
    ] {
        for command in ["report", "export"] {
            let output = scratch.path("x.json");
            let outputs = ["-o".as_ref(), output.as_os_str()];
            let outputs = if command == "export" {
                &outputs[..]
            } else {
                &[]
            };
            let said = run([command.as_ref(), path.as_os_str()].iter().chain(outputs));
            let line = said.refused_with(2);
            assert!(
                line.contains(&*path.to_string_lossy()),
                "does not name the file: {line}"
            );
            assert!(
                line.to_lowercase().contains(&why.to_lowercase()),
                "does not say that it is {why}: {line}"
            );
            assert!(
                !output.exists(),
                "{command} of {} left an output",
                path.display()
            );
        }
    }
}

/// A recording of a later version is named as that, with both versions.
#[test]
fn a_later_version() {
    require_bpf!();
    let scratch = Scratch::new();
    let mut bytes = machine().wstk.clone();
    bytes[8..12].copy_from_slice(&77u32.to_le_bytes());
    let path = scratch.file("later.wstk", bytes);
    let said = run(["report".as_ref(), path.as_os_str()]);
    let line = said.refused_with(2);
    assert!(
        line.contains("version 77") && line.contains("version 1"),
        "{line}"
    );
}

/// A recording that is cut, anywhere, is read up to there and called cut; only where nothing is left to show it is
/// refused, as cut, too.
#[test]
fn a_cut_recording() {
    require_bpf!();
    let scratch = Scratch::new();
    let bytes = &machine().wstk;
    let whole = machine().report.summary.kept;
    let mut kept = Vec::new();
    let length = bytes.len();
    for cut in [
        1,
        7,
        8,
        11,
        12,
        20,
        24,
        60,
        length / 3,
        length / 2,
        length - 500,
        length - 13,
        length - 1,
    ] {
        let path = scratch.file("cut.wstk", &bytes[..cut]);
        let said = run(["report".as_ref(), "--json".as_ref(), path.as_os_str()]);
        if said.code == Some(0) {
            let report = wholestack_tests::report::Report::parse(&said.out);
            assert!(
                !report.summary.closed,
                "cut at {cut} of {length}: {:#?}",
                report.summary
            );
            let told = run(["report".as_ref(), path.as_os_str()]);
            assert!(told.out.contains("cut"), "cut at {cut}: {}", told.out);
            kept.push(report.summary.kept);
        } else {
            assert!(cut < 1000, "cut at {cut} of {length}: {said:#?}");
            let line = said.refused_with(2);
            assert!(
                line.contains("ends at byte") || line.contains("not a wholestack recording"),
                "cut at {cut}: {line}"
            );
        }
    }
    assert!(
        kept.is_sorted() && kept.last() == Some(&whole),
        "the more is left, the more is read: {kept:?}, {whole}"
    );
}

/// A recording with damaged bytes is never a panic: it is refused in one line, or read up to the damage and called that.
#[test]
fn a_damaged_recording() {
    require_bpf!();
    let scratch = Scratch::new();
    let bytes = &machine().wstk;
    // Every byte of the first chunk's head, and then ever further apart.
    let places = (8..40).chain((0..60).map(|step| 40 + step * step * (bytes.len() - 41) / 3600));
    for place in places {
        let mut damaged = bytes.clone();
        damaged[place] ^= 0x55;
        let path = scratch.file("damaged.wstk", damaged);
        let said = run(["report".as_ref(), "--json".as_ref(), path.as_os_str()]);
        match said.code {
            Some(0) => {
                let report = wholestack_tests::report::Report::parse(&said.out);
                assert!(
                    !report.summary.closed,
                    "byte {place} is damaged: {:#?}",
                    report.summary
                );
            }
            _ => assert!(!said.refused_with(2).is_empty(), "byte {place}: {said:#?}"),
        }
    }
}

/// A process that has ended, but is still in the list of processes since nobody has waited for it, is a recording that
/// ends at once and says why.
#[test]
fn a_process_that_has_ended() {
    require_bpf!();
    let mut dead = std::process::Command::new("true").spawn().unwrap();
    wholestack_tests::wait::until("it has ended", || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", dead.id())).unwrap();
        stat.contains(") Z ").then_some(())
    });
    let recorded = Recorder::new().pid(dead.id()).seconds(20.0).run();
    dead.wait().unwrap();
    assert_eq!(recorded.report().summary.kept, 0);
    assert!(recorded.said.err.contains("ended"), "{:#?}", recorded.said);
}
