//! Framing: how a message becomes bytes in the file, and how bytes become a message again.
//!
//! Knows lengths, checksums and compression; not what a message means. Bytes read are hostile: a length is
//! believed only within limits, and memory grows with what really arrives, not with what is announced.

use std::io::{self, Read, Write};

use zstd::bulk::{Compressor, Decompressor};

use super::RecordingError;
use super::format::{CHUNK_HEADER, Kind, MAX_PAYLOAD, MAX_STORED};

/// zstd's own default: a higher level costs the recorder CPU for a few per cent of size.
const LEVEL: i32 = 3;

/// Turns messages into chunks, and collects them for one write.
pub(super) struct ChunkWriter {
    compressor: Compressor<'static>,
    bytes: Vec<u8>,
}

impl ChunkWriter {
    /// Starts with the bytes that stand ahead of the first chunk.
    pub(super) fn new(bytes: Vec<u8>) -> io::Result<Self> {
        let compressor = Compressor::new(LEVEL)?;
        Ok(Self { compressor, bytes })
    }

    /// Adds one chunk.
    pub(super) fn append(
        &mut self,
        kind: Kind,
        message: &impl prost::Message,
    ) -> Result<(), RecordingError> {
        let payload = message.encode_to_vec();
        if payload.len() > MAX_PAYLOAD {
            return Err(RecordingError::Limit {
                what: "bytes in one chunk",
                found: payload.len() as u64,
                limit: MAX_PAYLOAD as u64,
            });
        }
        let stored = self.compressor.compress(&payload)?;
        let length = u32::try_from(stored.len()).expect("a bounded payload stays below MAX_STORED");
        let head = head(kind as u32, length);
        self.bytes.extend_from_slice(&head);
        self.bytes
            .extend_from_slice(&checksum(&head, &stored).to_le_bytes());
        self.bytes.extend_from_slice(&stored);
        Ok(())
    }

    /// Writes what was collected, in one piece, and starts anew.
    pub(super) fn send(&mut self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&self.bytes)?;
        out.flush()?;
        self.bytes.clear();
        Ok(())
    }
}

/// The part of a chunk's header that the checksum covers.
fn head(kind: u32, length: u32) -> [u8; 8] {
    let mut head = [0; 8];
    head[..4].copy_from_slice(&kind.to_le_bytes());
    head[4..].copy_from_slice(&length.to_le_bytes());
    head
}

fn checksum(head: &[u8; 8], stored: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(stored);
    hasher.finalize()
}

/// Why no further chunk can be read.
#[derive(Debug)]
pub(super) enum Halt {
    /// The file ends here, without an end chunk or within one.
    Cut,
    /// The bytes are not a chunk.
    Damaged(String),
    /// The file cannot be read.
    Io(io::Error),
}

/// Reads chunk after chunk.
pub(super) struct ChunkReader<R> {
    input: R,
    offset: u64,
    stored: Vec<u8>,
    payload: Vec<u8>,
    decompressor: Decompressor<'static>,
}

impl<R: Read> ChunkReader<R> {
    /// Starts at the first chunk, which stands at byte `offset` of the file.
    pub(super) fn new(input: R, offset: u64) -> io::Result<Self> {
        Ok(Self {
            input,
            offset,
            stored: Vec::new(),
            payload: Vec::with_capacity(MAX_PAYLOAD),
            decompressor: Decompressor::new()?,
        })
    }

    /// Where the next chunk begins; after a halt, where the one that cannot be read begins.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next chunk's kind and message.
    pub(super) fn next(&mut self) -> Result<(u32, &[u8]), Halt> {
        let mut header = [0; CHUNK_HEADER];
        read_whole(&mut self.input, &mut header)?;
        let [kind, length, sum] = words(&header);
        if length as usize > MAX_STORED {
            return Err(Halt::Damaged(format!(
                "a chunk of {length} bytes is announced, the limit is {MAX_STORED}"
            )));
        }
        self.stored.clear();
        let mut body = (&mut self.input).take(u64::from(length));
        body.read_to_end(&mut self.stored).map_err(Halt::Io)?;
        if self.stored.len() < length as usize {
            return Err(Halt::Cut);
        }
        if checksum(&head(kind, length), &self.stored) != sum {
            return Err(Halt::Damaged("a checksum does not fit".into()));
        }
        self.payload.clear();
        self.decompressor
            .decompress_to_buffer(&self.stored, &mut self.payload)
            .map_err(|error| Halt::Damaged(format!("zstd: {error}")))?;
        self.offset += (CHUNK_HEADER + self.stored.len()) as u64;
        Ok((kind, &self.payload))
    }

    /// Whether the file goes on.
    pub(super) fn more(&mut self) -> io::Result<bool> {
        let mut byte = Vec::new();
        (&mut self.input).take(1).read_to_end(&mut byte)?;
        Ok(!byte.is_empty())
    }
}

fn read_whole(input: &mut impl Read, buffer: &mut [u8]) -> Result<(), Halt> {
    input
        .read_exact(buffer)
        .map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Halt::Cut,
            _ => Halt::Io(error),
        })
}

fn words(header: &[u8; CHUNK_HEADER]) -> [u32; 3] {
    let word = |at: usize| {
        u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    [word(0), word(4), word(8)]
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::schema::End;
    use super::*;

    fn one_chunk() -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = ChunkWriter::new(Vec::new()).unwrap();
        writer.append(Kind::End, &End { samples: 7 }).unwrap();
        writer.send(&mut bytes).unwrap();
        bytes
    }

    fn reader(bytes: &[u8]) -> ChunkReader<&[u8]> {
        ChunkReader::new(bytes, 0).unwrap()
    }

    /// A chunk reads back, and the end of the file behind it is seen as such.
    #[test]
    fn round_trip() {
        let bytes = one_chunk();
        let mut chunks = reader(&bytes);
        let (kind, payload) = chunks.next().unwrap();
        assert_eq!(kind, Kind::End as u32);
        assert_eq!(payload, [8, 7]);
        assert_eq!(chunks.offset(), bytes.len() as u64);
        assert!(!chunks.more().unwrap());
        assert!(matches!(chunks.next(), Err(Halt::Cut)));
    }

    /// No single changed bit goes unnoticed, whichever field it hits.
    #[test]
    fn every_bit_is_checked() {
        let bytes = one_chunk();
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(reader(&bytes).next().is_err(), "bit {bit}");
        }
    }

    /// A chunk that would unpack to more than the limit is refused, and nothing beyond the limit allocated.
    #[test]
    fn bomb() {
        let stored = zstd::bulk::compress(&vec![0; MAX_PAYLOAD + 1], 19).unwrap();
        let head = head(2, u32::try_from(stored.len()).unwrap());
        let mut bytes = head.to_vec();
        bytes.extend(checksum(&head, &stored).to_le_bytes());
        bytes.extend(&stored);
        let mut chunks = reader(&bytes);
        assert!(matches!(chunks.next(), Err(Halt::Damaged(what)) if what.contains("zstd")));
        assert_eq!(chunks.payload.capacity(), MAX_PAYLOAD);
    }
}
