//! Formats other programs read, one file each, behind one trait.
//!
//! An exporter turns a [`Profile`] into bytes. It opens no files, knows no command line, and drops
//! nothing: the counts it writes add up to the samples kept, and the numbers of lost and truncated
//! samples are in every file. A format joins by a row in `format.rs`.

mod error;
mod folded;
mod format;
mod report_json;
mod task_label;

use std::io::Write;

use crate::profile::Profile;

pub use error::ExportError;
pub use folded::{Folded, escape, unescape};
pub use format::{exporter_for, extensions};
pub use report_json::{ReportJson, write_report};

/// Writes profiles in one format.
pub trait Exporter {
    /// Writes the whole profile to `out`, which the caller buffers, flushes and names.
    ///
    /// # Errors
    /// When `out` does not take the bytes; what it took by then is no valid file.
    fn write(&self, profile: &Profile, out: &mut dyn Write) -> Result<(), ExportError>;
}
