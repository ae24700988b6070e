//! The report as data, as docs/formats/report-json.md describes it: the fields that tests look at.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

/// The whole report.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Report {
    /// Figures about the recording.
    pub summary: Summary,
    /// Where stacks end.
    pub top_leaf: Table<Place>,
    /// Innermost own functions.
    pub top_own_code: Table<Place>,
    /// Functions, themselves and in all.
    pub top_functions: Table<Function>,
    /// Threads.
    pub threads: Table<Thread>,
    /// Driver functions.
    pub cuda_driver: Table<Call>,
    /// The same by thread.
    pub cuda_driver_by_thread: Vec<ThreadCall>,
    /// Interpreter locks.
    pub gil: Vec<Gil>,
}

/// A table's rows and what is not in them.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Table<T> {
    /// First ranked first.
    pub rows: Vec<T>,
    /// Samples kept that fall into no row.
    #[serde(default)]
    pub samples_without: u64,
}

/// A share that was sampled.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Share {
    /// Samples.
    pub count: u64,
    /// Of so many.
    pub base: u64,
    /// Ends of the 95 % interval, in percent.
    pub low: f64,
    /// The upper one.
    pub high: f64,
}

/// A share that was counted.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Part {
    /// How many.
    pub count: u64,
    /// Of so many.
    pub base: u64,
}

/// A reason and how often it occurred.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Named {
    /// The reason.
    pub name: String,
    /// How often.
    pub count: u64,
}

/// Figures about the recording.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Summary {
    /// Length.
    pub duration_seconds: f64,
    /// Samples asked for per second of a busy CPU.
    pub frequency_hz: u32,
    /// CPUs sampled.
    pub cpus: u32,
    /// Processes seen.
    pub processes: u64,
    /// Samples taken.
    pub taken: u64,
    /// Samples kept.
    pub kept: u64,
    /// Samples kept whole.
    pub complete: u64,
    /// Samples kept in part.
    pub truncated: Part,
    /// Samples kept with a guessed frame.
    pub guessed: Part,
    /// Samples lost.
    pub lost: Part,
    /// Why kept in part.
    pub truncated_by_reason: Vec<Named>,
    /// Why lost.
    pub lost_by_reason: Vec<Named>,
    /// Whether kept and lost add up to taken.
    pub balanced: bool,
    /// CPU time of the program itself while it recorded.
    pub own_cpu_seconds: f64,
    /// Unwind tables, at most.
    pub unwind_tables: u64,
    /// Bytes that they took, at most.
    pub unwind_table_bytes: u64,
    /// Limits hit.
    pub limits: Vec<Named>,
    /// Sentences about the recording.
    pub notes: Vec<String>,
    /// Whether the recording was closed.
    pub closed: bool,
}

/// A row of places in the code.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Place {
    /// As on the screen.
    pub label: String,
    /// Samples.
    pub count: u64,
}

/// A row of functions.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Function {
    /// As on the screen.
    pub label: String,
    /// The line where it begins.
    pub line: Option<u32>,
    /// At the leaf.
    #[serde(rename = "self")]
    pub own: Share,
    /// Anywhere in the stack.
    pub total: Share,
}

/// A row of threads.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Thread {
    /// Name of its process.
    pub process: String,
    /// Its process.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Name.
    pub name: String,
    /// Samples, of the clock ticks of one CPU.
    pub cpu: Share,
    /// CPU time by the kernel.
    pub cpu_seconds: Option<f64>,
    /// Samples that hold the lock.
    pub gil_held: Option<Share>,
}

/// A row of driver functions.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Call {
    /// Name.
    pub function: String,
    /// Calls begun.
    pub count: u64,
    /// Calls that returned.
    pub returned: u64,
    /// Calls that returned an error.
    pub errors: u64,
    /// Which.
    pub error_codes: Vec<ErrorCode>,
    /// Calls that answered "not ready".
    pub not_ready: u64,
    /// Calls made inside another one of the table.
    pub nested: u64,
    /// Bytes.
    pub bytes: Option<u64>,
    /// Time in nested calls.
    pub nested_seconds: f64,
    /// Time in them.
    pub total_seconds: f64,
    /// The longest.
    pub max_ns: Option<u64>,
}

/// An error that calls returned.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ErrorCode {
    /// The number.
    pub code: u32,
    /// How often.
    pub count: u64,
}

/// A row of driver functions by thread.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ThreadCall {
    /// Process.
    pub pid: Option<u32>,
    /// Thread id.
    pub tid: Option<u32>,
    /// The figures.
    #[serde(flatten)]
    pub call: Call,
}

/// A process with an interpreter lock.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Gil {
    /// Process.
    pub pid: u32,
}

impl Report {
    /// Reads a file.
    pub fn read(path: &Path) -> Self {
        Self::parse(&fs::read_to_string(path).expect("the report was written"))
    }

    /// Reads a text.
    pub fn parse(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"))
    }

    /// The row of a thread.
    pub fn thread(&self, tid: u32) -> Option<&Thread> {
        self.threads.rows.iter().find(|thread| thread.tid == tid)
    }

    /// The row of a function, by its label.
    pub fn function(&self, label: &str) -> Option<&Function> {
        self.top_functions
            .rows
            .iter()
            .find(|function| function.label == label)
    }

    /// Driver calls by function.
    pub fn calls(&self) -> BTreeMap<&str, u64> {
        self.cuda_driver
            .rows
            .iter()
            .map(|call| (call.function.as_str(), call.count))
            .collect()
    }

    /// Driver calls of one process by thread and function.
    pub fn calls_by_thread(&self, pid: u32) -> BTreeMap<(u32, &str), u64> {
        let rows = self
            .cuda_driver_by_thread
            .iter()
            .filter(|row| row.pid == Some(pid));
        rows.map(|row| {
            (
                (row.tid.unwrap_or_default(), row.call.function.as_str()),
                row.call.count,
            )
        })
        .collect()
    }

    /// Checks what holds of every recording: each sample that was taken is accounted for, once, in every figure.
    ///
    /// # Panics
    ///
    /// When it does not.
    #[track_caller]
    pub fn check_books(&self) {
        let books = &self.summary;
        assert!(books.balanced, "{books:#?}");
        assert_eq!(
            books.kept + books.lost.count,
            books.taken,
            "kept and lost make taken: {books:#?}"
        );
        assert_eq!(
            books.complete + books.truncated.count,
            books.kept,
            "whole and cut make kept: {books:#?}"
        );
        assert_eq!(
            (books.lost.base, books.truncated.base),
            (books.taken, books.kept),
            "{books:#?}"
        );
        let sum = |reasons: &[Named]| reasons.iter().map(|reason| reason.count).sum::<u64>();
        assert_eq!(sum(&books.lost_by_reason), books.lost.count, "{books:#?}");
        assert_eq!(
            sum(&books.truncated_by_reason),
            books.truncated.count,
            "{books:#?}"
        );
        let leaves: u64 = self.top_leaf.rows.iter().map(|row| row.count).sum();
        assert_eq!(
            leaves + self.top_leaf.samples_without,
            books.kept,
            "each sample has one leaf: {books:#?}"
        );
        let threads: u64 = self.threads.rows.iter().map(|row| row.cpu.count).sum();
        assert_eq!(
            threads, books.kept,
            "each sample has one thread: {books:#?}"
        );
    }
}
