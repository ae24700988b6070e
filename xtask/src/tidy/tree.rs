//! The files under check, read once.

use std::cell::OnceCell;
use std::fs;

use anyhow::{Context, Result};

use super::code;
use crate::repo::Repo;

/// Every text file a commit would hold.
pub struct Tree {
    pub files: Vec<File>,
    /// Paths of all files, binary ones too.
    pub paths: Vec<String>,
}

/// A text file.
pub struct File {
    /// Relative to the root.
    pub path: String,
    pub text: String,
    code: OnceCell<String>,
}

impl Tree {
    /// Reads the checkout's files; what is not UTF-8 is no text.
    pub fn read(repo: &Repo) -> Result<Self> {
        let mut files = Vec::new();
        let paths = repo.files()?;
        for path in &paths {
            let bytes = fs::read(repo.path(path)).with_context(|| format!("cannot read {path}"))?;
            if let Ok(text) = String::from_utf8(bytes) {
                files.push(File::new(path, &text));
            }
        }
        Ok(Self { files, paths })
    }

    /// The Rust files.
    pub fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.extension() == "rs")
    }

    /// One file by its path.
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// A tree for tests.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let paths = files.iter().map(|(path, _)| (*path).to_owned()).collect();
        Self {
            files: files
                .iter()
                .map(|(path, text)| File::new(path, text))
                .collect(),
            paths,
        }
    }
}

impl File {
    fn new(path: &str, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            code: OnceCell::new(),
        }
    }

    /// What follows the last dot of the name; empty without one.
    pub fn extension(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        name.rsplit_once('.').map_or("", |(_, extension)| extension)
    }

    /// The Rust code alone: comments and literals blanked, every line where it was.
    pub fn code(&self) -> &str {
        self.code.get_or_init(|| code::only(&self.text))
    }

    /// Whether the file is one of these, or in one of these folders (those end in `/`).
    pub fn is_in<S: AsRef<str>>(&self, places: &[S]) -> bool {
        places.iter().map(AsRef::as_ref).any(|place| {
            self.path == place || (place.ends_with('/') && self.path.starts_with(place))
        })
    }
}
