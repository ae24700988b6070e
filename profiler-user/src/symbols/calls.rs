//! Whether an address can be a return address: the instruction before it must be a call.

/// How many bytes before a return address are looked at: the longest call instruction.
pub const CALL_BYTES: usize = 7;

/// Whether `before`, the bytes right before an address, ends in an x86-64 call.
///
/// `e8 rel32`, or `ff /2` (indirect near call: 2 to 7 bytes, with or without a REX prefix, which does not
/// change where the opcode stands relative to the end). Source: Intel SDM volume 2, CALL.
pub fn follows_call(before: &[u8]) -> bool {
    let from_end = |bytes: usize| before.len().checked_sub(bytes).map(|at| &before[at..]);
    if from_end(5).is_some_and(|code| code[0] == 0xe8) {
        return true;
    }
    // ff, mod-reg-r/m with reg = 2, perhaps SIB, perhaps a displacement.
    (2..=CALL_BYTES).any(|length| {
        from_end(length)
            .is_some_and(|code| code[0] == 0xff && indirect_call_length(&code[1..]) == Some(length))
    })
}

/// Length of the `ff /2` instruction whose bytes after the opcode these are; `None` for another `ff`.
fn indirect_call_length(after_opcode: &[u8]) -> Option<usize> {
    let mod_rm = *after_opcode.first()?;
    if (mod_rm >> 3) & 7 != 2 {
        return None;
    }
    let (mode, rm) = (mod_rm >> 6, mod_rm & 7);
    let sib = usize::from(mode != 3 && rm == 4);
    let displacement = match mode {
        0 if rm == 5 => 4,
        0 if rm == 4 && after_opcode.get(1)? & 7 == 5 => 4,
        1 => 1,
        2 => 4,
        _ => 0,
    };
    Some(2 + sib + displacement)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Every form of a call is known by its end.
    #[test]
    fn knows_calls() {
        for code in [
            &[0x90, 0x90, 0xe8, 1, 2, 3, 4][..],         // call rel32
            &[0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0xd0], // call *%rax
            &[0x90, 0x90, 0x90, 0x90, 0x41, 0xff, 0xd4], // call *%r12
            &[0x90, 0xff, 0x15, 1, 2, 3, 4],             // call *disp(%rip)
            &[0x90, 0x90, 0x90, 0x90, 0xff, 0x50, 0x18], // call *0x18(%rax)
            &[0x90, 0x90, 0x90, 0xff, 0x54, 0x24, 8],    // call *8(%rsp)
            &[0xff, 0x94, 0xc1, 1, 2, 3, 4],             // call *disp32(%rcx,%rax,8)
            &[0x90, 0xff, 0x90, 1, 2, 3, 4],             // call *disp32(%rax)
            &[0xff, 0x14, 0xc5, 1, 2, 3, 4],             // call *disp32(,%rax,8)
        ] {
            assert!(follows_call(code), "{code:x?}");
        }
    }

    /// Other instructions are not.
    #[test]
    fn knows_what_is_no_call() {
        for code in [
            &[0x90; 7][..],
            &[0xff, 0xe0],                               // jmp *%rax
            &[0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0xc0], // inc %eax
            &[0x48, 0x89, 0xc8],
            &[],
        ] {
            assert!(!follows_call(code), "{code:x?}");
        }
    }
}
