//! What our programs cost in the kernel, by its own clock. For benchmarks: counting costs a little itself.

use std::fs;
use std::os::fd::OwnedFd;

use aya::sys::{Stats, enable_stats};

use super::KernelError;

/// `BPF_PROG_TYPE_PERF_EVENT`.
const PERF_EVENT: &str = "7";

/// Counting is on while this lives.
pub struct RunTimeCounting {
    _on: OwnedFd,
}

/// Runs of the sampler, its tail calls included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunTime {
    /// Samples taken.
    pub runs: u64,
    /// Time in them.
    pub total_ns: u64,
    /// Instructions the verifier looked at, all stages together.
    pub verified_instructions: u64,
}

impl RunTimeCounting {
    /// Turns counting on (kernel 5.8).
    pub fn start() -> Result<Self, KernelError> {
        let on = enable_stats(Stats::RunTime).map_err(|error| KernelError::Attach {
            what: "run time counting".to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Self { _on: on })
    }

    /// Figures of the sampler's programs that this process has open.
    pub fn read(&self) -> RunTime {
        let mut sum = RunTime::default();
        let mut seen = std::collections::HashSet::new();
        for entry in fs::read_dir("/proc/self/fdinfo")
            .into_iter()
            .flatten()
            .flatten()
        {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            let field = |name: &str| {
                let line = text
                    .lines()
                    .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
                line.map(str::trim)
            };
            let number = |name| {
                field(name)
                    .and_then(|value| value.parse::<u64>().ok())
                    .unwrap_or(0)
            };
            if field("prog_type") == Some(PERF_EVENT) && seen.insert(number("prog_id")) {
                sum.runs += number("run_cnt");
                sum.total_ns += number("run_time_ns");
                sum.verified_instructions += number("verified_insns");
            }
        }
        sum
    }
}
