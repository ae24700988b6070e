//! One stack out of four: kernel, native, Python and driver-call facts merged in their true order.
//!
//! Works on addresses and stack pointers alone; names come through [`Names`], so the same code runs on
//! live samples and on stored ones in tests. The last room that sees wire types.

mod evaluations;
mod merge;

pub use merge::{Evidence, Merged, Names, NativeName, PythonName, merge};
