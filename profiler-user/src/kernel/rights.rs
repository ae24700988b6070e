//! Which rights this process lacks.

use rustix::thread::{CapabilitySet, capabilities};

/// A right that recording needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Right {
    /// The kernel's name of the capability.
    pub name: &'static str,
    /// What it is needed for.
    pub purpose: &'static str,
}

/// Rights needed, each with the sets that give it (any one of them is enough).
const NEEDED: [(Right, &[CapabilitySet]); 4] = [
    (
        Right {
            name: "CAP_BPF",
            purpose: "load the kernel programs",
        },
        &[CapabilitySet::BPF, CapabilitySet::SYS_ADMIN],
    ),
    (
        Right {
            name: "CAP_PERFMON",
            purpose: "sample all CPUs and place probes",
        },
        &[CapabilitySet::PERFMON, CapabilitySet::SYS_ADMIN],
    ),
    (
        Right {
            name: "CAP_SYS_PTRACE",
            purpose: "read the memory and maps of other users' processes",
        },
        &[CapabilitySet::SYS_PTRACE],
    ),
    (
        Right {
            name: "CAP_SYS_ADMIN",
            purpose: "place probes in files and read files as mapped",
        },
        &[CapabilitySet::SYS_ADMIN],
    ),
];

/// The rights this process lacks; empty when it has all of them.
pub fn missing_rights() -> Vec<Right> {
    let held = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    NEEDED
        .iter()
        .filter(|(_, sets)| !sets.iter().any(|set| held.contains(*set)))
        .map(|(right, _)| *right)
        .collect()
}
