//! A part of a recording's time.

/// From when to when samples are read, in nanoseconds since the start of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// First moment inside.
    pub from_ns: u64,
    /// First moment behind; `u64::MAX` for the end of the recording.
    pub to_ns: u64,
}

impl Window {
    /// The whole recording.
    pub const ALL: Self = Self {
        from_ns: 0,
        to_ns: u64::MAX,
    };

    /// Whether a sample of that time is read.
    pub fn contains(self, time_ns: u64) -> bool {
        time_ns >= self.from_ns && (time_ns < self.to_ns || self.to_ns == u64::MAX)
    }
}

impl Default for Window {
    fn default() -> Self {
        Self::ALL
    }
}
