//! A CPython that is understood, as it lies in a process.

use profiler_ebpf::wire::PythonInfo;

use super::PythonBuild;
use super::layout::{Layout, layout_of};

/// A CPython in a process: where it is, and where things lie in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interpreter {
    /// Run-time address of `_PyRuntime`.
    pub(super) runtime: u64,
    pub(super) layout: Layout,
}

impl Interpreter {
    /// A build that is loaded with this bias; `None` if its version is not understood.
    pub fn new(build: &PythonBuild, bias: u64) -> Option<Self> {
        Some(Self {
            runtime: build.runtime.wrapping_add(bias),
            layout: layout_of(build)?,
        })
    }

    /// What the kernel side needs to walk its frames.
    pub fn info(&self) -> PythonInfo {
        PythonInfo {
            runtime: self.runtime,
            ..self.layout.kernel
        }
    }

    /// Whether each of its frames is evaluated by a native frame of its own, of which the frame says nothing: then they
    /// are matched by order (before 3.10).
    pub fn frames_match_by_order(&self) -> bool {
        self.layout.kernel.anchors == profiler_ebpf::wire::anchors::NONE
    }
}
