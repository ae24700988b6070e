//! What a recording could not keep, by the name under which the reader sees it.

use super::naming::NameSources;
use super::scout::Scouted;
use crate::process::ProcessTable;
use crate::profile::Profile;

/// A limit and how often it was hit.
type Hit = (&'static str, u64);

/// Books limits that were hit, in place of what was booked of them before.
pub(super) fn book(profile: &mut Profile, hits: impl IntoIterator<Item = Hit>) {
    let limits = &mut profile.accounting.limits;
    for (name, count) in hits.into_iter().filter(|(_, count)| *count > 0) {
        limits.insert(name.to_owned(), count);
    }
}

/// Of processes and their files.
pub(super) fn of_processes(processes: &ProcessTable) -> [Hit; 4] {
    [
        ("mapped files not kept", processes.files.over_limit),
        ("mapped files not opened", processes.files.not_opened),
        ("mappings not kept", processes.mappings_over_limit),
        ("processes forgotten early", processes.forgotten),
    ]
}

/// Of names.
pub(super) fn of_names(names: &NameSources) -> [Hit; 7] {
    let generated = &names.generated.limits;
    [
        (
            "native names forgotten and looked up again: too many",
            names.native.forgotten(),
        ),
        (
            "kernel names forgotten and looked up again: too many",
            names.kernel.forgotten,
        ),
        (
            "debug files not used: too many",
            names.native.debug_files_over_limit(),
        ),
        ("perf map lines not understood", generated.not_understood),
        ("perf maps not read whole: too long", generated.cut),
        (
            "perf maps not read: not the process's user's",
            generated.strangers,
        ),
        (
            "perf maps not read: too large together, or unreadable",
            generated.not_read,
        ),
    ]
}

/// Of what the scout told the kernel side.
pub(super) fn of_scout(scouted: &Scouted) -> [Hit; 12] {
    let unwinding = &scouted.unwinding;
    [
        ("Python processes not watched", scouted.pythons_over_limit),
        (
            "Python frames without a name: their code was gone before it was read",
            scouted.codes.unreadable,
        ),
        (
            "Python code objects forgotten and read again: too many",
            scouted.codes.forgotten,
        ),
        (
            "Python code objects whose address came to hold another",
            scouted.codes.replaced,
        ),
        ("process records seen late", scouted.records_missed),
        (
            "mapped files forgotten: too many, and nobody mapped them",
            scouted.files_forgotten,
        ),
        (
            "unwind tables that could not be had",
            unwinding.tables_failed,
        ),
        (
            "unwind tables not kept: no memory",
            unwinding.tables.no_room,
        ),
        (
            "unwind tables given back: too much memory, and nobody used them",
            unwinding.tables.given_back,
        ),
        (
            "mappings not walked by table",
            unwinding.mappings_over_limit,
        ),
        ("processes not walked by table", unwinding.spaces_over_limit),
        (
            "code made at run time not followed: too many mappings",
            scouted.made_over_limit,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was never hit is not booked; what is booked again is not added.
    #[test]
    fn only_what_was_hit() {
        let mut profile = Profile::default();
        book(&mut profile, [("a", 3), ("b", 0)]);
        book(&mut profile, [("a", 4)]);
        let limits: Vec<_> = profile.accounting.limits.into_iter().collect();
        assert_eq!(limits, [("a".to_owned(), 4)]);
    }
}
