//! What rows stand for: places in code, each coarser than a frame.
//!
//! A frame is one line of one function in one module. The tables rank lines, functions and files:
//! [`Places`] maps every frame of a profile to its place in one of these views, and names the places
//! so that two different ones never read the same.

use indexmap::IndexMap;

use crate::profile::{Frame, FrameId, FrameKind, Profile, StringId};

use super::label::{self, Named};

/// How much of a frame makes a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    /// The line being executed, as a frame's label shows it.
    Line,
    /// The function: all its lines together.
    Function,
    /// The source file, or the module where there is none. Markers are in no file.
    File,
}

/// One place. Equal places are one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Place {
    /// What executes it; `None` for a file, which may hold code of more than one kind.
    pub kind: Option<FrameKind>,
    /// The function's name; empty for a file.
    pub function: StringId,
    /// The path that the label shows the end of: source file or module; empty for the kernel.
    pub path: StringId,
    /// Line executed, or the function's first line; 0 if unknown.
    pub line: u32,
    /// Tells unnamed frames of one module apart.
    offset: u64,
}

/// Index of a place in its [`Places`].
pub(super) type PlaceId = usize;

/// The places of a profile in one view.
#[derive(Debug)]
pub(super) struct Places {
    /// Every place, with a frame in it.
    all: IndexMap<Place, FrameId>,
    of_frame: Vec<Option<PlaceId>>,
    labels: Vec<String>,
}

impl Places {
    /// Sorts the frames of a profile into places.
    pub fn new(profile: &Profile, view: View) -> Self {
        let mut all: IndexMap<Place, FrameId> = IndexMap::new();
        let of_frame = (0_u32..)
            .zip(&profile.frames)
            .map(|(index, frame)| {
                let place = place_of(frame, view)?;
                let entry = all.entry(place);
                let id = entry.index();
                entry.or_insert(FrameId(index));
                Some(id)
            })
            .collect();
        let named: Vec<Named<'_>> = all
            .iter()
            .map(|(place, frame)| Named {
                label: text(profile, place, *frame, view),
                path: profile.text(place.path),
                first_line: if view == View::Function {
                    place.line
                } else {
                    0
                },
            })
            .collect();
        let labels = label::distinct(named);
        Self {
            all,
            of_frame,
            labels,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// The place of a frame; `None` where the view has none for it.
    pub fn of(&self, frame: FrameId) -> Option<PlaceId> {
        self.of_frame.get(frame.0 as usize).copied().flatten()
    }

    /// Its name, unlike that of every other place of this view.
    pub fn label(&self, id: PlaceId) -> &str {
        &self.labels[id]
    }
}

impl std::ops::Index<PlaceId> for Places {
    type Output = Place;

    fn index(&self, id: PlaceId) -> &Place {
        let (place, _) = self
            .all
            .get_index(id)
            .expect("place ids come from this table");
        place
    }
}

/// A place holds what its label shows, with the whole path, and what tells it from its neighbours.
fn place_of(frame: &Frame, view: View) -> Option<Place> {
    let has_source = frame.file != StringId::default();
    let by_source = match (frame.kind, view) {
        (FrameKind::Python, _) => true,
        (FrameKind::Native, View::File) => has_source,
        (FrameKind::Native, View::Line) => has_source && frame.is_named() && frame.line > 0,
        _ => false,
    };
    let path = match frame.kind {
        FrameKind::Python | FrameKind::Native if by_source => frame.file,
        FrameKind::Native => frame.module,
        _ => StringId::default(),
    };
    let line = match view {
        View::Line if by_source => frame.line,
        View::Function if frame.kind == FrameKind::Python => frame.first_line,
        _ => 0,
    };
    let pathless = matches!(frame.kind, FrameKind::Kernel | FrameKind::Cuda);
    match view {
        View::File if frame.kind == FrameKind::Marker => None,
        View::File => Some(Place {
            kind: pathless.then_some(frame.kind),
            function: StringId::default(),
            path,
            line,
            offset: 0,
        }),
        View::Line | View::Function => Some(Place {
            kind: Some(frame.kind),
            function: frame.function,
            path,
            line,
            offset: if frame.is_named() { 0 } else { frame.offset },
        }),
    }
}

/// The place as the contract's frame text has it, which may read the same for two places.
fn text(profile: &Profile, place: &Place, frame: FrameId, view: View) -> String {
    match (view, place.kind) {
        (View::Line, _) => profile.label(frame),
        (View::Function, _) => profile.frame(frame).function_label(&profile.strings),
        (View::File, Some(FrameKind::Kernel)) => "[kernel]".to_owned(),
        (View::File, Some(FrameKind::Cuda)) => "[cuda]".to_owned(),
        (View::File, _) => match label::base_name(profile.text(place.path)) {
            "" => "[no file]".to_owned(),
            name => name.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::testing::Build;

    fn labels(places: &Places) -> Vec<&str> {
        (0..places.len()).map(|id| places.label(id)).collect()
    }

    /// Two lines of one function are two lines, one function, one file.
    #[test]
    fn views_differ_in_detail() {
        let mut build = Build::new();
        build.python_at("f", "/a/m.py", 1, 2);
        build.python_at("f", "/a/m.py", 1, 3);
        build.python_at("f", "/a/m.py", 9, 10);
        build.native("malloc", "/lib/libc.so.6");
        build.kernel("vfs_read");
        build.kernel("vfs_write");
        build.cuda("cuLaunchKernel");
        build.marker("[truncated]");
        let profile = &build.profile;
        let lines = Places::new(profile, View::Line);
        assert_eq!(
            labels(&lines)[..3],
            ["f (m.py:2)", "f (m.py:3)", "f (m.py:10)"]
        );
        assert_eq!(lines.len(), 8);
        let functions = Places::new(profile, View::Function);
        assert_eq!(
            labels(&functions)[..3],
            ["f (m.py:1)", "f (m.py:9)", "malloc (libc.so.6)"]
        );
        assert_eq!(functions.len(), 7);
        let files = Places::new(profile, View::File);
        assert_eq!(labels(&files), ["m.py", "libc.so.6", "[kernel]", "[cuda]"]);
        assert_eq!(files.of(FrameId(7)), None);
    }

    /// Unnamed code of one module is told apart by offset, and counts for its file.
    #[test]
    fn unnamed_frames_keep_their_offset() {
        let mut build = Build::new();
        build.unnamed("/opt/x.so", 0x10);
        build.unnamed("/opt/x.so", 0x20);
        let functions = Places::new(&build.profile, View::Function);
        assert_eq!(labels(&functions), ["x.so+0x10", "x.so+0x20"]);
        assert_eq!(labels(&Places::new(&build.profile, View::File)), ["x.so"]);
    }
}
