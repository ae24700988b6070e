//! An error with the exit code it ends the program with.

use wholestack::export::ExportError;
use wholestack::output::OutputError;
use wholestack::record::RecordError;
use wholestack::recording::RecordingError;

/// Wrong usage, or input that cannot be read.
const USAGE: u8 = 2;
/// A right or a kernel feature is missing.
const PERMISSION: u8 = 3;
/// The target does not exist or cannot be profiled.
const TARGET: u8 = 4;
/// Output could not be written.
const OUTPUT: u8 = 5;

/// Why the program ends, and how.
#[derive(Debug)]
pub struct Failure {
    /// Exit code.
    pub code: u8,
    /// What to say.
    pub error: anyhow::Error,
}

impl Failure {
    /// Input that cannot be read.
    pub fn input(error: impl Into<anyhow::Error>) -> Self {
        Self {
            code: USAGE,
            error: error.into(),
        }
    }

    /// Output that could not be written.
    pub fn output(error: impl Into<anyhow::Error>) -> Self {
        Self {
            code: OUTPUT,
            error: error.into(),
        }
    }
}

impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Self {
        let code = match &error {
            RecordError::MissingRights(_) | RecordError::Kernel(_) | RecordError::System { .. } => {
                PERMISSION
            }
            RecordError::Frequency { .. } => USAGE,
            RecordError::NoProcess(_) | RecordError::Start { .. } => TARGET,
            RecordError::Recording(_) | RecordError::Worker => OUTPUT,
        };
        Self {
            code,
            error: error.into(),
        }
    }
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Self {
        Self::output(error)
    }
}

impl From<RecordingError> for Failure {
    fn from(error: RecordingError) -> Self {
        Self::input(error)
    }
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        let code = if matches!(error, ExportError::UnknownExtension { .. }) {
            USAGE
        } else {
            OUTPUT
        };
        Self {
            code,
            error: error.into(),
        }
    }
}
