//! Skipped tests: each says so in a file, none goes unnoticed.
//!
//! A test that cannot run appends one line, `test name: reason`, to the file that WHOLESTACK_SKIPS names. To libtest it
//! has passed; here it is counted and shown. In CI a skip is a failure, unless WHOLESTACK_ALLOW_SKIP is set.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::repo::Repo;

/// The file that collects this run's skips.
#[derive(Debug)]
pub struct Skips {
    file: PathBuf,
}

impl Skips {
    /// Begins with an empty file.
    pub fn start(repo: &Repo) -> Result<Self> {
        let folder = repo.target().join("xtask");
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let file = folder.join("skips.txt");
        fs::write(&file, "").with_context(|| format!("cannot write {}", file.display()))?;
        Ok(Self { file })
    }

    /// For WHOLESTACK_SKIPS.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The lines so far.
    pub fn read(&self) -> Result<Vec<String>> {
        let text = fs::read_to_string(&self.file)
            .with_context(|| format!("cannot read {}", self.file.display()))?;
        Ok(text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect())
    }
}

/// Fails where skipping is not allowed.
pub fn judge(skipped: &[String]) -> Result<()> {
    let strict = is_strict(
        env::var("CI").ok().as_deref(),
        env::var_os("WHOLESTACK_ALLOW_SKIP").is_some(),
    );
    if strict && !skipped.is_empty() {
        bail!("in CI no test may be skipped (set WHOLESTACK_ALLOW_SKIP=1 to allow it)");
    }
    Ok(())
}

fn is_strict(ci: Option<&str>, allowed: bool) -> bool {
    ci == Some("true") && !allowed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Skips fail a CI run, and only that.
    #[test]
    fn strict_in_ci_only() {
        assert!(is_strict(Some("true"), false));
        assert!(!is_strict(Some("true"), true));
        assert!(!is_strict(None, false));
        assert!(!is_strict(Some("false"), false));
    }
}
