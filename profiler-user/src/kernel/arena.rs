//! Memory that both sides see: unwind tables and mappings, as words addressed by one index.
//!
//! It is made of equal chunks, inner maps of one map of maps, added as they are needed and written through
//! memory. Adding a chunk makes the kernel wait for all running programs (tens of milliseconds), writing
//! does not: so chunks are large, and what changes often is written beside the old and then pointed to. Words that
//! are given back are given out again; a chunk stays.

use std::os::fd::AsFd as _;
use std::ptr::NonNull;

use aya::maps::{ArrayOfMaps, HashMap, MapData};
use profiler_ebpf::wire::{CHUNK_WORDS, MAX_CHUNKS, SpaceRef};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::KernelError;
use super::load::{Kernel, bytes_array, map_error, missing_map};
use super::words::Words;

/// `BPF_MAP_TYPE_ARRAY`.
const ARRAY: u32 = 2;
/// `BPF_F_MMAPABLE` (kernel 5.5), as the kernel side declares its inner maps.
const MMAPABLE: u32 = 1 << 10;

/// The chunks added so far, and which of their words are taken.
pub(super) struct Arena {
    chunks: Vec<Chunk>,
    words: Words,
}

impl Default for Arena {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            // Word 0 stands for "nothing".
            words: Words::new(1, CHUNK_WORDS * MAX_CHUNKS),
        }
    }
}

/// The memory as those see it who fill it: the kernel's, or a stand-in for tests.
pub trait SharedMemory {
    /// Takes `count` words that follow each other; `None` when there is no room.
    fn allocate(&mut self, count: u32) -> Result<Option<u32>, KernelError>;
    /// Gives words back that were taken. Nothing may lead to them any more.
    fn free(&mut self, start: u32, count: u32);
    /// Writes words into memory that was taken.
    fn write_words(&mut self, start: u32, words: &[u64]);
    /// Says where the mappings of a process lie.
    fn bind_space(&mut self, pid: u32, space: SpaceRef) -> Result<(), KernelError>;
    /// Takes that back.
    fn unbind_space(&mut self, pid: u32);
    /// What was said of all processes, and what children took over from their parents.
    fn bound_spaces(&self) -> Result<Vec<(u32, SpaceRef)>, KernelError>;
}

/// One chunk: an inner map, mapped.
struct Chunk {
    words: NonNull<u64>,
}

// SAFETY: the mapping belongs to this value alone; the kernel side only reads it.
unsafe impl Send for Chunk {}

impl SharedMemory for Kernel {
    fn allocate(&mut self, count: u32) -> Result<Option<u32>, KernelError> {
        let Some(start) = self.arena.words.take(count) else {
            return Ok(None);
        };
        let end = u64::from(self.arena.words.end());
        while (self.arena.chunks.len() as u64) * u64::from(CHUNK_WORDS) < end {
            if let Err(error) = self.add_chunk() {
                self.arena.words.give_back(start, count);
                return Err(error);
            }
        }
        Ok(Some(start))
    }

    fn free(&mut self, start: u32, count: u32) {
        self.arena.words.give_back(start, count);
    }

    fn write_words(&mut self, start: u32, words: &[u64]) {
        for (at, word) in (start..).zip(words) {
            if let Some(chunk) = self.arena.chunks.get((at / CHUNK_WORDS) as usize) {
                // SAFETY: the index lies within the chunk, whose mapping lasts as long as it. The kernel side may
                // read meanwhile: it finds the old word or the new one.
                unsafe {
                    chunk
                        .words
                        .add((at % CHUNK_WORDS) as usize)
                        .write_volatile(*word)
                };
            }
        }
    }

    fn bind_space(&mut self, pid: u32, space: SpaceRef) -> Result<(), KernelError> {
        let map = self
            .ebpf
            .map_mut("SPACE_OF")
            .ok_or_else(|| missing_map("SPACE_OF"))?;
        let mut map: HashMap<_, u32, [u8; size_of::<SpaceRef>()]> =
            HashMap::try_from(map).map_err(|error| map_error("SPACE_OF", &error))?;
        map.insert(pid, bytes_array(&space), 0)
            .map_err(|error| map_error("SPACE_OF", &error))
    }

    fn unbind_space(&mut self, pid: u32) {
        self.remove::<{ size_of::<SpaceRef>() }>("SPACE_OF", pid);
    }

    fn bound_spaces(&self) -> Result<Vec<(u32, SpaceRef)>, KernelError> {
        let map = self
            .ebpf
            .map("SPACE_OF")
            .ok_or_else(|| missing_map("SPACE_OF"))?;
        let map: HashMap<_, u32, [u8; size_of::<SpaceRef>()]> =
            HashMap::try_from(map).map_err(|error| map_error("SPACE_OF", &error))?;
        map.iter()
            .map(|entry| {
                let (pid, space) = entry.map_err(|error| map_error("SPACE_OF", &error))?;
                Ok((pid, bytemuck::pod_read_unaligned(&space)))
            })
            .collect()
    }
}

impl Kernel {
    /// Has a whole chunk ready beyond what was taken, so that taking need not wait for the kernel.
    pub fn keep_ready(&mut self) -> Result<(), KernelError> {
        let wanted = u64::from(self.arena.words.end()) + u64::from(CHUNK_WORDS);
        let chunks = self.arena.chunks.len() as u64;
        if chunks * u64::from(CHUNK_WORDS) < wanted && chunks < u64::from(MAX_CHUNKS) {
            self.add_chunk()?;
        }
        Ok(())
    }

    fn add_chunk(&mut self) -> Result<(), KernelError> {
        let failed = |error: &dyn std::error::Error| map_error("MEMORY", error);
        let definition = aya_obj::Map::new_from_params(ARRAY, 4, 8, CHUNK_WORDS, MMAPABLE);
        let inner =
            MapData::create(definition, "wholestack", None).map_err(|error| failed(&error))?;
        let chunk = Chunk::map(&inner).map_err(|error| failed(&error))?;
        let map = self
            .ebpf
            .map_mut("MEMORY")
            .ok_or_else(|| missing_map("MEMORY"))?;
        let mut map: ArrayOfMaps<_, MapData> =
            ArrayOfMaps::try_from(map).map_err(|error| failed(&error))?;
        let index = u32::try_from(self.arena.chunks.len()).unwrap_or(u32::MAX);
        map.set(index, &inner, 0).map_err(|error| failed(&error))?;
        self.arena.chunks.push(chunk);
        Ok(())
    }
}

impl Chunk {
    fn map(inner: &MapData) -> rustix::io::Result<Self> {
        // SAFETY: a new shared mapping of the map's values, at an address the kernel chooses.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                chunk_bytes(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                inner.fd().as_fd(),
                0,
            )
        }?;
        let words = NonNull::new(start.cast()).ok_or(rustix::io::Errno::NOMEM)?;
        Ok(Self { words })
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `map`; nothing borrows from it any more.
        let unmapped = unsafe { munmap(self.words.as_ptr().cast(), chunk_bytes()) };
        debug_assert!(unmapped.is_ok());
    }
}

fn chunk_bytes() -> usize {
    8 * CHUNK_WORDS as usize
}
