//! Whether this machine and user let the program record at all; and tests that cannot run say so.
//!
//! The contract is `cargo xtask test`'s: a skipped test appends a line to the file that WHOLESTACK_SKIPS names, and where
//! skipping is not allowed it fails.

use std::env;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::thread;

use rustix::thread::{CapabilitySet, capabilities};

/// Why nothing can be recorded here, if so.
pub fn missing() -> Option<String> {
    let wanted = CapabilitySet::SYS_ADMIN
        | CapabilitySet::BPF
        | CapabilitySet::PERFMON
        | CapabilitySet::SYS_PTRACE;
    let held = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    if !held.contains(wanted) {
        return Some("not root: kernel programs cannot be loaded".to_owned());
    }
    let types = Path::new("/sys/kernel/btf/vmlinux");
    (!types.exists()).then(|| format!("this kernel has no {}", types.display()))
}

/// Counts the running test as skipped.
///
/// # Panics
///
/// On CI, where nothing may be skipped, unless WHOLESTACK_ALLOW_SKIP is set.
pub fn skip(reason: &str) {
    let test = thread::current().name().unwrap_or("a test").to_owned();
    let strict = env::var("CI").is_ok_and(|ci| ci == "true")
        && env::var_os("WHOLESTACK_ALLOW_SKIP").is_none();
    assert!(!strict, "{test} would be skipped: {reason}");
    eprintln!("SKIPPED {test}: {reason}");
    if let Some(list) = env::var_os("WHOLESTACK_SKIPS") {
        let mut list = File::options()
            .append(true)
            .create(true)
            .open(list)
            .expect("WHOLESTACK_SKIPS can be written");
        writeln!(list, "{test}: {reason}").expect("WHOLESTACK_SKIPS can be written");
    }
}

/// Ends the test, counted as skipped, where nothing can be recorded.
#[macro_export]
macro_rules! require_bpf {
    () => {
        if let Some(reason) = $crate::rights::missing() {
            return $crate::rights::skip(&reason);
        }
    };
}
