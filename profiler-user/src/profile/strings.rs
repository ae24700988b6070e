//! Interned text.

use indexmap::IndexSet;

/// Index of a text in [`Strings`]. Id 0 is always the empty text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct StringId(pub u32);

/// A set of texts, each stored once, addressed by [`StringId`] in order of insertion.
#[derive(Debug, Clone)]
pub struct Strings(IndexSet<Box<str>>);

impl Default for Strings {
    fn default() -> Self {
        Self(IndexSet::from([Box::from("")]))
    }
}

impl Strings {
    /// The id of `text`, added if it is new.
    pub fn intern(&mut self, text: &str) -> StringId {
        let index = match self.0.get_index_of(text) {
            Some(index) => index,
            None => self.0.insert_full(text.into()).0,
        };
        StringId(super::index_u32(index))
    }

    /// The text behind an id; the empty text for an id that was never given out.
    pub fn get(&self, id: StringId) -> &str {
        self.0.get_index(id.0 as usize).map_or("", |text| text)
    }

    /// How many texts there are, the empty one included.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether only the empty text is there.
    pub fn is_empty(&self) -> bool {
        self.0.len() <= 1
    }

    /// All texts in id order, the empty one first.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|text| &**text)
    }
}
