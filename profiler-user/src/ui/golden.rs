//! Texts a test's output is compared with; `UPDATE_GOLDEN=1 cargo test` writes them anew.

use std::path::Path;

/// Compares with the stored text, or stores what is.
pub(super) fn assert_golden(name: &str, stored: &str, actual: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("src/ui/golden")
            .join(name);
        std::fs::write(&path, actual).expect("the source tree can be written");
        return;
    }
    assert!(
        stored == actual,
        "{name} differs; UPDATE_GOLDEN=1 renews it. It is now:\n{actual}"
    );
}
