//! The CUDA driver: which functions are counted, and where in a file to probe them.

mod catalogue;
mod sites;

pub use catalogue::{CATALOGUE, DriverFunction};
pub use sites::{ProbeSite, is_driver, probe_sites};
