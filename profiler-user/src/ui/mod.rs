//! What people read on a terminal: the report as text, the progress line.
//!
//! It writes figures down and computes none: those come from `evidence`. It prints nothing by itself:
//! the caller says where the text goes and how wide the screen is. Names from outside never reach a
//! terminal with characters it would obey.

mod columns;
mod driver;
#[cfg(test)]
mod golden;
mod header;
mod progress;
mod rankings;
mod report;
mod section;
mod text;
mod threads;
mod units;

pub use progress::{Figures, Progress};
pub use report::{render, write_report};
