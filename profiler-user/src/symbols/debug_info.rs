//! Where the debug information of each file is: in the file itself, or in a file of its own.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use crate::process::{DebugReference, ElfLoad, FileId, TargetRoot};

/// Debug files kept open. They stay so: blazesym knows them by the path of their descriptor.
const MAX_OPEN: usize = 4096;

/// What was found out of each file.
#[derive(Debug, Default)]
pub(super) struct DebugInfo {
    files: FxHashMap<FileId, Found>,
    open: usize,
    /// Debug files left out since there are too many.
    pub over_limit: u64,
}

/// What was found out of one file.
#[derive(Debug)]
struct Found {
    reference: DebugReference,
    /// Whether it was looked for.
    looked: bool,
    apart: Option<Apart>,
}

/// A debug file.
#[derive(Debug)]
struct Apart {
    /// Keeps `path` what it is.
    _file: File,
    path: PathBuf,
    /// How the file it is of is loaded.
    load: ElfLoad,
}

impl DebugInfo {
    /// Looks for a file's debug file, once, in the root of a process that maps the file at `path`.
    pub fn look(
        &mut self,
        id: FileId,
        file: &File,
        path: &[u8],
        root: impl FnOnce() -> Option<TargetRoot>,
    ) {
        let found = self.files.entry(id).or_insert_with(|| Found {
            reference: DebugReference::of(file),
            looked: false,
            apart: None,
        });
        if found.looked {
            return;
        }
        // A process that is gone leaves the look to the next one.
        let Some(root) = root() else { return };
        found.looked = true;
        let Some(debug) = found.reference.find(&root, path) else {
            return;
        };
        if self.open >= MAX_OPEN {
            self.over_limit += 1;
            return;
        }
        self.open += 1;
        found.apart = ElfLoad::read(file).map(|load| Apart {
            path: format!("/proc/self/fd/{}", debug.as_raw_fd()).into(),
            _file: debug,
            load,
        });
    }

    /// The debug file of a file, and the address in it of an offset in the file.
    pub fn apart(&self, id: FileId, offset: u64) -> Option<(&Path, u64)> {
        let apart = self.files.get(&id)?.apart.as_ref()?;
        Some((&apart.path, apart.load.code_address(offset)?))
    }

    /// Whether a file says that its debug information is elsewhere.
    pub fn has_link(&self, id: FileId) -> bool {
        let found = self.files.get(&id);
        found.is_some_and(|found| found.reference.has_link())
    }
}
