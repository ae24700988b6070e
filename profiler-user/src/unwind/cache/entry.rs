//! One kept table: a header of 64-bit words, then the table's words, all little-endian.

use std::fs::File;
use std::io::{self, Read as _, Write as _};

use profiler_ebpf::rows::PAGE_SHIFT;

use crate::unwind::check::check;
use crate::unwind::input::Fingerprint;
use crate::unwind::{MAX_ROWS, Table, TableStats, UnfitCounts};

/// First word of each entry.
const MAGIC: u64 = u64::from_le_bytes(*b"wstkrows");
/// Raised with every change of what a rule means or of what is made of the same information.
const VERSION: u64 = 4;
/// Most words of a table.
const MAX_WORDS: u64 = MAX_ROWS as u64 + (1 << (32 - PAGE_SHIFT)) + 1;
/// Words of the header.
const WORDS: usize = 21;
const BYTES: usize = 8 * WORDS;

/// The name of the entry of a table made from what has this fingerprint.
pub fn name(fingerprint: &Fingerprint) -> String {
    fingerprint
        .0
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// A table as it is kept.
pub struct Entry;

impl Entry {
    /// Writes a table made from what has this fingerprint.
    pub fn write(file: &mut File, table: &Table, fingerprint: &Fingerprint) -> io::Result<()> {
        let words = bytes_of(&table.words);
        let mut header = [0; WORDS];
        let stats = &table.stats;
        header[..17].copy_from_slice(&[
            MAGIC,
            VERSION,
            table.base,
            u64::from(table.pages),
            table.words.len() as u64,
            stats.rows,
            stats.functions,
            stats.gaps,
            stats.unknown.register,
            stats.unknown.expression,
            stats.unknown.offset,
            stats.unknown.return_address,
            stats.unknown.malformed,
            stats.lost_fp,
            stats.derived,
            stats.not_derived,
            0,
        ]);
        for (word, bytes) in header[17..].iter_mut().zip(fingerprint.0.chunks_exact(8)) {
            *word = bytes
                .iter()
                .rev()
                .fold(0, |word, byte| word << 8 | u64::from(*byte));
        }
        header[16] = checksum(&header, words);
        file.write_all(bytes_of(&header))?;
        file.write_all(words)
    }

    /// Reads the table, if the entry is whole, of this version and made from what has this fingerprint.
    pub fn read(mut file: &File, fingerprint: &Fingerprint) -> Option<Table> {
        let mut header = [0_u64; WORDS];
        file.read_exact(bytemuck::cast_slice_mut(&mut header))
            .ok()?;
        let [magic, version, base, pages, count, ..] = header;
        let made_from: Vec<u8> = header[17..]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let size = file.metadata().ok()?.len();
        if (magic, version) != (MAGIC, VERSION)
            || made_from != fingerprint.0
            || count > MAX_WORDS
            || size != BYTES as u64 + 8 * count
        {
            return None;
        }
        let mut words = vec![0; usize::try_from(count).ok()?];
        file.read_exact(bytemuck::cast_slice_mut(&mut words)).ok()?;
        let sum = std::mem::replace(&mut header[16], 0);
        if sum != checksum(&header, bytes_of(&words)) {
            return None;
        }
        let table = Table {
            base,
            pages: u32::try_from(pages).ok()?,
            words,
            stats: TableStats {
                rows: header[5],
                functions: header[6],
                gaps: header[7],
                unknown: UnfitCounts {
                    register: header[8],
                    expression: header[9],
                    offset: header[10],
                    return_address: header[11],
                    malformed: header[12],
                },
                lost_fp: header[13],
                derived: header[14],
                not_derived: header[15],
            },
        };
        check(&table).is_ok().then_some(table)
    }
}

fn bytes_of(words: &[u64]) -> &[u8] {
    bytemuck::cast_slice(words)
}

/// Over the header, its own word 0, and the table.
fn checksum(header: &[u64; WORDS], words: &[u8]) -> u64 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(bytes_of(header));
    sum.update(words);
    u64::from(sum.finalize())
}
