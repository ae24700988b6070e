//! `wholestack report`.

use std::collections::HashSet;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;

use anyhow::Context as _;
use wholestack::cli::TableRequest;
use wholestack::evidence::{OwnCode, Report, ReportOptions};
use wholestack::export::ExportError;
use wholestack::profile::{self, Profile};
use wholestack::recording::{self, Window};
use wholestack::{export, ui};

use super::Failure;

/// Shows the tables of recordings.
pub fn report(files: &[PathBuf], tables: &TableRequest) -> Result<(), Failure> {
    let mut profiles = Vec::new();
    for file in files {
        profiles.push(recording::load(file, Window::ALL)?);
    }
    refuse_twice(&profiles)?;
    let profile = match profiles.pop() {
        Some(only) if profiles.is_empty() => only,
        last => profile::merge(profiles.into_iter().chain(last).collect()),
    };
    print(&profile, tables)
}

/// The same recording twice would count everything twice.
fn refuse_twice(profiles: &[Profile]) -> Result<(), Failure> {
    let mut seen = HashSet::new();
    for profile in profiles {
        let session = &profile.session;
        if !seen.insert((&session.host, session.started_unix_ns)) {
            return Err(Failure::input(anyhow::anyhow!(
                "the same recording is given twice: of {} at {} ns; give each once",
                session.host,
                session.started_unix_ns
            )));
        }
    }
    Ok(())
}

/// Prints a profile's tables to standard output.
pub fn print(profile: &Profile, tables: &TableRequest) -> Result<(), Failure> {
    let own = OwnCode::matching(tables.own.clone());
    let report = Report::new(
        profile,
        &ReportOptions {
            top: tables.top,
            own,
        },
    );
    let mut out = io::stdout().lock();
    if tables.json {
        written(json(export::write_report(&report, &mut out))?)?;
    } else {
        written(ui::write_report(&report, width(), &mut out))?;
    }
    written(out.flush())
}

/// What went wrong with the output itself, apart from the rest.
fn json(result: Result<(), ExportError>) -> Result<io::Result<()>, Failure> {
    match result {
        Err(ExportError::Json(error)) if error.is_io() => Ok(Err(error.into())),
        Err(ExportError::Write(error)) => Ok(Err(error)),
        other => Ok(Ok(other?)),
    }
}

/// A reader that has seen enough, as `head`, is no error.
fn written(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other
            .context("cannot write to standard output")
            .map_err(Failure::output),
    }
}

/// Columns of the terminal; none where the output goes to a file.
fn width() -> Option<usize> {
    let out = io::stdout();
    if !out.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(&out).ok()?;
    (size.ws_col > 0).then_some(size.ws_col.into())
}
