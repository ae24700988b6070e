//! Counted driver calls.

use std::collections::BTreeMap;

use super::{StringId, ThreadId};

/// What kind of work a driver call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum CallClass {
    /// Hands work to the GPU.
    Launch = 1,
    /// Waits for the GPU.
    Sync = 2,
    /// Moves memory.
    Copy = 3,
    /// Takes or gives back memory.
    Memory = 4,
    /// Anything else.
    Other = 5,
    /// Asks whether the GPU is done.
    Poll = 6,
    /// Loads code for the GPU, or finds it.
    Module = 7,
    /// Marks a place in a stream, or has a stream wait for one.
    Event = 8,
}

impl CallClass {
    /// Every class.
    pub const ALL: [Self; 8] = [
        Self::Launch,
        Self::Sync,
        Self::Copy,
        Self::Memory,
        Self::Other,
        Self::Poll,
        Self::Module,
        Self::Event,
    ];

    /// The class in the reader's words.
    pub fn text(self) -> &'static str {
        match self {
            Self::Launch => "launch",
            Self::Sync => "sync",
            Self::Copy => "copy",
            Self::Memory => "memory",
            Self::Other => "other",
            Self::Poll => "poll",
            Self::Module => "module",
            Self::Event => "event",
        }
    }

    /// The class with this persisted id.
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|class| *class as u8 == id)
    }
}

/// Exact counts of one driver function on one thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallStat {
    /// Who called; `None` for calls of threads beyond the kernel table's limit.
    pub thread: Option<ThreadId>,
    /// Exported name, as in `cuLaunchKernel`.
    pub function: StringId,
    /// What kind of work it is.
    pub class: CallClass,
    /// Calls that began during the session: exact.
    pub count: u64,
    /// Of these, begun inside another counted call, whose figures hold them too: a driver call that the runtime made.
    pub nested: u64,
    /// Calls whose return was seen: the base of the times.
    pub returned: u64,
    /// Those that returned an error code.
    pub errors: u64,
    /// How often which: the sum is `errors`, less those beyond the kernel table's limit.
    pub error_codes: BTreeMap<u32, u64>,
    /// Those that answered "not ready", which is no error.
    pub not_ready: u64,
    /// Bytes that the calls which began were to move or take; `None` where the arguments do not tell.
    pub bytes: Option<u64>,
    /// Time in returned calls.
    pub total_ns: u64,
    /// Of that, in nested ones.
    pub nested_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Latencies of returned calls.
    pub latency: LatencyHistogram,
}

impl CallStat {
    /// Adds the figures of another one, of the same function.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in [
            (&mut self.count, other.count),
            (&mut self.nested, other.nested),
            (&mut self.returned, other.returned),
            (&mut self.errors, other.errors),
            (&mut self.not_ready, other.not_ready),
            (&mut self.total_ns, other.total_ns),
            (&mut self.nested_ns, other.nested_ns),
        ] {
            *mine = mine.saturating_add(theirs);
        }
        for (code, count) in &other.error_codes {
            let sum = self.error_codes.entry(*code).or_default();
            *sum = sum.saturating_add(*count);
        }
        if let Some(bytes) = other.bytes {
            self.bytes = Some(self.bytes.unwrap_or(0).saturating_add(bytes));
        }
        self.max_ns = self.max_ns.max(other.max_ns);
        self.latency.merge(&other.latency);
    }
}

/// Counts per latency bucket: four buckets a power of two, so a quantile is known within 25 %.
/// Bucket borders are defined once, in `profiler_ebpf::latency`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LatencyHistogram {
    /// Calls per bucket; trailing empty buckets may be missing.
    pub counts: Vec<u64>,
}

impl LatencyHistogram {
    /// Calls in all buckets.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Adds another histogram to this one.
    pub fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine = mine.saturating_add(*theirs);
        }
    }

    /// An upper bound of the `q` quantile (0 to 1) in nanoseconds, at most 25 % above it; `None` when empty.
    pub fn quantile_ns(&self, q: f64) -> Option<u64> {
        let total = self.total();
        if total == 0 {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0 <= q * total <= total"
        )]
        #[expect(
            clippy::cast_precision_loss,
            reason = "a rank beyond 2^53 calls is not reached"
        )]
        let rank = ((q.clamp(0.0, 1.0) * total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(profiler_ebpf::latency::upper_bound_ns(bucket));
            }
        }
        None
    }
}
