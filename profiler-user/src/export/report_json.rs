//! `.json`: the report as data, for programs. `docs/formats/report-json.md` describes the fields.

use std::io::Write;

use crate::evidence::{OwnCode, Report, ReportOptions};
use crate::profile::Profile;

use super::{ExportError, Exporter};

/// Writes the report of a profile as one JSON object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportJson {
    /// What the report is to hold.
    pub options: ReportOptions,
}

impl Default for ReportJson {
    /// Every row there is: a file has no screen to fit.
    fn default() -> Self {
        Self {
            options: ReportOptions {
                top: usize::MAX,
                own: OwnCode::default(),
            },
        }
    }
}

impl Exporter for ReportJson {
    fn write(&self, profile: &Profile, out: &mut dyn Write) -> Result<(), ExportError> {
        write_report(&Report::new(profile, &self.options), out)
    }
}

/// Writes a report as JSON, indented, with a final newline.
///
/// # Errors
/// [`ExportError::Json`], which is also what a failing output gives.
pub fn write_report(report: &Report, out: &mut dyn Write) -> Result<(), ExportError> {
    serde_json::to_writer_pretty(&mut *out, report)?;
    out.write_all(b"\n")?;
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::evidence::testing::{Build, training};

    /// Rows carry the whole path, the whole name, count, base and interval.
    #[test]
    fn rows_are_whole() {
        let mut build = Build::new();
        let process = build.process("python3", 10);
        let thread = build.thread(process, "MainThread", 10);
        let name = "x".repeat(5000);
        let frame = build.python(&name, "/home/me/a.py", 7);
        build.sample(thread, &[frame], 4);
        let mut json = Vec::new();
        ReportJson::default()
            .write(&build.profile, &mut json)
            .unwrap();
        assert_eq!(json.last(), Some(&b'\n'));
        let value: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(value["format"], "wholestack-report");
        let row = &value["top_leaf"]["rows"][0];
        assert_eq!(
            (&row["function"], &row["path"]),
            (&name.into(), &"/home/me/a.py".into())
        );
        assert_eq!(
            (&row["count"], &row["base"], &row["of"]),
            (&4.into(), &4.into(), &"samples kept".into())
        );
        assert!(row["low"].as_f64().unwrap() < 100.0 && row["high"] == 100.0);
        assert_eq!(value["top_functions"]["rows"][0]["self"]["count"], 4);
        assert_eq!(
            value["threads"]["rows"][0]["gil_held"],
            serde_json::Value::Null
        );
        assert_eq!(value["summary"]["kept"], 4);
    }

    /// A profile of nothing is a valid report.
    #[test]
    fn nothing_is_valid() {
        let mut json = Vec::new();
        ReportJson::default()
            .write(&Profile::default(), &mut json)
            .unwrap();
        let value: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(value["top_leaf"]["rows_total"], 0);
    }

    /// Every field a report has is in the document that describes them.
    #[test]
    fn every_field_is_documented() {
        let document = include_str!("../../../docs/formats/report-json.md");
        let report = Report::new(&training().profile, &ReportOptions::default());
        let mut names = BTreeSet::new();
        collect(&serde_json::to_value(&report).unwrap(), &mut names);
        assert!(
            names.len() > 60,
            "the sample report is too small: {names:?}"
        );
        let missing: Vec<_> = names
            .iter()
            .filter(|name| !document.contains(&format!("`{name}`")))
            .collect();
        assert_eq!(missing, Vec::<&String>::new());
    }

    fn collect(value: &serde_json::Value, names: &mut BTreeSet<String>) {
        match value {
            serde_json::Value::Object(fields) => {
                names.extend(fields.keys().cloned());
                fields.values().for_each(|value| collect(value, names));
            }
            serde_json::Value::Array(items) => items.iter().for_each(|item| collect(item, names)),
            _ => (),
        }
    }
}
