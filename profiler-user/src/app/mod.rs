//! What the commands do, with the library's rooms. The only place that prints.

mod export;
mod failure;
mod record;
mod report;

pub use export::export;
pub use failure::Failure;
pub use record::record;
pub use report::report;

use tracing_subscriber::EnvFilter;

/// Diagnostics for those who ask: `WHOLESTACK_LOG=debug`. Silent otherwise: what a user must know is
/// printed as part of the result.
pub fn start_log() {
    let filter =
        EnvFilter::try_from_env("WHOLESTACK_LOG").unwrap_or_else(|_| EnvFilter::new("off"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
}
