//! CUDA's driver and runtime: which functions are counted, where in a file to probe them, which files a loader would
//! find, and what their error codes are called.

mod catalogue;
mod codes;
mod loader;
mod row;
mod sites;

pub use catalogue::{Catalogue, Function, catalogue};
pub use codes::code_name;
pub use loader::{LoaderPaths, libraries_to_be};
pub use row::{Bytes, Library, Row};
pub use sites::{ProbeSite, library_of, probe_sites};
