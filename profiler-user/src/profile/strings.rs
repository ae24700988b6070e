//! Interned text.

use indexmap::IndexSet;

/// Index of a text in [`Strings`]. Id 0 is always the empty text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct StringId(pub u32);

/// Bytes of text kept; of further ones only that they are missing. Names come from outside.
const MAX_BYTES: usize = 512 << 20;

/// Stands for a text that was not kept.
const NOT_KEPT: &str = "[text not kept]";

/// A set of texts, each stored once, addressed by [`StringId`] in order of insertion.
#[derive(Debug, Clone)]
pub struct Strings {
    set: IndexSet<Box<str>>,
    bytes: usize,
}

impl Default for Strings {
    fn default() -> Self {
        Self {
            set: IndexSet::from([Box::from("")]),
            bytes: 0,
        }
    }
}

impl Strings {
    /// The id of `text`, added if it is new.
    pub fn intern(&mut self, text: &str) -> StringId {
        if let Some(index) = self.set.get_index_of(text) {
            return StringId(super::index_u32(index));
        }
        let full = self.bytes.saturating_add(text.len()) > MAX_BYTES;
        let text = if full { NOT_KEPT } else { text };
        let (index, new) = self.set.insert_full(text.into());
        self.bytes += if new { text.len() } else { 0 };
        StringId(super::index_u32(index))
    }

    /// The text behind an id; the empty text for an id that was never given out.
    pub fn get(&self, id: StringId) -> &str {
        self.set.get_index(id.0 as usize).map_or("", |text| text)
    }

    /// How many texts there are, the empty one included.
    pub fn len(&self) -> usize {
        self.set.len()
    }

    /// Whether only the empty text is there.
    pub fn is_empty(&self) -> bool {
        self.set.len() <= 1
    }

    /// All texts in id order, the empty one first.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.set.iter().map(|text| &**text)
    }
}
