//! How a recording was made.

/// What the samples are paced by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clock {
    /// Hardware CPU cycles, in frequency mode.
    Cycles,
    /// The kernel's cpu-clock timer, where the machine has no usable hardware counter.
    #[default]
    CpuClock,
}

impl Clock {
    /// The clock in the reader's words.
    pub fn text(self) -> &'static str {
        match self {
            Self::Cycles => "hardware cycles",
            Self::CpuClock => "cpu-clock timer",
        }
    }
}

/// Settings and surroundings of one recording.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Session {
    /// Version of wholestack that recorded.
    pub version: String,
    /// Host name.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// CPUs that were sampled.
    pub cpus: u32,
    /// Samples asked for, per second and busy CPU.
    pub frequency_hz: u32,
    /// What paced them.
    pub clock: Clock,
    /// When sampling began, since the Unix epoch.
    pub started_unix_ns: u64,
    /// How long sampling went on.
    pub duration_ns: u64,
    /// What was watched, as in `whole machine`, `pid 12 and children`, `command: python3 train.py`.
    pub scope: String,
    /// Whether the recording was closed properly; false for one read up to a cut.
    pub closed: bool,
}
