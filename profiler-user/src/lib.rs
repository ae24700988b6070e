//! wholestack: a whole-system CPU/CUDA profiler for Linux GPU hosts.
//!
//! The way of a sample, one room after the other, each knowing only the rooms before it:
//! [`kernel`] -> [`process`], [`python`], [`cuda`], [`symbols`] -> [`stack`] -> [`profile`] ->
//! [`recording`], [`evidence`] -> [`export`], [`ui`]. [`record`] drives them live; `docs/architecture.md`
//! is the map.

pub mod cli;
pub mod cuda;
pub mod evidence;
pub mod export;
pub mod kernel;
pub mod output;
pub mod process;
pub mod profile;
pub mod python;
pub mod record;
pub mod recording;
pub mod stack;
pub mod symbols;
pub mod ui;
pub mod unwind;
