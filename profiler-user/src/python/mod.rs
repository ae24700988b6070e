//! CPython: finding it in a process by content, its layout by version, its code objects and lines.
//!
//! Everything read from a target's memory is hostile: lengths are bounded, kinds checked, and a read
//! that fails gives an unnamed frame, never a wrong one.

mod code;
mod debug_offsets;
mod detect;
mod evaluator;
mod interpreter;
mod layout;
mod lines;
mod plumbing;
mod text;
mod thread_layout;
mod thread_name;
mod version;

pub use code::{Code, CodeLosses, CodeReader, PythonPlace};
pub use detect::{PythonBuild, detect};
pub use interpreter::Interpreter;
pub use plumbing::is_plumbing;
pub use thread_name::thread_name;
pub use version::PythonVersion;
