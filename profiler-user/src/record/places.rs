//! Places for sets of mappings in the memory both sides see: shared between a process and its forks, reused late.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use profiler_ebpf::wire::{MAX_SPACE_ENTRIES, SPACE_ENTRY_WORDS};

use crate::kernel::{KernelError, SharedMemory};
use crate::process::FileId;

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
    /// The files whose tables the mappings in a place lead to, by its first word; also of places that rest.
    files: HashMap<u32, Arc<[FileId]>>,
}

impl Places {
    /// A place for `count` mappings of one process; `None` when there is no memory left.
    pub fn take(
        &mut self,
        memory: &mut impl SharedMemory,
        count: usize,
        now: Instant,
    ) -> Result<Option<Place>, KernelError> {
        let class = class_of(count);
        let place = match self.rested(class, now) {
            Some(place) => Some(place),
            None => memory
                .allocate(capacity(class) * SPACE_ENTRY_WORDS)?
                .map(|start| Place { start, class }),
        };
        if let Some(place) = place {
            self.users.insert(place, 1);
            self.files.remove(&place.start);
        }
        Ok(place)
    }

    /// Says to which files' tables the mappings in a place lead.
    pub fn lead_to(&mut self, place: Place, files: Arc<[FileId]>) {
        self.files.insert(place.start, files);
    }

    /// The files whose tables the mappings lead to that lie from a word on.
    pub fn files_from(&self, start: u32) -> &[FileId] {
        self.files.get(&start).map_or(&[], |files| files)
    }

    /// Whether a process that is known has its mappings from a word on.
    pub fn is_in_use(&self, start: u32) -> bool {
        self.users.keys().any(|place| place.start == start)
    }

    fn rested(&mut self, class: u32, now: Instant) -> Option<Place> {
        let resting = self.resting.get_mut(&class)?;
        let (_, since) = resting.front()?;
        if now.saturating_duration_since(*since) < REST {
            return None;
        }
        resting.pop_front().map(|(start, _)| Place { start, class })
    }

    /// One more process uses a place.
    pub fn share(&mut self, place: Place) {
        *self.users.entry(place).or_insert(0) += 1;
    }

    /// One process less uses a place.
    pub fn give_back(&mut self, place: Place, now: Instant) {
        let Some(users) = self.users.get_mut(&place) else {
            return;
        };
        *users -= 1;
        if *users == 0 {
            self.users.remove(&place);
            let resting = self.resting.entry(place.class).or_default();
            resting.push_back((place.start, now));
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
        let now = Instant::now();
        places.give_back(place, now);
        assert_eq!(places.rested(0, now + 2 * REST), None);
        places.give_back(place, now);
        assert_eq!(places.rested(0, now + REST / 2), None);
        assert_eq!(places.rested(0, now + REST), Some(place));
    }
}
