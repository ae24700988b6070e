//! Where things lie in each CPython version, x86-64.
//!
//! Data only: a table for 3.8 to 3.12, computed from each version's own headers and checked against live
//! interpreters; from 3.13 on the interpreter's file says most of it itself ([`DebugOffsets`]). The kernel side
//! proves the first steps again at every sample (`thread_id == fs base`). A version that is not here is not
//! guessed at.

use profiler_ebpf::wire::{PythonInfo, anchors};

use super::PythonBuild;
use super::debug_offsets::DebugOffsets;
use super::lines::LineTable;
use super::thread_layout::{Attributes, Keys, ThreadLayout};

/// Offsets in objects that user space reads itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ObjectLayout {
    /// `PyCodeObject.co_firstlineno`.
    pub code_first_line: usize,
    /// `PyCodeObject.co_filename`.
    pub code_file: usize,
    /// `PyCodeObject.co_name`.
    pub code_name: usize,
    /// `PyCodeObject.co_qualname`; `None` before 3.11.
    pub code_qualified_name: Option<usize>,
    /// `PyCodeObject.co_linetable`, or `co_lnotab` where it has that name.
    pub code_line_table: usize,
    /// The form of that.
    pub lines: LineTable,
    /// `PyCodeObject.co_code_adaptive`: where the instructions begin. 0 where they are an object of their own.
    pub code_instructions: usize,
    /// Size of an object's head, after which its own fields begin.
    pub object_head: u64,
    /// Start of the characters of a compact ASCII string.
    pub text_ascii: u64,
    /// Start of the characters of a compact string of another kind.
    pub text_compact: u64,
}

/// Everything that is known of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// For the kernel side, without the address of `_PyRuntime`.
    pub kernel: PythonInfo,
    /// For code objects and texts.
    pub objects: ObjectLayout,
    /// For threads' names.
    pub threads: ThreadLayout,
}

/// The layout of a build; `None` if it is not known.
pub(super) fn layout_of(build: &PythonBuild) -> Option<Layout> {
    let version = build.version?;
    if version.major != 3 {
        return None;
    }
    let mut layout = match (version.minor, build.offsets) {
        (8, None) => V3_8,
        (9, None) => V3_9,
        (10, None) => V3_10,
        (11, None) => V3_11,
        (12, None) => V3_12,
        (13, Some(offsets)) => described(&offsets, &V3_13)?,
        // Its instructions may be a copy made for one thread, which no offset here leads to.
        (14, Some(offsets)) if !offsets.free_threaded => described(&offsets, &V3_14)?,
        _ => return None,
    };
    layout.kernel.musl = build.musl.into();
    Some(layout)
}

/// Frame objects, one evaluation each.
const FRAME_OBJECTS: PythonInfo = PythonInfo {
    runtime: 0,
    tss_key: 0,
    tstate_current: 0,
    gil: 0,
    gil_of_interpreter: 0,
    gil_last_holder: 8,
    gil_locked: 16,
    gil_optional: 0,
    tstate_interpreter: 16,
    tstate_thread_id: 176,
    tstate_frame: 24,
    tstate_cframe: 0,
    cframe_current_frame: 0,
    cframe_previous: 0,
    frame_start: 24,
    // `f_code` at 32, behind `f_back` at 24.
    frame_code_word: 1,
    frame_previous_word: 0,
    frame_instruction_word: 0,
    frame_flags_word: 0,
    frame_flags_shift: 0,
    anchors: anchors::NONE,
    musl: 0,
    frame_last_index: 104,
    code_first_line: 40,
    // co_filename and co_name.
    code_names: 104,
    tstate_root_cframe: 0,
    _pad: [0; 2],
};

const V3_8: Layout = Layout {
    kernel: PythonInfo {
        tss_key: 1396,
        tstate_current: 1368,
        gil: 1160 - 8,
        ..FRAME_OBJECTS
    },
    objects: ObjectLayout {
        code_first_line: 40,
        code_file: 104,
        code_name: 112,
        code_qualified_name: None,
        code_line_table: 120,
        lines: LineTable::SignedDeltas,
        code_instructions: 0,
        object_head: 16,
        text_ascii: 48,
        text_compact: 72,
    },
    threads: ThreadLayout {
        interpreters: 32,
        interpreter_threads: 8,
        state_native_id: None,
        frame_first_local: 360,
        attributes: Attributes::DictOffset(288),
        keys: Keys::WithLookup,
    },
};

const V3_9: Layout = Layout {
    kernel: PythonInfo {
        tss_key: 588,
        tstate_current: 568,
        gil: 360 - 8,
        ..FRAME_OBJECTS
    },
    ..V3_8
};

const V3_10: Layout = Layout {
    kernel: PythonInfo {
        tss_key: 588,
        tstate_current: 568,
        gil: 360 - 8,
        tstate_cframe: 48,
        cframe_previous: 8,
        tstate_root_cframe: 264,
        anchors: anchors::EVERY,
        frame_last_index: 96,
        ..FRAME_OBJECTS
    },
    objects: ObjectLayout {
        lines: LineTable::UnitDeltas,
        ..V3_8.objects
    },
    threads: ThreadLayout {
        frame_first_local: 352,
        ..V3_8.threads
    },
};

const V3_11: Layout = Layout {
    kernel: PythonInfo {
        tss_key: 596,
        tstate_current: 576,
        gil: 368 - 8,
        tstate_thread_id: 152,
        tstate_frame: 0,
        tstate_cframe: 56,
        cframe_current_frame: 8,
        cframe_previous: 16,
        frame_start: 0,
        frame_code_word: 32 / 8,
        frame_previous_word: 48 / 8,
        frame_instruction_word: 56 / 8,
        // `is_entry` is the byte at 68.
        frame_flags_word: 64 / 8,
        frame_flags_shift: 8 * (68 - 64),
        anchors: anchors::ENTRY,
        frame_last_index: 0,
        code_first_line: 72,
        code_names: 112,
        ..FRAME_OBJECTS
    },
    objects: ObjectLayout {
        code_first_line: 72,
        code_file: 112,
        code_name: 120,
        code_qualified_name: Some(128),
        code_line_table: 136,
        lines: LineTable::Locations,
        code_instructions: 184,
        ..V3_8.objects
    },
    threads: ThreadLayout {
        interpreters: 40,
        interpreter_threads: 16,
        state_native_id: Some(160),
        frame_first_local: 72,
        attributes: Attributes::BeforeObject { cached_keys: 872 },
        keys: Keys::WithKind,
    },
};

const V3_12: Layout = Layout {
    kernel: PythonInfo {
        tss_key: 1548,
        tstate_current: 0,
        gil: 384,
        gil_of_interpreter: 1,
        tstate_thread_id: 136,
        cframe_current_frame: 0,
        cframe_previous: 8,
        frame_code_word: 0,
        frame_previous_word: 1,
        // `owner` is the byte at 70.
        frame_flags_shift: 8 * (70 - 64),
        anchors: anchors::SHIM,
        code_first_line: 68,
        ..V3_11.kernel
    },
    objects: ObjectLayout {
        code_first_line: 68,
        code_instructions: 192,
        text_ascii: 40,
        text_compact: 56,
        ..V3_11.objects
    },
    threads: ThreadLayout {
        interpreter_threads: 72,
        state_native_id: Some(144),
        attributes: Attributes::TaggedBeforeObject { cached_keys: 880 },
        ..V3_11.threads
    },
};

/// Without what the file itself says.
const V3_13: Layout = Layout {
    kernel: PythonInfo {
        tss_key: 2164,
        tstate_cframe: 0,
        ..V3_12.kernel
    },
    threads: ThreadLayout {
        interpreters: 632,
        interpreter_threads: 7344,
        attributes: Attributes::BehindObject { cached_keys: 880 },
        ..V3_12.threads
    },
    ..V3_12
};

/// Without what the file itself says.
const V3_14: Layout = Layout {
    kernel: PythonInfo {
        tss_key: 2340,
        ..V3_13.kernel
    },
    threads: ThreadLayout {
        interpreters: 808,
        frame_first_local: 80,
        ..V3_13.threads
    },
    ..V3_13
};

/// A layout completed by what the file says. `None` if that does not fit what the walk can do.
fn described(offsets: &DebugOffsets, base: &Layout) -> Option<Layout> {
    let word = |offset: u16| {
        let fits = offset.is_multiple_of(8)
            && usize::from(offset / 8) < profiler_ebpf::python::FRAME_WORDS;
        u8::try_from(offset / 8).ok().filter(|_| fits)
    };
    let owner = offsets.frame_owner;
    let free_threaded = u8::from(offsets.free_threaded);
    // A free-threaded build has 16 bytes more before each object's own fields, and 8 before the lock's.
    let object_head = 16 + 16 * u64::from(free_threaded);
    let lock_begins = 8 * free_threaded;
    Some(Layout {
        kernel: PythonInfo {
            gil: offsets.interpreter_gil.into(),
            gil_last_holder: 8 + lock_begins,
            gil_locked: 16 + lock_begins,
            gil_optional: free_threaded,
            tstate_interpreter: offsets.state_interpreter,
            tstate_thread_id: offsets.state_thread_id,
            tstate_frame: offsets.state_frame,
            frame_code_word: word(offsets.frame_code)?,
            frame_previous_word: word(offsets.frame_previous)?,
            frame_instruction_word: word(offsets.frame_instruction)?,
            frame_flags_word: word(owner & !7)?,
            frame_flags_shift: u8::try_from(8 * (owner & 7)).ok()?,
            code_first_line: offsets.code_first_line,
            code_names: offsets.code_file,
            ..base.kernel
        },
        objects: ObjectLayout {
            code_first_line: offsets.code_first_line.into(),
            code_file: offsets.code_file.into(),
            code_name: usize::from(offsets.code_file) + 8,
            code_qualified_name: Some(usize::from(offsets.code_file) + 16),
            code_line_table: offsets.code_line_table.into(),
            code_instructions: offsets.code_instructions.into(),
            object_head,
            text_ascii: offsets.text_ascii.into(),
            text_compact: u64::from(offsets.text_ascii) + 16,
            ..base.objects
        },
        threads: ThreadLayout {
            state_native_id: Some(offsets.state_native_id.into()),
            ..base.threads
        },
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::python::PythonVersion;

    fn build(major: u8, minor: u8, offsets: Option<DebugOffsets>) -> PythonBuild {
        PythonBuild {
            runtime: 0x1000,
            version: Some(PythonVersion {
                major,
                minor,
                patch: None,
            }),
            offsets,
            musl: false,
            evaluator: Vec::new(),
        }
    }

    fn offsets(free_threaded: bool) -> DebugOffsets {
        DebugOffsets {
            free_threaded,
            interpreter_gil: 16,
            state_interpreter: 16,
            state_frame: 72,
            state_thread_id: 152,
            state_native_id: 160,
            frame_previous: 8,
            frame_code: 0,
            frame_instruction: 56,
            frame_owner: 74,
            code_file: 112,
            code_line_table: 136,
            code_first_line: 68,
            code_instructions: 208,
            text_ascii: 40,
        }
    }

    /// Versions outside the table are refused, and so are those from 3.13 on whose file does not describe them.
    #[test]
    fn unknown_versions_are_refused() {
        for minor in 8..=12 {
            assert!(layout_of(&build(3, minor, None)).is_some(), "3.{minor}");
        }
        for (major, minor) in [(2, 7), (3, 6), (3, 7), (3, 13), (3, 14), (3, 15), (4, 0)] {
            assert_eq!(
                layout_of(&build(major, minor, None)),
                None,
                "{major}.{minor}"
            );
        }
        assert_eq!(layout_of(&build(3, 15, Some(offsets(false)))), None);
        assert_eq!(layout_of(&build(3, 14, Some(offsets(true)))), None);
    }

    /// What the file says goes where it belongs.
    #[test]
    fn described_layouts() {
        let layout = layout_of(&build(3, 14, Some(offsets(false)))).unwrap();
        let info = layout.kernel;
        assert_eq!((info.frame_flags_word, info.frame_flags_shift), (9, 16));
        assert_eq!(
            (info.frame_instruction_word, info.frame_previous_word),
            (7, 1)
        );
        assert_eq!(
            (info.gil_last_holder, info.gil_locked, info.gil_optional),
            (8, 16, 0)
        );
        assert_eq!(layout.objects.text_compact, 56);
        let free = layout_of(&build(3, 13, Some(offsets(true)))).unwrap();
        assert_eq!(
            (free.kernel.gil_last_holder, free.kernel.gil_optional),
            (16, 1)
        );
        assert_eq!(free.objects.object_head, 32);
    }

    /// A frame that is larger than what is read of it is refused.
    #[test]
    fn far_fields_are_refused() {
        let far = DebugOffsets {
            frame_instruction: 80,
            ..offsets(false)
        };
        assert_eq!(layout_of(&build(3, 13, Some(far))), None);
    }
}
