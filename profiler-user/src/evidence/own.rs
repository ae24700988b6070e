//! Which code is the user's own: the code that can be changed.
//!
//! By default that is Python in files outside the standard library and outside installed packages.
//! With patterns it is exactly what they match, native code included, and nothing else.

use crate::profile::{Frame, FrameKind, Profile};

use super::glob;

/// Parts of a path that mark an installed package. Eggs and wheels may be imported unpacked.
const PACKAGES: [&str; 4] = ["/site-packages/", "/dist-packages/", ".egg/", ".whl/"];

/// Code objects of these files were typed by the user although no file holds them.
const TYPED: [&str; 2] = ["<stdin>", "<ipython-input"];

/// The rule for own code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnCode {
    patterns: Vec<String>,
}

impl OwnCode {
    /// Own code is what one of the patterns matches: `*` any run of characters, `?` one; a pattern
    /// without `/` is matched against the file's name, else against its path, from any folder on. No pattern: the default.
    pub fn matching(patterns: impl IntoIterator<Item = String>) -> Self {
        Self {
            patterns: patterns.into_iter().collect(),
        }
    }

    /// Whether a frame is own code. A native frame goes by its source file, else by its module.
    pub fn is_own(&self, profile: &Profile, frame: &Frame) -> bool {
        let file = profile.text(frame.file);
        match frame.kind {
            FrameKind::Python if self.patterns.is_empty() => is_own_python_file(file),
            FrameKind::Python => self.any(file),
            FrameKind::Native if file.is_empty() => self.any(profile.text(frame.module)),
            FrameKind::Native => self.any(file),
            FrameKind::Kernel | FrameKind::Cuda | FrameKind::Marker => false,
        }
    }

    fn any(&self, path: &str) -> bool {
        !path.is_empty() && self.patterns.iter().any(|pattern| matches(pattern, path))
    }
}

/// Whether a pattern means this path. One with a `/` that does not begin at the root may begin at any folder.
fn matches(pattern: &str, path: &str) -> bool {
    let relative = pattern.contains('/') && !pattern.starts_with(['/', '*']);
    glob::matches(pattern, path)
        || (relative && glob::matches(&format!("*/{}", pattern.trim_start_matches("./")), path))
}

/// The default: a file, not generated code, and neither standard library nor installed package.
fn is_own_python_file(file: &str) -> bool {
    if file.starts_with('<') {
        return TYPED.iter().any(|typed| file.starts_with(typed));
    }
    !file.is_empty() && !PACKAGES.iter().any(|part| file.contains(part)) && !is_stdlib(file)
}

/// `.../lib/python3.12/...`, `.../lib64/python3.13t/...`, `.../lib/pypy3.10/...`, and the standard
/// library in one archive, `.../python312.zip/...`.
fn is_stdlib(file: &str) -> bool {
    let directories: Vec<&str> = file.split('/').rev().skip(1).collect();
    let in_lib = |parent: Option<&&str>| matches!(parent, Some(&("lib" | "lib64" | "lib32")));
    directories.iter().enumerate().any(|(depth, directory)| {
        let version = ["python", "pypy"]
            .iter()
            .find_map(|name| directory.strip_prefix(name));
        match version.and_then(|version| version.split_once('.')) {
            Some((major, "zip")) => is_number(major),
            Some((major, _)) => is_number(major) && in_lib(directories.get(depth + 1)),
            None => false,
        }
    })
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::testing::Build;

    /// The default rule, path by path.
    #[test]
    fn python_files() {
        for (file, own) in [
            ("/home/me/train.py", true),
            ("train.py", true),
            ("/home/me/app.pyz/pkg/mod.py", true),
            ("/tmp/ipykernel_12/34.py", true),
            ("/home/me/libs/python_tools/x.py", true),
            ("/home/me/lib/python3.py", true),
            ("/home/me/lib/python3/x.py", true),
            ("/home/me/python3.12/x.py", true),
            ("<stdin>", true),
            ("<ipython-input-3-ab>", true),
            ("/usr/lib/python3.11/threading.py", false),
            ("/opt/py/lib/python3.13t/threading.py", false),
            ("/usr/lib64/python3.9/json/decoder.py", false),
            ("/usr/lib/python311.zip/json/decoder.py", false),
            (
                "/v/lib/python3.12/site-packages/torch/nn/functional.py",
                false,
            ),
            ("/usr/lib/python3/dist-packages/yaml/loader.py", false),
            ("/home/me/eggs/foo-1.0-py3.8.egg/foo/x.py", false),
            ("<frozen importlib._bootstrap>", false),
            ("<string>", false),
            ("<eval_with_key>.12", false),
            ("", false),
        ] {
            assert_eq!(is_own_python_file(file), own, "{file}");
        }
    }

    /// Patterns replace the default and reach native code, by source file or else by module.
    #[test]
    fn patterns_replace_the_default() {
        let mut build = Build::new();
        let python = build.python("f", "/home/me/train.py", 1);
        let library = build.python("g", "/v/site-packages/torch/x.py", 1);
        let native = build.native("h", "/home/me/ext.so");
        let kernel = build.kernel("vfs_read");
        let profile = build.profile;
        let own = |rule: &OwnCode, id| rule.is_own(&profile, profile.frame(id));
        let default = OwnCode::default();
        assert!(own(&default, python) && !own(&default, library) && !own(&default, native));
        let rule = OwnCode::matching([
            "*/torch/*".to_owned(),
            "ext.so".to_owned(),
            "*/z".to_owned(),
        ]);
        assert!(
            !own(&rule, python) && own(&rule, library) && own(&rule, native) && !own(&rule, kernel)
        );
    }
}
