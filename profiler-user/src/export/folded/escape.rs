//! How a name is written in a folded file so that no reader takes it apart, and read back.
//!
//! Readers split a line at `;`, take the number after the last blank for the count, a second number
//! before that for the count of a second profile, skip lines that begin with `# `, cut blanks at both
//! ends, and drop an ending such as `_[k]`. Only what would meet one of these rules is escaped, so
//! ordinary names stay readable. `docs/formats/folded.md` is the description for others.

use crate::export::ExportError;

/// What stands for a name without characters.
const EMPTY: &str = "\\u{}";

/// Endings that flamegraph.pl and inferno take for a frame's kind and do not show.
const ANNOTATIONS: [&str; 4] = ["_[k]", "_[w]", "_[i]", "_[j]"];

/// Names those two draw as a gap between parts of a stack.
const GAPS: [&str; 2] = ["-", "--"];

/// Writes a name: `\\` for a backslash, `\u{HEX}` for a character that would be misread.
pub fn escape(name: &str) -> String {
    if name.is_empty() {
        return EMPTY.to_owned();
    }
    let number_at = number_at_end(name);
    let annotation_at = annotation_at_end(name);
    let mut escaped = String::with_capacity(name.len());
    let mut leading = true;
    for (at, c) in name.char_indices() {
        leading &= c.is_whitespace();
        let misread = splits_lines_or_frames(c)
            || (c.is_whitespace() && (leading || at >= number_at))
            || (at == 0 && (c == '#' || GAPS.contains(&name)))
            || annotation_at == Some(at);
        match c {
            '\\' => escaped.push_str("\\\\"),
            _ if misread => escaped.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            _ => escaped.push(c),
        }
    }
    escaped
}

/// Reads a name that [`escape`] wrote.
///
/// # Errors
/// [`ExportError::Escape`] for a backslash that begins neither `\\` nor `\u{HEX}`.
pub fn unescape(escaped: &str) -> Result<String, ExportError> {
    if escaped == EMPTY {
        return Ok(String::new());
    }
    let mut name = String::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some(backslash) = rest.find('\\') {
        name.push_str(&rest[..backslash]);
        let sequence = &rest[backslash..];
        let (c, length) = unescape_one(sequence).ok_or_else(|| ExportError::Escape {
            name: escaped.to_owned(),
            at: escaped.len() - sequence.len(),
        })?;
        name.push(c);
        rest = &sequence[length..];
    }
    name.push_str(rest);
    Ok(name)
}

/// The character at the beginning of an escape sequence, and the sequence's length.
fn unescape_one(sequence: &str) -> Option<(char, usize)> {
    if sequence.starts_with("\\\\") {
        return Some(('\\', 2));
    }
    let digits = sequence.strip_prefix("\\u{")?.split_once('}')?.0;
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let c = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
    Some((c, "\\u{}".len() + digits.len()))
}

/// Characters that some reader takes for the end of a frame or of a line, and all other controls.
fn splits_lines_or_frames(c: char) -> bool {
    c == ';' || c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Where the ending begins that consists of blanks, digits and points only: a reader may take what
/// follows a blank there for a count. flamegraph.pl takes any script's digits.
fn number_at_end(name: &str) -> usize {
    let number = |c: char| c.is_whitespace() || c.is_numeric() || c == '.';
    name.trim_end_matches(number).len()
}

/// Where the bracket of an annotation is.
fn annotation_at_end(name: &str) -> Option<usize> {
    let annotated = ANNOTATIONS
        .iter()
        .any(|annotation| name.ends_with(annotation));
    annotated.then(|| name.len() - "[k]".len())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Ordinary names stay as they are; what would be misread is escaped, and no more than that.
    #[test]
    fn escapes() {
        for (name, escaped) in [
            (
                "_chunk_fwd (dflash_model.py:1028)",
                "_chunk_fwd (dflash_model.py:1028)",
            ),
            ("zażółć 函数_𝒳 [kernel]", "zażółć 函数_𝒳 [kernel]"),
            ("operator# (m)", "operator# (m)"),
            ("a;b", "a\\u{3b}b"),
            (
                "line1\nline2\t\u{1b}[31m",
                "line1\\u{a}line2\\u{9}\\u{1b}[31m",
            ),
            ("c1\u{85}\u{2028}", "c1\\u{85}\\u{2028}"),
            ("back\\slash \\u{3b}", "back\\\\slash \\\\u{3b}"),
            ("trail 7", "trail\\u{20}7"),
            ("trail  7 1.5", "trail\\u{20}\\u{20}7\\u{20}1.5"),
            ("trail\u{a0}٣", "trail\\u{a0}٣"),
            ("7 trails", "7 trails"),
            ("12", "12"),
            (" both ", "\\u{20}both\\u{20}"),
            ("", "\\u{}"),
            ("# comment", "\\u{23} comment"),
            ("entry_[k]", "entry_\\u{5b}k]"),
            ("--", "\\u{2d}-"),
            ("--flag", "--flag"),
        ] {
            assert_eq!(escape(name), escaped);
            assert_eq!(unescape(escaped).unwrap(), name);
        }
    }

    /// A backslash that begins no escape is refused, with its place.
    #[test]
    fn broken_escapes_are_refused() {
        for (name, place) in [
            ("a\\", 1),
            ("ab\\n", 2),
            ("\\u{}x", 0),
            ("\\u{d800}", 0),
            ("\\u{+3b}", 0),
            ("\\u3b", 0),
        ] {
            match unescape(name) {
                Err(ExportError::Escape { at, .. }) => assert_eq!(at, place, "{name}"),
                other => panic!("{name}: {other:?}"),
            }
        }
    }

    /// Any text, and texts made of what readers stumble over.
    fn name() -> impl Strategy<Value = String> {
        let awkward =
            r"([;\\#\-_. \t\n\r\u{a0}\u{2028}\u{85}0-9٣a]|_\[[kwij]\]|\\u\{3b\}|\\u\{\}){0,8}";
        prop_oneof![any::<String>(), awkward]
    }

    proptest! {
        /// What was escaped reads back as it was: so no two names are written alike.
        #[test]
        fn round_trip(name in name()) {
            prop_assert_eq!(unescape(&escape(&name)).unwrap(), name);
        }

        /// An escaped name has nothing left that a reader splits at, cuts off or takes for a count.
        #[test]
        fn nothing_is_left_to_misread(name in name()) {
            let escaped = escape(&name);
            prop_assert!(!escaped.is_empty() && !escaped.contains(splits_lines_or_frames));
            prop_assert_eq!(escaped.trim(), &escaped);
            prop_assert!(!escaped.starts_with('#'));
            prop_assert!(!ANNOTATIONS.iter().any(|annotation| escaped.ends_with(annotation)));
            let last_word = escaped.rsplit(char::is_whitespace).next().unwrap();
            let numeric = last_word.chars().all(|c| c.is_numeric() || c == '.');
            prop_assert!(last_word == escaped || !numeric, "{}", escaped);
        }
    }
}
