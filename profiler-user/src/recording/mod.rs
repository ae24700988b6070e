//! The recording: the `.wstk` file, written while it grows and read back as a [`crate::profile::Profile`].
//!
//! A file is a header and a row of chunks, each with its own length, checksum and compression, each naming only
//! what stands before it. So a recorder may be killed at any moment, and the file is readable up to its last
//! whole chunk. `docs/formats/recording.md` is the complete description.
//!
//! This room knows no terminal, no target and no kernel. Bytes it reads are hostile: whatever they are, reading
//! ends with a profile or an error, within bounded memory, and never says less than it knows about what is missing.

mod books;
mod check;
mod chunk;
mod decode;
mod encode;
mod error;
mod format;
mod ids;
mod load;
mod loader;
mod reader;
mod schema;
mod window;
mod writer;
mod written;

pub use error::RecordingError;
pub use format::VERSION;
pub use load::{load, load_samples};
pub use reader::{read, read_samples, read_window};
pub use window::Window;
pub use writer::Writer;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
