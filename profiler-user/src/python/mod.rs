//! CPython: finding it in a process by content, its layout by version, its code objects and lines.
//!
//! Everything read from a target's memory is hostile: lengths are bounded, kinds checked, and a read
//! that fails gives an unnamed frame, never a wrong one.

mod code;
mod detect;
mod layout;
mod lines;
mod plumbing;
mod text;
mod thread_name;

pub use code::{CodeCache, PythonPlace};
pub use detect::{PythonBuild, PythonVersion, detect};
pub use layout::info_for;
pub use plumbing::is_plumbing;
pub use thread_name::thread_name;

/// Function whose native activation evaluates Python frames.
pub const EVALUATOR: &str = "_PyEval_EvalFrameDefault";
