//! Whole recordings, written and read back: as they should be, cut, damaged, old, large.

mod damage;
mod document;
mod golden;
mod hostile;
mod live;
mod partial;
mod round_trip;
mod size;
