//! The `wholestack` program: read the command line, do what it asks, print one error.

mod app;

use std::process::ExitCode;

use wholestack::cli::{self, Request};

fn main() -> ExitCode {
    app::start_log();
    let result = match cli::parse() {
        Request::Record(request) => app::record(request),
        Request::Report { files, tables } => app::report(&files, &tables),
        Request::Export { file, outputs, own } => app::export(&file, &outputs, &own),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("wholestack: {:#}", failure.error);
            ExitCode::from(failure.code)
        }
    }
}
