//! The report as data: everything the tables show and the JSON carries.
//!
//! The text is one rendering of it (`ui`), the JSON another (`export`); neither computes anything.
//! `docs/formats/report-json.md` describes the fields, and [`VERSION`] grows when one changes meaning.

use serde::Serialize;

use crate::profile::Profile;

use super::driver::{self, DriverRow, DriverThreadRow};
use super::functions::{self, FunctionRow};
use super::gil::{self, GilProcess};
use super::index::Index;
use super::own::OwnCode;
use super::ranking;
use super::roots::{self, RootRow};
use super::summary::{self, Summary};
use super::table::{Row, Table};
use super::threads::{self, ThreadRow};

/// Version of the report's fields.
pub const VERSION: u32 = 1;

/// Rows a table shows unless asked otherwise.
pub const DEFAULT_TOP: usize = 20;

/// What a report is to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportOptions {
    /// Rows per table at most.
    pub top: usize,
    /// What counts as the user's own code.
    pub own: OwnCode,
}

impl Default for ReportOptions {
    fn default() -> Self {
        Self {
            top: DEFAULT_TOP,
            own: OwnCode::default(),
        }
    }
}

/// The evidence a profile holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Always `wholestack-report`.
    pub format: &'static str,
    /// Version of the fields.
    pub version: u32,
    /// What was recorded, and where every sample went.
    pub summary: Summary,
    /// Lines where stacks end.
    pub top_leaf: Table<Row>,
    /// Files, one count per sample and file.
    pub top_files: Table<Row>,
    /// Innermost functions that are own code.
    pub top_own_code: Table<Row>,
    /// Functions by self, with total.
    pub top_functions: Table<FunctionRow>,
    /// Thread entries and the first own code below them.
    pub top_roots: Table<RootRow>,
    /// Threads, the busiest first.
    pub threads: Table<ThreadRow>,
    /// Driver functions over all threads, the most time first.
    pub cuda_driver: Table<DriverRow>,
    /// The same, by thread; every row there is.
    pub cuda_driver_by_thread: Vec<DriverThreadRow>,
    /// Interpreter locks by process.
    pub gil: Vec<GilProcess>,
}

impl Report {
    /// Draws the evidence out of a profile.
    pub fn new(profile: &Profile, options: &ReportOptions) -> Self {
        let index = Index::new(profile, &options.own);
        let top = options.top;
        Self {
            format: "wholestack-report",
            version: VERSION,
            summary: summary::summary(profile),
            top_leaf: ranking::leaves(&index, top),
            top_files: ranking::files(&index, top),
            top_own_code: ranking::own_code(&index, top),
            top_functions: functions::functions(&index, top),
            top_roots: roots::roots(&index, top),
            threads: threads::threads(&index, top),
            cuda_driver: driver::by_function(&index, top),
            cuda_driver_by_thread: driver::by_thread(profile),
            gil: gil::gil(profile),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::evidence::testing::Build;
    use crate::evidence::{Part, Share};

    /// A profile of a few frames combined at random: recursion, empty stacks, every kind of code.
    fn profile() -> impl Strategy<Value = Profile> {
        let stack = prop::collection::vec(0_usize..8, 0..6);
        prop::collection::vec((stack, 1_u64..20, 0_u32..3), 0..12).prop_map(|samples| {
            let mut build = Build::new();
            let process = build.process("p", 1);
            let threads: Vec<_> = (0..3).map(|tid| build.thread(process, "t", tid)).collect();
            let frames = [
                build.python_at("f", "/a.py", 1, 2),
                build.python_at("f", "/a.py", 1, 3),
                build.python_at("f", "/a.py", 9, 10),
                build.python("g", "/v/site-packages/g.py", 1),
                build.native("h", "/l.so"),
                build.unnamed("/l.so", 0x10),
                build.kernel("k"),
                build.marker("[truncated]"),
            ];
            for (stack, count, thread) in samples {
                let stack: Vec<_> = stack.into_iter().map(|frame| frames[frame]).collect();
                build.sample(threads[thread as usize], &stack, count);
            }
            build.profile
        })
    }

    fn options(top: usize) -> ReportOptions {
        ReportOptions {
            top,
            own: OwnCode::default(),
        }
    }

    proptest! {
        /// Where each sample belongs to exactly one row, rows and the rest add up to all samples.
        #[test]
        fn tables_add_up(profile in profile()) {
            let report = Report::new(&profile, &options(usize::MAX));
            let kept = profile.kept();
            let sum = |table: &Table<Row>| table.rows.iter().map(|row| row.share.count).sum::<u64>();
            prop_assert_eq!(sum(&report.top_leaf), kept);
            prop_assert_eq!(sum(&report.top_own_code) + report.top_own_code.samples_without, kept);
            prop_assert_eq!(report.top_roots.rows.iter().map(|row| row.share.count).sum::<u64>(), kept);
            prop_assert_eq!(report.top_functions.rows.iter().map(|row| row.itself.count).sum::<u64>(), kept);
            prop_assert_eq!(report.threads.rows.iter().map(|row| row.cpu.count).sum::<u64>(), kept);
            for row in &report.top_functions.rows {
                prop_assert!(row.itself.count <= row.total.count && row.total.count <= kept);
            }
        }

        /// No table names two rows alike, and a shorter report is the beginning of the longer one.
        #[test]
        fn rows_are_distinct(profile in profile()) {
            let report = Report::new(&profile, &options(usize::MAX));
            let mut labels: Vec<_> = report.top_functions.rows.iter().map(|row| &row.label).collect();
            labels.sort();
            labels.dedup();
            prop_assert_eq!(labels.len(), report.top_functions.rows_total);
            let short = Report::new(&profile, &options(2));
            prop_assert!(report.top_leaf.rows.starts_with(&short.top_leaf.rows));
            prop_assert_eq!(short.top_leaf.rows_total, report.top_leaf.rows_total);
        }
    }

    /// Every share and part in the JSON says what it is a share of.
    #[test]
    fn shares_name_their_base() {
        let names = |value: serde_json::Value| {
            let object = value.as_object().cloned().unwrap_or_default();
            object.keys().cloned().collect::<Vec<_>>()
        };
        let share = serde_json::to_value(Share::new(1, 2, "samples kept")).expect("plain data");
        assert_eq!(
            names(share),
            ["base", "count", "high", "low", "of", "percent"]
        );
        let part = serde_json::to_value(Part::new(1, 2, "samples kept")).expect("plain data");
        assert_eq!(names(part), ["base", "count", "of", "percent"]);
    }
}
