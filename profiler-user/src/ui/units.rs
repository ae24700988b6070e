//! Numbers in the reader's units: percent, durations, rates, and nouns in the right number.

use crate::evidence::{Part, Share};

/// `10.5%`.
pub(super) fn percent(percent: f64) -> String {
    format!("{percent:.1}%")
}

/// `±0.4`: percentage points, the larger half of the interval. Never `±0.0`: sampling always leaves
/// something open.
pub(super) fn half_width(share: &Share) -> String {
    format!("±{:.1}", share.half_width().max(0.1))
}

/// `10.5% ±0.4`.
pub(super) fn estimate(share: &Share) -> String {
    format!("{} {}", percent(share.percent), half_width(share))
}

/// `0.06 %`, or `<0.01 %` for what would read as nothing.
pub(super) fn small_part(part: &Part) -> String {
    if part.count > 0 && part.percent < 0.005 {
        return "<0.01 %".to_owned();
    }
    format!("{:.2} %", part.percent)
}

/// `18.2 MiB`, or `<0.1 MiB` for what would read as nothing.
pub(super) fn mebibytes(bytes: u64) -> String {
    let mebibytes = bytes as f64 / f64::from(1 << 20);
    if bytes > 0 && mebibytes < 0.05 {
        return "<0.1 MiB".to_owned();
    }
    format!("{mebibytes:.1} MiB")
}

/// `1 CPU`, `16 CPUs`, `3 processes`.
pub(super) fn plural(count: u64, noun: &str) -> String {
    match (count, noun.ends_with('s')) {
        (1, _) => format!("1 {noun}"),
        (_, false) => format!("{count} {noun}s"),
        (_, true) => format!("{count} {noun}es"),
    }
}

/// A latency in three digits: `950 ns`, `3.21 µs`, `45.6 ms`, `1.25 s`.
pub(super) fn latency(ns: f64) -> String {
    let (value, unit) = match ns {
        _ if ns < 999.5 => return format!("{ns:.0} ns"),
        _ if ns < 999.5e3 => (ns / 1e3, "µs"),
        _ if ns < 999.5e6 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    let decimals = match value {
        _ if value < 9.995 => 2,
        _ if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

/// A number of bytes in three digits: `512 B`, `1.50 KiB`, `23.0 GiB`.
pub(super) fn bytes(count: u64) -> String {
    let mut value = count as f64;
    let mut units = ["KiB", "MiB", "GiB", "TiB", "PiB"].into_iter();
    if value < 999.5 {
        return format!("{count} B");
    }
    let mut unit = "B";
    while value >= 999.5
        && let Some(next) = units.next()
    {
        value /= 1024.0;
        unit = next;
    }
    let decimals = match value {
        _ if value < 9.995 => 2,
        _ if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

/// A rate in three digits or more: `0.25`, `12.5`, `4321`.
pub(super) fn rate(per_second: f64) -> String {
    let decimals = match per_second {
        _ if per_second < 9.995 => 2,
        _ if per_second < 99.95 => 1,
        _ => 0,
    };
    format!("{per_second:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The contract's own example, and the edges of the interval.
    #[test]
    fn shares() {
        assert_eq!(estimate(&Share::new(1964, 18_775, "")), "10.5% ±0.4");
        assert_eq!(estimate(&Share::new(0, 100_000, "")), "0.0% ±0.1");
        assert_eq!(estimate(&Share::new(1, 1, "")), "100.0% ±79.3");
        assert_eq!(small_part(&Part::new(12, 18_775, "")), "0.06 %");
        assert_eq!(small_part(&Part::new(1, 1_000_000, "")), "<0.01 %");
        assert_eq!(small_part(&Part::new(0, 1_000_000, "")), "0.00 %");
    }

    /// Bytes have three digits in every unit.
    #[test]
    fn bytes_in_every_unit() {
        let texts = [0, 999, 1000, 1536, 102_400, 1 << 30, 23 << 30, 1 << 59].map(bytes);
        assert_eq!(
            texts,
            [
                "0 B", "999 B", "0.98 KiB", "1.50 KiB", "100 KiB", "1.00 GiB", "23.0 GiB",
                "512 PiB"
            ]
        );
    }

    /// Sizes in one unit, and none that is there reads as nothing.
    #[test]
    fn sizes() {
        let sizes = [0, 1, 60_000, 19_100_000].map(mebibytes);
        assert_eq!(sizes, ["0.0 MiB", "<0.1 MiB", "0.1 MiB", "18.2 MiB"]);
    }

    /// Nouns agree with their number.
    #[test]
    fn nouns() {
        assert_eq!(
            (plural(1, "process"), plural(0, "process")),
            ("1 process".into(), "0 processes".into())
        );
        assert_eq!(
            (plural(1, "CPU"), plural(16, "CPU")),
            ("1 CPU".into(), "16 CPUs".into())
        );
    }

    /// Units change where three digits would no longer do.
    #[test]
    fn latencies() {
        for (ns, text) in [
            (0.0, "0 ns"),
            (950.4, "950 ns"),
            (999.6, "1.00 µs"),
            (3_210.0, "3.21 µs"),
            (45_600_000.0, "45.6 ms"),
            (999_600_000.0, "1.00 s"),
            (123_000_000_000.0, "123 s"),
        ] {
            assert_eq!(latency(ns), text);
        }
        assert_eq!(
            (rate(0.254), rate(12.54), rate(4321.4)),
            ("0.25".into(), "12.5".into(), "4321".into())
        );
    }
}
