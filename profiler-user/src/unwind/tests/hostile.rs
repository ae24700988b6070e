//! Damaged and hostile files: whatever they hold, a build ends with an error or with a table that is one.

use super::compare::Random;
use super::fixture::Fixture;
use crate::unwind::check::check;
use crate::unwind::{Table, UnwindError, build_from_bytes};

/// Builds, and checks what comes out.
fn build(data: &[u8]) -> Result<Table, UnwindError> {
    let table = build_from_bytes(data)?;
    assert_eq!(check(&table), Ok(()));
    Ok(table)
}

fn program(test: &str) -> Option<Vec<u8>> {
    let fixture = Fixture::build(test, &["-no-pie"])?;
    Some(std::fs::read(&fixture.path).unwrap())
}

/// Files that end early, at every length near the start and at many others.
#[test]
fn cut_files() {
    let Some(whole) = program("unwind::hostile::cut_files") else {
        return;
    };
    let lengths = (0..1024).chain((1024..whole.len()).step_by(37));
    let built = lengths
        .filter(|length| build(&whole[..*length]).is_ok())
        .count();
    println!("{built} of the cut files have a table");
}

/// Files with a few bits or bytes changed, anywhere.
#[test]
fn changed_bytes() {
    let Some(whole) = program("unwind::hostile::changed_bytes") else {
        return;
    };
    let mut random = Random(7);
    let mut built = 0;
    for _ in 0..3000 {
        let mut data = whole.clone();
        for _ in 0..1 + random.next() % 8 {
            let at = random.next() as usize % data.len();
            data[at] ^= 1 << (random.next() % 8);
        }
        built += u32::from(build(&data).is_ok());
    }
    println!("{built} of 3000 changed files have a table");
    assert!(built > 100);
}

/// Headers and call frame information alone, changed much more.
#[test]
fn changed_parts() {
    let Some(whole) = program("unwind::hostile::changed_parts") else {
        return;
    };
    let mut random = Random(11);
    for part in parts(&whole) {
        for _ in 0..2000 {
            let mut data = whole.clone();
            for _ in 0..1 + random.next() % 4 {
                let at = part.start + random.next() as usize % part.len();
                let changes = [0, 0xff, 0x7f, 0x80, random.next() as u8];
                data[at] = changes[random.next() as usize % changes.len()];
            }
            let _ = build(&data);
        }
    }
}

/// File header, program headers, `.eh_frame_hdr`, `.eh_frame`.
fn parts(whole: &[u8]) -> Vec<std::ops::Range<usize>> {
    use object::{Object as _, ObjectSection as _};
    let elf = object::File::parse(whole).unwrap();
    let sections = [".eh_frame_hdr", ".eh_frame"].map(|name| {
        let (offset, size) = elf.section_by_name(name).unwrap().file_range().unwrap();
        offset as usize..(offset + size) as usize
    });
    [0..64, 64..64 + 56 * 8]
        .into_iter()
        .chain(sections)
        .collect()
}

/// Call frame information that claims much: code everywhere, a program that never ends a row, a state
/// remembered again and again.
#[test]
fn greedy_programs() {
    let Some(whole) = program("unwind::hostile::greedy_programs") else {
        return;
    };
    let frames = parts(&whole).pop().unwrap();
    let remember_state = 0x0a;
    let advance_one = 0x41;
    for filler in [remember_state, advance_one, 0x00, 0x0b, 0xff] {
        let mut data = whole.clone();
        // Behind the first common entry and the header of the first function.
        data[frames.start + 48..frames.end].fill(filler);
        let _ = build(&data);
    }
}
