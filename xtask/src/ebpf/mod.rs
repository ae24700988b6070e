//! The kernel object that ships in `profiler-ebpf/prebuilt`: built here, compared here, never by a build script.
//!
//! Whoever builds wholestack needs a stable Rust only; whoever changes the kernel side rebuilds the object and commits
//! it. The manifest beside it says which sources, by which toolchain, gave which bytes, and `check` holds it to that.

mod build;
mod check;
mod elf;
mod install;
mod manifest;
mod recipe;
mod sources;
mod toolchain;

pub use build::{Options as BuildOptions, build};
pub use check::{Options as CheckOptions, check};

/// The committed object, in the checkout.
const OBJECT: &str = "profiler-ebpf/prebuilt/wholestack.bpf.o";

/// What to type when sources, manifest and object have drifted apart.
const MEND: &str = "run `cargo xtask ebpf build` and commit profiler-ebpf/prebuilt";
