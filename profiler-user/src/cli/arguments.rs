//! clap's side of the command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

/// Profile a Linux GPU host: where every CPU thread's time goes, from Python line to CUDA call to kernel.
///
/// Nothing is attached to, stopped, restarted or injected. Results go to standard output, everything else
/// to standard error.
///
/// Exit codes: 0 done, 2 wrong usage or unreadable input, 3 missing permission or kernel feature,
/// 4 the target does not exist or cannot be profiled, 5 output could not be written.
#[derive(Debug, Parser)]
#[command(name = "wholestack", version, propagate_version = true)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Record, then show the report
    Record(RecordArguments),
    /// Show the tables of a recording, or of several merged
    Report(ReportArguments),
    /// Write a recording in another format
    Export(ExportArguments),
}

/// `record`.
///
/// With no target the whole machine is recorded. A command after `--` is started for the recording, as the
/// user who called sudo, and the recording ends with it. Ctrl-C, SIGTERM and SIGHUP end a recording early
/// and keep everything.
#[derive(Debug, Args)]
pub(super) struct RecordArguments {
    /// Record only these processes, their children and later threads
    #[arg(
        short,
        long,
        value_name = "PID",
        value_delimiter = ',',
        conflicts_with = "command"
    )]
    pub pid: Vec<u32>,

    /// Stop after this time, as in 45s, 2m or 1500ms; a bare number is seconds [default: until Ctrl-C, or
    /// until the command or the last process ends]
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// Samples per second and busy CPU
    #[arg(short = 'F', long, value_name = "HZ", default_value_t = 99)]
    pub frequency: u32,

    /// Keep the interpreter's own frames (`_PyEval_EvalFrameDefault`, calling machinery) between Python
    /// frames; by default the Python frames stand for them
    #[arg(long)]
    pub native_all: bool,

    /// Write this file; may be repeated. The ending decides the format: .wstk (the recording), .folded or
    /// .txt (stacks for flame graphs), .json (the report) [default: wholestack.wstk]
    #[arg(short, long, value_name = "FILE")]
    pub output: Vec<PathBuf>,

    /// Size of the buffer between kernel and wholestack, in KiB; a power of two
    #[arg(long, value_name = "KIB", default_value_t = 8192, value_parser = parse_buffer)]
    pub buffer_kib: u32,

    /// Load this kernel object, built with `cargo xtask ebpf build --bpf-log`, and show its log lines
    #[cfg(feature = "bpf-log")]
    #[arg(long, value_name = "OBJECT")]
    pub bpf_log: Option<PathBuf>,

    #[command(flatten)]
    pub tables: TableArguments,

    /// Start this command and record it and its children
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// `report`.
#[derive(Debug, Args)]
pub(super) struct ReportArguments {
    /// Recordings; several are merged, as those of several hosts
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,

    #[command(flatten)]
    pub tables: TableArguments,
}

/// `export`.
#[derive(Debug, Args)]
pub(super) struct ExportArguments {
    /// The recording
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Write this file; may be repeated. The ending decides the format: .folded or .txt (stacks for flame
    /// graphs), .json (the report)
    #[arg(short, long, required = true, value_name = "FILE")]
    pub output: Vec<PathBuf>,

    /// What counts as your own code, as in 'train/*.py'; may be repeated [default: Python files outside the
    /// standard library and site-packages]
    #[arg(long, value_name = "GLOB")]
    pub own: Vec<String>,
}

/// How tables are shown.
#[derive(Debug, Args)]
pub(super) struct TableArguments {
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,

    /// Rows per table
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,

    /// What counts as your own code, as in 'train/*.py'; may be repeated [default: Python files outside the
    /// standard library and site-packages]
    #[arg(long, value_name = "GLOB")]
    pub own: Vec<String>,
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let duration = match text.parse() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?,
        Err(_) => humantime::parse_duration(text).map_err(|error| error.to_string())?,
    };
    if duration.is_zero() {
        return Err("nothing can be recorded in no time".to_owned());
    }
    Ok(duration)
}

fn parse_buffer(text: &str) -> Result<u32, String> {
    /// One page, and what fits the kernel's limit of a ring.
    const RANGE: std::ops::RangeInclusive<u32> = 4..=1 << 20;
    let kib: u32 = text.parse().map_err(|_| "not a number".to_owned())?;
    if !kib.is_power_of_two() || !RANGE.contains(&kib) {
        return Err(format!(
            "not a power of two from {} to {}",
            RANGE.start(),
            RANGE.end()
        ));
    }
    Ok(kib)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    /// clap finds no contradiction in the definitions.
    #[test]
    fn definitions_hold() {
        Arguments::command().debug_assert();
    }

    /// Times are seconds unless they say otherwise.
    #[test]
    fn durations() {
        assert_eq!(parse_duration("45s").unwrap(), Duration::from_secs(45));
        assert_eq!(parse_duration("0.5").unwrap(), Duration::from_millis(500));
        assert_eq!(parse_duration("2m").unwrap(), Duration::from_secs(120));
        for wrong in ["0", "-1", "x", "", "nan", "1e300"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    /// A command keeps its own options.
    #[test]
    fn a_command_keeps_its_options() {
        let line = [
            "wholestack",
            "record",
            "-d",
            "3s",
            "--",
            "ls",
            "-p",
            "--json",
        ];
        let Command::Record(record) = Arguments::try_parse_from(line).unwrap().command else {
            panic!("not a recording")
        };
        assert_eq!(record.command, ["ls", "-p", "--json"]);
        assert!(record.pid.is_empty() && !record.tables.json);
    }

    /// A process and a command at once make no sense.
    #[test]
    fn one_target_only() {
        assert!(
            Arguments::try_parse_from(["wholestack", "record", "-p", "1", "--", "ls"]).is_err()
        );
    }
}
