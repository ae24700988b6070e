//! Where functions begin in a stretch of code, and which of it is taken already.

use std::collections::BTreeMap;

/// A function's extent by its symbol: start and end, from the table's base on. The end is the start if unknown.
pub(in crate::unwind) type Extent = (u32, u32);

/// What is known of a stretch of code before a function in it is followed.
#[derive(Debug)]
pub(super) struct Entries<'a> {
    /// By symbols, sorted.
    symbols: &'a [Extent],
    /// Stretches that functions found so far consist of: end by start.
    claimed: BTreeMap<u32, u32>,
}

impl<'a> Entries<'a> {
    pub fn new(symbols: &'a [Extent]) -> Self {
        Self {
            symbols,
            claimed: BTreeMap::new(),
        }
    }

    /// Whether a symbol says that a function begins here.
    pub fn is_certain(&self, address: u32) -> bool {
        self.symbols
            .binary_search_by_key(&address, |extent| extent.0)
            .is_ok()
    }

    /// Whether a function found earlier has this address.
    pub fn is_claimed(&self, address: u32) -> bool {
        self.claimed_to(address).is_some()
    }

    /// The next address behind this one at which a function ends, another begins or code is claimed.
    pub fn next_border(&self, address: u32) -> u32 {
        let next = self.symbols.partition_point(|extent| extent.0 <= address);
        let symbol = self.symbols.get(next).map(|extent| extent.0);
        let claimed = self.claimed.range(address.saturating_add(1)..).next();
        [
            self.symbol_to(address),
            symbol,
            claimed.map(|(start, _)| *start),
        ]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(u32::MAX)
    }

    /// The end of the claimed stretch that holds this address.
    pub fn claimed_to(&self, address: u32) -> Option<u32> {
        let (_, end) = self.claimed.range(..=address).next_back()?;
        (address < *end).then_some(*end)
    }

    /// The end of the function that a symbol says is here.
    pub fn symbol_to(&self, address: u32) -> Option<u32> {
        let next = self.symbols.partition_point(|extent| extent.0 <= address);
        let (_, end) = self.symbols.get(next.checked_sub(1)?)?;
        (address < *end).then_some(*end)
    }

    /// A function has this stretch.
    pub fn claim(&mut self, start: u32, end: u32) {
        self.claimed.insert(start, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symbols tell entries and extents; what is claimed ends where it ends.
    #[test]
    fn extents() {
        let symbols = [(0x100, 0x140), (0x200, 0x200)];
        let mut entries = Entries::new(&symbols);
        assert!(entries.is_certain(0x200) && !entries.is_certain(0x120));
        assert_eq!(entries.symbol_to(0x13f), Some(0x140));
        assert_eq!(entries.symbol_to(0x140), None);
        assert_eq!(entries.symbol_to(0x200), None);
        entries.claim(0x300, 0x310);
        assert_eq!(entries.claimed_to(0x30f), Some(0x310));
        assert!(!entries.is_claimed(0x310) && !entries.is_claimed(0x2ff));
    }
}
