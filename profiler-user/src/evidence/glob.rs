//! Path patterns: `*` stands for any run of characters, `/` included, `?` for one character.
//!
//! A pattern with a `/` is matched against the whole path, one without against the last part.
//! Nothing else is special, so a path can be given as it is.

/// Whether `path` matches `pattern`.
pub(super) fn matches(pattern: &str, path: &str) -> bool {
    if pattern.contains('/') {
        return run(pattern, path);
    }
    run(pattern, path.rsplit('/').next().unwrap_or(path))
}

/// Matches character by character; at a mismatch the last `*` takes one character more. Linear in
/// practice and never worse than the product of both lengths.
fn run(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&c) if c == '?' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    p = at + 1;
                    t = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stars cross slashes, question marks take one character, a bare name is a file name.
    #[test]
    fn patterns() {
        for (pattern, path, expected) in [
            ("train.py", "/home/user/train.py", true),
            ("train.py", "/home/user/retrain.py", false),
            ("*train.py", "/home/user/retrain.py", true),
            ("/home/*", "/home/user/a/b.py", true),
            ("*/a/*", "/home/user/a/b.py", true),
            ("/home/user/?/b.py", "/home/user/a/b.py", true),
            ("/home/user", "/home/user/a/b.py", false),
            ("*", "", true),
            ("", "", true),
            ("", "x", false),
            ("*a*b*c", "/xaxbxbxc", true),
            ("*a*b*c/", "/xaxbxbxc", false),
            ("[x].py", "/[x].py", true),
            ("ż?.py", "/żó.py", true),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} on {path}");
        }
    }
}
