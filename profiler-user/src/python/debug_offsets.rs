//! The offsets that a CPython from 3.13 on keeps of itself: `_Py_DebugOffsets`, at the start of `_PyRuntime`.
//!
//! They lie in the file's data, so that no process needs to be read. The positions are those of
//! `Include/internal/pycore_runtime.h` (3.13) and `pycore_debug_offsets.h` (3.14); every entry is a `u64`.

/// What the structure begins with.
const COOKIE: &[u8; 8] = b"xdebugpy";
/// Bytes of it that any version's positions need.
pub(super) const BYTES: usize = 760;
/// No field of the structures described lies further in.
const MAX_OFFSET: u64 = 65535;

/// Where a minor version has each entry.
struct Positions {
    minor: u8,
    interpreter_gil: usize,
    state_interpreter: usize,
    state_frame: usize,
    state_thread_id: usize,
    state_native_id: usize,
    frame_previous: usize,
    frame_code: usize,
    frame_instruction: usize,
    frame_owner: usize,
    code_file: usize,
    code_line_table: usize,
    code_first_line: usize,
    code_instructions: usize,
    text_ascii: usize,
}

const POSITIONS: [Positions; 2] = [
    Positions {
        minor: 13,
        interpreter_gil: 112,
        state_interpreter: 176,
        state_frame: 184,
        state_thread_id: 192,
        state_native_id: 200,
        frame_previous: 232,
        frame_code: 240,
        frame_instruction: 248,
        frame_owner: 264,
        code_file: 280,
        code_line_table: 304,
        code_first_line: 312,
        code_instructions: 344,
        text_ascii: 560,
    },
    Positions {
        minor: 14,
        interpreter_gil: 120,
        state_interpreter: 200,
        state_frame: 208,
        state_thread_id: 216,
        state_native_id: 224,
        frame_previous: 256,
        frame_code: 264,
        frame_instruction: 272,
        frame_owner: 288,
        code_file: 320,
        code_line_table: 344,
        code_first_line: 352,
        code_instructions: 384,
        text_ascii: 640,
    },
];

/// Offsets as a file gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DebugOffsets {
    /// It is built to run without the global lock.
    pub free_threaded: bool,
    /// `PyInterpreterState.ceval.gil`.
    pub interpreter_gil: u16,
    /// `PyThreadState.interp`.
    pub state_interpreter: u16,
    /// `PyThreadState.current_frame`.
    pub state_frame: u16,
    /// `PyThreadState.thread_id`.
    pub state_thread_id: u16,
    /// `PyThreadState.native_thread_id`.
    pub state_native_id: u16,
    /// `_PyInterpreterFrame.previous`.
    pub frame_previous: u16,
    /// `_PyInterpreterFrame.f_executable`.
    pub frame_code: u16,
    /// `_PyInterpreterFrame.instr_ptr`.
    pub frame_instruction: u16,
    /// `_PyInterpreterFrame.owner`.
    pub frame_owner: u16,
    /// `PyCodeObject.co_filename`, with `co_name` and `co_qualname` behind it.
    pub code_file: u16,
    /// `PyCodeObject.co_linetable`.
    pub code_line_table: u16,
    /// `PyCodeObject.co_firstlineno`.
    pub code_first_line: u16,
    /// `PyCodeObject.co_code_adaptive`.
    pub code_instructions: u16,
    /// Size of `PyASCIIObject`.
    pub text_ascii: u16,
}

impl DebugOffsets {
    /// Reads them from the first bytes of `_PyRuntime`. `None` if they are not there, or of a version whose positions
    /// are not known.
    pub fn read(runtime: &[u8]) -> Option<Self> {
        if runtime.get(..8)? != COOKIE {
            return None;
        }
        let entry = |at: usize| {
            let bytes = runtime.get(at..at + 8)?.try_into().ok()?;
            Some(u64::from_le_bytes(bytes))
        };
        // PY_VERSION_HEX.
        let version = entry(8)?;
        if version >> 24 != 3 {
            return None;
        }
        let at = POSITIONS
            .iter()
            .find(|positions| u64::from(positions.minor) == (version >> 16) & 0xff)?;
        let offset = |at| {
            let offset = entry(at).filter(|offset| *offset <= MAX_OFFSET)?;
            u16::try_from(offset).ok()
        };
        let found = Self {
            free_threaded: entry(16)? != 0,
            interpreter_gil: offset(at.interpreter_gil)?,
            state_interpreter: offset(at.state_interpreter)?,
            state_frame: offset(at.state_frame)?,
            state_thread_id: offset(at.state_thread_id)?,
            state_native_id: offset(at.state_native_id)?,
            frame_previous: offset(at.frame_previous)?,
            frame_code: offset(at.frame_code)?,
            frame_instruction: offset(at.frame_instruction)?,
            frame_owner: offset(at.frame_owner)?,
            code_file: offset(at.code_file)?,
            code_line_table: offset(at.code_line_table)?,
            code_first_line: offset(at.code_first_line)?,
            code_instructions: offset(at.code_instructions)?,
            text_ascii: offset(at.text_ascii)?,
        };
        // co_name and co_qualname stand between file and line table, as the layout takes for granted.
        let names = [8, 16].map(|further| entry(at.code_file + further));
        let [name, qualified] = [8, 16].map(|further| Some(u64::from(found.code_file) + further));
        (names == [name, qualified]).then_some(found)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The first bytes of `_PyRuntime` as in a 3.13.0 file, of which only a few entries matter.
    fn runtime(minor: u64) -> Vec<u8> {
        let mut bytes = vec![0; BYTES];
        let mut put = |at: usize, value: u64| {
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        };
        put(0, u64::from_le_bytes(*COOKIE));
        put(8, 0x0300_00f0 | minor << 16);
        for (at, value) in [
            (112, 16),
            (176, 16),
            (184, 72),
            (192, 152),
            (200, 160),
            (232, 8),
            (248, 56),
            (264, 70),
            (280, 112),
            (288, 120),
            (296, 128),
            (304, 136),
            (312, 68),
            (344, 200),
            (560, 40),
        ] {
            put(at, value);
        }
        bytes
    }

    /// Entries are found where the version has them.
    #[test]
    fn reads_a_version() {
        let found = DebugOffsets::read(&runtime(13)).unwrap();
        assert_eq!((found.interpreter_gil, found.state_frame), (16, 72));
        assert_eq!((found.frame_owner, found.code_file), (70, 112));
        assert_eq!((found.code_instructions, found.text_ascii), (200, 40));
        assert!(!found.free_threaded);
    }

    /// Another cookie, another version, a cut structure, offsets that cannot be: nothing.
    #[test]
    fn refuses_others() {
        assert_eq!(DebugOffsets::read(&runtime(15)), None);
        let good = runtime(13);
        for length in 0..568 {
            assert_eq!(DebugOffsets::read(&good[..length]), None);
        }
        for (at, byte) in [(0, b'X'), (190, 1), (288, 0), (11, 4)] {
            let mut changed = good.clone();
            changed[at] = byte;
            assert_eq!(DebugOffsets::read(&changed), None, "byte {at}");
        }
    }
}
