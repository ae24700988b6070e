//! A folder of one test's own, and what is built in it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use tempfile::TempDir;

/// The C compiler's flags for a program whose stacks are walked by frame pointers.
pub const FRAME_POINTERS: &[&str] = &[
    "-O1",
    "-g",
    "-fno-omit-frame-pointer",
    "-fno-optimize-sibling-calls",
    "-pthread",
];

/// A folder that is gone with the value. Every user may look into it.
#[derive(Debug)]
pub struct Scratch(TempDir);

impl Scratch {
    /// Makes one.
    pub fn new() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("wholestack-test-")
            .tempdir()
            .expect("a folder can be made");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
        Self(folder)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    /// A name in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// The names that lie in it, sorted.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder()).expect("it is there");
        let mut names: Vec<_> = entries
            .map(|entry| {
                entry
                    .expect("it can be read")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        names.sort();
        names
    }

    /// A file with this text.
    pub fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect("a file can be written");
        path
    }

    /// A file with this text that can be run.
    pub fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.file(name, text);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
        path
    }

    /// Makes a file that says only by being there that something may begin.
    pub fn signal(&self, name: &str) {
        self.file(name, "");
    }

    /// Compiles a C source with these flags.
    pub fn build(&self, name: &str, source: &Path, flags: &[&str]) -> PathBuf {
        let path = self.path(name);
        let mut compiler = Command::new("cc");
        compiler
            .args(flags)
            .arg("-o")
            .arg(&path)
            .arg(source)
            .arg("-ldl");
        let done = compiler.output().expect("there is a C compiler");
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
        path
    }

    /// A program that uses as much CPU time as it is told to (tests/e2e/programs/burner.c).
    pub fn burner(&self) -> PathBuf {
        self.build("burner", &small_program("burner.c"), FRAME_POINTERS)
    }

    /// The same as a shared library.
    pub fn burner_library(&self) -> PathBuf {
        let flags = [FRAME_POINTERS, &["-shared", "-fPIC"]].concat();
        self.build("libburner.so", &small_program("burner.c"), &flags)
    }

    /// The stand-in for the CUDA driver as a file that nobody has mapped yet.
    pub fn driver(&self, name: &str) -> PathBuf {
        fs::create_dir_all(self.path(name)).expect("a folder can be made");
        let path = self.path(name).join("libcuda.so.1");
        fs::copy(&*DRIVER, &path).expect("the stand-in can be copied");
        path
    }
}

impl Scratch {
    /// The stand-in for the runtime library, as a file that nobody has mapped yet.
    pub fn runtime(&self, name: &str) -> PathBuf {
        fs::create_dir_all(self.path(name)).expect("a folder can be made");
        let flags = [
            "-O2",
            "-shared",
            "-fPIC",
            "-fcf-protection=none",
            "-s",
            "-Wl,-soname,libcudart.so.12",
            "-Wl,--default-symver",
        ];
        let file = format!("{name}/libcudart.so.12");
        self.build(&file, &workload("fakecudart.c"), &flags)
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

/// The stand-in, built once by its own script.
static DRIVER: LazyLock<PathBuf> = LazyLock::new(|| {
    let built = Command::new("python3")
        .arg(workload("standin.py"))
        .output()
        .expect("there is a python3");
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    String::from_utf8_lossy(&built.stdout).trim().into()
});

/// A program of tests/workloads.
pub fn workload(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("workloads")
        .join(name)
}

/// A small program that only one test needs, beside the tests.
pub fn small_program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/e2e/programs")
        .join(name)
}
