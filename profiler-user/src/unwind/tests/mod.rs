//! Tables of real files and of fixtures, each row against what others make of the same information.
//!
//! Two oracles: gimli's own evaluation with every expression computed over a made-up stack
//! ([`reference`]), and framehop, an unwinder in use elsewhere ([`framehop`]).

pub(super) use files::expand;
pub(super) use fixture::Fixture;

mod compare;
mod files;
mod fixture;
mod fixtures;
mod framehop;
mod hostile;
mod reference;
mod sections;
mod stack;
mod walks;

/// Notes that a test could not run, for `cargo xtask test` to count.
pub(super) fn skip(test: &str, reason: &str) {
    use std::io::Write as _;
    println!("skipped {test}: {reason}");
    let Some(path) = std::env::var_os("WHOLESTACK_SKIPS") else {
        return;
    };
    let file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path);
    writeln!(file.unwrap(), "{test}: {reason}").unwrap();
}
