//! Which processes run which Python, and what the kernel side was told.

use std::collections::{BTreeMap, HashMap, HashSet};

use profiler_ebpf::wire::PythonInfo;

use super::reader::Interpreters;
use crate::kernel::{Kernel, KernelError};
use crate::python::{Interpreter, PythonBuild};

/// Python processes.
#[derive(Debug)]
pub(super) struct Pythons {
    /// For those who read names.
    interpreters: Interpreters,
    understood: HashMap<u32, Interpreter>,
    /// Versions that are not understood, and the processes in which they were found.
    not_understood: BTreeMap<String, HashSet<u32>>,
    /// Processes the kernel side had no room for.
    pub over_limit: u64,
}

impl Pythons {
    pub fn new(interpreters: Interpreters) -> Self {
        Self {
            interpreters,
            understood: HashMap::new(),
            not_understood: BTreeMap::new(),
            over_limit: 0,
        }
    }

    /// A process mapped a Python.
    pub fn found(&mut self, kernel: &mut Kernel, pid: u32, build: &PythonBuild, bias: u64) {
        let Some(interpreter) = Interpreter::new(build, bias) else {
            let processes = self.not_understood.entry(build.title()).or_default();
            processes.insert(pid);
            return;
        };
        if self.understood.get(&pid) != Some(&interpreter) {
            self.is(kernel, pid, interpreter);
        }
    }

    fn is(&mut self, kernel: &mut Kernel, pid: u32, interpreter: Interpreter) {
        self.understood.insert(pid, interpreter);
        // First: samples with Python frames come as soon as the kernel side knows.
        if self.interpreters.insert(pid, interpreter) {
            self.tell(kernel, pid, &interpreter.info());
        } else {
            self.over_limit += 1;
        }
    }

    fn tell(&mut self, kernel: &mut Kernel, pid: u32, info: &PythonInfo) {
        let told: Result<(), KernelError> = kernel.set_python(pid, info);
        if let Err(error) = told {
            tracing::debug!("python of {pid}: {error}");
            self.over_limit += 1;
        }
    }

    /// A process was made by fork; the kernel side has copied what it knew.
    pub fn fork(&mut self, kernel: &mut Kernel, parent: u32, child: u32) {
        if let Some(interpreter) = self.understood.get(&parent).copied() {
            self.is(kernel, child, interpreter);
        }
    }

    /// A process ended or became another program.
    pub fn forget(&mut self, kernel: &mut Kernel, pid: u32) {
        if self.understood.remove(&pid).is_some() {
            kernel.forget_python(pid);
        }
    }

    /// One line for each version that is not understood.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        self.not_understood.iter().map(|(version, processes)| {
            let processes = processes.len();
            let plural = if processes == 1 { "process" } else { "processes" };
            format!("Python {version}: frames not decoded in {processes} {plural}; their native frames are shown")
        })
    }
}
