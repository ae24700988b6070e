//! A built table, and what was lost in building it.

use profiler_ebpf::rows::{self, Rule};

use super::text::Text;

/// Unwind rows of one file, in the form the kernel side searches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Address in the file (ELF virtual address) that row addresses count from; a multiple of 64 KiB.
    pub base: u64,
    /// 64-KiB pages of the directory.
    pub pages: u32,
    /// Directory, rows and rules; see [`profiler_ebpf::rows`].
    pub words: Vec<u64>,
    /// What the table holds and what it lacks.
    pub stats: TableStats,
}

impl Table {
    /// A table that knows nothing of the code.
    pub(super) fn empty(text: &Text) -> Self {
        let pages = (text.end() >> rows::PAGE_SHIFT) + 1;
        Self {
            base: text.base,
            pages,
            words: vec![rows::directory_word(0, pages + 1); pages as usize + 1],
            stats: TableStats::default(),
        }
    }

    /// The rule at an address in the file; `None` outside the table.
    pub fn find(&self, address: u64) -> Option<Rule> {
        let address = u32::try_from(address.checked_sub(self.base)?).ok()?;
        rows::find(address, self.pages, |index| self.word(index))
    }

    /// The rows, in order: addresses from the base on, and rules.
    pub fn rows(&self) -> impl Iterator<Item = (u32, Rule)> {
        let first_of = |page: u32| self.word(page).unwrap_or(0) as u32;
        let rules = self.word(0).unwrap_or(0) >> 32;
        (0..self.pages).flat_map(move |page| {
            (first_of(page)..first_of(page + 1)).filter_map(move |index| {
                let row = self.half(self.pages + 1, index)?;
                let rule = self.half(rules as u32, rows::row_rule(row))?;
                Some((
                    page << rows::PAGE_SHIFT | rows::row_address(row),
                    Rule(rule),
                ))
            })
        })
    }

    fn word(&self, index: u32) -> Option<u64> {
        self.words.get(index as usize).copied()
    }

    /// One of the halves from a word on.
    fn half(&self, from: u32, index: u32) -> Option<u32> {
        Some(rows::half(self.word(from.checked_add(index / 2)?)?, index))
    }

    /// Size in memory, in bytes.
    pub fn size(&self) -> usize {
        size_of_val(self.words.as_slice())
    }
}

/// Counts from building a table.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct TableStats {
    /// Rows in the table.
    pub rows: u64,
    /// Functions (FDEs) with code. With none, all there is in the table is a C library's signal trampoline.
    pub functions: u64,
    /// Stretches between functions of which nothing is known.
    pub gaps: u64,
    /// Rows of no information inside functions, by reason.
    pub unknown: UnfitCounts,
    /// Rows that find the caller but not its frame pointer, since that is kept in a way rows cannot say.
    pub lost_fp: u64,
    /// Functions without call frame information whose rows come from their code.
    pub derived: u64,
    /// Functions without call frame information, by their symbols, whose code was not understood.
    pub not_derived: u64,
}

/// Why a piece of call frame information does not fit a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfit {
    /// The frame is found from a register that is not tracked.
    Register,
    /// The frame is found by an expression of no known form.
    Expression,
    /// An offset is too large, negative or no multiple of 8.
    Offset,
    /// The return address lies elsewhere than right below the frame, or the stack pointer is no frame address.
    ReturnAddress,
    /// The information is malformed from here on.
    Malformed,
}

/// Rows of no information, by reason.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct UnfitCounts {
    /// [`Unfit::Register`].
    pub register: u64,
    /// [`Unfit::Expression`].
    pub expression: u64,
    /// [`Unfit::Offset`].
    pub offset: u64,
    /// [`Unfit::ReturnAddress`].
    pub return_address: u64,
    /// [`Unfit::Malformed`].
    pub malformed: u64,
}

impl UnfitCounts {
    /// Counts one.
    pub fn add(&mut self, reason: Unfit) {
        let count = match reason {
            Unfit::Register => &mut self.register,
            Unfit::Expression => &mut self.expression,
            Unfit::Offset => &mut self.offset,
            Unfit::ReturnAddress => &mut self.return_address,
            Unfit::Malformed => &mut self.malformed,
        };
        *count = count.saturating_add(1);
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        [
            self.register,
            self.expression,
            self.offset,
            self.return_address,
            self.malformed,
        ]
        .iter()
        .sum()
    }
}
