//! Places for sets of mappings in the kernel's memory: shared between a process and its forks, reused late.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use profiler_ebpf::wire::{MAX_SPACE_ENTRIES, SPACE_ENTRY_WORDS};

use crate::kernel::{Kernel, KernelError};

/// A place given back is not used again for this long: a sample may still be walking with it.
const REST: Duration = Duration::from_secs(2);
/// Mappings the smallest place holds. Each class holds twice as many as the one before.
const SMALLEST: u32 = 16;

/// Where a set of mappings lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Place {
    /// First word.
    pub start: u32,
    class: u32,
}

/// Which places are in use, and by how many processes.
#[derive(Debug, Default)]
pub(super) struct Places {
    users: HashMap<Place, u32>,
    resting: HashMap<u32, VecDeque<(u32, Instant)>>,
}

impl Places {
    /// A place for `count` mappings of one process; `None` when there is no memory left.
    pub fn take(
        &mut self,
        kernel: &mut Kernel,
        count: usize,
    ) -> Result<Option<Place>, KernelError> {
        let class = class_of(count);
        let place = match self.rested(class) {
            Some(place) => Some(place),
            None => kernel
                .allocate(capacity(class) * SPACE_ENTRY_WORDS)?
                .map(|start| Place { start, class }),
        };
        if let Some(place) = place {
            self.users.insert(place, 1);
        }
        Ok(place)
    }

    fn rested(&mut self, class: u32) -> Option<Place> {
        let resting = self.resting.get_mut(&class)?;
        let (_, since) = resting.front()?;
        if since.elapsed() < REST {
            return None;
        }
        resting.pop_front().map(|(start, _)| Place { start, class })
    }

    /// One more process uses a place.
    pub fn share(&mut self, place: Place) {
        *self.users.entry(place).or_insert(0) += 1;
    }

    /// One process less uses a place.
    pub fn give_back(&mut self, place: Place) {
        let Some(users) = self.users.get_mut(&place) else {
            return;
        };
        *users -= 1;
        if *users == 0 {
            self.users.remove(&place);
            let resting = self.resting.entry(place.class).or_default();
            resting.push_back((place.start, Instant::now()));
        }
    }
}

/// The class of the smallest place that holds so many mappings.
fn class_of(count: usize) -> u32 {
    let count = u32::try_from(count)
        .unwrap_or(MAX_SPACE_ENTRIES)
        .clamp(SMALLEST, MAX_SPACE_ENTRIES);
    count.next_power_of_two().trailing_zeros() - SMALLEST.trailing_zeros()
}

fn capacity(class: u32) -> u32 {
    SMALLEST << class
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Every count fits its class, and not the one below.
    #[test]
    fn classes() {
        assert_eq!(class_of(0), 0);
        assert_eq!(class_of(16), 0);
        assert_eq!(class_of(17), 1);
        for count in [33, 100, 4096] {
            let class = class_of(count);
            assert!(capacity(class) as usize >= count && (capacity(class - 1) as usize) < count);
        }
    }

    /// A place rests before it is used again, and only when nobody uses it.
    #[test]
    fn rests() {
        let mut places = Places::default();
        let place = Place { start: 8, class: 0 };
        places.share(place);
        places.share(place);
        places.give_back(place);
        assert_eq!(places.users[&place], 1);
        places.give_back(place);
        assert_eq!(places.rested(0), None);
        places.resting.get_mut(&0).unwrap()[0].1 = Instant::now() - 2 * REST;
        assert_eq!(places.rested(0), Some(place));
    }
}
