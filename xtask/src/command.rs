//! Running other programs: shown before they run, and an error when they fail.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Shows the command, runs it with our own input and output, and fails when it fails.
pub fn run(command: &mut Command) -> Result<()> {
    println!("$ {}", shown(command));
    let status = command
        .status()
        .with_context(|| format!("cannot run {}", shown(command)))?;
    if !status.success() {
        bail!("`{}` failed ({status})", shown(command));
    }
    Ok(())
}

/// Runs the command silently and gives its output; fails with its error output when it fails.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {}", shown(command)))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!(
            "`{}` failed ({}): {}",
            shown(command),
            output.status,
            said.trim()
        );
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("`{}` printed no UTF-8", shown(command)))
}

/// Whether the command can be run and succeeds; its output is thrown away.
pub fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

/// The first executable of this name on PATH.
pub fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// The command as it would be typed, without its environment.
pub fn shown(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    let name = program.rsplit('/').next().unwrap_or(&program).to_owned();
    let arguments = command
        .get_args()
        .map(|argument| quoted(&argument.to_string_lossy()));
    std::iter::once(name)
        .chain(arguments)
        .collect::<Vec<_>>()
        .join(" ")
}

/// An argument as a shell would need it.
fn quoted(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) {
        argument.to_owned()
    } else {
        format!("'{}'", argument.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is shown can be typed: odd arguments are quoted.
    #[test]
    fn shown_as_typed() {
        let mut command = Command::new("/some/where/cargo");
        command.args(["test", "--", "it's", ""]);
        assert_eq!(shown(&command), r"cargo test -- 'it'\''s' ''");
    }

    /// A failing program is an error that names it.
    #[test]
    fn failure_names_the_command() {
        let error = output(Command::new("ls").arg("no-such-file-here")).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("`ls no-such-file-here` failed"),
            "{error}"
        );
    }
}
