//! `cargo xtask ci`: all that a change must pass, cheap steps first, stopping at the first that fails.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::repo::Repo;
use crate::{command, ebpf, interpreters, table, test, tidy};

struct Step {
    name: &'static str,
    run: fn(&Repo) -> Result<()>,
}

/// In order. The last one is `cargo xtask test` itself.
const STEPS: &[Step] = &[
    Step {
        name: "tools",
        run: |_| test::needs::provide(),
    },
    Step {
        name: "format",
        run: |repo| cargo(repo, &["fmt", "--all", "--check"], &[]),
    },
    Step {
        name: "tidy",
        run: tidy::run,
    },
    Step {
        name: "lint",
        run: lint,
    },
    Step {
        name: "kernel lint",
        run: kernel_lint,
    },
    Step {
        name: "kernel object",
        run: kernel_object,
    },
    Step {
        name: "interpreters",
        run: |_| interpreters::run(),
    },
    Step {
        name: "docs",
        run: docs,
    },
    Step {
        name: "release build",
        run: |repo| cargo(repo, &["build", "--locked", "--release"], &[]),
    },
    Step {
        name: "cargo xtask test",
        run: |repo| {
            test::run(
                repo,
                &test::Options {
                    filter: None,
                    dev_binary: false,
                },
            )
        },
    },
];

/// Runs every step and prints how long each took.
pub fn run(repo: &Repo) -> Result<()> {
    let mut durations = Vec::new();
    for step in STEPS {
        println!("\n== {} ==", step.name);
        let start = Instant::now();
        let outcome = (step.run)(repo);
        durations.push((step.name, start.elapsed()));
        if outcome.is_err() {
            println!("\n{}", summary(&durations, "FAILED"));
        }
        outcome.with_context(|| format!("step `{}` failed", step.name))?;
    }
    println!("\n{}", summary(&durations, "ok"));
    Ok(())
}

/// The steps that ran, with the last one's outcome: those before it were well.
fn summary(durations: &[(&str, Duration)], last: &str) -> String {
    let seconds = |duration: Duration| format!("{:.1} s", duration.as_secs_f64());
    let mut rows = Vec::new();
    for (index, (name, duration)) in durations.iter().enumerate() {
        let outcome = if index + 1 == durations.len() {
            last
        } else {
            "ok"
        };
        rows.push(vec![
            (*name).to_owned(),
            seconds(*duration),
            outcome.to_owned(),
        ]);
    }
    rows.push(vec![
        "all".to_owned(),
        seconds(durations.iter().map(|(_, duration)| *duration).sum()),
    ]);
    table::aligned(&rows)
}

fn lint(repo: &Repo) -> Result<()> {
    cargo(
        repo,
        &[
            "clippy",
            "--locked",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
        &[],
    )
}

/// The kernel programs, checked for the host: that needs no eBPF toolchain. The host's unwinding panics need std, so
/// they are off.
fn kernel_lint(repo: &Repo) -> Result<()> {
    for feature in ["programs", "bpf-log"] {
        let arguments = [
            "clippy",
            "--locked",
            "--package",
            "profiler-ebpf",
            "--bin",
            "wholestack-bpf",
            "--features",
        ];
        let arguments = [&arguments[..], &[feature, "--", "-D", "warnings"]].concat();
        cargo(repo, &arguments, &[("CARGO_PROFILE_DEV_PANIC", "abort")])?;
    }
    Ok(())
}

fn kernel_object(repo: &Repo) -> Result<()> {
    ebpf::check(
        repo,
        ebpf::CheckOptions {
            full: true,
            install: true,
        },
    )
}

fn docs(repo: &Repo) -> Result<()> {
    cargo(
        repo,
        &["doc", "--locked", "--no-deps", "--workspace"],
        &[("RUSTDOCFLAGS", "-D warnings")],
    )
}

fn cargo(repo: &Repo, arguments: &[&str], environment: &[(&str, &str)]) -> Result<()> {
    command::run(
        repo.cargo()
            .args(arguments)
            .envs(environment.iter().copied()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table names each step, its time and its outcome, and sums up.
    #[test]
    fn failed_step_is_marked() {
        let durations = [
            ("format", Duration::from_millis(500)),
            ("tidy", Duration::from_secs(20)),
        ];
        let expected = "format   0.5 s      ok\ntidy    20.0 s  FAILED\nall     20.5 s\n";
        assert_eq!(summary(&durations, "FAILED"), expected);
    }
}
