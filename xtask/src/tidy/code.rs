//! Rust source without its comments and literals, and words in it: enough lexing for checks that look for names.

/// The source with comments and the insides of strings and characters replaced by blanks. Line breaks stay, so an
/// offset's line number is the source's.
pub fn only(source: &str) -> String {
    let mut scanner = Scanner {
        rest: source,
        code: String::with_capacity(source.len()),
    };
    while !scanner.rest.is_empty() {
        let length = scanner.literal_or_comment();
        match length {
            0 => scanner.keep(),
            length => scanner.blank(length),
        }
    }
    scanner.code
}

struct Scanner<'a> {
    rest: &'a str,
    code: String,
}

impl Scanner<'_> {
    /// Bytes of the comment or literal that starts here; 0 when none does.
    fn literal_or_comment(&self) -> usize {
        let rest = self.rest;
        if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if rest.starts_with('"') {
            quoted(rest, '"')
        } else if rest.starts_with('\'') {
            character(rest)
        } else if rest.starts_with('r') && self.may_start_literal() {
            raw_string(rest)
        } else {
            0
        }
    }

    /// Whether an `r` here can begin a raw string: it does not end a longer word, except `br` and `cr`.
    fn may_start_literal(&self) -> bool {
        let before = self.code.strip_suffix(['b', 'c']).unwrap_or(&self.code);
        !before.ends_with(is_word)
    }

    fn keep(&mut self) {
        let mut characters = self.rest.chars();
        self.code.extend(characters.next());
        self.rest = characters.as_str();
    }

    fn blank(&mut self, length: usize) {
        let (gone, rest) = self.rest.split_at(length);
        self.code.extend(
            gone.bytes()
                .map(|byte| if byte == b'\n' { '\n' } else { ' ' }),
        );
        self.rest = rest;
    }
}

/// Block comments nest.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// A literal up to its closing quote; a backslash takes the next character along.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if character == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// A character literal, or 0 for a lifetime or label.
fn character(text: &str) -> usize {
    let mut characters = text.char_indices().skip(1);
    match (characters.next(), characters.next()) {
        (Some((_, '\\')), _) => quoted(text, '\''),
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 0,
    }
}

/// A raw string, or 0 for a plain word or a raw identifier.
fn raw_string(text: &str) -> usize {
    let hashes = text[1..].bytes().take_while(|byte| *byte == b'#').count();
    let Some(body) = text[1 + hashes..].strip_prefix('"') else {
        return 0;
    };
    let end = format!("\"{}", "#".repeat(hashes));
    let start = text.len() - body.len();
    body.find(&end)
        .map_or(text.len(), |at| start + at + end.len())
}

/// Offsets at which this whole word stands.
pub fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word)
        .map(|(at, _)| at)
        .filter(move |at| {
            !code[..*at].ends_with(is_word) && !code[at + word.len()..].starts_with(is_word)
        })
}

/// The line of an offset, from 1.
pub fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only code is left, and lines are where they were.
    #[test]
    fn comments_and_literals_go() {
        let source = "use a; // aya::\n/* aya /* aya */\n aya */ let s = \"aya \\\" aya\"; let c = '\"'; b::aya();\n";
        let code = only(source);
        let found: Vec<_> = words(&code, "aya").map(|at| line_of(&code, at)).collect();
        assert_eq!(found, [3]);
        assert_eq!(code.matches('\n').count(), source.matches('\n').count());
    }

    /// Raw strings end at their own number of hashes; raw identifiers and lifetimes are code.
    #[test]
    fn raw_strings_and_lifetimes() {
        assert_eq!(only("let a = r#\"x\"y\"#; z").replace(' ', ""), "leta=;z");
        assert_eq!(only("br\"x\" r#type").replace(' ', ""), "br#type");
        assert_eq!(
            only("fn f<'a>(x: &'a str) -> char { '\\'' }"),
            "fn f<'a>(x: &'a str) -> char {      }"
        );
        assert_eq!(only("for\"x\""), "for   ");
    }

    /// An open literal at the end of the file ends with it.
    #[test]
    fn open_ends_are_ends() {
        for source in ["\"x", "/* x", "r#\"x", "'\\", "// x", "'"] {
            assert_eq!(only(source).len(), source.len(), "{source}");
        }
    }

    /// Words are whole.
    #[test]
    fn words_are_whole() {
        assert_eq!(
            words("unsafe_code unsafe { } nounsafe", "unsafe").collect::<Vec<_>>(),
            [12]
        );
    }
}
