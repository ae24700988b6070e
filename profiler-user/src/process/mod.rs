//! Processes, their mappings, and the files behind them: what a program counter means, and when.
//!
//! Fed by the kernel's process records in order of time, with `/proc` for what was there before. Files
//! are opened when first seen mapped and kept open, so that a process that is gone can still be named.

mod address_space;
mod debug_file;
mod elf_load;
mod files;
mod in_root;
mod memory;
mod perf_map;
mod proc_fs;
mod table;

pub use address_space::{AddressSpace, Mapping};
pub use debug_file::DebugReference;
pub use elf_load::ElfLoad;
pub use files::{FileId, FileKey, FileTable, MappedFile};
pub use in_root::TargetRoot;
pub use memory::TargetMemory;
pub use perf_map::{PerfMapFile, PerfMapVersion, open_perf_map};
pub use proc_fs::{
    all_pids, children_of, executable_mappings, exists, has_ended, thread_ids, thread_runtime_ns,
};
pub use table::{ProcessState, ProcessTable};
