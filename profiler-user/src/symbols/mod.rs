//! Names of native and kernel code, by file identity and file offset; of generated code by address.
//!
//! blazesym reads the files; this room asks it once per place and keeps the answer. A symbol whose size is
//! unknown, or that ends before the address, names nothing: the nearest label is not the function.

mod calls;
mod debug_info;
mod extents;
mod kernel;
mod native;
mod perf_map;
mod prologue;

pub use calls::{CALL_BYTES, follows_call};
pub use kernel::KernelSymbols;
pub use native::{FramePointer, NativePlace, NativeSymbols, SourcePlace};
pub use perf_map::PerfMap;
