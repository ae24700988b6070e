//! Signal trampolines without call frame information, known by their code.
//!
//! musl and Go return from a signal handler through nine bytes of code of which their call frame information
//! says nothing, or nothing true.

use object::{ReadRef, elf};

use super::elf::Elf;
use super::text::Text;

/// `mov $15, %rax; syscall`: the system call that ends a signal handler.
pub(super) const CODE: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05];

/// Code that is searched at most. The one C library has 1 MiB, a static program rarely more than this.
const MAX_SEARCHED: u64 = 64 << 20;
/// Trampolines kept; a file has one.
const MAX_FOUND: usize = 16;

/// Addresses in the file at which a trampoline begins. Only a C library or a program that contains one is
/// searched: a file that needs no other.
pub(super) fn find<'d, R: ReadRef<'d>>(elf: &Elf<'d, R>, text: &Text) -> Vec<u64> {
    let mut found = Vec::new();
    let size: u64 = text
        .ranges
        .iter()
        .map(|(from, to)| u64::from(to - from))
        .sum();
    if size > MAX_SEARCHED || elf.dynamic(elf::DT_NEEDED).is_some() {
        return found;
    }
    for (from, to) in &text.ranges {
        let start = text.base + u64::from(*from);
        let Some(code) = elf.loaded(start, u64::from(to - from)) else {
            continue;
        };
        let matches = code.windows(CODE.len()).enumerate();
        let matches = matches.filter(|(_, window)| **window == CODE);
        found.extend(
            matches
                .map(|(at, _)| start + at as u64)
                .take(MAX_FOUND - found.len()),
        );
    }
    found
}
