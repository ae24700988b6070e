//! Latency buckets: four per power of two, the same on both sides.
//!
//! Bucket 0 holds everything below 64 ns; bucket `1 + 4*k + j` holds
//! `[2^(6+k) * (4+j)/4, 2^(6+k) * (5+j)/4)` ns; the last one holds everything from there up.

/// Number of buckets: 64 ns up to 2^36 ns (69 s), and one below.
pub const BUCKETS: usize = 1 + 4 * 30;

/// First power of two that has buckets of its own.
const FIRST_SHIFT: u32 = 6;

/// The bucket of a latency.
#[inline(always)]
pub fn bucket(ns: u64) -> usize {
    if ns < 1 << FIRST_SHIFT {
        return 0;
    }
    let log2 = 63 - ns.leading_zeros();
    let quarter = (ns >> (log2 - 2)) & 3;
    let index = 1 + 4 * (log2 - FIRST_SHIFT) as usize + quarter as usize;
    if index >= BUCKETS { BUCKETS - 1 } else { index }
}

/// The largest latency of a bucket, in nanoseconds; of the last one, `u64::MAX`.
pub fn upper_bound_ns(bucket: usize) -> u64 {
    if bucket == 0 {
        return (1 << FIRST_SHIFT) - 1;
    }
    if bucket >= BUCKETS - 1 {
        return u64::MAX;
    }
    let (octave, quarter) = ((bucket - 1) / 4, (bucket - 1) % 4);
    ((5 + quarter as u64) << (octave as u32 + FIRST_SHIFT - 2)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each bucket's bound lies in that bucket, and one more nanosecond in the next.
    #[test]
    fn bounds_meet() {
        for index in 0..BUCKETS - 1 {
            let bound = upper_bound_ns(index);
            assert_eq!(bucket(bound), index, "bound {bound}");
            assert_eq!(bucket(bound + 1), index + 1, "bound {bound} + 1");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!(upper_bound_ns(BUCKETS - 1), u64::MAX);
    }
}
