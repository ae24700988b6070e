//! `cargo xtask bench torch`: how much of a PyTorch training's stacks is whole. Needs root, and as its argument a
//! Python that has PyTorch. Fails when less than 98 % is.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use wholestack::kernel::missing_rights;
use wholestack::profile::Profile;
use wholestack::record::{RecordSettings, Scope, record};

/// What must be whole, in percent.
const WHOLE: f64 = 98.0;
/// The program imports PyTorch and warms up for so long.
const WARM_UP: Duration = Duration::from_secs(10);
const RECORDED: Duration = Duration::from_secs(15);

fn main() -> ExitCode {
    if !missing_rights().is_empty() {
        println!("bench torch: skipped, it needs root");
        return ExitCode::SUCCESS;
    }
    let Some(python) = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'))
    else {
        println!("bench torch: skipped, no Python was named; run it by `cargo xtask bench torch`");
        return ExitCode::SUCCESS;
    };
    let mut whole = true;
    println!("training            samples   whole      %  table KiB  cut, by reason");
    for (name, options) in [
        ("transformer", &[][..]),
        ("with convolutions", &["--convolutions"]),
    ] {
        let profile = measure(&python, options);
        let books = &profile.accounting;
        let percent = 100.0 * books.complete as f64 / books.kept() as f64;
        let cut: Vec<String> = books
            .truncated
            .iter()
            .map(|(reason, count)| format!("{} {count}", reason.text()))
            .collect();
        println!(
            "{name:<19} {:>7} {:>7} {percent:>6.2} {:>10}  {}",
            books.kept(),
            books.complete,
            books.unwind_table_bytes / 1024,
            cut.join(", ")
        );
        whole &= percent >= WHOLE;
    }
    if whole {
        ExitCode::SUCCESS
    } else {
        println!("less than {WHOLE} % is whole");
        ExitCode::FAILURE
    }
}

/// A training under way.
struct Training(Child);

impl Drop for Training {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn measure(python: &str, options: &[&str]) -> Profile {
    let program =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/workloads/torch_training.py");
    let mut command = Command::new(python);
    command.arg(program).args(["--seconds", "60"]).args(options);
    let training = Training(command.stdout(Stdio::null()).spawn().unwrap());
    std::thread::sleep(WARM_UP);
    let settings = RecordSettings {
        frequency_hz: 99,
        duration: Some(RECORDED),
        scope: Scope::Pids(vec![training.0.id()]),
        ring_bytes: 8 << 20,
        unwind_tables: true,
        native_all: false,
        debug_object: None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let recorded = record::<Vec<u8>>(&settings, |_| Ok(None), || (), |_| ());
    runtime.block_on(recorded).unwrap().profile
}
