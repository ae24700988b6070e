#![cfg_attr(not(test), no_std)]
//! What both sides of the kernel boundary share, and the kernel side's logic as plain code.

pub mod latency;
