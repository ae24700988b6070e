//! Line tables: from an instruction of a code object to its line.

/// The form of a version's line tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineTable {
    /// `co_lnotab`: pairs of bytes, what to add to the offset and (signed) to the line (3.8, 3.9).
    SignedDeltas,
    /// `co_linetable`: pairs of bytes, the length of a stretch and (signed) what to add to the line for it, -128 for
    /// one without line. Instructions are counted in units of two bytes (3.10).
    UnitDeltas,
    /// `co_linetable`: entries of several forms, with columns (3.11 on).
    Locations,
}

impl LineTable {
    /// The line of an instruction, given by the offset of its byte or, for [`LineTable::UnitDeltas`], its unit.
    /// `None` if the instruction has no line or the table does not cover it.
    ///
    /// An offset before the first instruction, as a frame has that has not begun, is on the first line.
    pub fn line_of(self, table: &[u8], first_line: u32, offset: i64) -> Option<u32> {
        if offset < 0 {
            return Some(first_line);
        }
        match self {
            Self::SignedDeltas => from_signed_deltas(table, first_line, offset),
            Self::UnitDeltas => from_unit_deltas(table, first_line, offset.checked_mul(2)?),
            Self::Locations => from_locations(table, first_line, offset),
        }
    }
}

/// `Objects/lnotab_notes.txt` in CPython 3.9. Such a table has no end: its last line goes on.
fn from_signed_deltas(table: &[u8], first_line: u32, byte_offset: i64) -> Option<u32> {
    let mut line = i64::from(first_line);
    let mut start = 0;
    for [bytes, lines] in table.as_chunks::<2>().0 {
        start += i64::from(*bytes);
        if start > byte_offset {
            break;
        }
        line += i64::from(lines.cast_signed());
    }
    u32::try_from(line).ok()
}

/// `Objects/lnotab_notes.txt` in CPython 3.10.
fn from_unit_deltas(table: &[u8], first_line: u32, byte_offset: i64) -> Option<u32> {
    const NO_LINE: i8 = -128;
    let mut line = i64::from(first_line);
    let mut end = 0;
    for [bytes, lines] in table.as_chunks::<2>().0 {
        let lines = lines.cast_signed();
        if lines != NO_LINE {
            line += i64::from(lines);
        }
        end += i64::from(*bytes);
        if byte_offset < end {
            return if lines == NO_LINE {
                None
            } else {
                u32::try_from(line).ok()
            };
        }
    }
    None
}

/// Entries of a location each: `Objects/locations.md` in CPython 3.11, `InternalDocs/code_objects.md` later.
fn from_locations(table: &[u8], first_line: u32, byte_offset: i64) -> Option<u32> {
    let mut bytes = table.iter().copied();
    let mut line = i64::from(first_line);
    let mut end = 0;
    while let Some(first) = bytes.next() {
        if first & 0x80 == 0 {
            return None; // an entry starts with the high bit set
        }
        let (kind, units) = ((first >> 3) & 15, i64::from(first & 7) + 1);
        let has_line = match kind {
            // Short forms: no change of line, columns in one byte.
            0..=9 => {
                bytes.next()?;
                true
            }
            // One line: a change of 0 to 2, columns in two bytes.
            10..=12 => {
                line += i64::from(kind) - 10;
                bytes.next()?;
                bytes.next()?;
                true
            }
            // No columns.
            13 => {
                line += signed_varint(&mut bytes)?;
                true
            }
            // Long form: change of line, then end line and both columns.
            14 => {
                line += signed_varint(&mut bytes)?;
                for _ in 0..3 {
                    varint(&mut bytes)?;
                }
                true
            }
            _ => false,
        };
        // A code unit is two bytes.
        end += 2 * units;
        if byte_offset < end {
            return if has_line {
                u32::try_from(line).ok()
            } else {
                None
            };
        }
    }
    None
}

/// Six bits a byte, least significant first; bit 6 says that more follow.
fn varint(bytes: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let mut value = 0;
    let mut shift = 0;
    loop {
        let byte = bytes.next()?;
        value |= i64::from(byte & 63) << shift;
        if byte & 64 == 0 {
            return Some(value);
        }
        shift += 6;
        if shift > 30 {
            return None; // more than any line or column needs
        }
    }
}

/// The sign is the lowest bit.
fn signed_varint(bytes: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let value = varint(bytes)?;
    Some(if value & 1 != 0 {
        -(value >> 1)
    } else {
        value >> 1
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn entry(kind: u8, units: u8) -> u8 {
        0x80 | (kind << 3) | (units - 1)
    }

    /// Each form of entry moves the line as it should; offsets are bytes, lengths units.
    #[test]
    fn every_form() {
        let table = [
            entry(0, 2),
            0x00, // bytes 0..4: first line
            entry(11, 1),
            0,
            0, // 4..6: +1
            entry(13, 1),
            0b10_0110 >> 1 << 1, // 6..8: +19
            entry(14, 1),
            0b0000_0101,
            1,
            2,
            3,            // 8..10: -2
            entry(15, 3), // 10..16: no line
            entry(12, 8),
            0,
            0, // 16..32: +2
        ];
        let line = |offset| LineTable::Locations.line_of(&table, 100, offset);
        assert_eq!(line(-2), Some(100));
        assert_eq!(line(0), Some(100));
        assert_eq!(line(2), Some(100));
        assert_eq!(line(4), Some(101));
        assert_eq!(line(6), Some(120));
        assert_eq!(line(8), Some(118));
        assert_eq!(line(10), None);
        assert_eq!(line(16), Some(120));
        assert_eq!(line(30), Some(120));
        assert_eq!(line(32), None);
    }

    /// What CPython 3.8 made of a function on lines 4 to 213, with the offsets at which its own `dis` has lines begin.
    #[test]
    fn signed_deltas() {
        let table = [
            0, 1, 2, 1, 2, 2, 2, 254, 4, 3, 6, 1, 2, 255, 10, 3, 8, 127, 0, 74,
        ];
        let starts = [
            (0, 5),
            (2, 6),
            (4, 8),
            (6, 6),
            (10, 9),
            (16, 10),
            (18, 9),
            (28, 12),
            (36, 213),
        ];
        let line = |offset| LineTable::SignedDeltas.line_of(&table, 4, offset);
        assert_eq!(line(-1), Some(4));
        for (index, (start, expected)) in starts.into_iter().enumerate() {
            let end = starts.get(index + 1).map_or(46, |(next, _)| *next);
            for offset in start..end {
                assert_eq!(line(offset), Some(expected), "byte {offset}");
            }
        }
    }

    /// The same function from CPython 3.10, whose `co_lines` gives the stretches in bytes; its frames count units of two.
    #[test]
    fn unit_deltas() {
        let table = [2, 1, 2, 1, 2, 2, 4, 254, 6, 3, 2, 1, 6, 255, 16, 3];
        let stretches = [
            (0, 2, 5),
            (2, 4, 6),
            (4, 6, 8),
            (6, 10, 6),
            (10, 16, 9),
            (16, 18, 10),
            (18, 24, 9),
            (24, 40, 12),
        ];
        let line = |unit| LineTable::UnitDeltas.line_of(&table, 4, unit);
        assert_eq!(line(-1), Some(4));
        for (start, end, expected) in stretches {
            for byte in (start..end).step_by(2) {
                assert_eq!(line(byte / 2), Some(expected), "byte {byte}");
            }
        }
        assert_eq!(line(20), None);
        assert_eq!(LineTable::UnitDeltas.line_of(&[4, 128], 7, 1), None);
        assert_eq!(
            LineTable::UnitDeltas.line_of(&[4, 128, 2, 1], 7, 2),
            Some(8)
        );
        assert_eq!(LineTable::UnitDeltas.line_of(&[4], 7, i64::MAX), None);
        assert_eq!(LineTable::SignedDeltas.line_of(&[0, 128], 7, 0), None);
    }

    /// Numbers of several bytes, and tables that are cut or nonsense.
    #[test]
    fn long_numbers_and_garbage() {
        // +1000 is 2000 shifted: 0b11111_010000 -> 0x10 | more, 0x1f.
        let table = [entry(13, 1), 0x40 | (2000 & 63) as u8, (2000 >> 6) as u8];
        assert_eq!(LineTable::Locations.line_of(&table, 5, 0), Some(1005));
        for length in 0..table.len() {
            assert_eq!(LineTable::Locations.line_of(&table[..length], 5, 0), None);
        }
        assert_eq!(LineTable::Locations.line_of(&[0x7f; 64], 5, 0), None);
        assert_eq!(
            LineTable::Locations.line_of(
                &[entry(13, 1), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
                5,
                0
            ),
            None
        );
    }
}
