//! What the ranked tables are made of: tables, rows, and the code a row names.

use serde::Serialize;

use crate::profile::{FrameKind, Profile};

use super::index::Index;
use super::place::{PlaceId, Places};
use super::share::{KEPT, Share};

/// Stands for the leaf, function and root of samples that have no frames at all.
pub(super) const NO_FRAMES: &str = "[no frames]";

/// The first rows of a ranking.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Table<R> {
    /// The rows shown, first ranked first.
    pub rows: Vec<R>,
    /// How many rows there are in all.
    pub rows_total: usize,
    /// Samples kept that fall into none of them.
    pub samples_without: u64,
}

impl<R> Table<R> {
    /// Keeps the first `top` rows.
    pub(super) fn new(mut rows: Vec<R>, top: usize, samples_without: u64) -> Self {
        let rows_total = rows.len();
        rows.truncate(top);
        Self {
            rows,
            rows_total,
            samples_without,
        }
    }
}

/// Where a row is in the code. Fields that do not apply are left out of the JSON.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Code {
    /// `python`, `native`, `kernel`, `cuda` or `marker`; none for a file.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub kind: &'static str,
    /// The function's name alone.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub function: String,
    /// The whole path of the source file, or of the module where that is what is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The line executed; in a row for a function, the one where it begins.
    #[serde(skip_serializing_if = "is_zero")]
    pub line: u32,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
fn is_zero(line: &u32) -> bool {
    *line == 0
}

/// One row of TOP LEAF, TOP FILES or TOP OWN CODE.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The row's name, unlike any other in its table.
    pub label: String,
    /// What it names.
    #[serde(flatten)]
    pub code: Code,
    /// Its samples.
    #[serde(flatten)]
    pub share: Share,
}

/// A share of all samples kept.
pub(super) fn kept(index: &Index<'_>, count: u64) -> Share {
    Share::new(count, index.profile.kept(), KEPT)
}

/// Samples kept beyond those counted.
pub(super) fn samples_beyond(index: &Index<'_>, counted: u64) -> u64 {
    index.profile.kept().saturating_sub(counted)
}

/// What the row of samples without a stack names.
pub(super) fn marker() -> Code {
    Code {
        kind: kind_text(FrameKind::Marker),
        ..Code::default()
    }
}

/// What a place's row names.
pub(super) fn code(profile: &Profile, places: &Places, id: PlaceId) -> Code {
    let place = &places[id];
    Code {
        kind: place.kind.map_or("", kind_text),
        function: profile.text(place.function).to_owned(),
        path: profile.text(place.path).to_owned(),
        line: place.line,
    }
}

fn kind_text(kind: FrameKind) -> &'static str {
    match kind {
        FrameKind::Python => "python",
        FrameKind::Native => "native",
        FrameKind::Kernel => "kernel",
        FrameKind::Cuda => "cuda",
        FrameKind::Marker => "marker",
    }
}
