//! Whether a function keeps a frame pointer at a place, by its code.

/// Bytes that are looked at, from a function's start on.
pub const PROLOGUE_BYTES: usize = 32;

/// `endbr64`, which may stand at the start of a function.
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
const PUSH_RBP: u8 = 0x55;
const POP_RBP: u8 = 0x5d;
const LEAVE: u8 = 0xc9;
/// `ret`, plain and with a count.
const RETURNS: [u8; 2] = [0xc3, 0xc2];
/// `mov %rsp, %rbp` in its two encodings.
const SET_RBP: [[u8; 3]; 2] = [[0x48, 0x89, 0xe5], [0x48, 0x8b, 0xec]];
/// How far behind the push the compiler may move it.
const MAX_BETWEEN: usize = 16;

/// How far into a function its frame pointer is not its own yet; `None` if its code does not begin by setting it up.
pub fn frame_set_up_after(code: &[u8]) -> Option<u64> {
    let endbr = if code.starts_with(&ENDBR64) {
        ENDBR64.len()
    } else {
        0
    };
    let pushed = code.get(endbr..)?.strip_prefix(&[PUSH_RBP])?;
    let between = pushed
        .windows(3)
        .take(MAX_BETWEEN)
        .position(|window| SET_RBP.iter().any(|set| set == window))?;
    Some((endbr + 1 + between + 3) as u64)
}

/// Whether the frame pointer is the caller's again at a place, given the byte before it and the one there.
pub fn frame_given_up(before: u8, here: u8) -> bool {
    matches!(before, POP_RBP | LEAVE) || RETURNS.contains(&here)
}

/// Where the call leads that ends right before `offset`, given the bytes before that: `None` if it is not `e8 rel32`.
pub fn direct_call(before: &[u8], offset: u64) -> Option<u64> {
    let [0xe8, distance @ ..] = before.last_chunk::<5>()? else {
        return None;
    };
    offset.checked_add_signed(i32::from_le_bytes(*distance).into())
}

/// Whether code is a stub that only jumps on, as those of a linkage table.
pub fn only_jumps(code: &[u8]) -> bool {
    let code = code.strip_prefix(&ENDBR64).unwrap_or(code);
    let code = code.strip_prefix(&[0xf2]).unwrap_or(code);
    matches!(code, [0xe9 | 0xeb, ..] | [0xff, 0x25, ..])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A frame is set up by a push and a move, close together; another use of rbp is none.
    #[test]
    fn knows_frames() {
        for (code, expected) in [
            (&[0x55, 0x48, 0x89, 0xe5, 0x90][..], Some(4)),
            (&[0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5], Some(8)),
            (&[0x55, 0x31, 0xc0, 0x48, 0x8b, 0xec], Some(6)),
            (&[0x55, 0x53, 0x48, 0x83, 0xec, 0x18], None),
            (&[0x48, 0x83, 0xec, 0x18], None),
            (&[0x55, 0x48, 0x89], None),
            (&[], None),
        ] {
            assert_eq!(frame_set_up_after(code), expected, "{code:x?}");
        }
    }

    /// Behind its end, and at the return, the frame pointer is the caller's.
    #[test]
    fn knows_ends() {
        assert!(frame_given_up(0x5d, 0xc3) && frame_given_up(0xc9, 0xc3));
        assert!(frame_given_up(0x77, 0xc3) && frame_given_up(0x5d, 0xe9));
        assert!(!frame_given_up(0x90, 0x48));
    }

    /// A call's distance counts from behind it; an indirect one leads nowhere that can be known.
    #[test]
    fn knows_where_calls_lead() {
        assert_eq!(
            direct_call(&[0x90, 0x90, 0xe8, 0xfb, 0xff, 0xff, 0xff], 0x100),
            Some(0xfb)
        );
        assert_eq!(direct_call(&[0xe8, 0x10, 0, 0, 0], 0x100), Some(0x110));
        assert_eq!(direct_call(&[0x90, 0x90, 0x90, 0xff, 0xd0], 0x100), None);
        assert_eq!(direct_call(&[0xe8, 0, 0, 0, 0x80], 0x100), None);
        assert_eq!(direct_call(&[0xe8], 0x100), None);
    }

    /// Stubs of linkage tables, with and without marks for indirect branches.
    #[test]
    fn knows_stubs() {
        for code in [
            &[0xff, 0x25, 1, 2, 3, 4][..],
            &[0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25],
            &[0xe9, 1, 2, 3, 4],
        ] {
            assert!(only_jumps(code), "{code:x?}");
        }
        assert!(!only_jumps(&[0x55, 0x48, 0x89, 0xe5]) && !only_jumps(&[]));
    }
}
