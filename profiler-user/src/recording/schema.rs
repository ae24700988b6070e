//! The messages inside a recording's chunks, as protobuf.
//!
//! This is the persisted form, kept apart from the live one in [`crate::profile`]: names there may change,
//! field numbers here may not. A number is never reused; a reader skips fields it does not know. The same
//! definitions stand as a `.proto` in `docs/formats/recording.md`, and a test compares the two.

/// How the recording was made.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Session {
    #[prost(string, tag = "1")]
    pub version: String,
    #[prost(string, tag = "2")]
    pub host: String,
    #[prost(string, tag = "3")]
    pub kernel: String,
    #[prost(uint32, tag = "4")]
    pub cpus: u32,
    #[prost(uint32, tag = "5")]
    pub frequency_hz: u32,
    #[prost(uint32, tag = "6")]
    pub clock: u32,
    #[prost(uint64, tag = "7")]
    pub started_unix_ns: u64,
    #[prost(uint64, tag = "8")]
    pub duration_ns: u64,
    #[prost(string, tag = "9")]
    pub scope: String,
}

/// Texts that follow those already there; the first of all has id 1.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Strings {
    #[prost(string, repeated, tag = "1")]
    pub text: Vec<String>,
}

/// Frames that follow those already there, one column a field.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Frames {
    #[prost(uint32, repeated, tag = "1")]
    pub kind: Vec<u32>,
    #[prost(uint32, repeated, tag = "2")]
    pub function: Vec<u32>,
    #[prost(uint32, repeated, tag = "3")]
    pub file: Vec<u32>,
    #[prost(uint32, repeated, tag = "4")]
    pub line: Vec<u32>,
    #[prost(uint32, repeated, tag = "5")]
    pub first_line: Vec<u32>,
    #[prost(uint32, repeated, tag = "6")]
    pub module: Vec<u32>,
    #[prost(uint64, repeated, tag = "7")]
    pub offset: Vec<u64>,
}

/// Stacks that follow those already there: how deep each is, and all their frames in a row, leaf first.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Stacks {
    #[prost(uint32, repeated, tag = "1")]
    pub depth: Vec<u32>,
    #[prost(uint32, repeated, tag = "2")]
    pub frame: Vec<u32>,
}

/// New processes, and known ones that changed.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Processes {
    #[prost(message, repeated, tag = "1")]
    pub process: Vec<Process>,
}

/// One process.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Process {
    #[prost(uint32, tag = "1")]
    pub id: u32,
    #[prost(uint32, tag = "2")]
    pub pid: u32,
    #[prost(uint32, tag = "3")]
    pub name: u32,
    #[prost(uint32, tag = "4")]
    pub command: u32,
    #[prost(uint64, optional, tag = "5")]
    pub ended_ns: Option<u64>,
}

/// New threads, and known ones that changed.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Threads {
    #[prost(message, repeated, tag = "1")]
    pub thread: Vec<Thread>,
}

/// One thread.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Thread {
    #[prost(uint32, tag = "1")]
    pub id: u32,
    #[prost(uint32, tag = "2")]
    pub process: u32,
    #[prost(uint32, tag = "3")]
    pub tid: u32,
    #[prost(uint32, tag = "4")]
    pub name: u32,
    #[prost(uint64, optional, tag = "5")]
    pub cpu_ns: Option<u64>,
}

/// Samples, one column a field. The first time is counted from 0.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Samples {
    #[prost(sint64, repeated, tag = "1")]
    pub time_delta_ns: Vec<i64>,
    #[prost(uint32, repeated, tag = "2")]
    pub cpu: Vec<u32>,
    #[prost(uint32, repeated, tag = "3")]
    pub thread: Vec<u32>,
    #[prost(uint32, repeated, tag = "4")]
    pub stack: Vec<u32>,
    #[prost(uint32, repeated, tag = "5")]
    pub gil: Vec<u32>,
    #[prost(uint32, repeated, tag = "6")]
    pub truncation: Vec<u32>,
}

/// A part of the table of calls as it stood at `time_ns`; the part without `more` completes it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Calls {
    #[prost(message, repeated, tag = "1")]
    pub call: Vec<Call>,
    #[prost(bool, tag = "2")]
    pub more: bool,
    #[prost(uint64, tag = "3")]
    pub time_ns: u64,
}

/// One driver function on one thread.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Call {
    #[prost(uint32, optional, tag = "1")]
    pub thread: Option<u32>,
    #[prost(uint32, tag = "2")]
    pub function: u32,
    #[prost(uint32, tag = "3")]
    pub class: u32,
    #[prost(uint64, tag = "4")]
    pub count: u64,
    #[prost(uint64, tag = "5")]
    pub returned: u64,
    #[prost(uint64, tag = "6")]
    pub errors: u64,
    #[prost(uint64, tag = "7")]
    pub total_ns: u64,
    #[prost(uint64, tag = "8")]
    pub max_ns: u64,
    #[prost(uint64, repeated, tag = "9")]
    pub latency: Vec<u64>,
    #[prost(uint64, tag = "10")]
    pub nested: u64,
    #[prost(uint64, tag = "11")]
    pub nested_ns: u64,
    #[prost(uint64, tag = "12")]
    pub not_ready: u64,
    #[prost(uint64, optional, tag = "13")]
    pub bytes: Option<u64>,
    #[prost(uint32, repeated, tag = "14")]
    pub error_code: Vec<u32>,
    #[prost(uint64, repeated, tag = "15")]
    pub error_count: Vec<u64>,
}

/// The accounting and notes as they stood at `time_ns`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Books {
    #[prost(uint64, tag = "1")]
    pub time_ns: u64,
    #[prost(uint64, tag = "2")]
    pub taken: u64,
    #[prost(uint64, tag = "3")]
    pub complete: u64,
    #[prost(message, repeated, tag = "4")]
    pub truncated: Vec<Reason>,
    #[prost(message, repeated, tag = "5")]
    pub lost: Vec<Reason>,
    #[prost(uint64, tag = "6")]
    pub frames: u64,
    #[prost(uint64, tag = "7")]
    pub unnamed_frames: u64,
    #[prost(uint64, tag = "8")]
    pub stacks_over_limit: u64,
    #[prost(uint64, tag = "9")]
    pub own_cpu_ns: u64,
    #[prost(message, repeated, tag = "10")]
    pub limits: Vec<LimitHit>,
    #[prost(string, repeated, tag = "11")]
    pub notes: Vec<String>,
    #[prost(uint64, tag = "12")]
    pub guessed: u64,
    #[prost(uint64, tag = "13")]
    pub unwind_tables: u64,
    #[prost(uint64, tag = "14")]
    pub unwind_table_bytes: u64,
}

/// How many samples one reason explains.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Reason {
    #[prost(uint32, tag = "1")]
    pub id: u32,
    #[prost(uint64, tag = "2")]
    pub count: u64,
}

/// How often one limit was hit.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LimitHit {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(uint64, tag = "2")]
    pub count: u64,
}

/// Closed properly.
#[derive(Clone, PartialEq, prost::Message)]
pub struct End {
    #[prost(uint64, tag = "1")]
    pub samples: u64,
}
