//! Burns CPU at the end of a chain of calls in Rust, for tests of unwinding: `rust-chain SECONDS`. A thread of its own, in a
//! closure, catches the panic of what it calls and goes on.

use std::hint::black_box;
use std::panic::catch_unwind;
use std::time::{Duration, Instant};

#[inline(never)]
fn burn(x: u32) -> u32 {
    let mut x = black_box(x);
    for _ in 0..100_000 {
        x = x.wrapping_mul(1_664_525).wrapping_add(x >> 7);
    }
    black_box(x)
}

#[inline(never)]
fn burn_until(end: Instant) -> u32 {
    let mut x = 1;
    while Instant::now() < end {
        x = burn(x);
    }
    black_box(x)
}

/// Burns when it is dropped.
struct Last(Instant);

impl Drop for Last {
    #[inline(never)]
    fn drop(&mut self) {
        black_box(burn_until(self.0));
    }
}

#[inline(never)]
fn panics(end: Instant) -> u32 {
    let last = Last(end);
    std::panic::resume_unwind(Box::new(black_box(&last).0));
}

#[inline(never)]
fn catches(end: Instant) -> u32 {
    black_box(catch_unwind(|| panics(end)).unwrap_or(7))
}

fn main() {
    let seconds = std::env::args().nth(1).and_then(|word| word.parse().ok());
    let end = Instant::now() + Duration::from_secs_f64(seconds.unwrap_or(1.0));
    let thread = std::thread::spawn(move || black_box(catches(end)));
    black_box(burn_until(end));
    black_box(thread.join().ok());
}
