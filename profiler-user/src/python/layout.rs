//! Where things lie in each CPython version, x86-64.
//!
//! Computed from each version's own headers and checked against live interpreters; the kernel side proves
//! the first steps again at every sample (`thread_id == fs base`).

use profiler_ebpf::wire::PythonInfo;

use super::{PythonBuild, PythonVersion};

/// Offsets in objects that user space reads itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ObjectLayout {
    /// `PyCodeObject.co_flags`.
    pub code_flags: usize,
    /// `PyCodeObject.co_firstlineno`.
    pub code_first_line: usize,
    /// `PyCodeObject.co_filename`.
    pub code_file: usize,
    /// `PyCodeObject.co_name`.
    pub code_name: usize,
    /// `PyCodeObject.co_qualname`.
    pub code_qualified_name: usize,
    /// `PyCodeObject.co_linetable`.
    pub code_line_table: usize,
    /// `PyCodeObject.co_code_adaptive`: also how much of the object has to be read for the above.
    pub code_instructions: usize,
    /// Start of the characters of a compact ASCII string.
    pub text_ascii: u64,
    /// Start of the characters of a compact string of another kind.
    pub text_compact: u64,
}

/// CPython 3.11.
pub(super) const V3_11: ObjectLayout = ObjectLayout {
    code_flags: 48,
    code_first_line: 72,
    code_file: 112,
    code_name: 120,
    code_qualified_name: 128,
    code_line_table: 136,
    code_instructions: 184,
    text_ascii: 48,
    text_compact: 72,
};

/// What the kernel side needs for a Python of this build, loaded with this bias; `None` if the version is
/// not understood.
pub fn info_for(build: &PythonBuild, bias: u64) -> Option<PythonInfo> {
    match build.version? {
        PythonVersion {
            major: 3,
            minor: 11,
            ..
        } => Some(PythonInfo {
            runtime: build.runtime.wrapping_add(bias),
            tss_key: 596,
            gil_last_holder: 368,
            gil_locked: 376,
            tstate_current: 576,
            tstate_thread_id: 152,
            tstate_cframe: 56,
            cframe_current_frame: 8,
            cframe_previous: 16,
            frame_code_word: 32 / 8,
            frame_previous_word: 48 / 8,
            frame_instruction_word: 56 / 8,
            // `is_entry` is the byte at 68.
            frame_flags_word: 64 / 8,
            frame_entry_shift: 8 * (68 - 64),
            code_first_line: 72,
            // co_filename and co_name.
            code_names: 112,
            ..PythonInfo::default()
        }),
        _ => None,
    }
}
