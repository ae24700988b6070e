//! What the workloads say of themselves, as tests/workloads/README.md describes it.

use std::collections::BTreeMap;

use serde::Deserialize;

/// What `training.py` says.
#[derive(Debug, Clone, Deserialize)]
pub struct Training {
    /// Process.
    pub pid: u32,
    /// Path of training.py.
    pub file: String,
    /// CPU seconds of the process at the end of the work.
    pub process_cpu_s: f64,
    /// And at its beginning.
    pub process_cpu_before_s: f64,
    /// Its threads.
    pub threads: Vec<Thread>,
    /// Its metered functions.
    pub functions: BTreeMap<String, Function>,
    /// Its driver calls.
    pub cuda: Option<Cuda>,
}

/// A thread.
#[derive(Debug, Clone, Deserialize)]
pub struct Thread {
    /// Python's name.
    pub name: String,
    /// Thread id.
    pub tid: u32,
    /// The kernel's name.
    pub os_name: String,
    /// CPU seconds of its life.
    pub cpu_s: f64,
    /// Of these, before the work began.
    pub cpu_before_s: f64,
}

/// A metered function.
#[derive(Debug, Clone, Deserialize)]
pub struct Function {
    /// Of the CPU time of all threads.
    pub share: f64,
    /// Where it begins.
    pub first_line: u32,
    /// Where nearly all its time goes, if that is one line.
    pub hot_line: Option<u32>,
}

/// Driver calls of a process.
#[derive(Debug, Clone, Deserialize)]
pub struct Cuda {
    /// By function.
    pub functions: BTreeMap<String, Tally>,
    /// By thread.
    pub threads: Vec<CudaThread>,
}

/// Driver calls of a thread.
#[derive(Debug, Clone, Deserialize)]
pub struct CudaThread {
    /// Thread id.
    pub tid: u32,
    /// By function.
    pub functions: BTreeMap<String, Tally>,
}

/// Calls of one function.
#[derive(Debug, Clone, Deserialize)]
pub struct Tally {
    /// How many.
    pub calls: u64,
    /// How many failed.
    pub errors: u64,
    /// How many answered "not ready".
    pub not_ready: u64,
    /// The bytes they were to move or take.
    pub bytes: u64,
    /// How many failed with which code.
    pub codes: BTreeMap<u32, u64>,
    /// Nanoseconds in its body.
    pub total_ns: u64,
    /// The lines that call it.
    #[serde(default)]
    pub lines: Vec<u32>,
}

/// What `cuda_calls` says.
#[derive(Debug, Clone, Deserialize)]
pub struct CudaCalls {
    /// Process.
    pub pid: u32,
    /// What the stand-in counted.
    pub library: Cuda,
}

/// What `cuda_mix` says.
#[derive(Debug, Clone, Deserialize)]
pub struct CudaMix {
    /// Process.
    pub pid: u32,
    /// What the stand-in for the driver counted.
    pub library: Cuda,
    /// What the stand-in for the runtime counted, if it was called.
    pub runtime: Option<Cuda>,
    /// How often that called which function of the driver.
    pub inner: Option<BTreeMap<String, u64>>,
}

impl CudaMix {
    /// Finds the truth in what was printed, which may be the recorder's report as well.
    pub fn find(printed: &str) -> Self {
        parse_line(printed, "{\"workload\":\"cuda_mix\"")
    }
}

impl Training {
    /// Reads the truth.
    pub fn parse(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"))
    }

    /// The driver calls of a run that has a driver.
    pub fn cuda(&self) -> &Cuda {
        self.cuda
            .as_ref()
            .expect("there is a C compiler, so there is a stand-in")
    }

    /// The last line of a function, by the source: before the next line that is not indented.
    pub fn last_line(&self, function: &Function) -> u32 {
        let source = std::fs::read_to_string(&self.file).expect("the workload is there");
        let inside = |line: &&str| line.is_empty() || line.starts_with([' ', '#']);
        let body = source
            .lines()
            .skip(function.first_line as usize)
            .take_while(inside)
            .count();
        function.first_line + u32::try_from(body).expect("a short file")
    }
}

impl CudaCalls {
    /// Finds the truth in what was printed, which may be the recorder's report as well.
    pub fn find(printed: &str) -> Self {
        parse_line(printed, "{\"workload\":\"cuda_calls\"")
    }
}

fn parse_line<T: serde::de::DeserializeOwned>(printed: &str, begin: &str) -> T {
    let line = printed.lines().find(|line| line.starts_with(begin));
    let line = line.unwrap_or_else(|| panic!("no truth in {printed}"));
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"))
}

impl Cuda {
    /// Calls of the functions that the profiler counts.
    pub fn calls(&self) -> BTreeMap<&str, u64> {
        counted(&self.functions)
    }

    /// The tallies of the functions that the profiler counts, by thread and function.
    pub fn tallies(&self) -> BTreeMap<(u32, &str), &Tally> {
        let mut tallies = BTreeMap::new();
        for thread in &self.threads {
            let of = thread.functions.iter();
            tallies.extend(
                of.filter(|(name, _)| !NOT_COUNTED.contains(&name.as_str()))
                    .map(|(name, tally)| ((thread.tid, name.as_str()), tally)),
            );
        }
        tallies
    }

    /// The same by thread and function.
    pub fn calls_by_thread(&self) -> BTreeMap<(u32, &str), u64> {
        let mut calls = BTreeMap::new();
        for thread in &self.threads {
            calls.extend(
                counted(&thread.functions)
                    .into_iter()
                    .map(|(name, count)| ((thread.tid, name), count)),
            );
        }
        calls
    }
}

/// Functions of the stand-in that no profile counts: they are called a few times and take no time.
const NOT_COUNTED: [&str; 3] = ["cuInit", "cuDriverGetVersion", "cuGetProcAddress_v2"];

fn counted(functions: &BTreeMap<String, Tally>) -> BTreeMap<&str, u64> {
    let wanted = functions
        .iter()
        .filter(|(name, _)| !NOT_COUNTED.contains(&name.as_str()));
    wanted
        .map(|(name, tally)| (name.as_str(), tally.calls))
        .collect()
}
