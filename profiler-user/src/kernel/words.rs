//! Which words of a memory are taken: given out in one piece, given back, joined with what is free beside them.

use std::collections::BTreeMap;

/// Words by index, of which a number are taken.
#[derive(Debug)]
pub(super) struct Words {
    /// Free stretches below `end`: length by first word. No two of them touch, and none touches `end`.
    free: BTreeMap<u32, u32>,
    /// From here on no word is taken.
    end: u32,
    limit: u32,
}

impl Words {
    /// All words from `first` up to `limit` are free.
    pub fn new(first: u32, limit: u32) -> Self {
        Self {
            free: BTreeMap::new(),
            end: first,
            limit,
        }
    }

    /// Takes `count` words that follow each other, from the smallest stretch that has them; `None` if none has.
    pub fn take(&mut self, count: u32) -> Option<u32> {
        let fitting = self.free.iter().filter(|(_, length)| **length >= count);
        if let Some((start, length)) = fitting.min_by_key(|(_, length)| **length) {
            let (start, length) = (*start, *length);
            self.free.remove(&start);
            if length > count {
                self.free.insert(start + count, length - count);
            }
            return Some(start);
        }
        let start = self.end;
        self.end = start.checked_add(count).filter(|end| *end <= self.limit)?;
        Some(start)
    }

    /// Gives back words that were taken, all that were taken together or a part of them.
    pub fn give_back(&mut self, start: u32, count: u32) {
        let before = self.free.range(..=start).next_back();
        let before = before.map(|(start, length)| (*start, *length));
        let after = self.free.range(start..).next();
        let after = after.map(|(start, length)| (*start, *length));
        let is_taken = start.checked_add(count).is_some_and(|end| {
            end <= self.end
                && before.is_none_or(|(at, length)| at + length <= start)
                && after.is_none_or(|(at, _)| end <= at)
        });
        debug_assert!(is_taken, "{count} words from {start} are not all taken");
        if !is_taken || count == 0 {
            return;
        }
        let (mut from, mut to) = (start, start + count);
        if let Some((at, length)) = before.filter(|(at, length)| at + length == start) {
            self.free.remove(&at);
            from = to - count - length;
        }
        if let Some((at, length)) = after.filter(|(at, _)| *at == to) {
            self.free.remove(&at);
            to += length;
        }
        if to == self.end {
            self.end = from;
        } else {
            self.free.insert(from, to - from);
        }
    }

    /// One past the last word that is taken.
    pub fn end(&self) -> u32 {
        self.end
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What is given back is joined and used again, the smallest stretch that fits first.
    #[test]
    fn used_again() {
        let mut words = Words::new(1, 101);
        let starts: Vec<u32> = (0..10).map(|_| words.take(10).unwrap()).collect();
        assert_eq!(starts[..3], [1, 11, 21]);
        assert_eq!(words.take(1), None);
        for index in [1, 3, 2, 7] {
            words.give_back(starts[index], 10);
        }
        assert_eq!(words.free, BTreeMap::from([(11, 30), (71, 10)]));
        assert_eq!(words.take(31), None);
        assert_eq!(words.take(8), Some(71));
        assert_eq!(words.take(30), Some(11));
        words.give_back(starts[9], 10);
        words.give_back(starts[8], 10);
        assert_eq!((words.end(), words.free.len()), (79, 0));
    }

    /// Too much is refused, and changes nothing.
    #[test]
    fn limits() {
        let mut words = Words::new(1, 11);
        assert_eq!(words.take(11), None);
        assert_eq!(words.take(u32::MAX), None);
        assert_eq!(words.take(10), Some(1));
        assert_eq!(words.take(1), None);
    }

    proptest! {
        /// Whatever is taken and given back: no word is given out twice, none is lost.
        #[test]
        fn never_twice(steps in prop::collection::vec((any::<bool>(), 1_u32..20), 1..200)) {
            let mut words = Words::new(1, 301);
            let mut taken: Vec<(u32, u32)> = Vec::new();
            for (take, size) in steps {
                if take {
                    let Some(start) = words.take(size) else { continue };
                    prop_assert!(start >= 1 && start + size <= 301);
                    let apart = |(at, count): &(u32, u32)| at + count <= start || start + size <= *at;
                    prop_assert!(taken.iter().all(apart));
                    taken.push((start, size));
                } else if !taken.is_empty() {
                    let (start, count) = taken.swap_remove(size as usize % taken.len());
                    words.give_back(start, count);
                }
            }
            for (start, count) in taken {
                words.give_back(start, count);
            }
            prop_assert_eq!((words.end(), words.free.len()), (1, 0));
            prop_assert_eq!(words.take(300), Some(1));
        }
    }
}
