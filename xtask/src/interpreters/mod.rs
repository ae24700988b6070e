//! `cargo xtask interpreters`: the Pythons that the tests profile, and those of other Debian releases fetched by their
//! packages' names, unpacked beside the system and never installed into it.

mod apt_state;
mod release;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{apt, command};
use release::{RELEASES, Release};

/// Versions whose frames are decoded; each should be there.
const MINORS: std::ops::RangeInclusive<u32> = 8..=14;

/// Fetches what can be had and lists what is there, and what is not, with the reason.
pub fn run() -> Result<()> {
    let mut rows: Vec<[String; 3]> = Vec::new();
    let place = folder()?;
    for release in RELEASES {
        let title = format!("Debian {}", release.suite);
        let outcome = match fetch(release, &place) {
            Ok(python) => python.display().to_string(),
            Err(error) => format!("absent: {error:#}"),
        };
        rows.push([release.version(), title, outcome]);
    }
    for minor in MINORS {
        for python in installed(minor) {
            rows.push([
                format!("3.{minor}"),
                "installed".to_owned(),
                python.display().to_string(),
            ]);
        }
        if !rows
            .iter()
            .any(|row| row[0] == format!("3.{minor}") && !row[2].starts_with("absent"))
        {
            let reason =
                format!("absent: no Debian release has it; `pyenv install 3.{minor}` builds it");
            rows.push([format!("3.{minor}"), String::new(), reason]);
        }
    }
    for [version, origin, outcome] in &rows {
        println!("{version:<5} {origin:<16} {outcome}");
    }
    Ok(())
}

/// Where fetched ones lie.
fn folder() -> Result<PathBuf> {
    let set = |name| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let cache = set("XDG_CACHE_HOME")
        .or_else(|| Some(set("HOME")?.join(".cache")))
        .context("neither XDG_CACHE_HOME nor HOME says where the cache is")?;
    Ok(cache.join("wholestack/interpreters"))
}

/// The installed ones of a minor version: the distribution's, and pyenv's.
fn installed(minor: u32) -> Vec<PathBuf> {
    let name = format!("python3.{minor}");
    let mut found: Vec<PathBuf> = [Path::new("/usr/bin").join(&name)].into();
    let root = env::var_os("PYENV_ROOT").map(PathBuf::from);
    let root = root.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".pyenv")));
    let versions = root.and_then(|root| fs::read_dir(root.join("versions")).ok());
    for version in versions.into_iter().flatten().flatten() {
        found.push(version.path().join("bin").join(&name));
    }
    found.retain(|path| path.is_file());
    found
}

/// A release's interpreter, unpacked if it is not there yet.
fn fetch(release: &Release, place: &Path) -> Result<PathBuf> {
    let root = place.join(format!("debian-{}-{}", release.suite, release.version()));
    let python = root
        .join("usr/bin")
        .join(format!("python{}", release.version()));
    let done = root.join(".complete");
    if done.is_file() {
        return Ok(python);
    }
    if !apt::is_debian() {
        bail!("this machine's packages are not Debian's");
    }
    if command::on_path("patchelf").is_none() {
        apt::install(&["patchelf"]).context("patchelf gives it its own C library")?;
    }
    if root.exists() {
        fs::remove_dir_all(&root).context("what an earlier try left cannot be removed")?;
    }
    let apt = place.join("apt").join(release.suite);
    let state = apt_state::prepare(release.suite, &apt)?;
    for file in state.download(&release.packages())? {
        command::output(Command::new("dpkg").arg("-x").arg(&file).arg(&root))?;
    }
    use_own_libraries(&python, &root)?;
    // It must run, and its own modules with it.
    let check = "import ctypes, hashlib, json, sqlite3, zlib";
    command::output(Command::new(&python).args(["-c", check]))?;
    fs::write(&done, "").context("cannot mark it as complete")?;
    fs::remove_dir_all(&apt).context("cannot remove what was downloaded")?;
    Ok(python)
}

/// Makes a program use the C library and the others that were unpacked with it: the host's may be too old.
fn use_own_libraries(program: &Path, root: &Path) -> Result<()> {
    const LOADER: &str = "ld-linux-x86-64.so.2";
    const LIBRARIES: &str = "lib/x86_64-linux-gnu";
    let loader = ["lib64", "usr/lib64", LIBRARIES]
        .map(|folder| root.join(folder).join(LOADER))
        .into_iter()
        .find(|file| file.exists())
        .context("its C library has no loader")?;
    let folders = ["usr/".to_owned() + LIBRARIES, LIBRARIES.to_owned()]
        .map(|folder| root.join(folder).display().to_string());
    command::output(
        Command::new("patchelf")
            .arg("--set-interpreter")
            .arg(loader)
            .args(["--force-rpath", "--set-rpath", &folders.join(":")])
            .arg(program),
    )?;
    Ok(())
}
