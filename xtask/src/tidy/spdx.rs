//! Licence expressions: may a crate be used under the licences we accept?

/// Whether the expression can be met with accepted licences alone. `OR` is a choice, `AND` binds both; the old `/` means
/// `OR`. What cannot be understood is not met.
pub fn is_met(expression: &str, accepted: impl Fn(&str) -> bool) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser {
        words: &words,
        accepted: &accepted,
    };
    let met = parser.choice();
    met == Some(true) && parser.words.is_empty()
}

struct Parser<'a> {
    words: &'a [&'a str],
    accepted: &'a dyn Fn(&str) -> bool,
}

impl Parser<'_> {
    fn choice(&mut self) -> Option<bool> {
        let mut met = self.all()?;
        while self.take("OR") {
            met |= self.all()?;
        }
        Some(met)
    }

    fn all(&mut self) -> Option<bool> {
        let mut met = self.one()?;
        while self.take("AND") {
            met &= self.one()?;
        }
        Some(met)
    }

    /// A licence, perhaps with an exception, or an expression in brackets.
    fn one(&mut self) -> Option<bool> {
        if self.take("(") {
            let met = self.choice()?;
            return self.take(")").then_some(met);
        }
        let (licence, rest) = self.words.split_first()?;
        self.words = rest;
        let mut name = (*licence).to_owned();
        if self.take("WITH") {
            let (exception, rest) = self.words.split_first()?;
            self.words = rest;
            name = format!("{name} WITH {exception}");
        }
        Some((self.accepted)(&name))
    }

    fn take(&mut self, word: &str) -> bool {
        let is_next = self.words.first() == Some(&word);
        if is_next {
            self.words = &self.words[1..];
        }
        is_next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Choices, bindings, brackets and exceptions mean what they say; nonsense is not met.
    #[test]
    fn expressions() {
        let met = |expression: &str| {
            is_met(expression, |name| {
                ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"].contains(&name)
            })
        };
        for good in [
            "MIT",
            "GPL-3.0 OR MIT",
            "MIT/Apache-2.0",
            "(MIT OR GPL-3.0) AND Apache-2.0",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(met(good), "{good}");
        }
        for bad in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "MIT OR",
            "(MIT",
            "MIT MIT",
            "MIT WITH x",
            "OR MIT",
        ] {
            assert!(!met(bad), "{bad}");
        }
    }
}
