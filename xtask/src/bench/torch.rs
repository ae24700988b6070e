//! A Python with PyTorch, made once.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::command;

/// The version the figures in docs/performance.md were measured with.
const PACKAGE: &str = "torch==2.15.0";

/// Pythons that PyTorch has wheels for and whose frames are understood, best first.
const PYTHONS: [&str; 4] = ["python3.11", "python3.12", "python3.13", "python3.10"];

/// The interpreter of an environment with PyTorch from PyPI, in the user's cache; `None`, with the reason printed, where
/// it cannot be had.
pub fn python() -> Result<Option<PathBuf>> {
    let cache = env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
    let folder = cache
        .context("neither XDG_CACHE_HOME nor HOME is set")?
        .join("wholestack/torch");
    let python = folder.join("bin/python");
    if has_torch(&python) {
        return Ok(Some(python));
    }
    let Some(base) = PYTHONS.iter().find_map(|name| command::on_path(name)) else {
        println!("bench torch: skipped, no {} is on PATH", PYTHONS.join(", "));
        return Ok(None);
    };
    println!(
        "bench torch: installs {PACKAGE} from PyPI into {} (some GB)",
        folder.display()
    );
    let made = command::run(Command::new(base).args(["-m", "venv"]).arg(&folder)).and_then(|()| {
        let pip = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ];
        command::run(Command::new(&python).args(pip).args([PACKAGE, "numpy"]))
    });
    if let Err(error) = made {
        println!("bench torch: skipped, PyTorch cannot be installed: {error:#}");
        return Ok(None);
    }
    Ok(has_torch(&python).then_some(python))
}

fn has_torch(python: &PathBuf) -> bool {
    command::succeeds(Command::new(python).args(["-c", "import torch"]))
}
