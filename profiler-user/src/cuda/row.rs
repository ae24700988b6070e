//! One row of the catalogue: a family of exported functions that do the same and take the same arguments.

use profiler_ebpf::wire::{Cookie, bytes_at};

use crate::profile::CallClass;

/// Which library exports a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Library {
    /// `libcuda.so.1`.
    Driver,
    /// `libcudart.so.*`.
    Runtime,
}

/// Where the bytes that a call moves or takes stand among its arguments, which are counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bytes {
    /// It has no number of bytes, or one that no argument tells.
    None,
    /// In an argument of 64 bits.
    In(u8),
    /// In one of 32 bits.
    In32(u8),
    /// An argument counts units of 2 to this power bytes.
    Units(u8, u8),
    /// The same in 32 bits.
    Units32(u8, u8),
    /// Two arguments, multiplied.
    Area(u8, u8),
    /// Two arguments that count units of 2 to this power bytes.
    AreaUnits(u8, u8, u8),
    /// The same in 32 bits.
    AreaUnits32(u8, u8, u8),
    /// Width and height, words that lie side by side at this offset in the struct the first argument points to.
    Rectangle(u16),
    /// Width, height and depth.
    Box(u16),
}

/// A row: what every export of a family has in common.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The name without what tells its variants apart.
    pub name: &'static str,
    /// What is added to it in the exports that exist.
    pub suffixes: &'static [&'static str],
    /// What kind of work it is.
    pub class: CallClass,
    /// Its bytes.
    pub bytes: Bytes,
    /// 600, not ready, is one of its answers, not an error.
    pub may_be_not_ready: bool,
    /// It is probed also where the kernel puts probes on one by one, and takes a tenth of a second for each.
    pub common: bool,
}

/// A row of a function that may be left out where probes are dear.
pub const fn row(
    name: &'static str,
    suffixes: &'static [&'static str],
    class: CallClass,
    bytes: Bytes,
) -> Row {
    Row {
        name,
        suffixes,
        class,
        bytes,
        may_be_not_ready: false,
        common: false,
    }
}

impl Row {
    /// The same row, probed everywhere.
    pub const fn common(self) -> Self {
        Self {
            common: true,
            ..self
        }
    }

    /// The same row, for a function that asks.
    pub const fn may_be_not_ready(self) -> Self {
        Self {
            may_be_not_ready: true,
            ..self
        }
    }

    /// Which library has it.
    pub fn library(&self) -> Library {
        if self.name.trim_start_matches('_').starts_with("cuda") {
            Library::Runtime
        } else {
            Library::Driver
        }
    }

    /// What the kernel side has to know of its function number `function`.
    pub(super) fn cookie(&self, function: u16) -> Cookie {
        let words = match self.bytes {
            Bytes::None => 0,
            Bytes::In(argument) => place(bytes_at::ARGUMENT, argument, 0, 0),
            Bytes::In32(argument) => place(bytes_at::ARGUMENT, argument, 0, 0) | 1 << 30,
            Bytes::Units(argument, shift) => place(bytes_at::ARGUMENT, argument, 0, shift),
            Bytes::Units32(argument, shift) => {
                place(bytes_at::ARGUMENT, argument, 0, shift) | 1 << 30
            }
            Bytes::Area(width, height) => place(bytes_at::PRODUCT, width, height, 0),
            Bytes::AreaUnits(width, height, shift) => {
                place(bytes_at::PRODUCT, width, height, shift)
            }
            Bytes::AreaUnits32(width, height, shift) => {
                place(bytes_at::PRODUCT, width, height, shift) | 1 << 30
            }
            Bytes::Rectangle(offset) => bytes_at::STRUCT_2 << 16 | u64::from(offset) << 48,
            Bytes::Box(offset) => bytes_at::STRUCT_3 << 16 | u64::from(offset) << 48,
        };
        Cookie(u64::from(function) | words | u64::from(self.may_be_not_ready) << 31)
    }
}

fn place(kind: u64, first: u8, second: u8, shift: u8) -> u64 {
    kind << 16 | u64::from(first) << 20 | u64::from(second) << 24 | u64::from(shift) << 28
}
