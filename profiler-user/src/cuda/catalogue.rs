//! The driver functions that are probed. A new one is a new row.
//!
//! Names and meanings: `cuda.h`. Exports seen in the drivers 470 to 555; `_ptsz` and `_ptds` are the
//! per-thread-default-stream twins, `_v2` what the header's macros map the base name to.

use crate::profile::CallClass::{self, Copy, Launch, Memory, Sync};

/// One exported function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriverFunction {
    /// Its exported name.
    pub name: &'static str,
    /// What kind of work it is.
    pub class: CallClass,
}

/// Every probed function; its index is its id on the kernel side.
pub const CATALOGUE: &[DriverFunction] = &[
    row("cuLaunchKernel", Launch),
    row("cuLaunchKernel_ptsz", Launch),
    row("cuLaunchKernelEx", Launch),
    row("cuLaunchKernelEx_ptsz", Launch),
    row("cuStreamSynchronize", Sync),
    row("cuStreamSynchronize_ptsz", Sync),
    row("cuCtxSynchronize", Sync),
    row("cuCtxSynchronize_v2", Sync),
    row("cuEventSynchronize", Sync),
    row("cuMemcpyAsync", Copy),
    row("cuMemcpyAsync_ptsz", Copy),
    row("cuMemcpyHtoDAsync_v2", Copy),
    row("cuMemcpyHtoDAsync_v2_ptsz", Copy),
    row("cuMemcpyDtoHAsync_v2", Copy),
    row("cuMemcpyDtoHAsync_v2_ptsz", Copy),
    row("cuMemAlloc_v2", Memory),
    row("cuMemFree_v2", Memory),
];

const fn row(name: &'static str, class: CallClass) -> DriverFunction {
    DriverFunction { name, class }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// No function is listed twice: it would be counted twice.
    #[test]
    fn names_are_unique() {
        let names: HashSet<_> = CATALOGUE.iter().map(|function| function.name).collect();
        assert_eq!(names.len(), CATALOGUE.len());
    }
}
