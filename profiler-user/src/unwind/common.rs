//! Common entries (CIE): what all functions that refer to one begin with.

use gimli::{
    BaseAddresses, CommonInformationEntry, FrameDescriptionEntry, PartialFrameDescriptionEntry,
    Reader as _, UnwindOffset, UnwindSection, X86_64,
};

use super::Unfit;
use super::expression::Bytes;
use super::program::{Malformed, Program, State, Step};

/// A common entry is small: a long one is not read.
const MAX_LENGTH: usize = 512;
/// Common entries kept. A file has a few; more are read again each time.
const MAX_KEPT: usize = 32;

/// A common entry, run.
#[derive(Debug, Clone)]
struct Common<'d> {
    /// As gimli reads it.
    entry: CommonInformationEntry<Bytes<'d>>,
    /// What holds at the start of its functions, or why none of them has rows.
    initial: Result<State, Unfit>,
}

/// Common entries by their offset.
#[derive(Debug, Default)]
pub(super) struct CommonEntries<'d> {
    kept: Vec<(usize, Common<'d>)>,
    last: usize,
}

impl<'d> CommonEntries<'d> {
    /// Reads a function's entry, with the common entry it refers to.
    pub fn parse<S>(
        &mut self,
        partial: &PartialFrameDescriptionEntry<'_, S, Bytes<'d>>,
    ) -> gimli::Result<FrameDescriptionEntry<Bytes<'d>>>
    where
        S: UnwindSection<Bytes<'d>>,
    {
        partial.parse(|section, bases, offset| Ok(self.get(section, bases, offset)?.entry.clone()))
    }

    /// What the functions begin with that refer to the common entry that was used last.
    pub fn initial_of_last(&self) -> Result<State, Unfit> {
        let last = self.kept.get(self.last).ok_or(Unfit::Malformed)?;
        last.1.initial
    }

    fn get<S>(
        &mut self,
        section: &S,
        bases: &BaseAddresses,
        offset: S::Offset,
    ) -> gimli::Result<&Common<'d>>
    where
        S: UnwindSection<Bytes<'d>>,
    {
        let at: usize = UnwindOffset::into(offset);
        let is_it = |(kept, _): &(usize, Common<'d>)| *kept == at;
        if !self.kept.get(self.last).is_some_and(is_it) {
            self.last = match self.kept.iter().position(is_it) {
                Some(index) => index,
                None => {
                    let common = read(section, bases, offset)?;
                    self.kept.truncate(MAX_KEPT - 1);
                    self.kept.push((at, common));
                    self.kept.len() - 1
                }
            };
        }
        // The index was just found.
        Ok(&self.kept[self.last].1)
    }
}

fn read<'d, S>(section: &S, bases: &BaseAddresses, offset: S::Offset) -> gimli::Result<Common<'d>>
where
    S: UnwindSection<Bytes<'d>>,
{
    let mut input = *section.section();
    input.skip(UnwindOffset::into(offset))?;
    let (length, _) = input.read_initial_length()?;
    if length > MAX_LENGTH {
        return Err(gimli::Error::UnsupportedOffset);
    }
    let entry = section.cie_from_offset(bases, offset)?;
    Ok(Common {
        initial: run(section, bases, &entry),
        entry,
    })
}

fn run<'d, S>(
    section: &S,
    bases: &BaseAddresses,
    entry: &CommonInformationEntry<Bytes<'d>>,
) -> Result<State, Unfit>
where
    S: UnwindSection<Bytes<'d>>,
{
    if entry.return_address_register() != X86_64::RA {
        return Err(Unfit::ReturnAddress);
    }
    let mut program = Program::new();
    program.begin(
        None,
        entry.code_alignment_factor(),
        entry.data_alignment_factor(),
    );
    let mut instructions = entry.instructions(section, bases);
    // It describes no code of its own: it is run to its end, whatever it says on the way.
    while program
        .run(&mut instructions)
        .map_err(|Malformed| Unfit::Malformed)?
        != Step::End
    {}
    Ok(program.state)
}
