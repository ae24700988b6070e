//! Where tables are kept.

use std::ffi::OsString;
use std::path::PathBuf;

/// Name of our folder in the folder for caches.
const NAME: &str = "wholestack";

/// The places to try, best first.
pub fn usual() -> Vec<PathBuf> {
    places(
        std::env::var_os("XDG_CACHE_HOME"),
        std::env::var_os("HOME"),
        rustix::process::geteuid().is_root(),
    )
}

/// What is not absolute is ignored, as the XDG base directory specification says.
fn places(xdg: Option<OsString>, home: Option<OsString>, root: bool) -> Vec<PathBuf> {
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let xdg = xdg.and_then(absolute);
    let var = root.then(|| PathBuf::from("/var/cache"));
    let home = home.and_then(absolute).map(|home| home.join(".cache"));
    [xdg, var, home]
        .into_iter()
        .flatten()
        .map(|place| place.join(NAME))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order of places, for root and for others.
    #[test]
    fn order_of_places() {
        let xdg = || Some(OsString::from("/x"));
        let home = || Some(OsString::from("/home/me"));
        let paths = |places: &[&str]| places.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(
            places(xdg(), home(), true),
            paths(&[
                "/x/wholestack",
                "/var/cache/wholestack",
                "/home/me/.cache/wholestack"
            ])
        );
        assert_eq!(
            places(None, home(), false),
            paths(&["/home/me/.cache/wholestack"])
        );
        assert!(places(Some("relative".into()), Some("".into()), false).is_empty());
    }
}
