//! Who may record, and as whom the recorded command runs.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use wholestack_tests::program::{self, Said};
use wholestack_tests::recorder::Recorder;
use wholestack_tests::require_bpf;
use wholestack_tests::scratch::Scratch;

/// The user and group that own nothing.
const NOBODY: u32 = 65534;

/// The program where every user can run it, and a folder where every user can write.
fn for_everyone() -> (Scratch, std::path::PathBuf) {
    let scratch = Scratch::new();
    let program = scratch.path("wholestack");
    fs::copy(program::path(), &program).unwrap();
    fs::set_permissions(
        scratch.folder(),
        std::os::unix::fs::PermissionsExt::from_mode(0o777),
    )
    .unwrap();
    (scratch, program)
}

/// Without root one line says what is missing and how to get it, with exit code 3, before anything is started or
/// written.
#[test]
fn nobody_is_told_what_is_missing() {
    require_bpf!();
    let (scratch, program) = for_everyone();
    let mut record = Command::new(&program);
    record
        .args(["record", "-o", "x.wstk", "--", "touch", "started"])
        .current_dir(scratch.folder());
    record.uid(NOBODY).gid(NOBODY);
    let said = Said::from(record.output().unwrap());
    let line = said.refused_with(3);
    for right in ["CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE", "CAP_SYS_ADMIN"] {
        assert!(line.contains(right), "{line}");
    }
    let remedy = format!(
        "sudo {} record -o x.wstk -- touch started",
        program.display()
    );
    assert!(
        line.ends_with(&remedy),
        "the command to type is there, whole: {line}"
    );
    assert_eq!(scratch.names(), ["wholestack"]);
}

/// Root without one capability, as in a container, is told of that one and no other.
#[test]
fn one_missing_capability_is_named() {
    require_bpf!();
    let said = Command::new("setpriv")
        .args(["--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"])
        .arg(program::path())
        .args(["record", "-d", "1", "-o"])
        .arg(Scratch::new().path("x.wstk"))
        .output()
        .unwrap();
    let said = Said::from(said);
    let line = said.refused_with(3);
    assert!(line.contains("CAP_SYS_PTRACE"), "{line}");
    assert!(
        !line.contains("CAP_BPF") && !line.contains("CAP_PERFMON"),
        "{line}"
    );
}

/// Reading a recording needs no rights: anyone can make a report of it, and export it.
#[test]
fn anyone_can_report() {
    require_bpf!();
    let (scratch, program) = for_everyone();
    let recorded = Recorder::new().command(["true"]).run();
    fs::copy(recorded.wstk(), scratch.path("a.wstk")).unwrap();
    for arguments in [
        &["report", "a.wstk"][..],
        &["export", "a.wstk", "-o", "a.folded"],
    ] {
        let mut command = Command::new(&program);
        let done = command
            .args(arguments)
            .current_dir(scratch.folder())
            .uid(NOBODY)
            .gid(NOBODY)
            .output()
            .unwrap();
        assert!(done.status.success(), "{arguments:?}: {done:?}");
    }
}

/// Behind sudo the command runs as the user who called it, in no group of root's, and the files are that user's.
#[test]
fn the_command_is_the_callers() {
    require_bpf!();
    let id = NOBODY.to_string();
    let recorder = Recorder::new()
        .variable("SUDO_UID", &id)
        .variable("SUDO_GID", &id);
    let recorded = recorder.command(["sh", "-c", "id -u; id -g; id -G"]).run();
    recorded.report();
    let ids: Vec<&str> = recorded.said.out.lines().take(3).collect();
    assert_eq!(ids, [&id, &id, &id]);
    for name in ["a.wstk", "a.folded", "a.json"] {
        let file = fs::metadata(recorded.scratch.path(name)).unwrap();
        assert_eq!((file.uid(), file.gid()), (NOBODY, NOBODY), "{name}");
    }
}

/// The command has the groups of the user who called sudo, as a login has: devices, of GPUs too, belong to groups.
#[test]
fn the_command_is_in_the_callers_groups() {
    require_bpf!();
    let scratch = Scratch::new();
    // A mount namespace of its own has a group that the user is in.
    let groups = scratch.file(
        "group",
        "root:x:0:\nnogroup:x:65534:\ntesters:x:4242:nobody\n",
    );
    let script = format!(
        "mount --bind {} /etc/group && exec \"$0\" \"$@\"",
        groups.display()
    );
    let mut command = Command::new("unshare");
    command
        .args(["-m", "sh", "-c", &script])
        .arg(program::path())
        .args(["record", "-o"])
        .arg(scratch.path("x.wstk"));
    command
        .args(["--", "id", "-G"])
        .env("SUDO_UID", NOBODY.to_string())
        .env("SUDO_GID", NOBODY.to_string());
    let said = Said::from(command.output().unwrap());
    assert_eq!(said.code, Some(0), "{said:#?}");
    let groups: Vec<&str> = said
        .out
        .lines()
        .next()
        .unwrap_or_default()
        .split(' ')
        .collect();
    assert_eq!(groups, ["65534", "4242"], "{said:#?}");
}

/// Without sudo the command is root's, as the one who called.
#[test]
fn the_command_is_roots_for_root() {
    require_bpf!();
    let recorded = Recorder::new().command(["id", "-u"]).run();
    recorded.report();
    assert_eq!(recorded.said.out.lines().next(), Some("0"));
}
