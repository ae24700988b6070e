//! Unwind rows: for each stretch of code, how to find the caller's frame. The form both sides share.
//!
//! A row says from where on which [`Rule`] holds, up to the next row. Tables are sorted; a stretch without
//! information has a row that says so.
//!
//! A table in memory is made of 64-bit words, in three parts:
//!
//! 1. A directory: for each 64-KiB page of the code, and one more, the number of the first row of that page or of a
//!    later one (lower half), and the index of the first word of the rules (upper half).
//! 2. The rows, two to a word, the first in the lower half: the address within the page (upper 16 bits) and the number
//!    of the rule (lower 16 bits).
//! 3. The rules, two to a word, each once. (The largest library known has 2.4 million rows, of 1,700 rules.)

/// Largest offset a rule can hold for the frame address: 15 bits of 8 bytes.
pub const MAX_CFA_OFFSET: u64 = 8 * ((1 << 15) - 1);
/// Largest distance a rule can hold for the saved frame pointer: 11 bits of 8 bytes.
pub const MAX_FP_OFFSET: u64 = 8 * ((1 << 11) - 1);

/// Offsets of [`CfaKind::SpDeref`] are stored raised by this.
const SP_DEREF_BIAS: i64 = 64;

/// What the caller's frame address (CFA) is computed from. Ids are stored in caches: never reused.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CfaKind {
    /// Nothing is known here: an error, not an end.
    Unknown = 0,
    /// `rsp + offset`.
    Sp = 1,
    /// `rbp + offset`.
    Fp = 2,
    /// `*(rbp - offset)`: functions that realign their stack (AVX).
    FpDeref = 3,
    /// `*(rsp + offset) + 8 * extra`: code that keeps the old stack pointer (OpenSSL).
    SpDeref = 4,
    /// `rsp + 8 + (rip & 15 >= 11 ? 8 : 0)`: procedure linkage table.
    Plt11 = 5,
    /// `rsp + 8 + (rip & 15 >= 10 ? 8 : 0)`: procedure linkage table with endbr64.
    Plt10 = 6,
    /// The kernel's signal frame at `rsp`.
    Signal = 7,
    /// The outermost frame: a clean end.
    End = 8,
    /// `rsp + offset` with an offset that needs the frame pointer's bits too; a saved frame pointer is where
    /// every compiler puts it, at CFA - 16. (rustc has a frame of 540 KB.)
    SpLarge = 9,
}

/// Where the caller's frame pointer is.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FpKind {
    /// Still in `rbp`.
    Same = 0,
    /// At `CFA - offset`.
    Saved = 1,
    /// At `*(rbp)`: functions that realign their stack.
    AtFp = 2,
    /// Not kept.
    Lost = 3,
}

/// One rule: CFA kind 4 bits, CFA offset/8 15 bits, frame pointer kind 2 bits, its offset/8 11 bits. For
/// [`CfaKind::SpDeref`] the lowest 4 bits of the offset field are `extra`/8, the rest the offset/8 plus 8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule(pub u32);

impl Rule {
    /// No information.
    pub const UNKNOWN: Self = Self(CfaKind::Unknown as u32);
    /// No information, and no function said to be here: to a walk the same as [`Self::UNKNOWN`].
    pub const GAP: Self = Self(CfaKind::Unknown as u32 | 1 << 4);
    /// A clean end.
    pub const END: Self = Self(CfaKind::End as u32);
    /// A signal frame.
    pub const SIGNAL: Self = Self(CfaKind::Signal as u32);

    /// A rule, or `None` if an offset does not fit. Offsets are in bytes.
    pub const fn new(cfa: CfaKind, cfa_offset: u64, fp: FpKind, fp_offset: u64) -> Option<Self> {
        if matches!(cfa, CfaKind::Sp) && cfa_offset > MAX_CFA_OFFSET {
            return Self::large(cfa_offset, fp, fp_offset);
        }
        if !cfa_offset.is_multiple_of(8) || cfa_offset > MAX_CFA_OFFSET {
            return None;
        }
        if !fp_offset.is_multiple_of(8) || fp_offset > MAX_FP_OFFSET {
            return None;
        }
        let (cfa_words, fp_words) = ((cfa_offset / 8) as u32, (fp_offset / 8) as u32);
        Some(Self(
            cfa as u32 | cfa_words << 4 | (fp as u32) << 19 | fp_words << 21,
        ))
    }

    const fn large(cfa_offset: u64, fp: FpKind, fp_offset: u64) -> Option<Self> {
        let saved_elsewhere = matches!(fp, FpKind::Saved) && fp_offset != 16;
        let words = cfa_offset / 8;
        if !cfa_offset.is_multiple_of(8) || words >= 1 << 26 || saved_elsewhere {
            return None;
        }
        let (low, high) = (words as u32 & 0x7fff, (words >> 15) as u32);
        Some(Self(
            CfaKind::SpLarge as u32 | low << 4 | (fp as u32) << 19 | high << 21,
        ))
    }

    /// A rule of kind [`CfaKind::SpDeref`]: `*(rsp + offset) + extra`, in bytes. The offset may be a little
    /// below 0: code that is about to move its stack pointer says so.
    pub const fn sp_deref(offset: i64, extra: u64, fp: FpKind, fp_offset: u64) -> Option<Self> {
        let raised = offset + SP_DEREF_BIAS;
        if raised < 0 || raised % 8 != 0 || raised / 8 > 0x7ff {
            return None;
        }
        if !extra.is_multiple_of(8) || extra > 8 * 15 {
            return None;
        }
        let words = raised as u64 / 8 * 16 + extra / 8;
        Self::new(CfaKind::SpDeref, 8 * words, fp, fp_offset)
    }

    /// The CFA kind; an id that is none reads as unknown.
    #[inline(always)]
    pub const fn cfa_kind(self) -> CfaKind {
        match self.0 & 15 {
            1 => CfaKind::Sp,
            2 => CfaKind::Fp,
            3 => CfaKind::FpDeref,
            4 => CfaKind::SpDeref,
            5 => CfaKind::Plt11,
            6 => CfaKind::Plt10,
            7 => CfaKind::Signal,
            8 => CfaKind::End,
            9 => CfaKind::SpLarge,
            _ => CfaKind::Unknown,
        }
    }

    /// The CFA offset in bytes.
    #[inline(always)]
    pub const fn cfa_offset(self) -> u64 {
        let low = ((self.0 >> 4) & 0x7fff) as u64;
        let high = if self.is_large() {
            (self.0 >> 21) as u64
        } else {
            0
        };
        (high << 15 | low) * 8
    }

    #[inline(always)]
    const fn is_large(self) -> bool {
        self.0 & 15 == CfaKind::SpLarge as u32
    }

    /// Offset and extra of [`CfaKind::SpDeref`], in bytes.
    #[inline(always)]
    pub const fn sp_deref_parts(self) -> (i64, u64) {
        let words = self.cfa_offset() / 8;
        ((words / 16 * 8) as i64 - SP_DEREF_BIAS, words % 16 * 8)
    }

    /// Where the caller's frame pointer is.
    #[inline(always)]
    pub const fn fp_kind(self) -> FpKind {
        match (self.0 >> 19) & 3 {
            0 => FpKind::Same,
            1 => FpKind::Saved,
            2 => FpKind::AtFp,
            _ => FpKind::Lost,
        }
    }

    /// Distance of the saved frame pointer below the CFA in bytes.
    #[inline(always)]
    pub const fn fp_offset(self) -> u64 {
        if self.is_large() {
            16
        } else {
            ((self.0 >> 21) as u64) * 8
        }
    }
}

/// Bits of an address within its page.
pub const PAGE_SHIFT: u32 = 16;
/// Search steps that suffice within a page: a page has at most 2^16 rows, real ones at most 8,175.
pub const SEARCH_STEPS: usize = 17;

/// A row: the address within its page, and the number of its rule.
#[inline(always)]
pub const fn row(address: u32, rule: u16) -> u32 {
    (address & 0xffff) << 16 | rule as u32
}

/// The address of a row within its page.
#[inline(always)]
pub const fn row_address(row: u32) -> u32 {
    row >> 16
}

/// The number of a row's rule.
#[inline(always)]
pub const fn row_rule(row: u32) -> u32 {
    row & 0xffff
}

/// A word of the directory.
#[inline(always)]
pub const fn directory_word(first_row: u32, rules_at: u32) -> u64 {
    (rules_at as u64) << 32 | first_row as u64
}

/// One of two halves that share a word.
#[inline(always)]
pub const fn half(word: u64, index: u32) -> u32 {
    (word >> ((index & 1) * 32)) as u32
}

/// The rule that holds at `address`, in a table of `pages` pages read through `word`.
#[inline(always)]
pub fn find(address: u32, pages: u32, word: impl Fn(u32) -> Option<u64>) -> Option<Rule> {
    let page = address >> PAGE_SHIFT;
    if page >= pages {
        return None;
    }
    let within = address & ((1 << PAGE_SHIFT) - 1);
    let rows = pages + 1;
    let directory = word(page)?;
    let rules = (directory >> 32) as u32;
    let mut low = directory as u32;
    let mut high = word(page + 1)? as u32;
    // First row of the page that begins behind the address; the one before it holds.
    for _ in 0..SEARCH_STEPS {
        if low >= high {
            break;
        }
        let middle = low + (high - low) / 2;
        if row_address(half(word(rows + middle / 2)?, middle)) <= within {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if low == 0 {
        return None;
    }
    let rule = row_rule(half(word(rows + (low - 1) / 2)?, low - 1));
    Some(Rule(half(word(rules + rule / 2)?, rule)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What goes into a rule comes out of it.
    #[test]
    fn rules_round_trip() {
        let rule = Rule::new(CfaKind::Fp, 133_696, FpKind::Saved, 16).unwrap();
        assert_eq!(rule.cfa_kind(), CfaKind::Fp);
        assert_eq!(rule.cfa_offset(), 133_696);
        assert_eq!((rule.fp_kind(), rule.fp_offset()), (FpKind::Saved, 16));
        let rule = Rule::sp_deref(152, 64, FpKind::Saved, 56).unwrap();
        assert_eq!(rule.sp_deref_parts(), (152, 64));
        assert_eq!((rule.fp_kind(), rule.fp_offset()), (FpKind::Saved, 56));
        let rule = Rule::sp_deref(-8, 8, FpKind::Same, 0).unwrap();
        assert_eq!(rule.sp_deref_parts(), (-8, 8));
        let rule = Rule::new(CfaKind::Sp, 540_080, FpKind::Saved, 16).unwrap();
        assert_eq!(
            (rule.cfa_kind(), rule.cfa_offset()),
            (CfaKind::SpLarge, 540_080)
        );
        assert_eq!((rule.fp_kind(), rule.fp_offset()), (FpKind::Saved, 16));
        assert_eq!(Rule::END.cfa_kind(), CfaKind::End);
    }

    /// What does not fit is refused.
    #[test]
    fn refuses_what_does_not_fit() {
        assert_eq!(Rule::new(CfaKind::Sp, 4, FpKind::Same, 0), None);
        assert_eq!(
            Rule::new(CfaKind::Fp, MAX_CFA_OFFSET + 8, FpKind::Same, 0),
            None
        );
        assert_eq!(
            Rule::new(CfaKind::Sp, MAX_CFA_OFFSET + 8, FpKind::Saved, 24),
            None
        );
        assert_eq!(Rule::new(CfaKind::Sp, 8 << 26, FpKind::Same, 0), None);
        assert_eq!(
            Rule::new(CfaKind::Sp, 8, FpKind::Saved, MAX_FP_OFFSET + 8),
            None
        );
        assert_eq!(Rule::sp_deref(8, 200, FpKind::Same, 0), None);
        assert_eq!(Rule::sp_deref(-72, 8, FpKind::Same, 0), None);
        assert_eq!(Rule::sp_deref(16384, 8, FpKind::Same, 0), None);
    }

    /// A table as the builder writes it: three pages, the second without a row of its own.
    fn table() -> (u32, std::vec::Vec<u64>) {
        let rule = |offset| u64::from(Rule::new(CfaKind::Sp, offset, FpKind::Same, 0).unwrap().0);
        let pair = |first: u32, second: u32| u64::from(second) << 32 | u64::from(first);
        let directory = [0, 2, 2, 4].map(|first| directory_word(first, 6));
        let mut words = directory.to_vec();
        words.push(pair(row(0x10, 0), row(0x20, 1)));
        words.push(pair(row(0x2_0004, 2), row(0x2_0008, 3)));
        words.extend([rule(8) | rule(16) << 32, rule(24) | rule(32) << 32]);
        (3, words)
    }

    /// Each address finds the row that holds there, also across pages.
    #[test]
    fn finds_rows() {
        let (pages, words) = table();
        let offset = |address| {
            find(address, pages, |index| words.get(index as usize).copied()).map(Rule::cfa_offset)
        };
        assert_eq!(offset(0), None);
        assert_eq!(offset(0x10), Some(8));
        assert_eq!(offset(0x1f), Some(8));
        assert_eq!(offset(0x20), Some(16));
        assert_eq!(offset(0x1_ffff), Some(16));
        assert_eq!(offset(0x2_0003), Some(16));
        assert_eq!(offset(0x2_0004), Some(24));
        assert_eq!(offset(0x2_ffff), Some(32));
        assert_eq!(offset(0x3_0000), None);
    }
}
