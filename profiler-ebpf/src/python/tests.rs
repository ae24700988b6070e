//! Threads in made-up memory, one for each way in which frames tell where they are evaluated.

use super::*;
use crate::memory::fake::FakeMemory;

const FS: u64 = 0x7f00_0000_0000;
const RUNTIME: u64 = 0x55_0000;
const STATE: u64 = 0x60_0000;
const INTERPRETER: u64 = 0x61_0000;
const LOCK: u64 = 0x62_0000;

/// A layout like 3.11's.
fn info() -> PythonInfo {
    PythonInfo {
        runtime: RUNTIME,
        tss_key: 596,
        gil: 360,
        gil_last_holder: 8,
        gil_locked: 16,
        tstate_current: 576,
        tstate_interpreter: 16,
        tstate_thread_id: 152,
        tstate_cframe: 56,
        cframe_current_frame: 8,
        cframe_previous: 16,
        frame_code_word: 4,
        frame_previous_word: 6,
        frame_instruction_word: 7,
        frame_flags_word: 8,
        frame_flags_shift: 32,
        anchors: anchors::ENTRY,
        code_first_line: 72,
        code_names: 112,
        ..PythonInfo::default()
    }
}

/// The lock is a pointer of the interpreter's, frames hang on the thread state, shims lie between them: 3.13's way.
fn info_with_shims() -> PythonInfo {
    PythonInfo {
        tstate_current: 0,
        gil: 24,
        gil_of_interpreter: 1,
        tstate_cframe: 0,
        tstate_frame: 72,
        anchors: anchors::SHIM,
        ..info()
    }
}

/// Frame objects, an index of the last instruction, a record for each: 3.10's way.
fn info_with_records() -> PythonInfo {
    PythonInfo {
        tstate_frame: 24,
        frame_start: 24,
        frame_code_word: 1,
        frame_previous_word: 0,
        frame_last_index: 96,
        tstate_root_cframe: 0x100,
        anchors: anchors::EVERY,
        ..info()
    }
}

fn put_code(memory: &mut FakeMemory, at: u64, line: u32) -> u64 {
    memory.put(at + 112, at + 0x1000);
    memory.put(at + 120, at + 0x2000);
    memory.put_u32(at + 72, line);
    fold_check(at + 0x1000, at + 0x2000, line)
}

fn put_frame(memory: &mut FakeMemory, at: u64, code: u64, previous: u64, flags: u64) {
    for index in 0..FRAME_WORDS as u64 {
        memory.put(at + 8 * index, 0);
    }
    memory.put(at + 32, code);
    memory.put(at + 48, previous);
    memory.put(at + 56, code + 200);
    memory.put(at + 64, flags << 32);
}

/// A frame object of 3.10.
fn put_frame_object(memory: &mut FakeMemory, at: u64, code: u64, back: u64, last: i32) {
    for index in 0..16 {
        memory.put(at + 8 * index, 0);
    }
    memory.put(at + 24, back);
    memory.put(at + 32, code);
    memory.put_u32(at + 96, last.cast_unsigned());
}

/// A thread with three frames in two evaluations, key 1, lock released.
fn thread() -> (FakeMemory, [u64; 3]) {
    let mut memory = FakeMemory::default();
    memory.put(RUNTIME + 576, 0);
    memory.put_u32(RUNTIME + 596, 1);
    memory.put(RUNTIME + 368, STATE);
    memory.put_u32(RUNTIME + 376, 0);
    memory.put(FS + GLIBC_FIRST_BLOCK + 16 + 8, STATE);
    memory.put(STATE + 152, FS);
    memory.put(STATE + 56, 0x7fff_1000);
    memory.put(0x7fff_1000 + 8, 0x70_0000);
    memory.put(0x7fff_1000 + 16, 0x7fff_2000);
    memory.put(0x7fff_2000 + 16, STATE + 0x100);
    put_frame(&mut memory, 0x70_0000, 0x80_0000, 0x71_0000, 0);
    put_frame(&mut memory, 0x71_0000, 0x81_0000, 0x72_0000, 1);
    put_frame(&mut memory, 0x72_0000, 0x82_0000, 0, 1);
    let checks = [0x80_0000, 0x81_0000, 0x82_0000].map(|at| put_code(&mut memory, at, 7));
    (memory, checks)
}

/// Everything the walk finds, leaf first: code and anchor of each frame, 0 and the anchor of each shim.
fn walk(memory: &FakeMemory, info: &PythonInfo) -> Vec<(u64, u64)> {
    let state = thread_state(memory, info, FS).unwrap();
    let mut cursor = start(memory, info, state).unwrap();
    let mut words = [0; FRAME_ROOM];
    let mut seen = Vec::new();
    while cursor.frame != 0 {
        seen.push(match step(memory, info, &mut cursor, &mut words).unwrap() {
            Step::Frame(frame) => (frame.code, frame.anchor),
            Step::Shim(anchor) => (0, anchor),
        });
    }
    seen.extend(left_over(memory, info, &mut cursor).map(|anchor| (0, anchor)));
    seen
}

/// All frames come out leaf first, with an anchor on the outermost of each evaluation.
#[test]
fn walks_frames_and_anchors() {
    let (memory, checks) = thread();
    let state = thread_state(&memory, &info(), FS).unwrap();
    assert_eq!(state.address, STATE);
    assert_eq!(gil(&memory, &info(), state), Gil::NotHeld);
    assert_eq!(
        walk(&memory, &info()),
        [
            (0x80_0000, 0),
            (0x81_0000, 0x7fff_1000),
            (0x82_0000, 0x7fff_2000)
        ]
    );
    let mut cursor = start(&memory, &info(), state).unwrap();
    let first = step(&memory, &info(), &mut cursor, &mut [0; FRAME_ROOM]);
    let expected = PythonFrame {
        code: 0x80_0000,
        instruction: 0x80_0000 + 200,
        anchor: 0,
        check: checks[0],
    };
    assert_eq!(first, Some(Step::Frame(expected)));
}

/// Shims are no frames but say where the frames before them are evaluated; a tagged pointer is the same code object.
#[test]
fn shims_are_no_frames() {
    let (mut memory, _) = thread();
    memory.put(STATE + 72, 0x70_0000);
    put_frame(&mut memory, 0x70_0000, 0x80_0000 | 1, 0x7fff_3000, 0);
    put_frame(&mut memory, 0x7fff_3000, 0x99_0001, 0x71_0000, 3);
    put_frame(&mut memory, 0x71_0000, 0x81_0000, 0x72_0000, 1);
    put_frame(&mut memory, 0x72_0000, 0x82_0000, 0x7fff_4000, 2);
    put_frame(&mut memory, 0x7fff_4000, 0, 0, 4);
    let expected = [
        (0x80_0000, 0),
        (0, 0x7fff_3000),
        (0x81_0000, 0),
        (0x82_0000, 0),
        (0, 0x7fff_4000),
    ];
    assert_eq!(walk(&memory, &info_with_shims()), expected);
}

/// Frame objects with a record each: the record of one that is not linked yet is left over, the record of one that is
/// linked no more is missing, and the thread state's own is never taken for one.
#[test]
fn records_go_with_frames() {
    let (mut memory, _) = thread();
    let info = info_with_records();
    // Never set by the interpreter.
    memory.put(STATE + 0x100 + 16, 0x7fff_7777);
    memory.put(STATE + 24, 0x70_0000);
    put_frame_object(&mut memory, 0x70_0000, 0x80_0000, 0x71_0000, -1);
    put_frame_object(&mut memory, 0x71_0000, 0x81_0000, 0, 12);
    let (inner, outer) = (0x7fff_1000, 0x7fff_2000);
    assert_eq!(
        walk(&memory, &info),
        [(0x80_0000, inner), (0x81_0000, outer)]
    );
    memory.put(STATE + 24, 0x71_0000);
    assert_eq!(walk(&memory, &info), [(0x81_0000, inner), (0, outer)]);
    memory.put(STATE + 24, 0x70_0000);
    memory.put(STATE + 56, outer);
    assert_eq!(walk(&memory, &info), [(0x80_0000, outer), (0x81_0000, 0)]);

    let state = ThreadState { address: STATE };
    let mut cursor = start(&memory, &info, state).unwrap();
    let Some(Step::Frame(frame)) = step(&memory, &info, &mut cursor, &mut [0; FRAME_ROOM]) else {
        panic!("no frame")
    };
    assert_eq!(frame.instruction.cast_signed(), -1);
}

/// A code object that is not present costs a frame its check, not the walk.
#[test]
fn code_may_be_absent() {
    let (mut memory, _) = thread();
    put_frame(&mut memory, 0x70_0000, 0x8f_0000, 0x71_0000, 0);
    assert_eq!(walk(&memory, &info()).len(), 3);
}

/// The lock is held only when taken, and by this thread.
#[test]
fn reads_the_lock() {
    let (mut memory, _) = thread();
    let state = ThreadState { address: STATE };
    memory.put_u32(RUNTIME + 376, 1);
    assert_eq!(gil(&memory, &info(), state), Gil::Held);
    memory.put(RUNTIME + 368, STATE + 8);
    assert_eq!(gil(&memory, &info(), state), Gil::NotHeld);
    assert_eq!(gil(&FakeMemory::default(), &info(), state), Gil::Unknown);
}

/// Each interpreter's own lock is read, and that there is none.
#[test]
fn reads_the_interpreters_lock() {
    let (mut memory, _) = thread();
    let state = ThreadState { address: STATE };
    let info = info_with_shims();
    assert_eq!(gil(&memory, &info, state), Gil::Unknown);
    memory.put(STATE + 16, INTERPRETER);
    memory.put(INTERPRETER + 24, LOCK);
    memory.put(LOCK + 8, STATE);
    memory.put_u32(LOCK + 16, 1);
    assert_eq!(gil(&memory, &info, state), Gil::Held);

    let optional = PythonInfo {
        gil_optional: 1,
        gil_last_holder: 16,
        gil_locked: 24,
        ..info
    };
    memory.put_u32(LOCK, 0);
    assert_eq!(gil(&memory, &optional, state), Gil::Absent);
    memory.put_u32(LOCK, 1);
    memory.put(LOCK + 16, STATE);
    memory.put_u32(LOCK + 24, 1);
    assert_eq!(gil(&memory, &optional, state), Gil::Held);
}

/// A state that is another thread's is refused, an empty slot is no Python thread.
#[test]
fn proves_the_thread_state() {
    let (mut memory, _) = thread();
    memory.put(STATE + 152, FS + 64);
    assert_eq!(
        thread_state(&memory, &info(), FS),
        Err(PythonEnd::WrongThread)
    );
    memory.put(FS + GLIBC_FIRST_BLOCK + 16 + 8, 0);
    assert_eq!(
        thread_state(&memory, &info(), FS),
        Err(PythonEnd::NoThreadState)
    );
}

/// Keys beyond the first block go through the block table.
#[test]
fn finds_high_keys() {
    let (mut memory, _) = thread();
    memory.put_u32(RUNTIME + 596, 33);
    memory.put(FS + GLIBC_BLOCKS + 8, 0x90_0000);
    memory.put(0x90_0000 + 16 + 8, STATE);
    assert_eq!(thread_state(&memory, &info(), FS).unwrap().address, STATE);
    memory.put_u32(RUNTIME + 596, u32::MAX);
    assert_eq!(
        thread_state(&memory, &info(), FS),
        Err(PythonEnd::NoThreadState)
    );
}

/// musl keeps one table for all keys.
#[test]
fn finds_musls_slot() {
    let (mut memory, _) = thread();
    let info = PythonInfo { musl: 1, ..info() };
    memory.put(FS + MUSL_TSD, 0x90_0000);
    memory.put(0x90_0000 + 8, STATE);
    assert_eq!(thread_state(&memory, &info, FS).unwrap().address, STATE);
    memory.put_u32(RUNTIME + 596, 128);
    assert_eq!(
        thread_state(&memory, &info, FS),
        Err(PythonEnd::NoThreadState)
    );
}

/// The running state is preferred when it is this thread's (sub-interpreters).
#[test]
fn prefers_the_running_state() {
    let (mut memory, _) = thread();
    memory.put(RUNTIME + 576, STATE + 0x1000);
    memory.put(STATE + 0x1000 + 152, FS);
    assert_eq!(
        thread_state(&memory, &info(), FS).unwrap().address,
        STATE + 0x1000
    );
}
