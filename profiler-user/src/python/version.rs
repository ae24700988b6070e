//! CPython versions, and finding the version in a file that does not say it in so many words.

use std::fmt;

/// A version of CPython.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PythonVersion {
    /// Major.
    pub major: u8,
    /// Minor.
    pub minor: u8,
    /// Patch release; `None` if only the minor version is known.
    pub patch: Option<u8>,
}

impl PythonVersion {
    /// From the form of `PY_VERSION_HEX`.
    pub(super) fn from_hex(hex: u32) -> Self {
        let [major, minor, patch, _] = hex.to_be_bytes();
        Self {
            major,
            minor,
            patch: Some(patch),
        }
    }

    /// From the read-only data of a Python that has no symbol for its version (before 3.11).
    ///
    /// The tag of its cached byte code, `cpython-38` say, stands there as a text of its own; without one, as in 2.7,
    /// only a version text tells.
    pub(super) fn from_texts(data: &[u8]) -> Option<Self> {
        let Some(minor) = minor_of_tag(data) else {
            let patch = patch_of(data, b"2.7.")?;
            return Some(Self {
                major: 2,
                minor: 7,
                patch: Some(patch),
            });
        };
        Some(Self {
            major: 3,
            minor,
            patch: patch_of(data, format!("3.{minor}.").as_bytes()),
        })
    }
}

impl fmt::Display for PythonVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        self.patch.map_or(Ok(()), |patch| write!(f, ".{patch}"))
    }
}

/// The minor version in a text `cpython-3MINOR`, all of it.
fn minor_of_tag(data: &[u8]) -> Option<u8> {
    const TAG: &[u8] = b"cpython-3";
    memchr::memmem::find_iter(data, TAG).find_map(|at| number(data.get(at + TAG.len()..)?))
}

/// The patch release in a text that begins like that and ends with it: the first that there is.
fn patch_of(data: &[u8], beginning: &[u8]) -> Option<u8> {
    memchr::memmem::find_iter(data, beginning).find_map(|at| {
        // Not the tail of a longer number, as in 13.8.1.
        let before = at.checked_sub(1).and_then(|at| data.get(at));
        let whole = before.is_none_or(|byte| !byte.is_ascii_digit() && *byte != b'.');
        number(data.get(at + beginning.len()..)?).filter(|_| whole)
    })
}

/// A number that ends with a text's end.
fn number(text: &[u8]) -> Option<u8> {
    let digits = text.iter().position(|byte| !byte.is_ascii_digit())?;
    if text[digits] != 0 {
        return None;
    }
    std::str::from_utf8(&text[..digits]).ok()?.parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The version's hexadecimal form is read as CPython writes it.
    #[test]
    fn reads_the_hexadecimal_form() {
        assert_eq!(PythonVersion::from_hex(0x030b_07f0).to_string(), "3.11.7");
    }

    /// The tag gives the minor version, a version text the patch release; neither may be part of something longer.
    #[test]
    fn reads_texts() {
        let version = |data: &[u8]| PythonVersion::from_texts(data).map(|found| found.to_string());
        let found = version(b"\0cpython-310-x86_64-linux-gnu\0x13.10.2\x003.10.13\0cpython-310\0");
        assert_eq!(found.unwrap(), "3.10.13");
        assert_eq!(version(b"cpython-38\0").unwrap(), "3.8");
        assert_eq!(version(b"\x002.7.18\0").unwrap(), "2.7.18");
        for other in [
            &b"cpython-38"[..],
            b"cpython-3\0",
            b"cpython-3999\0",
            b"12.7.1\0",
            b"",
        ] {
            assert_eq!(version(other), None);
        }
    }
}
