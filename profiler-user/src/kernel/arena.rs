//! Memory that both sides see: unwind tables and mappings, as words addressed by one index.
//!
//! It is made of equal chunks, inner maps of one map of maps, added as they are needed and written through
//! memory. Adding a chunk makes the kernel wait for all running programs (tens of milliseconds), writing
//! does not: so chunks are large, and what changes often is written beside the old and then pointed to.

use std::os::fd::AsFd as _;
use std::ptr::NonNull;

use aya::maps::{ArrayOfMaps, HashMap, MapData};
use profiler_ebpf::wire::{CHUNK_WORDS, MAX_CHUNKS, SpaceRef};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::KernelError;
use super::load::{Kernel, bytes_array, map_error, missing_map};

/// `BPF_MAP_TYPE_ARRAY`.
const ARRAY: u32 = 2;
/// `BPF_F_MMAPABLE` (kernel 5.5), as the kernel side declares its inner maps.
const MMAPABLE: u32 = 1 << 10;

/// The chunks added so far.
#[derive(Default)]
pub(super) struct Arena {
    chunks: Vec<Chunk>,
    /// First word never used; word 0 stands for "nothing".
    next: u32,
}

/// One chunk: an inner map, mapped.
struct Chunk {
    words: NonNull<u64>,
}

// SAFETY: the mapping belongs to this value alone; the kernel side only reads it.
unsafe impl Send for Chunk {}

impl Kernel {
    /// Takes `count` words that follow each other; `None` when all memory is used up.
    pub fn allocate(&mut self, count: u32) -> Result<Option<u32>, KernelError> {
        let start = self.arena.next.max(1);
        let Some(end) = start
            .checked_add(count)
            .filter(|end| *end <= CHUNK_WORDS * MAX_CHUNKS)
        else {
            return Ok(None);
        };
        while (self.arena.chunks.len() as u64) * u64::from(CHUNK_WORDS) < u64::from(end) {
            self.add_chunk()?;
        }
        self.arena.next = end;
        Ok(Some(start))
    }

    /// Has a whole chunk ready beyond what was taken, so that taking need not wait for the kernel.
    pub fn keep_ready(&mut self) -> Result<(), KernelError> {
        let wanted = u64::from(self.arena.next) + u64::from(CHUNK_WORDS);
        let chunks = self.arena.chunks.len() as u64;
        if chunks * u64::from(CHUNK_WORDS) < wanted && chunks < u64::from(MAX_CHUNKS) {
            self.add_chunk()?;
        }
        Ok(())
    }

    /// Writes words into memory that was taken.
    pub fn write_words(&mut self, start: u32, words: &[u64]) {
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

    /// Says where the mappings of a process lie.
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
