//! Evidence: what a profile says, as figures that name their base and their uncertainty.
//!
//! Pure functions of a [`Profile`](crate::profile::Profile): no I/O, no clock, no text layout, no
//! file format. What is computed here is what every output shows; an output only writes it down.
//! The invariants that the tests hold up:
//!
//! - every share has a base, and none of them can exceed 100 %;
//! - the own samples of all functions add up to the samples kept;
//! - a function's own samples never exceed its total, also in recursion;
//! - equal profiles give equal reports: ties are broken by label;
//! - two different places never carry the same label.

mod calling_line;
mod driver;
mod functions;
mod gil;
mod glob;
mod index;
mod label;
mod own;
mod place;
mod ranking;
mod report;
mod roots;
mod share;
mod summary;
mod table;
#[cfg(test)]
pub(crate) mod testing;
mod threads;

pub use driver::{CallFigures, DriverRow, DriverThreadRow, ErrorCode};
pub use functions::FunctionRow;
pub use gil::{GilHolder, GilProcess};
pub use own::OwnCode;
pub use report::{DEFAULT_TOP, Report, ReportOptions, VERSION};
pub use roots::RootRow;
pub use share::{Part, Share};
pub use summary::{Counted, Summary};
pub use table::{Code, Row, Table};
pub use threads::ThreadRow;
