//! A made-up stack on which every word is different, so that each place a value can come from shows.

use bytemuck::AnyBitPattern;
use profiler_ebpf::memory::UserMemory;
use profiler_ebpf::unwind::Registers;

/// Where code is loaded.
pub const BIAS: u64 = 0x5500_0000_0000;

/// Memory that holds at each address a word made from the address: aligned where the address is, above every
/// stack pointer the tests use, never twice the same.
pub struct MadeUp;

impl MadeUp {
    /// The word at an address.
    pub fn word(address: u64) -> u64 {
        (7 << 44) + (address.wrapping_mul(5) & ((1 << 43) - 1))
    }
}

impl UserMemory for MadeUp {
    fn read<T: AnyBitPattern>(&self, address: u64) -> Option<T> {
        let words = (address..address + size_of::<T>() as u64).step_by(8);
        let bytes: Vec<u8> = words.flat_map(|at| Self::word(at).to_le_bytes()).collect();
        Some(bytemuck::pod_read_unaligned(&bytes[..size_of::<T>()]))
    }
}

/// Registers at an address in the file.
pub fn registers(address: u64) -> Registers {
    let sp = 0x1000_0010_0000;
    Registers {
        pc: BIAS.wrapping_add(address),
        sp,
        fp: sp + 0x10_0040,
    }
}
