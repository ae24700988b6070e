//! Slots for sets of mappings: shared between a process and its forks, reused late.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use profiler_ebpf::wire::MAX_SPACES;

/// A slot given back is not used again for this long: a sample may still be walking with it.
const REST: Duration = Duration::from_secs(2);

/// Which slots are in use, and by how many processes.
#[derive(Debug, Default)]
pub(super) struct Slots {
    users: HashMap<u32, u32>,
    resting: VecDeque<(u32, Instant)>,
    fresh: u32,
}

impl Slots {
    /// A slot for one process; `None` when all are in use.
    pub fn take(&mut self) -> Option<u32> {
        let rested = self.resting.front().is_some_and(|(_, since)| since.elapsed() >= REST);
        let slot = if rested {
            self.resting.pop_front()?.0
        } else if (self.fresh as usize) < MAX_SPACES {
            self.fresh += 1;
            self.fresh - 1
        } else {
            return None;
        };
        self.users.insert(slot, 1);
        Some(slot)
    }

    /// One more process uses a slot.
    pub fn share(&mut self, slot: u32) {
        *self.users.entry(slot).or_insert(0) += 1;
    }

    /// Whether several processes use a slot.
    pub fn is_shared(&self, slot: u32) -> bool {
        self.users.get(&slot).is_some_and(|users| *users > 1)
    }

    /// One process less uses a slot.
    pub fn give_back(&mut self, slot: u32) {
        let Some(users) = self.users.get_mut(&slot) else { return };
        *users -= 1;
        if *users == 0 {
            self.users.remove(&slot);
            self.resting.push_back((slot, Instant::now()));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A slot rests before it is used again, and is free only when nobody uses it.
    #[test]
    fn shares_and_rests() {
        let mut slots = Slots::default();
        let first = slots.take().unwrap();
        slots.share(first);
        assert!(slots.is_shared(first));
        slots.give_back(first);
        assert!(!slots.is_shared(first));
        slots.give_back(first);
        assert_ne!(slots.take().unwrap(), first);
        slots.resting[0].1 = Instant::now() - 2 * REST;
        assert_eq!(slots.take().unwrap(), first);
    }

    /// There is an end to slots.
    #[test]
    fn slots_end() {
        let mut slots = Slots::default();
        assert_eq!((0..MAX_SPACES + 5).filter_map(|_| slots.take()).count(), MAX_SPACES);
    }
}
