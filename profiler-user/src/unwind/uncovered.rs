//! Code that call frame information says nothing of, and where functions begin in it.

use object::read::elf::Sym as _;
use object::{LittleEndian, ReadRef, elf};
use profiler_ebpf::rows::Rule;

use super::Table;
use super::code::Extent;
use super::elf::Elf;
use super::text::Text;

/// Shorter stretches are padding or stubs of a few instructions.
const MIN_BYTES: u32 = 16;
/// Symbols that are looked at. The largest library known has 800,000.
const MAX_SYMBOLS: usize = 8 << 20;

/// Stretches without a described function, from the table's base on, in order.
pub(super) fn stretches(table: &Table, text: &Text) -> Vec<(u32, u32)> {
    let starts = std::iter::once((0, Rule::GAP)).chain(table.rows());
    let ends = table.rows().map(|(address, _)| address).chain([u32::MAX]);
    let mut found = Vec::new();
    for ((start, rule), end) in starts.zip(ends) {
        if rule != Rule::GAP {
            continue;
        }
        let in_code = text.ranges.iter().filter_map(|(from, to)| {
            let (from, to) = (start.max(*from), end.min(*to));
            (from < to && to - from >= MIN_BYTES).then_some((from, to))
        });
        found.extend(in_code);
    }
    found
}

/// Functions that symbols tell of in the stretches, sorted, one for each start.
pub(super) fn functions<'d, R: ReadRef<'d>>(
    elf: &Elf<'d, R>,
    text: &Text,
    stretches: &[(u32, u32)],
) -> Vec<Extent> {
    let mut found: Vec<Extent> = Vec::new();
    for kind in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
        let table = elf.symbols(kind);
        let functions = table.iter().take(MAX_SYMBOLS).filter(|symbol| {
            symbol.st_type() == elf::STT_FUNC && symbol.st_shndx(LittleEndian) != 0
        });
        for symbol in functions {
            let Some(extent) = extent(symbol, text, stretches) else {
                continue;
            };
            let name = symbol.name(LittleEndian, table.strings());
            if !name.is_ok_and(is_part) {
                found.push(extent);
            }
        }
    }
    // Of several at one place the longest.
    found.sort_unstable_by_key(|(start, end)| (*start, std::cmp::Reverse(*end)));
    found.dedup_by_key(|(start, _)| *start);
    found
}

/// Where a symbol's function lies, if it begins in one of the stretches.
fn extent(
    symbol: &elf::Sym64<LittleEndian>,
    text: &Text,
    stretches: &[(u32, u32)],
) -> Option<Extent> {
    let start = symbol.st_value(LittleEndian).checked_sub(text.base)?;
    let start = u32::try_from(start).ok()?;
    let next = stretches.partition_point(|stretch| stretch.0 <= start);
    let (_, to) = *stretches.get(next.checked_sub(1)?)?;
    let size = u32::try_from(symbol.st_size(LittleEndian)).unwrap_or(u32::MAX);
    (start < to).then(|| (start, start.saturating_add(size).min(to)))
}

/// Whether a symbol names a part of a function that compilers put elsewhere: it is jumped to, not called.
fn is_part(name: &[u8]) -> bool {
    const MARK: &[u8] = b".cold";
    name.windows(MARK.len()).any(|window| window == MARK)
}
