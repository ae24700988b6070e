//! Where `threading`'s own name of a thread lies: offsets from the runtime's state down to a thread object's attributes.

/// Where an object keeps its attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attributes {
    /// In a dict; the type has at this offset where in the object the pointer to it is (up to 3.10).
    DictOffset(u64),
    /// In place: a pointer to the values lies 32 bytes before the object, the dict's 24 before (3.11).
    BeforeObject {
        /// Offset in the type of the keys its objects share.
        cached_keys: u64,
    },
    /// A pointer 24 bytes before the object is the dict's or, less one, the values' (3.12).
    TaggedBeforeObject {
        /// Offset in the type of the keys its objects share.
        cached_keys: u64,
    },
    /// The values follow the object while they are valid; the dict's pointer lies 24 bytes before it (3.13 on).
    BehindObject {
        /// Offset in the type of the keys its objects share.
        cached_keys: u64,
    },
}

/// The form of a dict's key table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    /// A head of five words: size at 8, entries at 32 (up to 3.10).
    WithLookup,
    /// A head of four: log2 of the index's bytes at 9, kind at 10, entries at 24 (3.11 on).
    WithKind,
}

/// Offsets on the way to a thread's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ThreadLayout {
    /// In `_PyRuntime`: the first interpreter.
    pub interpreters: u64,
    /// In an interpreter: its first thread state.
    pub interpreter_threads: u64,
    /// In a thread state: the kernel's id of the thread; `None` before 3.11.
    pub state_native_id: Option<u64>,
    /// In a frame: its first local.
    pub frame_first_local: u64,
    /// How a thread object keeps its attributes.
    pub attributes: Attributes,
    /// Their names.
    pub keys: Keys,
}
