//! The few forms of DWARF expressions that occur in call frame information of real files.

use gimli::{EndianSlice, Reader as _};

/// Byte order of all input.
pub(super) const LE: gimli::LittleEndian = gimli::LittleEndian;

/// Bytes of a call frame section.
pub(super) type Bytes<'d> = EndianSlice<'d, gimli::LittleEndian>;

const BREG6_RBP: u8 = 0x76;
const BREG7_RSP: u8 = 0x77;
const DEREF: u8 = 0x06;
const PLUS_UCONST: u8 = 0x23;

/// An expression of a known form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// `rbp + offset`.
    Fp(i64),
    /// `*(rbp + offset)`.
    FpDeref(i64),
    /// `*(rsp + offset) + extra`.
    SpDeref {
        /// Added to the stack pointer.
        offset: i64,
        /// Added to what is read.
        extra: u64,
    },
    /// `rsp + 8 + (rip & 15 >= threshold ? 8 : 0)`.
    Plt(u8),
}

/// The linker's expression for its lazy procedure linkage table, in which only the threshold differs.
const PLT: [u8; 11] = [
    0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a, 0x30, 0x2a, 0x33, 0x24, 0x22,
];
const PLT_THRESHOLD: usize = 6;

impl Known {
    /// Recognises an expression.
    pub fn parse(mut code: Bytes<'_>) -> Option<Self> {
        if let Some(threshold) = plt_threshold(code.slice()) {
            return Some(Self::Plt(threshold));
        }
        let base = code.read_u8().ok()?;
        let offset = code.read_sleb128().ok()?;
        if base == BREG6_RBP && code.is_empty() {
            return Some(Self::Fp(offset));
        }
        if code.read_u8().ok()? != DEREF {
            return None;
        }
        match base {
            BREG6_RBP if code.is_empty() => Some(Self::FpDeref(offset)),
            BREG7_RSP if code.is_empty() => Some(Self::SpDeref { offset, extra: 0 }),
            BREG7_RSP => {
                if code.read_u8().ok()? != PLUS_UCONST {
                    return None;
                }
                let extra = code.read_uleb128().ok()?;
                code.is_empty().then_some(Self::SpDeref { offset, extra })
            }
            _ => None,
        }
    }
}

/// The threshold, if these are the table's bytes. `DW_OP_lit0` is 0x30.
fn plt_threshold(code: &[u8]) -> Option<u8> {
    let threshold = code.get(PLT_THRESHOLD)?.checked_sub(0x30)?;
    let mut expected = PLT;
    expected[PLT_THRESHOLD] = 0x30 + threshold;
    (threshold < 16 && code == expected).then_some(threshold)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(code: &[u8]) -> Option<Known> {
        Known::parse(EndianSlice::new(code, LE))
    }

    /// Each form that occurs is told from the others.
    #[test]
    fn recognises_known_forms() {
        assert_eq!(parse(&[0x76, 0]), Some(Known::Fp(0)));
        assert_eq!(parse(&[0x76, 0x70, 6]), Some(Known::FpDeref(-16)));
        let sp = |offset, extra| Some(Known::SpDeref { offset, extra });
        assert_eq!(parse(&[0x77, 0xa0, 1, 6]), sp(160, 0));
        assert_eq!(parse(&[0x77, 0x10, 6, 0x23, 0xc0, 0]), sp(16, 64));
        let plt = [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
        assert_eq!(parse(&plt), Some(Known::Plt(11)));
    }

    /// What only resembles a form is none.
    #[test]
    fn refuses_other_forms() {
        for code in [
            &[][..],
            &[0x76],
            &[0x77, 8],
            &[0x77, 8, 6, 0x22],
            &[0x77, 8, 6, 0x23],
            &[0x76, 8, 6, 0x23, 8],
            &[0x77, 8, 6, 0x23, 8, 6],
            &[0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x50, 0x2a, 0x33, 0x24, 0x22],
        ] {
            assert_eq!(parse(code), None, "{code:x?}");
        }
    }
}
