//! Which native frame evaluates which Python frame.
//!
//! Most Python frames say it themselves, by their anchor. This is about those that cannot: before CPython 3.10 nothing
//! of an evaluation lies on the stack but its native frame; a thread may be sampled while it begins or ends an
//! evaluation; and the outermost frames of a walk that met its depth limit have not come to their anchor.

use profiler_ebpf::wire::{NativeFrame, PythonFrame};

/// A native frame, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    /// Its stack pointer.
    pub start: u64,
    /// Its caller's; `None` if that is not known.
    pub end: Option<u64>,
    /// Its function is known to evaluate Python frames.
    pub evaluator: bool,
}

impl Extent {
    /// The extents of native frames, leaf first, with what is known of their functions.
    pub fn of(native: &[NativeFrame], evaluators: impl Iterator<Item = bool>) -> Vec<Self> {
        let ends = native.iter().skip(1).map(|caller| Some(caller.sp));
        native
            .iter()
            .zip(ends.chain([None]))
            .zip(evaluators)
            .map(|((frame, end), evaluator)| Self {
                start: frame.sp,
                end,
                evaluator,
            })
            .collect()
    }

    fn holds(&self, address: u64) -> bool {
        self.end
            .is_some_and(|end| (self.start..end).contains(&address))
    }
}

/// What is known of the walks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Walks {
    /// The native walk reached the thread's root.
    pub native_whole: bool,
    /// The Python walk did.
    pub python_whole: bool,
    /// Frames have no anchors: each has a native frame of its own, in the same order.
    pub by_order: bool,
}

/// The Python frames, leaf first, with as many anchors as can be had; marks native frames that hold one as evaluators.
pub(super) fn anchored(
    python: &[PythonFrame],
    extents: &mut [Extent],
    walks: Walks,
) -> Vec<PythonFrame> {
    for extent in extents.iter_mut() {
        extent.evaluator |= python
            .iter()
            .any(|frame| frame.anchor != 0 && extent.holds(frame.anchor));
    }
    let mut frames = python.to_vec();
    if walks.by_order {
        match_by_order(&mut frames, extents, walks);
    } else {
        shift(&mut frames, extents, walks);
    }
    if !walks.python_whole {
        anchor_the_cut(&mut frames, extents);
    }
    frames
}

/// One native frame for each Python frame.
fn match_by_order(frames: &mut [PythonFrame], extents: &[Extent], walks: Walks) {
    let evaluators: Vec<(usize, u64)> = extents
        .iter()
        .enumerate()
        .filter(|(_, extent)| extent.evaluator)
        .map(|(index, extent)| (index, extent.start))
        .collect();
    // One native frame more, at the leaf: an evaluation that has not linked its frame yet, or has unlinked it.
    let complete = walks.native_whole && walks.python_whole;
    let at_its_edge = evaluators.first().is_some_and(|(index, _)| *index <= 1);
    let skipped = usize::from(complete && at_its_edge && evaluators.len() == frames.len() + 1);
    for (frame, (_, start)) in frames.iter_mut().zip(evaluators.iter().skip(skipped)) {
        frame.anchor = *start;
    }
}

/// Where every frame took a record of its own: frames and records part for a moment when an evaluation begins or ends.
fn shift(frames: &mut Vec<PythonFrame>, extents: &[Extent], walks: Walks) {
    match frames.last().copied() {
        // A record more than frames: the innermost is of an evaluation that has no frame.
        Some(PythonFrame { code: 0, .. }) => {
            for index in 1..frames.len() {
                frames[index - 1].anchor = frames[index].anchor;
            }
            frames.pop();
        }
        // A record less: the innermost frame's evaluation has given up its own.
        Some(PythonFrame { anchor: 0, .. }) if walks.python_whole => {
            for index in (1..frames.len()).rev() {
                frames[index].anchor = frames[index - 1].anchor;
            }
            let leaf = extents.first().filter(|leaf| leaf.evaluator);
            frames[0].anchor = leaf.map_or(0, |leaf| leaf.start);
        }
        _ => {}
    }
}

/// Frames behind the last anchor of a walk that was cut: the next native evaluator is theirs.
fn anchor_the_cut(frames: &mut [PythonFrame], extents: &[Extent]) {
    if frames.last().is_none_or(|last| last.anchor != 0) {
        return;
    }
    let known = frames.iter().rev().find(|frame| frame.anchor != 0);
    let beyond = known.map_or(0, |known| {
        extents
            .iter()
            .position(|extent| extent.holds(known.anchor))
            .map_or(extents.len(), |index| index + 1)
    });
    let next = extents.iter().skip(beyond).find(|extent| extent.evaluator);
    if let (Some(last), Some(next)) = (frames.last_mut(), next) {
        last.anchor = next.start;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Walks = Walks {
        native_whole: true,
        python_whole: true,
        by_order: false,
    };

    /// Native frames of ten bytes each; `e` for evaluators.
    fn extents(kinds: &str) -> Vec<Extent> {
        let native: Vec<_> = (0..kinds.len() as u64)
            .map(|index| NativeFrame {
                pc: 1,
                sp: 10 * (index + 1),
                how: 0,
            })
            .collect();
        Extent::of(&native, kinds.chars().map(|kind| kind == 'e'))
    }

    fn python(frames: &[(u64, u64)]) -> Vec<PythonFrame> {
        let frame = |(code, anchor): &(u64, u64)| PythonFrame {
            code: *code,
            instruction: 0,
            anchor: *anchor,
            check: 0,
        };
        frames.iter().map(frame).collect()
    }

    fn anchors(frames: &[(u64, u64)], kinds: &str, walks: Walks) -> Vec<(u64, u64)> {
        anchored(&python(frames), &mut extents(kinds), walks)
            .iter()
            .map(|frame| (frame.code, frame.anchor))
            .collect()
    }

    /// Frames without anchors go with evaluators in order; one evaluator more at the leaf has no frame yet, but only if
    /// both walks are whole, and one elsewhere is a frame that is missing at the root.
    #[test]
    fn order_matches() {
        let by_order = Walks {
            by_order: true,
            ..WHOLE
        };
        let two = [(1, 0), (2, 0)];
        assert_eq!(anchors(&two, "nenne.", by_order), [(1, 20), (2, 50)]);
        assert_eq!(anchors(&two, "enenne.", by_order), [(1, 30), (2, 60)]);
        assert_eq!(anchors(&two, "nnenenne.", by_order), [(1, 30), (2, 50)]);
        let cut = Walks {
            native_whole: false,
            ..by_order
        };
        assert_eq!(anchors(&two, "ene", cut), [(1, 10), (2, 30)]);
        assert_eq!(anchors(&two, "en", cut), [(1, 10), (2, 0)]);
    }

    /// A record without a frame belongs to the leaf, and so does a frame without a record.
    #[test]
    fn records_and_frames_part() {
        assert_eq!(
            anchors(&[(1, 15), (2, 35), (0, 55)], "nnnnnn.", WHOLE),
            [(1, 35), (2, 55)]
        );
        assert_eq!(
            anchors(&[(1, 35), (2, 55), (3, 0)], "ennnnn.", WHOLE),
            [(1, 10), (2, 35), (3, 55)]
        );
        assert_eq!(anchors(&[(0, 15)], "nn", WHOLE), []);
    }

    /// The last frames of a walk that was cut are the next evaluator's, if one is known.
    #[test]
    fn cut_walks_are_anchored() {
        let cut = Walks {
            python_whole: false,
            ..WHOLE
        };
        assert_eq!(
            anchors(&[(1, 15), (2, 0), (3, 0)], "nnene.", cut),
            [(1, 15), (2, 0), (3, 30)]
        );
        assert_eq!(anchors(&[(1, 0)], "nn.", cut), [(1, 0)]);
        assert_eq!(anchors(&[], "e.", cut), []);
    }

    /// A native frame that holds an anchor evaluates, whatever its name.
    #[test]
    fn anchors_make_evaluators() {
        let mut native = extents("nnn");
        anchored(&python(&[(1, 25)]), &mut native, WHOLE);
        let evaluators: Vec<_> = native.iter().map(|extent| extent.evaluator).collect();
        assert_eq!(evaluators, [false, true, false]);
    }
}
