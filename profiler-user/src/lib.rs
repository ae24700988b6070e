//! wholestack: a whole-system CPU/CUDA profiler for Linux GPU hosts.
//!
//! The way of a sample, one room after the other, each knowing only the rooms before it:
//! `kernel` -> `process`, `unwind`, `python`, `cuda`, `symbols` -> `stack` -> [`profile`] ->
//! `recording`, `evidence` -> `export`, `ui` -> `cli`. `docs/architecture.md` is the map.

pub mod kernel;
pub mod profile;
