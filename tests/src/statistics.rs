//! How far sampled figures may be from the truth when the program is right.

/// Binomial distribution: `n` samples, each of which is a hit with probability `p`.
#[derive(Debug, Clone, Copy)]
pub struct Binomial {
    /// Samples.
    pub n: u64,
    /// Probability of a hit.
    pub p: f64,
}

impl Binomial {
    /// Probability of exactly `k` hits.
    fn exactly(self, k: u64) -> f64 {
        if self.p <= 0.0 || self.p >= 1.0 {
            let certain = if self.p <= 0.0 { 0 } else { self.n };
            return f64::from(u8::from(k == certain));
        }
        let (n, k) = (self.n as f64, k as f64);
        let ways = ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k);
        (ways + k * self.p.ln() + (n - k) * (1.0 - self.p).ln()).exp()
    }

    /// Probability of `k` hits or fewer.
    pub fn at_most(self, k: u64) -> f64 {
        (0..=k.min(self.n))
            .map(|hits| self.exactly(hits))
            .sum::<f64>()
            .min(1.0)
    }

    /// Probability of `k` hits or more.
    pub fn at_least(self, k: u64) -> f64 {
        (k..=self.n)
            .map(|hits| self.exactly(hits))
            .sum::<f64>()
            .min(1.0)
    }

    /// Probability of a number of hits that is at least as far out as `k`, on either side.
    pub fn as_far_as(self, k: u64) -> f64 {
        (2.0 * self.at_most(k).min(self.at_least(k))).min(1.0)
    }

    /// The smallest number of hits that is reached with a probability of more than `1 - alpha`.
    pub fn surely(self, alpha: f64) -> u64 {
        (0..=self.n)
            .take_while(|k| *k == 0 || self.at_most(k - 1) < alpha)
            .last()
            .unwrap_or(0)
    }
}

/// ln n!, by Stirling's series: better than 1e-9 from 10 on, and summed up below that.
fn ln_factorial(n: f64) -> f64 {
    if n < 10.0 {
        let mut factor = 2.0;
        let mut sum = 0.0;
        while factor <= n {
            sum += f64::ln(factor);
            factor += 1.0;
        }
        return sum;
    }
    let half_ln_tau = 0.918_938_533_204_672_7;
    (n + 0.5) * n.ln() - n + half_ln_tau + 1.0 / (12.0 * n) - 1.0 / (360.0 * n.powi(3))
        + 1.0 / (1260.0 * n.powi(5))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!(
            (found / expected - 1.0).abs() < 1e-6,
            "{found} is not {expected}"
        );
    }

    /// Probabilities are those that a calculation by hand gives.
    #[test]
    fn small_ones_by_hand() {
        let three = Binomial { n: 3, p: 0.5 };
        near(three.at_most(1), 0.5);
        near(three.at_least(3), 0.125);
        near(three.as_far_as(0), 0.25);
        near(
            Binomial { n: 6, p: 0.06 }.at_least(4),
            15.0 * 0.06f64.powi(4) * 0.94f64.powi(2)
                + 6.0 * 0.06f64.powi(5) * 0.94
                + 0.06f64.powi(6),
        );
        near(Binomial { n: 9, p: 0.0 }.at_most(0), 1.0);
        near(Binomial { n: 9, p: 1.0 }.at_least(9), 1.0);
    }

    /// Large ones agree with the normal distribution: three standard deviations leave 0.27 % out.
    #[test]
    fn large_ones_are_normal() {
        let many = Binomial { n: 40_000, p: 0.5 };
        let outside = many.at_most(19_700) + many.at_least(20_300);
        assert!((outside - 0.0027).abs() < 0.0001, "{outside}");
        near(many.at_most(40_000), 1.0);
    }

    /// What is surely reached is the last number below which little probability lies.
    #[test]
    fn surely_is_the_last_safe_number() {
        let twelve = Binomial { n: 12, p: 0.94 };
        let surely = twelve.surely(1e-4);
        assert!(twelve.at_most(surely - 1) < 1e-4 && twelve.at_most(surely) >= 1e-4);
    }
}
