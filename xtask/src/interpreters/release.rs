//! Which Debian release has which Python, in which packages.

/// A Python of a Debian release.
pub struct Release {
    /// The release.
    pub suite: &'static str,
    minor: u32,
}

/// Those that pyenv's or the host's do not stand for: other C libraries, all in one stripped file, newer than any of
/// theirs.
pub const RELEASES: &[Release] = &[
    Release {
        suite: "bullseye",
        minor: 9,
    },
    Release {
        suite: "trixie",
        minor: 13,
    },
    Release {
        suite: "forky",
        minor: 14,
    },
];

/// Libraries that the interpreter or its modules need, under the names that one release or another gives them.
const LIBRARIES: &[&str] = &[
    "libc6",
    "zlib1g",
    "libexpat1",
    "libffi7",
    "libffi8",
    "libbz2-1.0",
    "liblzma5",
    "libssl1.1",
    "libssl3",
    "libssl3t64",
    "libsqlite3-0",
    "libuuid1",
    "libzstd1",
    "libgcc-s1",
    "libcrypt1",
];

impl Release {
    /// As in `3.14`.
    pub fn version(&self) -> String {
        format!("3.{}", self.minor)
    }

    /// The packages, of which a release has most.
    pub fn packages(&self) -> Vec<String> {
        let version = self.version();
        let own = ["python?-minimal", "libpython?-minimal", "libpython?-stdlib"]
            .map(|name| name.replace('?', &version));
        own.into_iter()
            .chain(LIBRARIES.iter().map(|name| (*name).to_owned()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packages are named after the version.
    #[test]
    fn packages_are_named_after_the_version() {
        let packages = RELEASES[0].packages();
        assert_eq!(packages[1], "libpython3.9-minimal");
        assert!(packages.iter().all(|name| !name.contains('?')));
    }
}
