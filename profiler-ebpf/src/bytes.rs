//! How many bytes a call moves or takes, from its arguments, as its probe's [`Cookie`] says.

use crate::memory::UserMemory;
use crate::wire::{Cookie, MAX_CALL_BYTES, bytes_at};

/// The registers that hold the first arguments, and the stack pointer at the return address: the rest lie above it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Arguments {
    /// `rdi`.
    pub first: u64,
    /// `rsi`.
    pub second: u64,
    /// `rdx`.
    pub third: u64,
    /// `rcx`.
    pub fourth: u64,
    /// `r8`.
    pub fifth: u64,
    /// `r9`.
    pub sixth: u64,
    /// `rsp`.
    pub sp: u64,
}

/// The bytes of a call; `None` if they cannot be read or are beyond belief.
#[inline(always)]
pub fn of_call(cookie: Cookie, arguments: &Arguments, memory: &impl UserMemory) -> Option<u64> {
    let first = argument(arguments, cookie.first(), memory)?;
    let units = match cookie.bytes_at() {
        bytes_at::ARGUMENT => width(cookie, first),
        bytes_at::PRODUCT => {
            let second = argument(arguments, cookie.second(), memory)?;
            product(width(cookie, first), width(cookie, second))?
        }
        kind => {
            let at = first.wrapping_add(cookie.offset());
            let area = product(memory.read(at)?, memory.read(at.wrapping_add(8))?)?;
            if kind == bytes_at::STRUCT_3 {
                product(area, memory.read(at.wrapping_add(16))?)?
            } else {
                area
            }
        }
    };
    if units >= MAX_CALL_BYTES {
        return None;
    }
    Some(units << cookie.shift()).filter(|bytes| *bytes < MAX_CALL_BYTES)
}

#[inline(always)]
fn width(cookie: Cookie, argument: u64) -> u64 {
    if cookie.narrow() {
        argument & 0xffff_ffff
    } else {
        argument
    }
}

/// The product, unless one of the two is so large that it might not fit.
#[inline(always)]
fn product(a: u64, b: u64) -> Option<u64> {
    let (small, large) = if a < b { (a, b) } else { (b, a) };
    if small < 1 << 16 && large < MAX_CALL_BYTES || large < 1 << 32 {
        Some(a * b)
    } else {
        None
    }
}

#[inline(always)]
fn argument(arguments: &Arguments, index: u64, memory: &impl UserMemory) -> Option<u64> {
    Some(match index {
        0 => arguments.first,
        1 => arguments.second,
        2 => arguments.third,
        3 => arguments.fourth,
        4 => arguments.fifth,
        5 => arguments.sixth,
        above => return memory.read(arguments.sp.wrapping_add(8 * (above - 5))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::fake::FakeMemory;

    const ARGUMENTS: Arguments = Arguments {
        first: 0x10_000,
        second: 0x7_0000_0011,
        third: 30,
        fourth: 40,
        fifth: 50,
        sixth: 60,
        sp: 0x20_000,
    };

    fn cookie(kind: u64, first: u64, second: u64) -> u64 {
        9 | kind << 16 | first << 20 | second << 24
    }

    fn bytes(cookie: u64) -> Option<u64> {
        let mut memory = FakeMemory::default();
        for (address, word) in [
            (0x20_008, 70),
            (0x20_010, 80),
            (0x10_070, 5),
            (0x10_078, 6),
            (0x10_080, 7),
        ] {
            memory.put(address, word);
        }
        of_call(Cookie(cookie), &ARGUMENTS, &memory)
    }

    /// Arguments in registers and on the stack, wide and narrow, in units, multiplied, and by pointer.
    #[test]
    fn every_place() {
        assert_eq!(bytes(cookie(bytes_at::ARGUMENT, 2, 0)), Some(30));
        assert_eq!(bytes(cookie(bytes_at::ARGUMENT, 2, 0) | 2 << 28), Some(120));
        assert_eq!(bytes(cookie(bytes_at::ARGUMENT, 1, 0)), Some(0x7_0000_0011));
        assert_eq!(
            bytes(cookie(bytes_at::ARGUMENT, 1, 0) | 1 << 30),
            Some(0x11)
        );
        assert_eq!(bytes(cookie(bytes_at::ARGUMENT, 6, 0)), Some(70));
        assert_eq!(bytes(cookie(bytes_at::PRODUCT, 5, 7)), Some(60 * 80));
        assert_eq!(
            bytes(cookie(bytes_at::STRUCT_2, 0, 0) | 0x70 << 48),
            Some(30)
        );
        assert_eq!(
            bytes(cookie(bytes_at::STRUCT_3, 0, 0) | 0x70 << 48),
            Some(210)
        );
    }

    /// What cannot be read or believed is no number.
    #[test]
    fn refuses() {
        assert_eq!(bytes(cookie(bytes_at::ARGUMENT, 8, 0)), None);
        assert_eq!(bytes(cookie(bytes_at::STRUCT_2, 2, 0)), None);
        let (memory, wide) = (FakeMemory::default(), u64::MAX);
        let arguments = Arguments {
            first: wide,
            second: wide,
            third: 1 << 47,
            ..ARGUMENTS
        };
        let of = |cookie| of_call(Cookie(cookie), &arguments, &memory);
        assert_eq!(of(cookie(bytes_at::ARGUMENT, 0, 0)), None);
        assert_eq!(of(cookie(bytes_at::PRODUCT, 0, 1)), None);
        assert_eq!(of(cookie(bytes_at::PRODUCT, 2, 3)), None);
        assert_eq!(of(cookie(bytes_at::ARGUMENT, 2, 0)), Some(1 << 47));
        assert_eq!(of(cookie(bytes_at::ARGUMENT, 2, 0) | 1 << 28), None);
    }
}
