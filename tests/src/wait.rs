//! Waiting for something to become true, instead of sleeping and hoping.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// No wait is longer: what has not happened by then will not happen. Generous, because machines that test are busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How often a fact is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Waits until `look` finds something.
///
/// # Panics
///
/// When it has not within [`PATIENCE`]; the message says what was waited for.
pub fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    until_or(look, || what.to_owned())
}

/// The same, with a message that is made up when it is needed.
///
/// # Panics
///
/// As [`until`].
pub fn until_or<T>(mut look: impl FnMut() -> Option<T>, what: impl FnOnce() -> String) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        if start.elapsed() > PATIENCE {
            panic!("waited {PATIENCE:?} for this, in vain: {}", what());
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Waits until a file exists and has something in it, and reads it.
pub fn for_file(path: &Path) -> String {
    until(&format!("{} has something in it", path.display()), || {
        fs::read_to_string(path)
            .ok()
            .filter(|text| !text.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The look is repeated until it finds something, and that is handed out.
    #[test]
    fn looks_again() {
        let mut looks = 0;
        let found = until("the third look", || {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(found, 3);
    }
}
