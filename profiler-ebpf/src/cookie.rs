//! What each probe carries across the kernel boundary. Changing it is a change of [`crate::wire`].

/// What a probe says of its function, in the 64 bits that the kernel keeps with each probe (the attach cookie):
///
/// | bits | what |
/// |---|---|
/// | 0-15 | catalogue id |
/// | 16-18 | where the bytes that a call moves stand: a kind of [`bytes_at`] |
/// | 20-23, 24-27 | the arguments meant, counted from 0; the second only for [`bytes_at::PRODUCT`] |
/// | 28-29 | log2 of what one unit is in bytes |
/// | 30 | the arguments are 32 bits wide |
/// | 31 | [`NOT_READY`] is an answer, not an error |
/// | 48-63 | for a struct: offset of the first factor |
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cookie(pub u64);

/// Kinds of places of a byte count.
pub mod bytes_at {
    /// The call has none.
    pub const NONE: u64 = 0;
    /// One argument.
    pub const ARGUMENT: u64 = 1;
    /// Two arguments, multiplied.
    pub const PRODUCT: u64 = 2;
    /// Two words that lie side by side in the struct an argument points to, multiplied.
    pub const STRUCT_2: u64 = 3;
    /// Three such words.
    pub const STRUCT_3: u64 = 4;
}

/// `CUDA_ERROR_NOT_READY`, and `cudaErrorNotReady`.
pub const NOT_READY: u32 = 600;

/// The most bytes one call is believed to move; more is taken as an argument that means something else.
pub const MAX_CALL_BYTES: u64 = 1 << 48;
/// The most bytes that are added up for one [`crate::wire::CallKey`].
pub const MAX_SUM_BYTES: u64 = 1 << 59;

impl Cookie {
    /// The function.
    pub fn function(self) -> u32 {
        (self.0 & 0xffff) as u32
    }

    /// Where its byte count stands: a kind of [`bytes_at`].
    pub fn bytes_at(self) -> u64 {
        self.0 >> 16 & 7
    }

    /// The first argument meant.
    pub fn first(self) -> u64 {
        self.0 >> 20 & 15
    }

    /// The second.
    pub fn second(self) -> u64 {
        self.0 >> 24 & 15
    }

    /// log2 of a unit.
    pub fn shift(self) -> u64 {
        self.0 >> 28 & 3
    }

    /// Whether the arguments are 32 bits wide.
    pub fn narrow(self) -> bool {
        self.0 >> 30 & 1 != 0
    }

    /// Whether [`NOT_READY`] is no error.
    pub fn may_be_not_ready(self) -> bool {
        self.0 >> 31 & 1 != 0
    }

    /// Offset of a struct's first factor.
    pub fn offset(self) -> u64 {
        self.0 >> 48
    }
}
