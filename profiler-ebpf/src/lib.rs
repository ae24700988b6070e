#![cfg_attr(not(test), no_std)]
//! What both sides of the kernel boundary share, and the kernel side's logic as plain code.
//!
//! [`wire`] holds every struct and constant that crosses the boundary; [`unwind`] and [`python`] walk
//! stacks over any [`memory::UserMemory`], so the same code runs in the kernel and in host tests;
//! [`mod@entry`] tells how a thread came into the kernel; [`latency`] defines histogram buckets, [`bytes`] what a call
//! moves. Nothing here knows aya, names, lines or files.

pub mod bytes;
pub mod calls;
pub mod cookie;
pub mod entry;
pub mod latency;
pub mod memory;
pub mod python;
pub mod rows;
pub mod unwind;
pub mod wire;
