//! Unwind tables and mappings in the kernel: exact-size maps, written through memory, set whole.
//!
//! A program that is using a map while another takes its slot keeps the old one until it ends: the kernel
//! frees it only then.

use std::os::fd::AsFd;

use aya::maps::{ArrayOfMaps, HashMap, MapData};
use bytemuck::{Pod, cast_slice};
use profiler_ebpf::wire::{SpaceEntry, SpaceRef};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::KernelError;
use super::load::{Kernel, bytes_array, map_error, missing_map};

/// `BPF_F_INNER_MAP | BPF_F_MMAPABLE`, as the kernel side declares its inner maps.
const INNER_FLAGS: u32 = 1 << 12 | 1 << 10;

impl Kernel {
    /// Puts an unwind table (page directory and rows) into a slot.
    pub fn set_table(&mut self, slot: u32, words: &[u64]) -> Result<(), KernelError> {
        self.set_inner("TABLES", slot, words)
    }

    /// Puts sorted mappings into a slot.
    pub fn set_space(&mut self, slot: u32, entries: &[SpaceEntry]) -> Result<(), KernelError> {
        self.set_inner("SPACES", slot, entries)
    }

    /// Says which slot holds the mappings of a process.
    pub fn bind_space(&mut self, pid: u32, space: SpaceRef) -> Result<(), KernelError> {
        let map = self
            .ebpf
            .map_mut("SPACE_OF")
            .ok_or_else(|| missing_map("SPACE_OF"))?;
        let mut map: HashMap<_, u32, [u8; size_of::<SpaceRef>()]> =
            HashMap::try_from(map).map_err(|error| map_error("SPACE_OF", &error))?;
        map.insert(pid, bytes_array(&space), 0)
            .map_err(|error| map_error("SPACE_OF", &error))
    }

    /// Takes that back.
    pub fn unbind_space(&mut self, pid: u32) {
        self.remove::<{ size_of::<SpaceRef>() }>("SPACE_OF", pid);
    }

    fn set_inner<T: Pod>(
        &mut self,
        name: &'static str,
        slot: u32,
        values: &[T],
    ) -> Result<(), KernelError> {
        let inner = filled(name, values)?;
        let map = self.ebpf.map_mut(name).ok_or_else(|| missing_map(name))?;
        let mut map: ArrayOfMaps<_, MapData> =
            ArrayOfMaps::try_from(map).map_err(|error| map_error(name, &error))?;
        map.set(slot, &inner, 0)
            .map_err(|error| map_error(name, &error))
    }
}

/// `BPF_MAP_TYPE_ARRAY`.
const ARRAY: u32 = 2;

/// A new map that holds exactly these values.
fn filled<T: Pod>(name: &'static str, values: &[T]) -> Result<MapData, KernelError> {
    let failed = |reason: String| KernelError::Map { map: name, reason };
    let count = u32::try_from(values.len().max(1)).map_err(|error| failed(error.to_string()))?;
    let value_bytes = u32::try_from(size_of::<T>()).map_err(|error| failed(error.to_string()))?;
    let definition = aya_obj::Map::new_from_params(ARRAY, 4, value_bytes, count, INNER_FLAGS);
    let inner =
        MapData::create(definition, "wholestack", None).map_err(|error| map_error(name, &error))?;
    let bytes: &[u8] = cast_slice(values);
    if bytes.is_empty() {
        return Ok(inner);
    }
    let fd = inner.fd().as_fd();
    // SAFETY: a new shared mapping of the map's values, at an address the kernel chooses; the kernel refuses
    // a length beyond the map's pages.
    let start = unsafe {
        mmap(
            std::ptr::null_mut(),
            bytes.len(),
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            fd,
            0,
        )
    };
    let start = start.map_err(|error| failed(error.to_string()))?;
    // SAFETY: the mapping is at least that long, ours alone, and not part of any Rust object. It is taken down
    // right after, exactly as it was made.
    let unmapped = unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), start.cast(), bytes.len());
        munmap(start, bytes.len())
    };
    unmapped.map_err(|error| failed(error.to_string()))?;
    Ok(inner)
}
