//! From a file's name to the format it is to have.

use std::path::Path;

use crate::evidence::{OwnCode, ReportOptions};

use super::folded::Folded;
use super::report_json::ReportJson;
use super::{ExportError, Exporter};

/// Endings a name may have, and what they stand for; `None` for one whose format cannot be written yet,
/// but which must not be taken for a shorter ending.
const FORMATS: [(&str, Option<Make>); 4] = [
    (".folded", Some(folded)),
    (".txt", Some(folded)),
    (".json", Some(report_json)),
    (".speedscope.json", None),
];

/// Makes an exporter that takes this for own code.
type Make = fn(&OwnCode) -> Box<dyn Exporter>;

/// The exporter for a file's name; the longest ending that fits decides.
///
/// # Errors
/// [`ExportError::UnknownExtension`] when no ending fits; it lists those that would.
pub fn exporter_for(path: &Path, own: &OwnCode) -> Result<Box<dyn Exporter>, ExportError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let fitting = FORMATS
        .iter()
        .filter(|(ending, _)| name.len() > ending.len() && name.ends_with(ending));
    match fitting.max_by_key(|(ending, _)| ending.len()) {
        Some((_, Some(make))) => Ok(make(own)),
        _ => Err(ExportError::UnknownExtension {
            path: path.to_owned(),
            supported: extensions().join(", "),
        }),
    }
}

/// The endings that name a format.
pub fn extensions() -> Vec<&'static str> {
    FORMATS
        .iter()
        .filter(|(_, make)| make.is_some())
        .map(|(ending, _)| *ending)
        .collect()
}

fn folded(_own: &OwnCode) -> Box<dyn Exporter> {
    Box::new(Folded)
}

fn report_json(own: &OwnCode) -> Box<dyn Exporter> {
    Box::new(ReportJson {
        options: ReportOptions {
            top: usize::MAX,
            own: own.clone(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(name: &str) -> Result<(), String> {
        let exporter = exporter_for(Path::new(name), &OwnCode::default());
        exporter.map(|_| ()).map_err(|error| error.to_string())
    }

    /// The ending decides, wherever the file lies and whatever else its name contains.
    #[test]
    fn known_endings() {
        for name in ["a.folded", "/x.y/a.txt", "a.b.json", "zażółć.json"] {
            assert_eq!(chosen(name), Ok(()));
        }
    }

    /// An unknown ending is refused with those there are; a longer one never falls to a shorter one.
    #[test]
    fn unknown_endings() {
        for name in [
            "a.xyz",
            "folded",
            ".json",
            "a.speedscope.json",
            "a.JSON",
            "/x/",
        ] {
            let expected = format!(
                "{name}: no format is known for this name; expected one ending in .folded, .txt, .json"
            );
            assert_eq!(chosen(name), Err(expected));
        }
    }
}
