//! What the end-to-end tests share: running the program, the programs it is pointed at, and reading what both say.
//!
//! A test records a real program under the real kernel and compares the recording with what that program says of
//! itself. Nothing here knows what a right answer is, and nothing waits for a time to pass: [`wait`] waits for facts.

pub mod folded;
pub mod kernel;
pub mod program;
pub mod pythons;
pub mod recorder;
pub mod report;
pub mod rights;
pub mod samples;
pub mod scratch;
pub mod statistics;
pub mod target;
pub mod truth;
pub mod wait;
