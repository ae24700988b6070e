//! The program under test: where it is, and running it to its end.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

static BINARY: LazyLock<PathBuf> = LazyLock::new(|| {
    if let Some(named) = env::var_os("WHOLESTACK_BIN") {
        return named.into();
    }
    let test = env::current_exe().expect("a test knows its own file");
    // target/PROFILE/deps/TEST; whichever build of the program is the newest is meant.
    let profiles = test
        .ancestors()
        .nth(3)
        .expect("tests lie in target/PROFILE/deps");
    let built = ["release", "debug"].map(|profile| profiles.join(profile).join("wholestack"));
    let age = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).ok();
    let newest = built
        .into_iter()
        .filter(|path| age(path).is_some())
        .max_by_key(|path| age(path));
    newest.unwrap_or_else(|| {
        panic!(
            "{} has no wholestack: `cargo build --release` makes it",
            profiles.display()
        )
    })
});

/// The program: WHOLESTACK_BIN, as `cargo xtask test` sets it, or the newest one beside the test's own build.
pub fn path() -> &'static Path {
    &BINARY
}

/// The program with these arguments. What the person at the terminal has in the environment plays no part.
pub fn wholestack<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(path());
    command.args(arguments).stdin(Stdio::null());
    for name in [
        "SUDO_UID",
        "SUDO_GID",
        "SUDO_USER",
        "WHOLESTACK_LOG",
        "RUST_BACKTRACE",
    ] {
        command.env_remove(name);
    }
    command
}

/// What a run that has ended said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Exit code; `None` if it was killed.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Said {
    /// The lines of standard error.
    pub fn complaints(&self) -> Vec<&str> {
        self.err.lines().collect()
    }

    /// The one line with which the program refused, in the orderly way: with this exit code, nothing on standard output,
    /// and one line that names the program and says nothing twice.
    ///
    /// # Panics
    ///
    /// When it ended in any other way.
    #[track_caller]
    pub fn refused_with(&self, code: i32) -> &str {
        assert_eq!(self.code, Some(code), "{self:#?}");
        assert_eq!(self.out, "", "{self:#?}");
        let [line] = self.complaints()[..] else {
            panic!("not one line: {self:#?}")
        };
        assert_says_once(line);
        line.strip_prefix("wholestack: ")
            .unwrap_or_else(|| panic!("does not say who complains: {line}"))
    }
}

/// Checks that no reason stands in a line twice, as when an error and its cause have the same text.
#[track_caller]
pub fn assert_says_once(line: &str) {
    let mut parts: Vec<&str> = line.split(": ").collect();
    let said = parts.len();
    parts.sort_unstable();
    parts.dedup();
    assert_eq!(parts.len(), said, "says it twice: {line}");
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("the program prints UTF-8");
        Self {
            code: output.status.code(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }
}

/// Runs the program to its end.
pub fn run<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Said {
    wholestack(arguments)
        .output()
        .expect("the program can be run")
        .into()
}
