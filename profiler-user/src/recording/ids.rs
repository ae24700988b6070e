//! The numbers under which enumerations are persisted. A new value needs a new format version: a reader that
//! does not know one could only guess, so it stops there.

use crate::profile::{CallClass, Clock, FrameKind, GilState, Loss, Truncation};

pub(super) fn clock_id(clock: Clock) -> u32 {
    match clock {
        Clock::Cycles => 1,
        Clock::CpuClock => 2,
    }
}

pub(super) fn clock(id: u32) -> Option<Clock> {
    let all = [Clock::Cycles, Clock::CpuClock];
    all.into_iter().find(|clock| clock_id(*clock) == id)
}

pub(super) fn frame_kind_id(kind: FrameKind) -> u32 {
    match kind {
        FrameKind::Python => 1,
        FrameKind::Native => 2,
        FrameKind::Kernel => 3,
        FrameKind::Cuda => 4,
        FrameKind::Marker => 5,
    }
}

pub(super) fn frame_kind(id: u32) -> Option<FrameKind> {
    match id {
        1 => Some(FrameKind::Python),
        2 => Some(FrameKind::Native),
        3 => Some(FrameKind::Kernel),
        4 => Some(FrameKind::Cuda),
        5 => Some(FrameKind::Marker),
        _ => None,
    }
}

pub(super) fn gil_id(gil: GilState) -> u32 {
    match gil {
        GilState::None => 0,
        GilState::Held => 1,
        GilState::NotHeld => 2,
        GilState::Unknown => 3,
    }
}

pub(super) fn gil(id: u32) -> Option<GilState> {
    match id {
        0 => Some(GilState::None),
        1 => Some(GilState::Held),
        2 => Some(GilState::NotHeld),
        3 => Some(GilState::Unknown),
        _ => None,
    }
}

/// 0 stands for a whole stack.
pub(super) fn truncation_id(truncation: Option<Truncation>) -> u32 {
    truncation.map_or(0, |reason| u32::from(reason as u8))
}

pub(super) fn truncation(id: u32) -> Option<Option<Truncation>> {
    match id {
        0 => Some(None),
        _ => Truncation::from_id(u8::try_from(id).ok()?).map(Some),
    }
}

pub(super) fn loss(id: u32) -> Option<Loss> {
    Loss::from_id(u8::try_from(id).ok()?)
}

pub(super) fn call_class(id: u32) -> Option<CallClass> {
    CallClass::from_id(u8::try_from(id).ok()?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn known<T>(from_id: impl Fn(u32) -> Option<T>) -> Vec<u32> {
        (0..600).filter(|id| from_id(*id).is_some()).collect()
    }

    /// Format version 1 has these numbers and no others. When this fails because a value was added: once a
    /// version has shipped, `format::VERSION` goes up; then renew this test and docs/formats/recording.md.
    #[test]
    fn values_of_version_1() {
        assert_eq!(super::super::format::VERSION, 1);
        assert_eq!(known(clock), [1, 2]);
        assert_eq!(known(frame_kind), [1, 2, 3, 4, 5]);
        assert_eq!(known(gil), [0, 1, 2, 3]);
        assert_eq!(known(truncation), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
        assert_eq!(known(loss), [1, 2, 3, 4]);
        assert_eq!(known(call_class), [1, 2, 3, 4, 5, 6, 7, 8]);
    }

    /// Each number leads back to the value it was made from.
    #[test]
    fn round_trip() {
        for id in 1..=5 {
            assert_eq!(frame_kind_id(frame_kind(id).unwrap()), id);
        }
        for id in 0..=3 {
            assert_eq!(gil_id(gil(id).unwrap()), id);
        }
        for id in 0..=11 {
            assert_eq!(truncation_id(truncation(id).unwrap()), id);
        }
    }
}
