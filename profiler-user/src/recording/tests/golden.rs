//! Files of versions that have shipped stay readable. `WHOLESTACK_RENEW_GOLDEN=1 cargo test` writes the file of
//! the present version anew; do that only for a version that has not shipped.

use std::path::Path;

use super::live::{assert_same, read_all, small};

/// A file of format version 1 gives the profile that was recorded then.
#[test]
fn version_1() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/recording/tests/v1.wstk");
    let (expected, samples, bytes) = small();
    if std::env::var_os("WHOLESTACK_RENEW_GOLDEN").is_some() {
        std::fs::write(&path, bytes).unwrap();
    }
    let golden = std::fs::read(&path).unwrap();
    let (found, read) = read_all(&golden).unwrap();
    assert_same(&found, &expected);
    assert_eq!(read, samples);
}
