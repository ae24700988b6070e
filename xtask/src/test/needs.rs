//! What the tests use besides Rust, and the packages that bring it.

use std::process::Command;

use anyhow::{Context, Result};

use crate::{apt, command};

struct Need {
    what: &'static str,
    packages: &'static [&'static str],
    is_here: fn() -> bool,
}

const NEEDS: &[Need] = &[
    Need {
        what: "a C compiler with the C library's headers, for the native test programs",
        packages: &["gcc", "libc6-dev"],
        is_here: || {
            succeeds(
                "cc",
                &[
                    "-fsyntax-only",
                    "-include",
                    "stdio.h",
                    "-x",
                    "c",
                    "/dev/null",
                ],
            )
        },
    },
    Need {
        what: "a C++ compiler, for a program that throws exceptions",
        packages: &["g++"],
        is_here: || {
            let included = ["-fsyntax-only", "-include", "cstdlib", "-x", "c++"];
            succeeds("cc", &[&included[..], &["/dev/null"]].concat())
        },
    },
    Need {
        what: "a Python interpreter, to profile",
        packages: &["python3"],
        is_here: || succeeds("python3", &["--version"]),
    },
];

/// Installs what is missing, saying what and why.
pub fn provide() -> Result<()> {
    let missing: Vec<&Need> = NEEDS.iter().filter(|need| !(need.is_here)()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    for need in &missing {
        println!("The tests need {}.", need.what);
    }
    let packages: Vec<&str> = missing
        .iter()
        .flat_map(|need| need.packages)
        .copied()
        .collect();
    apt::install(&packages).context("the tests cannot run yet")
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    command::succeeds(Command::new(program).args(arguments))
}
