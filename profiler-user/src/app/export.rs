//! `wholestack export`.

use std::path::{Path, PathBuf};

use wholestack::evidence::OwnCode;
use wholestack::export::{Exporter, exporter_for};
use wholestack::output::OutputFile;
use wholestack::profile::Profile;
use wholestack::recording::{self, Window};

use super::Failure;

/// An output that is filled once the profile is there.
pub struct Export {
    exporter: Box<dyn Exporter>,
    file: OutputFile,
}

impl Export {
    /// Checks format and path before any work is done.
    pub fn prepare(path: &Path, own: &[String]) -> Result<Self, Failure> {
        let exporter = exporter_for(path, &OwnCode::matching(own.to_vec()))?;
        Ok(Self {
            exporter,
            file: OutputFile::create(path)?,
        })
    }

    /// Writes the profile.
    pub fn write(mut self, profile: &Profile) -> Result<(), Failure> {
        let path = self.file.path().to_owned();
        self.exporter
            .write(profile, &mut self.file)
            .map_err(|error| {
                Failure::output(anyhow::Error::new(error).context(path.display().to_string()))
            })?;
        self.file.commit()?;
        eprintln!("wholestack: wrote {}", path.display());
        Ok(())
    }
}

/// Writes a recording in other formats.
pub fn export(file: &Path, outputs: &[PathBuf], own: &[String]) -> Result<(), Failure> {
    let exports = outputs
        .iter()
        .map(|path| Export::prepare(path, own))
        .collect::<Result<Vec<_>, _>>()?;
    let profile = recording::load(file, Window::ALL)?;
    // One output that fails takes nothing from the others.
    let mut failure = None;
    for export in exports {
        if let Err(error) = export.write(&profile) {
            failure.get_or_insert(error);
        }
    }
    failure.map_or(Ok(()), Err)
}
