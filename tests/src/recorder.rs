//! `wholestack record`: started with all its outputs in a folder of its own, and what it left there.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::folded::Folded;
use crate::program::{self, Said};
use crate::report::Report;
use crate::scratch::Scratch;
use crate::{kernel, target, wait};

/// No recording of a test takes longer; one that does hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A recording to be made.
#[derive(Debug)]
pub struct Recorder {
    scratch: Scratch,
    options: Command,
    command: Vec<std::ffi::OsString>,
}

impl Recorder {
    /// Records the whole machine, unless told otherwise.
    pub fn new() -> Self {
        let scratch = Scratch::new();
        let mut options = program::wholestack(["record"]);
        for name in ["a.wstk", "a.folded", "a.json"] {
            options.arg("-o").arg(scratch.path(name));
        }
        Self {
            scratch,
            options,
            command: Vec::new(),
        }
    }

    /// Records this process and its children.
    pub fn pid(self, pid: u32) -> Self {
        self.option("-p", pid.to_string())
    }

    /// Starts a command and records it.
    pub fn command<A: AsRef<OsStr>>(mut self, words: impl IntoIterator<Item = A>) -> Self {
        self.command = words
            .into_iter()
            .map(|word| word.as_ref().to_owned())
            .collect();
        self
    }

    /// Stops by itself after a time.
    pub fn seconds(self, seconds: f64) -> Self {
        self.option("-d", seconds.to_string())
    }

    /// Sets the frequency.
    pub fn hertz(self, hertz: u32) -> Self {
        self.option("-F", hertz.to_string())
    }

    /// Adds an option with its value.
    pub fn option(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.options.arg(name).arg(value);
        self
    }

    /// Adds an option without a value.
    pub fn flag(mut self, name: &str) -> Self {
        self.options.arg(name);
        self
    }

    /// Sets a variable of the environment.
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.options.env(name, value);
        self
    }

    /// Makes the recording, to its own end.
    pub fn run(self) -> Recorded {
        self.spawn().finish()
    }

    /// Starts the recorder, and returns once it records.
    ///
    /// # Panics
    ///
    /// When it ends before.
    pub fn start(self) -> Running {
        let mut running = self.spawn();
        wait::until("the recorder records", || {
            assert!(
                !running.has_ended(),
                "it ended before it began: {}",
                running.complaints()
            );
            kernel::is_recording(running.pid()).then_some(())
        });
        running
    }

    /// Starts the recorder, as the leader of a process group.
    fn spawn(mut self) -> Running {
        let open = |name| File::create(self.scratch.path(name)).expect("a file can be made");
        self.options
            .stdout(open("out"))
            .stderr(open("err"))
            .process_group(0);
        if !self.command.is_empty() {
            self.options.arg("--").args(&self.command);
        }
        let child = self.options.spawn().expect("the program can be run");
        Running {
            child,
            scratch: self.scratch,
        }
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

/// A recorder at work; killed, with the command it started, when the value goes.
#[derive(Debug)]
pub struct Running {
    child: Child,
    scratch: Scratch,
}

impl Running {
    /// The recorder's pid, which is also its process group's.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The folder its outputs go to.
    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// The pid of the command that it started.
    pub fn child(&self) -> u32 {
        let list = format!("/proc/{0}/task/{0}/children", self.pid());
        wait::until("the command runs", || {
            fs::read_to_string(&list)
                .ok()?
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        })
    }

    /// What it has said on standard error so far.
    pub fn complaints(&self) -> String {
        fs::read_to_string(self.scratch.path("err")).unwrap_or_default()
    }

    fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_some()
    }

    /// Ends it with a signal, and takes what it left.
    pub fn end_with(self, signal: Signal) -> Recorded {
        target::send(self.pid(), signal);
        self.finish()
    }

    /// Waits for its end, and takes what it left.
    pub fn finish(mut self) -> Recorded {
        let start = Instant::now();
        while !self.has_ended() {
            assert!(
                start.elapsed() < PATIENCE,
                "the recorder does not end; it said: {}",
                self.complaints()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        let status = self.child.wait().expect("it is our child");
        let text = |name| fs::read_to_string(self.scratch.path(name)).expect("it was written");
        let said = Said {
            code: status.code(),
            out: text("out"),
            err: text("err"),
        };
        let scratch = std::mem::take(&mut self.scratch);
        Recorded { said, scratch }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended, and its command too: then there is nothing to kill.
        if let Ok(group) = i32::try_from(self.child.id()) {
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(-group), Signal::SIGKILL);
        }
        let _ = self.child.wait();
    }
}

/// A recorder that has ended, and its outputs.
#[derive(Debug)]
pub struct Recorded {
    /// What it said, and the command's own standard output with it.
    pub said: Said,
    /// The folder with its outputs.
    pub scratch: Scratch,
}

impl Recorded {
    /// The recording, after making sure that all went well.
    #[track_caller]
    pub fn wstk(&self) -> PathBuf {
        assert_eq!(self.said.code, Some(0), "{:#?}", self.said);
        self.scratch.path("a.wstk")
    }

    /// The report as data, after making sure that all went well.
    #[track_caller]
    pub fn report(&self) -> Report {
        assert_eq!(self.said.code, Some(0), "{:#?}", self.said);
        Report::read(&self.scratch.path("a.json"))
    }

    /// The folded stacks, after making sure that all went well.
    #[track_caller]
    pub fn folded(&self) -> Folded {
        assert_eq!(self.said.code, Some(0), "{:#?}", self.said);
        Folded::read(&self.scratch.path("a.folded"))
    }
}

/// Exports a recording to folded stacks and to the report as data, with a recorder that has nothing to do with it.
pub fn export(recording: &Path) -> (Folded, Report) {
    let scratch = Scratch::new();
    let (folded, json) = (scratch.path("b.folded"), scratch.path("b.json"));
    let words: [&OsStr; 6] = [
        "export".as_ref(),
        recording.as_ref(),
        "-o".as_ref(),
        folded.as_ref(),
        "-o".as_ref(),
        json.as_ref(),
    ];
    let said = program::run(words);
    assert_eq!(said.code, Some(0), "{said:#?}");
    (Folded::read(&folded), Report::read(&json))
}
