//! A count over its base, and how far sampling leaves the share open.
//!
//! The interval is Wilson's score interval at 95 % (E. B. Wilson, "Probable inference, the law of
//! succession, and statistical inference", JASA 22, 1927, pp. 209-212). It stays within 0 and 100 %
//! and is usable for small counts, where the textbook `p ± 1.96 sqrt(p(1-p)/n)` is not.
//!
//! It assumes independent samples. Samples of a clock that ticks steadily are not quite that: a
//! program in step with the clock makes the true error larger, a long steady phase makes it smaller.
//! The interval says what the number of samples allows to be known, not that the clock was fair.
//!
//! What is counted, not sampled (lost samples, unnamed frames, exact times) is a [`Part`]: it has a
//! base but no interval.

use serde::Serialize;

/// Base of the ranked tables.
pub const KEPT: &str = "samples kept";
/// Base of a thread's CPU share: the samples one CPU gives when busy for the whole session.
pub const TICKS: &str = "clock ticks of one CPU in the session";
/// Base of a thread's GIL share.
pub const THREAD_SAMPLES: &str = "samples of the thread";
/// Base of a holder's share of its interpreter's lock.
pub const GIL_SAMPLES: &str = "samples of the process that hold the GIL";

/// The two-sided 95 % quantile of the standard normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// An estimated share: a count, its base, and the 95 % interval, in percent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Share {
    /// Samples counted.
    pub count: u64,
    /// Out of how many.
    pub base: u64,
    /// What the base counts.
    pub of: &'static str,
    /// `count` in percent of `base`; 0 for an empty base, 100 at most.
    pub percent: f64,
    /// Lower end of the interval, in percent.
    pub low: f64,
    /// Upper end of the interval, in percent.
    pub high: f64,
}

impl Share {
    /// The share of `count` in `base`. An empty base leaves everything open: 0 %, between 0 and 100.
    pub fn new(count: u64, base: u64, of: &'static str) -> Self {
        let (low, high) = wilson(count, base);
        Self {
            count,
            base,
            of,
            percent: percent(count, base),
            low,
            high,
        }
    }

    /// The larger of the interval's two halves, in percentage points: what the tables write as `±`.
    pub fn half_width(&self) -> f64 {
        (self.percent - self.low).max(self.high - self.percent)
    }
}

/// A counted part of a whole: no sampling, so no interval.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Part {
    /// What was counted.
    pub count: u64,
    /// Out of how much.
    pub base: u64,
    /// What the base counts.
    pub of: &'static str,
    /// `count` in percent of `base`; 0 for an empty base, 100 at most.
    pub percent: f64,
}

impl Part {
    /// The part `count` is of `base`.
    pub fn new(count: u64, base: u64, of: &'static str) -> Self {
        Self {
            count,
            base,
            of,
            percent: percent(count, base),
        }
    }
}

/// `count` in percent of `base`. A count above its base, as of a thread that also ran at the tick
/// that ended the session, is the whole.
fn percent(count: u64, base: u64) -> f64 {
    if base == 0 {
        return 0.0;
    }
    100.0 * count.min(base) as f64 / base as f64
}

/// Both ends of Wilson's interval, in percent.
fn wilson(count: u64, base: u64) -> (f64, f64) {
    if base == 0 {
        return (0.0, 100.0);
    }
    let count = count.min(base);
    let n = base as f64;
    let p = count as f64 / n;
    let scale = 1.0 / (1.0 + Z * Z / n);
    let centre = scale * (p + Z * Z / (2.0 * n));
    let half = scale * Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    // The ends are exactly 0 and 1 at the edges; floating point only comes close.
    let low = if count == 0 {
        0.0
    } else {
        (centre - half).max(0.0)
    };
    let high = if count == base {
        1.0
    } else {
        (centre + half).min(1.0)
    };
    (100.0 * low, 100.0 * high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Newcombe, "Two-sided confidence intervals for the single proportion", Statistics in Medicine
    /// 17, 1998, prints Wilson's interval for these four, to four digits.
    #[test]
    fn wilson_agrees_with_newcombe() {
        for (count, base, low, high) in [
            (81, 263, 25.53, 36.62),
            (15, 148, 6.24, 16.05),
            (0, 20, 0.0, 16.11),
            (1, 29, 0.61, 17.18),
        ] {
            let share = Share::new(count, base, KEPT);
            assert!((share.low - low).abs() < 0.005, "{share:?}");
            assert!((share.high - high).abs() < 0.005, "{share:?}");
        }
    }

    /// Nothing of nothing is no share, and leaves everything open.
    #[test]
    fn an_empty_base_divides_nothing() {
        let share = Share::new(0, 0, KEPT);
        assert_eq!((share.percent, share.low, share.high), (0.0, 0.0, 100.0));
        assert_eq!(Part::new(3, 0, KEPT).percent, 0.0);
    }

    /// The whole is 100 %, also for a count that exceeds its base, and the interval ends there.
    #[test]
    fn the_whole_is_the_most() {
        for count in [10, 12] {
            let share = Share::new(count, 10, TICKS);
            assert_eq!((share.percent, share.high), (100.0, 100.0));
            assert!((share.low - 72.25).abs() < 0.01);
        }
    }

    /// The interval contains the share and mirrors: what holds for k of n holds for n-k of n.
    #[test]
    fn the_interval_mirrors() {
        for base in [1, 7, 100, 18_775] {
            for count in [0, 1, base / 3, base / 2, base] {
                let (share, rest) = (
                    Share::new(count, base, KEPT),
                    Share::new(base - count, base, KEPT),
                );
                assert!(share.low <= share.percent && share.percent <= share.high);
                assert!((share.low - (100.0 - rest.high)).abs() < 1e-9);
                assert!((share.half_width() - rest.half_width()).abs() < 1e-9);
            }
        }
    }
}
