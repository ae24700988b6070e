//! `str` objects.

use super::layout::ObjectLayout;
use crate::process::TargetMemory;

/// Longest text read, in characters: a longer one is no name.
const MAX_CHARS: u64 = 65536;

/// Reads a `str` at an address. `None` if it is not one that can be read: not compact, too long, or gone.
pub(super) fn read_text(
    memory: TargetMemory,
    layout: &ObjectLayout,
    address: u64,
) -> Option<String> {
    // Behind the head: length, hash, state.
    let [length, _, state] = memory.read::<[u64; 3]>(address.checked_add(layout.object_head)?)?;
    // PyASCIIObject.state: interned 2 bits, kind 3 bits, compact, ascii.
    let (kind, compact, ascii) = (
        (state >> 2) & 7,
        state & (1 << 5) != 0,
        state & (1 << 6) != 0,
    );
    if !compact || length > MAX_CHARS || !matches!(kind, 1 | 2 | 4) {
        return None;
    }
    let start = address.checked_add(if ascii {
        layout.text_ascii
    } else {
        layout.text_compact
    })?;
    let bytes = memory.read_bytes(start, length * kind, usize::try_from(4 * MAX_CHARS).ok()?)?;
    Some(decode(&bytes, kind))
}

/// Characters of 1, 2 or 4 bytes each. Lone surrogates, which Python allows, become U+FFFD.
fn decode(bytes: &[u8], kind: u64) -> String {
    let code_points: Box<dyn Iterator<Item = u32>> = match kind {
        1 => Box::new(bytes.iter().map(|byte| u32::from(*byte))),
        2 => Box::new(
            bytes
                .as_chunks::<2>()
                .0
                .iter()
                .map(|pair| u16::from_le_bytes(*pair).into()),
        ),
        _ => Box::new(
            bytes
                .as_chunks::<4>()
                .0
                .iter()
                .map(|quad| u32::from_le_bytes(*quad)),
        ),
    };
    code_points
        .map(|point| char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Each kind decodes to the characters it stands for.
    #[test]
    fn decodes_every_kind() {
        assert_eq!(decode(&[0x66, 0xfc], 1), "fü");
        assert_eq!(decode(&[0x3a, 0x04, 0x7c, 0x01], 2), "кż");
        assert_eq!(decode(&[0xb3, 0xd4, 0x01, 0x00], 4), "\u{1d4b3}");
        assert_eq!(decode(&[0x00, 0xd8], 2), "\u{fffd}");
    }
}
