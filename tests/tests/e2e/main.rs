//! The program as its users run it: real programs, the real kernel, and what each program says of itself as the truth.
//!
//! One program for all tests, so that recordings that several tests look at are made once ([`fixtures`]). The tests run
//! one at a time (`cargo xtask test` sees to it): nothing else may disturb what they measure.
#![allow(clippy::unwrap_used)]

mod accounting;
mod accuracy;
mod bad_input;
mod cuda;
mod cuda_mix;
mod cuda_timing;
mod debug_files;
mod fixtures;
mod foreign;
mod generated;
mod gil;
mod lifecycle;
mod lines;
mod machine;
mod native;
mod outputs;
mod processes;
mod pythons;
mod rights;
mod threads;
mod torch;
mod traces;
mod unwinding;
