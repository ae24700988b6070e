//! Output files: checked before the work that fills them, complete or absent after it.
//!
//! A file is written under another name in the same directory and renamed when it is complete. So a full disk,
//! an error or a kill leaves no half file under the name the user chose, and an older file there as it was. A
//! recording under way is `NAME.partial` and stays when its writer dies; any other output is a hidden temporary
//! file and goes. Devices, pipes and stdout are written directly. This room knows no format.

mod error;
mod hidden;
mod owner;
mod partial;
mod target;

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::TempPath;

pub use error::OutputError;
pub use partial::partials;

use target::Target;

/// One output being written. Nothing appears under its name before [`OutputFile::commit`].
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    out: BufWriter<File>,
    place: Place,
    discarded: bool,
}

/// Where the bytes are meanwhile.
#[derive(Debug)]
enum Place {
    /// Where they belong.
    Final,
    /// In a hidden file that goes when it is dropped.
    Hidden(TempPath),
    /// In a recording under way, which stays if anything was written.
    Partial(PathBuf),
    /// Complete, under the final name.
    Committed,
}

impl OutputFile {
    /// Prepares an output that is worthless unless complete. Fails if the path could not be written.
    pub fn create(path: &Path) -> Result<Self, OutputError> {
        let directory = match target::examine(path)? {
            Target::Open(file) => return Ok(Self::new(path, file, Place::Final)),
            Target::New { directory } => directory,
        };
        let (hidden, file) = hidden::create(path, directory)?;
        owner::give_to_caller(&file);
        Ok(Self::new(path, file, Place::Hidden(hidden)))
    }

    /// Prepares a recording: what was written is readable at any time under [`OutputFile::working_path`], and
    /// stays there if this process dies or fails. Fails if the path could not be written.
    pub fn create_recording(path: &Path) -> Result<Self, OutputError> {
        if let Target::Open(file) = target::examine(path)? {
            return Ok(Self::new(path, file, Place::Final));
        }
        let (partial, file) = partial::create(path)?;
        owner::give_to_caller(&file);
        Ok(Self::new(path, file, Place::Partial(partial)))
    }

    fn new(path: &Path, file: File, place: Place) -> Self {
        let path = path.into();
        let out = BufWriter::new(file);
        Self {
            path,
            out,
            place,
            discarded: false,
        }
    }

    /// The name the user chose.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the bytes are until the commit.
    pub fn working_path(&self) -> &Path {
        match &self.place {
            Place::Hidden(hidden) => hidden,
            Place::Partial(partial) => partial,
            Place::Final | Place::Committed => &self.path,
        }
    }

    /// Brings everything to the disk and gives the file its name, in place of an older one.
    pub fn commit(mut self) -> Result<(), OutputError> {
        self.finish().map_err(|cause| self.error(cause))
    }

    /// Throws away what was written, also of a recording.
    pub fn discard(mut self) {
        self.discarded = true;
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.flush()?;
        let from = match &self.place {
            Place::Final | Place::Committed => return Ok(()),
            Place::Hidden(hidden) => hidden.to_path_buf(),
            Place::Partial(partial) => partial.clone(),
        };
        // Some file systems find out only here that the disk is full or the quota used up.
        self.out.get_ref().sync_data()?;
        fs::rename(from, &self.path)?;
        if let Place::Hidden(hidden) = std::mem::replace(&mut self.place, Place::Committed) {
            // Its name is gone; there is nothing left to remove.
            let _ = hidden.keep();
        }
        Ok(())
    }

    fn error(&self, cause: io::Error) -> OutputError {
        let path = self.path.clone();
        match &self.place {
            Place::Partial(partial) if self.holds_data() => OutputError::WritePartial {
                path,
                partial: partial.clone(),
                cause,
            },
            _ => OutputError::Write { path, cause },
        }
    }

    /// An error that names the file, whoever prints it.
    fn named(&self, cause: io::Error) -> io::Error {
        io::Error::new(cause.kind(), self.error(cause))
    }

    fn holds_data(&self) -> bool {
        let found = self.out.get_ref().metadata();
        found.is_ok_and(|found| found.len() > 0)
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes).map_err(|error| self.named(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush().map_err(|error| self.named(error))
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        let Place::Partial(partial) = &self.place else {
            return;
        };
        // What does not go out now is lost either way, and was reported by the write that failed.
        let _ = self.out.flush();
        if self.discarded || !self.holds_data() {
            // If it cannot be removed, a file with a telling name is left.
            let _ = fs::remove_file(partial);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
