//! Files made to mislead: sound framing, checksums that fit, contents that do not.

use prost::Message;

use super::live::{read_all, small};
use crate::profile::Profile;
use crate::recording::chunk::{ChunkReader, ChunkWriter};
use crate::recording::format::{FILE_HEADER, Kind, MAGIC, MAX_COUNT, VERSION};
use crate::recording::{read, schema};

/// A message that is already bytes.
#[derive(Clone, Debug, Default)]
struct Raw(Vec<u8>);

impl Message for Raw {
    fn encode_raw(&self, buffer: &mut impl prost::bytes::BufMut) {
        buffer.put_slice(&self.0);
    }
    fn merge_field(
        &mut self,
        _: u32,
        _: prost::encoding::WireType,
        _: &mut impl prost::bytes::Buf,
        _: prost::encoding::DecodeContext,
    ) -> Result<(), prost::DecodeError> {
        unreachable!("only written")
    }
    fn encoded_len(&self) -> usize {
        self.0.len()
    }
    fn clear(&mut self) {
        self.0.clear();
    }
}

fn file(chunks: &[(Kind, Vec<u8>)]) -> Vec<u8> {
    let header = [MAGIC.as_slice(), &VERSION.to_le_bytes()].concat();
    let mut writer = ChunkWriter::new(header).unwrap();
    for (kind, payload) in chunks {
        writer.append(*kind, &Raw(payload.clone())).unwrap();
    }
    let mut bytes = Vec::new();
    writer.send(&mut bytes).unwrap();
    bytes
}

fn chunks(bytes: &[u8]) -> Vec<(Kind, Vec<u8>)> {
    let mut reader = ChunkReader::new(&bytes[FILE_HEADER..], 0).unwrap();
    let mut chunks = Vec::new();
    while let Ok((kind, payload)) = reader.next() {
        chunks.push((Kind::from_id(kind).unwrap(), payload.to_vec()));
    }
    chunks
}

fn check(found: &Profile) {
    assert!(found.accounting.balanced() || found.session.closed);
    for (key, _) in &found.samples {
        let _ = (
            found.process(found.thread(key.thread).process),
            found.stack(key.stack),
        );
    }
    for frame in &found.frames {
        frame.label(&found.strings);
    }
}

/// Every byte of every message changed, with checksums that fit: no panic, and every id in the profile leads
/// somewhere.
#[test]
fn any_byte_of_any_message() {
    let (_, _, bytes) = small();
    let sound = chunks(&bytes);
    for chunk in 0..sound.len() {
        for byte in 0..sound[chunk].1.len() {
            for change in [1, 0x40, 0x80, 0xff] {
                let mut changed = sound.clone();
                changed[chunk].1[byte] ^= change;
                if let Ok((found, _)) = read_all(&file(&changed)) {
                    check(&found);
                }
            }
        }
    }
}

/// Chunks left out, doubled or out of order: no panic, no dangling id.
#[test]
fn any_order() {
    let (_, _, bytes) = small();
    let sound = chunks(&bytes);
    for first in 0..sound.len() {
        let mut without = sound.clone();
        without.remove(first);
        let mut twice = sound.clone();
        twice.insert(first, sound[first].clone());
        for changed in [without, twice] {
            if let Ok((found, _)) = read_all(&file(&changed)) {
                check(&found);
            }
        }
        for second in first + 1..sound.len() {
            let mut swapped = sound.clone();
            swapped.swap(first, second);
            if let Ok((found, _)) = read_all(&file(&swapped)) {
                check(&found);
            }
        }
    }
}

/// Reads a file with one more message behind the session, and gives the note about what is wrong with it.
fn refused(kind: Kind, message: &impl Message) -> String {
    let (_, _, bytes) = small();
    let mut sound = chunks(&bytes);
    sound.pop();
    sound.push((kind, message.encode_to_vec()));
    let found = read(file(&sound).as_slice()).unwrap();
    assert!(!found.session.closed);
    found.notes.last().unwrap().clone()
}

/// Ids that lead nowhere, numbers that would overflow a sum, values that do not exist: each is refused by name.
#[test]
fn refusals() {
    let stacks = schema::Stacks {
        depth: vec![2],
        frame: vec![0, 77],
    };
    assert!(refused(Kind::Stacks, &stacks).contains("names frame 77 of"));
    let stacks = schema::Stacks {
        depth: vec![u32::MAX],
        frame: vec![0],
    };
    assert!(refused(Kind::Stacks, &stacks).contains("fewer frames than it says"));
    let strings = schema::Strings {
        text: vec!["python3".into()],
    };
    assert!(refused(Kind::Strings, &strings).contains("is there twice"));
    let frames = schema::Frames {
        kind: vec![1],
        ..schema::Frames::default()
    };
    assert!(refused(Kind::Frames, &frames).contains("columns of different length"));
    let thread = schema::Thread {
        id: 9,
        ..schema::Thread::default()
    };
    let threads = schema::Threads {
        thread: vec![thread],
    };
    assert!(refused(Kind::Threads, &threads).contains("thread 9 comes before thread 3"));
    let samples = schema::Samples {
        time_delta_ns: vec![-1],
        cpu: vec![0],
        thread: vec![0],
        stack: vec![0],
        gil: vec![0],
        truncation: vec![0],
    };
    assert!(refused(Kind::Samples, &samples).contains("the time of a sample is"));
    let books = schema::Books {
        taken: MAX_COUNT + 1,
        ..schema::Books::default()
    };
    assert!(refused(Kind::Books, &books).contains("figure in the books"));
    let lost = |id| schema::Reason {
        id,
        count: MAX_COUNT,
    };
    let books = schema::Books {
        lost: vec![lost(1), lost(2)],
        ..schema::Books::default()
    };
    assert!(refused(Kind::Books, &books).contains("figure in the books"));
    let call = schema::Call {
        class: 1,
        latency: vec![0; 122],
        ..schema::Call::default()
    };
    let calls = schema::Calls {
        call: vec![call],
        ..schema::Calls::default()
    };
    assert!(refused(Kind::Calls, &calls).contains("latency counts"));
}

/// A kind of chunk that a later wholestack may add is skipped, and that is said.
#[test]
fn unknown_kind() {
    let (_, _, bytes) = small();
    let mut later = file(&[]);
    let sound = chunks(&bytes);
    later.extend(&file(&sound[..sound.len() - 1])[FILE_HEADER..]);
    let mut unknown = file(&[(Kind::End, vec![1, 2, 3])])[FILE_HEADER..].to_vec();
    unknown[0] = 99;
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&unknown[..8]);
    hasher.update(&unknown[12..]);
    unknown[8..12].copy_from_slice(&hasher.finalize().to_le_bytes());
    later.extend(unknown);
    later.extend(&file(&sound[sound.len() - 1..])[FILE_HEADER..]);
    let found = read(later.as_slice()).unwrap();
    assert!(found.session.closed);
    assert!(
        found
            .notes
            .last()
            .unwrap()
            .contains("1 chunks of a later wholestack")
    );
}
