//! What every table needs of a profile, worked out once: places, own code, samples per stack.

use crate::profile::{FrameId, Profile, StackId};

use super::own::OwnCode;
use super::place::{PlaceId, Places, View};

/// A profile, prepared for counting.
#[derive(Debug)]
pub(super) struct Index<'a> {
    /// The profile itself.
    pub profile: &'a Profile,
    /// Its frames as executed lines.
    pub lines: Places,
    /// Its frames as functions.
    pub functions: Places,
    /// Its frames as files.
    pub files: Places,
    /// Per frame, whether it is own code.
    own: Vec<bool>,
    /// Kept samples per stack.
    stack_counts: Vec<u64>,
}

impl<'a> Index<'a> {
    /// Prepares a profile.
    pub fn new(profile: &'a Profile, own: &OwnCode) -> Self {
        let mut stack_counts = vec![0; profile.stacks.len()];
        for (key, count) in &profile.samples {
            stack_counts[key.stack.0 as usize] += count;
        }
        Self {
            profile,
            lines: Places::new(profile, View::Line),
            functions: Places::new(profile, View::Function),
            files: Places::new(profile, View::File),
            own: profile
                .frames
                .iter()
                .map(|frame| own.is_own(profile, frame))
                .collect(),
            stack_counts,
        }
    }

    /// Every sampled stack, leaf first, with its samples.
    pub fn stacks(&self) -> impl Iterator<Item = (&'a [FrameId], u64)> {
        self.profile
            .stacks
            .iter()
            .zip(&self.stack_counts)
            .filter(|(_, count)| **count > 0)
            .map(|(stack, count)| (&*stack.0, *count))
    }

    /// The frames of a stack, leaf first.
    pub fn stack(&self, id: StackId) -> &'a [FrameId] {
        self.profile.stack(id)
    }

    /// The own-code frame closest to the leaf.
    pub fn innermost_own(&self, stack: &[FrameId]) -> Option<FrameId> {
        stack.iter().copied().find(|frame| self.is_own(*frame))
    }

    /// The own-code frame closest to the root.
    pub fn outermost_own(&self, stack: &[FrameId]) -> Option<FrameId> {
        stack.iter().copied().rfind(|frame| self.is_own(*frame))
    }

    fn is_own(&self, frame: FrameId) -> bool {
        self.own[frame.0 as usize]
    }

    /// Samples per place, each sample once for every different place among the frames picked from
    /// its stack.
    pub fn tally<'s, I>(&self, places: &Places, pick: impl Fn(&'s [FrameId]) -> I) -> Vec<u64>
    where
        'a: 's,
        I: IntoIterator<Item = FrameId>,
    {
        let mut counts = vec![0; places.len()];
        let mut last_stack = vec![usize::MAX; places.len()];
        for (index, (stack, count)) in self.stacks().enumerate() {
            for place in pick(stack).into_iter().filter_map(|frame| places.of(frame)) {
                if last_stack[place] != index {
                    last_stack[place] = index;
                    counts[place] += count;
                }
            }
        }
        counts
    }
}

/// The places with samples, most samples first, equal ones by label.
pub(super) fn ranked(places: &Places, counts: &[u64]) -> Vec<(PlaceId, u64)> {
    let mut rows: Vec<(PlaceId, u64)> = counts
        .iter()
        .copied()
        .enumerate()
        .filter(|(_, count)| *count > 0)
        .collect();
    rows.sort_by(|a, b| {
        b.1.cmp(&a.1)
            .then_with(|| places.label(a.0).cmp(places.label(b.0)))
    });
    rows
}
