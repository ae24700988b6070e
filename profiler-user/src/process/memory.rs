//! Reading another process's memory without stopping it.

use std::io::IoSliceMut;

use bytemuck::AnyBitPattern;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

/// Memory of a live process. What is read may change meanwhile: nothing in it can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TargetMemory {
    pid: Pid,
}

impl TargetMemory {
    /// The memory of a process.
    pub fn new(pid: u32) -> Self {
        Self {
            pid: Pid::from_raw(i32::try_from(pid).unwrap_or(0)),
        }
    }

    /// Fills `buffer` from `address`; false if not all of it could be read.
    pub fn read_into(&self, address: u64, buffer: &mut [u8]) -> bool {
        let Ok(base) = usize::try_from(address) else {
            return false;
        };
        let length = buffer.len();
        if base.checked_add(length).is_none() {
            return false;
        }
        let mut local = [IoSliceMut::new(buffer)];
        process_vm_readv(self.pid, &mut local, &[RemoteIoVec { base, len: length }]) == Ok(length)
    }

    /// A value at an address.
    pub fn read<T: AnyBitPattern>(&self, address: u64) -> Option<T> {
        let mut bytes = vec![0; size_of::<T>()];
        self.read_into(address, &mut bytes)
            .then(|| bytemuck::pod_read_unaligned(&bytes))
    }

    /// `length` bytes at an address, if that is at most `limit`.
    pub fn read_bytes(&self, address: u64, length: u64, limit: usize) -> Option<Vec<u8>> {
        let length = usize::try_from(length)
            .ok()
            .filter(|length| *length <= limit)?;
        let mut bytes = vec![0; length];
        self.read_into(address, &mut bytes).then_some(bytes)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Our own memory reads right; what is not mapped reads as nothing.
    #[test]
    fn reads_memory() {
        let memory = TargetMemory::new(std::process::id());
        let value = 0x1234_5678_9abc_def0_u64;
        assert_eq!(memory.read::<u64>(&raw const value as u64), Some(value));
        assert_eq!(memory.read::<u64>(8), None);
        assert_eq!(memory.read::<u64>(u64::MAX - 2), None);
        assert_eq!(memory.read_bytes(&raw const value as u64, 8, 7), None);
    }
}
