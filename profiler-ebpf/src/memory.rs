//! Reading a target's memory, as the walkers see it.

use bytemuck::AnyBitPattern;

/// Memory of the sampled program. Reads never fault pages in and never block.
pub trait UserMemory {
    /// The value at `address`, or `None` if any of its bytes is not present and readable.
    fn read<T: AnyBitPattern>(&self, address: u64) -> Option<T>;
}

/// First address that can hold user code or data on x86-64 Linux: the first page is never mapped.
pub const LOWEST_USER_ADDRESS: u64 = 0x1000;

/// One past the last user address with four-level page tables (`TASK_SIZE_MAX`,
/// arch/x86/include/asm/page_64.h).
pub const USER_ADDRESS_END: u64 = 0x7fff_ffff_f000;

/// Whether `address` can lie in user space.
#[inline(always)]
pub fn is_user_address(address: u64) -> bool {
    (LOWEST_USER_ADDRESS..USER_ADDRESS_END).contains(&address)
}

#[cfg(test)]
pub(crate) mod fake {
    use super::*;
    use std::collections::BTreeMap;

    /// A few 8-byte words at chosen addresses; everything else is not present.
    #[derive(Default)]
    pub struct FakeMemory(pub BTreeMap<u64, u64>);

    impl FakeMemory {
        /// Puts a word at an aligned address.
        pub fn put(&mut self, address: u64, word: u64) {
            assert_eq!(address % 8, 0);
            self.0.insert(address, word);
        }

        /// Puts a 32-bit value, leaving its neighbour in the word alone.
        pub fn put_u32(&mut self, address: u64, value: u32) {
            let word = self.0.entry(address & !7).or_insert(0);
            let shift = (address & 4) * 8;
            *word = (*word & !(0xffff_ffff << shift)) | (u64::from(value) << shift);
        }
    }

    impl UserMemory for FakeMemory {
        fn read<T: AnyBitPattern>(&self, address: u64) -> Option<T> {
            let bytes: Vec<u8> = (address..address + size_of::<T>() as u64)
                .map(|at| Some(self.0.get(&(at & !7))?.to_le_bytes()[(at & 7) as usize]))
                .collect::<Option<_>>()?;
            Some(bytemuck::pod_read_unaligned(&bytes))
        }
    }
}
