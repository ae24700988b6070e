//! `wholestack record`.

use std::path::Path;

use anyhow::Context as _;
use wholestack::cli::RecordRequest;
use wholestack::export::ExportError;
use wholestack::output::OutputFile;
use wholestack::profile::Session;
use wholestack::record::{
    Ended, Progress, RecordError, RecordSettings, Recorded, Scope, check_rights, record as run,
};
use wholestack::recording::Writer;
use wholestack::ui;

use super::export::Export;
use super::{Failure, report};

/// Records, writes the files and shows the report.
pub fn record(request: RecordRequest) -> Result<(), Failure> {
    check_rights().map_err(with_command)?;
    let (recording, exports) = prepare(&request)?;
    let settings = settings(&request)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| RecordError::System {
            what: "cannot start the event loop",
            source,
        })?;
    let recorded = runtime.block_on(watch(&settings, recording))?;
    say_how_it_ended(recorded.ended);
    if let Some(pid) = recorded.command_left {
        eprintln!("wholestack: the command goes on as process {pid}");
    }
    // One output that fails takes nothing from the others.
    let mut failure = None;
    match recorded.out {
        Some(Ok(file)) => failure = keep(file).err(),
        Some(Err(error)) => failure = Some(Failure::output(error)),
        None => {}
    }
    for export in exports {
        if let Err(error) = export.write(&recorded.profile) {
            failure.get_or_insert(error);
        }
    }
    report::print(&recorded.profile, &request.tables)?;
    // Last, since taking the probes off takes a while.
    drop(recorded.kernel);
    failure.map_or(Ok(()), Err)
}

/// Gives the recording its name.
fn keep(file: OutputFile) -> Result<(), Failure> {
    let path = file.path().to_owned();
    file.commit()?;
    eprintln!("wholestack: wrote {}", path.display());
    Ok(())
}

/// Says exactly what to type instead.
fn with_command(error: RecordError) -> Failure {
    let failure = Failure::from(error);
    let program = std::env::current_exe().unwrap_or_else(|_| "wholestack".into());
    let words = std::iter::once(program.into_os_string()).chain(std::env::args_os().skip(1));
    let words: Vec<String> = words.map(|word| quoted(&word.to_string_lossy())).collect();
    Failure {
        code: failure.code,
        error: anyhow::anyhow!("{:#}: sudo {}", failure.error, words.join(" ")),
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Every output is checked before anything is recorded.
fn prepare(request: &RecordRequest) -> Result<(Option<OutputFile>, Vec<Export>), Failure> {
    let mut recording = None;
    let mut exports = Vec::new();
    for path in &request.outputs {
        if !is_recording(path) {
            let export = Export::prepare(path, &request.tables.own);
            exports.push(export.map_err(with_recording)?);
        } else if recording.is_none() {
            recording = Some(OutputFile::create_recording(path)?);
        } else {
            return Err(Failure::input(anyhow::anyhow!(
                "one recording at a time: more than one -o ends in .wstk"
            )));
        }
    }
    Ok((recording, exports))
}

/// An unknown ending might have been meant for the recording: name that one too.
fn with_recording(failure: Failure) -> Failure {
    match failure.error.downcast_ref::<ExportError>() {
        Some(ExportError::UnknownExtension { .. }) => Failure {
            error: anyhow::anyhow!("{:#}, .wstk", failure.error),
            ..failure
        },
        _ => failure,
    }
}

fn is_recording(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "wstk")
}

fn settings(request: &RecordRequest) -> Result<RecordSettings, Failure> {
    let scope = if !request.command.is_empty() {
        Scope::Command(request.command.clone())
    } else if !request.pids.is_empty() {
        Scope::Pids(request.pids.clone())
    } else {
        Scope::Machine
    };
    let debug_object = match &request.debug_object {
        Some(path) => {
            let object =
                std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
            Some(object.map_err(Failure::input)?)
        }
        None => None,
    };
    Ok(RecordSettings {
        frequency_hz: request.frequency_hz,
        duration: request.duration,
        scope,
        ring_bytes: request.ring_bytes,
        unwind_tables: true,
        native_all: request.native_all,
        debug_object,
    })
}

async fn watch(
    settings: &RecordSettings,
    recording: Option<OutputFile>,
) -> Result<Recorded<OutputFile>, Failure> {
    let line = ui::Progress::start(settings.duration);
    let writer = |session: &Session| -> Result<_, RecordError> {
        eprintln!(
            "wholestack: recording {} at {} Hz on {} CPUs by the {}; Ctrl-C ends it and keeps everything",
            session.scope,
            session.frequency_hz,
            session.cpus,
            session.clock.text()
        );
        Ok(recording
            .map(|file| Writer::new(file, session))
            .transpose()?)
    };
    let recorded = run(
        settings,
        writer,
        || (),
        |progress| line.update(&figures(progress)),
    )
    .await;
    line.finish();
    Ok(recorded?)
}

fn figures(progress: Progress) -> ui::Figures {
    let elapsed = progress.elapsed.as_secs_f64().max(1e-3);
    ui::Figures {
        elapsed: progress.elapsed,
        samples: progress.samples,
        lost: progress.lost,
        own_cpu_percent: 100.0 * progress.own_cpu.as_secs_f64() / elapsed,
    }
}

fn say_how_it_ended(ended: Ended) {
    match ended {
        Ended::Duration | Ended::Failed => {}
        Ended::Signal => eprintln!("wholestack: ended by a signal; everything so far is kept"),
        Ended::Command(Some(0)) => eprintln!("wholestack: the command ended"),
        Ended::Command(Some(code)) => {
            eprintln!("wholestack: the command ended with exit code {code}")
        }
        Ended::Command(None) => eprintln!("wholestack: the command was killed"),
        Ended::TargetsGone => {
            eprintln!("wholestack: the recorded processes ended; everything so far is kept")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words come through a shell as they are.
    #[test]
    fn words_are_quoted() {
        assert_eq!(quoted("train.py"), "train.py");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }
}
