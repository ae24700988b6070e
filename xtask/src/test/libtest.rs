//! Runs `cargo test`, lets its output through as it comes, and adds up its result lines.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::command;

/// Tests so far, over all test binaries.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub passed: usize,
    pub failed: usize,
}

impl Tally {
    /// Takes in one line of output; all but libtest's result lines are ignored.
    fn add_line(&mut self, line: &str) {
        let Some(result) = line.trim().strip_prefix("test result: ") else {
            return;
        };
        for part in result.split([';', '.']) {
            let mut words = part.split_whitespace();
            let (Some(Ok(count)), Some(what)) =
                (words.next().map(str::parse::<usize>), words.next())
            else {
                continue;
            };
            match what {
                "passed" => self.passed += count,
                "failed" => self.failed += count,
                _ => {}
            }
        }
    }
}

/// Runs the tests; whether all was well. Output is passed on at once, unfinished lines too: the name of a test that
/// hangs must be on the screen.
pub fn run(cargo: &mut Command, tally: &mut Tally, screen: &mut dyn Write) -> Result<bool> {
    writeln!(screen, "$ {}", command::shown(cargo))?;
    let mut child = cargo
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run cargo test")?;
    let mut output = child.stdout.take().context("cargo test has no output")?;
    let mut pending = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let length = output
            .read(&mut buffer)
            .context("cannot read cargo test's output")?;
        if length == 0 {
            break;
        }
        screen.write_all(&buffer[..length])?;
        screen.flush()?;
        pending.extend_from_slice(&buffer[..length]);
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            tally.add_line(&String::from_utf8_lossy(&line));
        }
    }
    Ok(child.wait()?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results of several binaries add up; other lines, however similar, do not count.
    #[test]
    fn results_add_up() {
        let mut tally = Tally::default();
        for line in [
            "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.01s\n",
            "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n",
            "test names::passed ... ok\n",
            "running 12 tests\n",
        ] {
            tally.add_line(line);
        }
        assert_eq!(
            tally,
            Tally {
                passed: 13,
                failed: 2
            }
        );
    }

    /// What the program prints is counted while it runs, and its failure is seen.
    #[test]
    fn counts_what_a_program_prints() {
        let mut tally = Tally::default();
        let mut shell = Command::new("sh");
        shell.args([
            "-c",
            "echo 'test result: ok. 2 passed; 0 failed; 0 ignored'; exit 1",
        ]);
        let mut screen = Vec::new();
        assert!(!run(&mut shell, &mut tally, &mut screen).unwrap());
        assert!(screen.ends_with(b"0 failed; 0 ignored\n"));
        assert_eq!(
            tally,
            Tally {
                passed: 2,
                failed: 0
            }
        );
    }
}
