//! Cut and damaged files: read up to the damage, and never a word too few about it.

use super::live::{read_all, small};
use crate::profile::Loss;
use crate::recording::{RecordingError, VERSION, read};

/// Cut at every byte: no panic, samples are a prefix and never fewer than of a shorter file, the books balance,
/// and the profile says that it is not whole.
#[test]
fn cut_anywhere() {
    let (whole, samples, bytes) = small();
    let mut longest = 0;
    let mut readable = 0;
    for length in 0..bytes.len() {
        match read_all(&bytes[..length]) {
            Ok((found, read)) => {
                readable += 1;
                assert!(samples.starts_with(&read), "cut at {length}");
                assert!(read.len() >= longest, "cut at {length}");
                longest = read.len();
                assert_eq!(found.kept(), read.len() as u64);
                assert!(
                    found.accounting.balanced(),
                    "cut at {length}: {:?}",
                    found.accounting
                );
                assert!(!found.session.closed);
                assert!(found.notes.iter().any(|note| note.contains("not closed")));
                assert!(found.session.duration_ns <= whole.session.duration_ns);
            }
            Err(RecordingError::Cut { offset }) => assert!(offset <= length as u64),
            Err(error) => panic!("cut at {length}: {error}"),
        }
    }
    assert_eq!(longest, samples.len());
    assert!(readable > bytes.len() * 3 / 4);
}

/// Killed right after the second flush: the books are those of the flush, and what was on its way then is booked
/// as lost to the cut.
#[test]
fn killed_after_a_flush() {
    let (_, _, bytes) = small();
    // The longest cut that has the second flush's samples and not yet the third's books.
    let cut = (0..bytes.len())
        .filter_map(|length| Some((length, read(&bytes[..length]).ok()?)))
        .rfind(|(_, found)| {
            found.kept() == 6 && found.accounting.lost.get(&Loss::RingFull) == Some(&2)
        });
    let (length, found) = cut.unwrap();
    assert_eq!(found.accounting.taken, 9);
    assert_eq!(found.accounting.lost[&Loss::Cut], 1);
    let note = &found.notes[0];
    assert!(
        note.contains("1.0 s after its start; samples taken by then and missing: 1"),
        "{note}"
    );
    assert!(length > 200);
}

/// Every bit flipped, one at a time: no panic, and never a profile that passes for whole.
#[test]
fn flipped_anywhere() {
    let (_, samples, mut bytes) = small();
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        if let Ok((found, read)) = read_all(&bytes) {
            assert!(!found.session.closed, "bit {bit}");
            assert!(!found.notes.is_empty());
            assert!(samples.starts_with(&read), "bit {bit}");
            assert!(found.accounting.balanced(), "bit {bit}");
        }
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

/// Damage names its place and its nature.
#[test]
fn damage_is_named() {
    let (_, _, mut bytes) = small();
    let length = bytes.len();
    bytes[length - 3] ^= 1;
    let found = read(bytes.as_slice()).unwrap();
    assert_eq!(found.kept(), 9);
    let note = found.notes.last().unwrap();
    assert!(
        note.contains("damaged at byte") && note.contains("a checksum does not fit"),
        "{note}"
    );
}

/// Damage in the very first chunk leaves nothing to show, and is an error with its place.
#[test]
fn no_session() {
    let (_, _, mut bytes) = small();
    bytes[30] ^= 1;
    let error = read(bytes.as_slice()).unwrap_err();
    assert!(
        matches!(error, RecordingError::Corrupt { offset: 12, .. }),
        "{error}"
    );
    let error = read(&bytes[..20]).unwrap_err();
    assert!(
        matches!(error, RecordingError::Cut { offset: 12 }),
        "{error}"
    );
}

/// Zeros behind the data, as a file system leaves them after a crash, are damage and not an end.
#[test]
fn zeros_behind() {
    let (_, _, bytes) = small();
    let mut crashed = bytes[..bytes.len() - 20].to_vec();
    crashed.resize(bytes.len() + 4096, 0);
    let found = read(crashed.as_slice()).unwrap();
    assert!(!found.session.closed);
    assert_eq!(found.kept(), 9);
}

/// A file of a later wholestack is refused with both versions; other files are no recordings.
#[test]
fn not_ours() {
    let (_, _, mut bytes) = small();
    bytes[8..12].copy_from_slice(&(VERSION + 1).to_le_bytes());
    let error = read(bytes.as_slice()).unwrap_err();
    assert!(matches!(
        error,
        RecordingError::NewerVersion {
            found: 2,
            supported: 1
        }
    ));
    for other in ["main;f 12\n", "\u{7f}ELF", "{}"] {
        let error = read(other.as_bytes()).unwrap_err();
        assert!(matches!(error, RecordingError::NotARecording), "{other}");
    }
    assert!(matches!(
        read(&[][..]),
        Err(RecordingError::Cut { offset: 0 })
    ));
}
