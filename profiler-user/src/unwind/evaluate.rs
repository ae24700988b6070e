//! From one entry (FDE) to rows: the second pass.

use gimli::{BaseAddresses, UnwindSection};
use profiler_ebpf::rows::Rule;

use super::builder::Builder;
use super::common::CommonEntries;
use super::expression::Bytes;
use super::functions::Function;
use super::program::{Malformed, Program, Step};
use super::rule::translate;
use super::{Unfit, UnwindError};

/// Runs entries of one section.
pub(super) struct Evaluator<'d, 's, S: UnwindSection<Bytes<'d>>> {
    section: &'s S,
    bases: &'s BaseAddresses,
    /// What row addresses count from.
    base: u64,
    common: CommonEntries<'d>,
    program: Program,
}

impl<'d, 's, S: UnwindSection<Bytes<'d>>> Evaluator<'d, 's, S> {
    /// For a section whose addresses are counted from `base`.
    pub fn new(section: &'s S, bases: &'s BaseAddresses, base: u64) -> Self {
        Self {
            section,
            bases,
            base,
            common: CommonEntries::default(),
            program: Program::new(),
        }
    }

    /// Appends the rows of a function.
    pub fn run(&mut self, function: &Function, table: &mut Builder) -> Result<(), UnwindError> {
        let (start, end) = (function.start, function.end);
        let Some(entry) = function.entry else {
            return table.push(start, Rule::SIGNAL);
        };
        let (section, bases) = (self.section, self.bases);
        let common = &mut self.common;
        let entry = section.partial_fde_from_offset(bases, S::Offset::from(entry as usize));
        let Ok(entry) = entry.and_then(|partial| common.parse(&partial)) else {
            return table.unfit(start, Unfit::Malformed);
        };
        let initial = match common.initial_of_last() {
            Ok(initial) => initial,
            Err(reason) => return table.unfit(start, reason),
        };
        let program = &mut self.program;
        program.begin(
            Some(initial),
            entry.cie().code_alignment_factor(),
            entry.cie().data_alignment_factor(),
        );
        let signal = entry.is_signal_trampoline();
        let mut instructions = entry.instructions(section, bases);
        let mut at = start;
        while at < end {
            let next = match program.run(&mut instructions) {
                Ok(Step::By(delta)) => u64::from(at).checked_add(delta),
                Ok(Step::To(address)) => address.checked_sub(self.base),
                Ok(Step::End) => Some(u64::from(end)),
                Err(Malformed) => None,
            };
            let Some(next) = next.filter(|next| *next >= u64::from(at)) else {
                return table.unfit(at, Unfit::Malformed);
            };
            if next > u64::from(at) {
                match translate(section, &program.state, signal) {
                    Ok(translated) => {
                        table.stats.lost_fp += u64::from(translated.lost_fp);
                        table.push(at, translated.rule)?;
                    }
                    Err(reason) => table.unfit(at, reason)?,
                }
            }
            at = u32::try_from(next).unwrap_or(end);
        }
        Ok(())
    }
}
