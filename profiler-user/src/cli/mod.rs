//! The command line. clap's types stay in here; the rest of the program sees [`Request`].

mod arguments;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser as _;

use arguments::{
    Arguments, Command, ExportArguments, RecordArguments, ReportArguments, TableArguments,
};

/// What the user asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Make a recording.
    Record(RecordRequest),
    /// Show the tables of recordings.
    Report {
        /// The recordings.
        files: Vec<PathBuf>,
        /// How.
        tables: TableRequest,
    },
    /// Write a recording in another format.
    Export {
        /// The recording.
        file: PathBuf,
        /// Where to.
        outputs: Vec<PathBuf>,
        /// Own code, for formats that tell it apart.
        own: Vec<String>,
    },
}

/// A recording to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordRequest {
    /// Processes; empty for the whole machine or a command.
    pub pids: Vec<u32>,
    /// A command to start; empty for none.
    pub command: Vec<OsString>,
    /// When to stop by itself.
    pub duration: Option<Duration>,
    /// Samples per second and busy CPU.
    pub frequency_hz: u32,
    /// Show the interpreter's own calling machinery too.
    pub native_all: bool,
    /// Files to write.
    pub outputs: Vec<PathBuf>,
    /// Size of the kernel's ring in bytes.
    pub ring_bytes: u32,
    /// A kernel object with log lines.
    pub debug_object: Option<PathBuf>,
    /// How to show the report.
    pub tables: TableRequest,
}

/// How tables are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableRequest {
    /// As data instead of text.
    pub json: bool,
    /// Rows per table.
    pub top: usize,
    /// Patterns of own code.
    pub own: Vec<String>,
}

/// Reads the command line. Ends the program with clap's own message and code for wrong usage and `--help`.
pub fn parse() -> Request {
    Arguments::parse().command.into()
}

impl From<Command> for Request {
    fn from(command: Command) -> Self {
        match command {
            Command::Record(arguments) => Self::Record(arguments.into()),
            Command::Report(ReportArguments { files, tables }) => Self::Report {
                files,
                tables: tables.into(),
            },
            Command::Export(ExportArguments { file, output, own }) => Self::Export {
                file,
                outputs: output,
                own,
            },
        }
    }
}

impl From<RecordArguments> for RecordRequest {
    fn from(arguments: RecordArguments) -> Self {
        Self {
            pids: arguments.pid,
            command: arguments.command,
            duration: arguments.duration,
            frequency_hz: arguments.frequency,
            native_all: arguments.native_all,
            outputs: if arguments.output.is_empty() {
                vec![PathBuf::from("wholestack.wstk")]
            } else {
                arguments.output
            },
            ring_bytes: arguments.buffer_kib.saturating_mul(1024),
            #[cfg(feature = "bpf-log")]
            debug_object: arguments.bpf_log,
            #[cfg(not(feature = "bpf-log"))]
            debug_object: None,
            tables: arguments.tables.into(),
        }
    }
}

impl From<TableArguments> for TableRequest {
    fn from(arguments: TableArguments) -> Self {
        Self {
            json: arguments.json,
            top: arguments.top,
            own: arguments.own,
        }
    }
}
