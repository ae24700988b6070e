//! apt for another release than the host's, with a state of its own: what apt knows of the host is not touched.
//!
//! Where packages come from is what the host's own sources say.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command;

/// Where the host says its packages come from: one file a source, or the older single file.
const SOURCES: [&str; 2] = ["/etc/apt/sources.list.d", "/etc/apt/sources.list"];
/// Debian's own keys.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// A state that knows a release's packages.
pub struct AptState {
    configuration: PathBuf,
    downloads: PathBuf,
}

/// Makes the state in this folder, and has apt read the release's lists of packages.
pub fn prepare(suite: &str, folder: &Path) -> Result<AptState> {
    let at = |name: &str| folder.join(name);
    for name in [
        "state/lists/partial",
        "cache/archives/partial",
        "etc",
        "preferences",
        "downloads",
    ] {
        fs::create_dir_all(at(name))
            .with_context(|| format!("cannot make {}", at(name).display()))?;
    }
    let archive = host_archive()?;
    let source = format!(
        "Types: deb\nURIs: {archive}\nSuites: {suite}\nComponents: main\nSigned-By: {KEYRING}\n"
    );
    write(&at("etc/release.sources"), &source)?;
    write(&at("state/status"), "")?;
    let configuration = at("apt.conf");
    write(&configuration, &settings(folder))?;
    let state = AptState {
        configuration,
        downloads: at("downloads"),
    };
    command::output(state.apt("apt-get").args(["-q", "update"]))?;
    Ok(state)
}

impl AptState {
    /// Downloads those of the packages that the release has, and gives their files.
    pub fn download(&self, packages: &[String]) -> Result<Vec<PathBuf>> {
        let known: Vec<&String> = packages.iter().filter(|name| self.has(name)).collect();
        if known.is_empty() {
            bail!("the release has none of {}", packages.join(", "));
        }
        for file in files(&self.downloads)? {
            fs::remove_file(file).context("cannot remove an earlier download")?;
        }
        let mut download = self.apt("apt-get");
        download.args(["-q", "download"]).args(known);
        command::output(download.current_dir(&self.downloads))?;
        files(&self.downloads)
    }

    /// Whether there is a package of that name, and not just one that stands in for it.
    fn has(&self, package: &str) -> bool {
        let shown = command::output(self.apt("apt-cache").arg("show").arg(package));
        let line = format!("Package: {package}");
        shown.is_ok_and(|text| text.lines().any(|shown| shown == line))
    }

    fn apt(&self, program: &str) -> Command {
        let mut apt = Command::new(program);
        apt.arg("-c").arg(&self.configuration);
        apt
    }
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).context("cannot read the folder of downloads")?;
    entries
        .map(|entry| Ok(entry.context("cannot read the folder of downloads")?.path()))
        .collect()
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// apt's settings for a state in this folder, and for nothing of the host's.
fn settings(folder: &Path) -> String {
    let folder = folder.display();
    [
        format!("Dir::State \"{folder}/state\";"),
        format!("Dir::State::status \"{folder}/state/status\";"),
        format!("Dir::Cache \"{folder}/cache\";"),
        "Dir::Etc::sourcelist \"/dev/null\";".to_owned(),
        format!("Dir::Etc::sourceparts \"{folder}/etc\";"),
        "Dir::Etc::preferences \"/dev/null\";".to_owned(),
        format!("Dir::Etc::preferencesparts \"{folder}/preferences\";"),
        "APT::Sandbox::User \"root\";".to_owned(),
        "Acquire::Languages \"none\";\n".to_owned(),
    ]
    .join("\n")
}

/// The address that the host gets its packages from.
fn host_archive() -> Result<String> {
    let mut texts = Vec::new();
    for source in SOURCES.map(Path::new) {
        let listed = fs::read_dir(source).map(|entries| {
            let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
            paths.sort();
            paths
        });
        for path in listed.unwrap_or_else(|_| vec![source.to_owned()]) {
            texts.extend(fs::read_to_string(path));
        }
    }
    texts
        .iter()
        .find_map(|text| archive_in(text))
        .context("the host's sources of packages name no archive")
}

/// The first archive in sources of either form, that of security updates left out.
fn archive_in(sources: &str) -> Option<String> {
    sources.lines().find_map(|line| {
        let line = line.trim();
        let words: Vec<&str> = match line.strip_prefix("URIs:") {
            Some(addresses) => addresses.split_whitespace().collect(),
            None => line.strip_prefix("deb ")?.split_whitespace().collect(),
        };
        let address = words
            .iter()
            .find(|word| word.contains("://") && !word.contains("security"))?;
        Some((*address).to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both forms of sources are understood.
    #[test]
    fn archives_are_found() {
        let found = |text: &str| archive_in(text);
        let new = "Types: deb\nURIs: cdrom://a/debian\nSuites: b\n";
        assert_eq!(found(new).as_deref(), Some("cdrom://a/debian"));
        let old = "# deb x\ndeb [signed-by=/k.gpg] cdrom://a/debian-security b\ndeb cdrom://a/debian b main\n";
        assert_eq!(found(old).as_deref(), Some("cdrom://a/debian"));
        assert_eq!(found("nothing"), None);
    }
}
