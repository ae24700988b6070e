//! Names made fit for a terminal: nothing in them acts on it, nothing is wider than its column.

use unicode_width::UnicodeWidthChar;

/// Columns a shortened name has at least, whatever the terminal.
const NARROWEST: usize = 20;

/// The text with visible stand-ins for characters that a terminal would obey, or that would reorder
/// or hide what stands around them: `␛` for an escape, `<U+202E>` for those without a picture.
pub(super) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\0'..='\u{1f}' => shown.extend(char::from_u32(0x2400 + u32::from(c))),
            '\u{7f}' => shown.push('\u{2421}'),
            _ if c.is_control() || is_invisible(c) => {
                shown.push_str(&format!("<U+{:04X}>", u32::from(c)))
            }
            _ => shown.push(c),
        }
    }
    shown
}

/// Line separators, directional controls and blanks without width.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{61c}')
}

/// Columns a text takes on a terminal.
pub(super) fn columns(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// The text cut in its middle to `room` columns, so that both the function's name and the line stay.
pub(super) fn shorten(text: &str, room: usize) -> String {
    let room = room.max(NARROWEST);
    if columns(text) <= room {
        return text.to_owned();
    }
    let front = room / 2;
    let back = room - front - 1;
    format!(
        "{}…{}",
        take(text.chars(), front),
        reverse(&take(text.chars().rev(), back))
    )
}

/// As many characters as fit into `room` columns.
fn take(chars: impl Iterator<Item = char>, room: usize) -> String {
    let mut used = 0;
    chars
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used <= room
        })
        .collect()
}

fn reverse(text: &str) -> String {
    text.chars().rev().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Controls become pictures; letters of all scripts stay.
    #[test]
    fn stand_ins() {
        for (text, shown) in [
            ("zażółć 函数_𝒳", "zażółć 函数_𝒳"),
            ("esc\u{1b}[31m", "esc␛[31m"),
            ("a\nb\tc\r\0\u{7f}", "a␊b␉c␍␀␡"),
            ("c1\u{9b}31m", "c1<U+009B>31m"),
            ("\u{202e}gnp\u{2069}\u{2028}", "<U+202E>gnp<U+2069><U+2028>"),
        ] {
            assert_eq!(visible(text), shown);
        }
    }

    /// The beginning and the end stay, and wide characters count twice.
    #[test]
    fn shortened_in_the_middle() {
        assert_eq!(
            shorten("abcdefghijklmnopqrstuvwxyz", 21),
            "abcdefghij…qrstuvwxyz"
        );
        assert_eq!(shorten("abcdefghijklmnopqrst", 5), "abcdefghijklmnopqrst");
        assert_eq!(
            shorten("函数函数函数函数函数函数", 20),
            "函数函数函…函数函数"
        );
    }

    proptest! {
        /// Nothing that a terminal would obey is left, and no name is wider than its room.
        #[test]
        fn always_fits(text in any::<String>(), room in 20_usize..60) {
            let shown = shorten(&visible(&text), room);
            prop_assert!(!shown.chars().any(|c| c.is_control() || is_invisible(c)));
            prop_assert!(columns(&shown) <= room);
        }
    }
}
