//! How large recordings are: figures that `docs/formats/recording.md` gives.

use super::live::Live;
use crate::profile::*;

/// Numbers that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % limit
    }
}

/// Something like a training run: 45 s at 99 Hz, ten busy threads on ten CPUs, stacks of 20 to 60 frames out of
/// 4000 functions, a tenth of the samples in a stack not seen before.
fn training_run() -> (Live, usize) {
    let mut live = Live::new();
    let mut dice = Dice(1);
    let names: Vec<String> = (0..4000)
        .map(|n| format!("at::native::kernel_{n:04}<float, {}>", n % 7))
        .collect();
    let mut stacks = Vec::new();
    let mut in_tables = 0;
    for tick in 0..45 * 99u64 {
        for cpu in 0..10u32 {
            if stacks.is_empty() || dice.below(10) == 0 {
                let depth = 20 + dice.below(40);
                // Neighbours in a stack are the same for all that pass there: a tree of calls.
                let mut at = dice.below(40);
                let path: Vec<&str> = (0..depth)
                    .map(|_| {
                        at = (at * 31 + 7 + dice.below(2)) % 4000;
                        names[usize::try_from(at).unwrap()].as_str()
                    })
                    .collect();
                let line = u32::try_from(1 + dice.below(300)).unwrap();
                stacks.push(live.stack(&path, line));
                in_tables += path.len();
            }
            let recent = u64::try_from(stacks.len()).unwrap().min(2000);
            let back = usize::try_from(dice.below(recent)).unwrap();
            let sample = Sample {
                time_ns: tick * 10_101_010 + u64::from(cpu) * 800_000 + dice.below(150_000),
                cpu,
                thread: live.thread(cpu),
                stack: stacks[stacks.len() - 1 - back],
                gil: if dice.below(10) == 0 {
                    GilState::Held
                } else {
                    GilState::NotHeld
                },
                truncation: (dice.below(50) == 0).then_some(Truncation::NoFramePointers),
            };
            live.sample(sample);
        }
        if tick % 99 == 98 {
            live.flush();
        }
    }
    (live, in_tables)
}

/// A sample costs at most 10 bytes, and the tables at most 2 bytes a stored frame.
#[test]
fn bytes_per_sample() {
    let (live, stack_frames) = training_run();
    let count = live.samples.len();
    let profile = live.profile.clone();
    let samples = live.samples.clone();
    let (_, bytes) = live.finish();

    // The same samples with the tables already written: what samples alone cost.
    let mut again = Live::new();
    again.writer.flush(&profile).unwrap();
    let tables = again.writer.get_ref().len();
    for second in samples.chunks(990) {
        again.writer.samples(second);
        again.writer.flush(&profile).unwrap();
    }
    let alone = again.writer.get_ref().len() - tables;
    println!(
        "{count} samples, {} stacks of {stack_frames} frames: {} bytes in all, {:.1} a sample; samples and books \
         alone {:.1} a sample; tables in one piece {tables}",
        profile.stacks.len(),
        bytes.len(),
        bytes.len() as f64 / count as f64,
        alone as f64 / count as f64,
    );
    assert!(alone < 10 * count);
    assert!(bytes.len() - alone < 2 * stack_frames);
}
