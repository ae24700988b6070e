//! The report as text.

use std::io::{self, Write};

use crate::evidence::Report;

use super::{driver, header, rankings, threads};

/// The report for a screen `width` columns wide; `None` where nothing limits it, as in a file.
pub fn render(report: &Report, width: Option<usize>) -> String {
    let mut lines = header::lines(&report.summary);
    if report.summary.kept > 0 {
        lines.extend(rankings::lines(report, width));
        lines.extend(threads::threads(report, width));
    }
    // Driver calls are counted, not sampled: they are there also when nothing was sampled.
    lines.extend(driver::lines(report, width));
    if report.summary.kept > 0 {
        lines.extend(threads::gil(report, width));
    }
    lines.iter().flat_map(|line| [line, "\n"]).collect()
}

/// Writes the report as [`render`] gives it.
///
/// # Errors
/// When `out` does not take it.
pub fn write_report(report: &Report, width: Option<usize>, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(render(report, width).as_bytes())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::evidence::ReportOptions;
    use crate::evidence::testing::{Build, training};
    use crate::profile::{GilState, Loss, Truncation};
    use crate::ui::golden::assert_golden;

    /// The report as text, which never holds a character that a terminal would obey.
    fn text(build: &Build, top: usize, width: Option<usize>) -> String {
        let options = ReportOptions {
            top,
            ..ReportOptions::default()
        };
        let text = render(&Report::new(&build.profile, &options), width);
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
        text
    }

    /// The whole report of a training run, on a wide and on a narrow screen.
    #[test]
    fn a_training_run() {
        assert_golden(
            "training.txt",
            include_str!("golden/training.txt"),
            &text(&training(), 20, None),
        );
        let narrow = text(&training(), 3, Some(80));
        assert_golden(
            "training-narrow.txt",
            include_str!("golden/training-narrow.txt"),
            &narrow,
        );
    }

    /// Nothing sampled: a sentence with a hint and no tables of samples, but the calls that were counted.
    #[test]
    fn nothing_sampled() {
        let mut build = Build::new();
        let process = build.process("sleep", 1);
        let thread = build.thread(process, "sleep", 1);
        let mut both = text(&build, 20, None);
        build.profile.session.closed = false;
        both.push_str("\n---\n");
        both.push_str(&text(&build, 20, None));
        build.calls(Some(thread), "cuStreamSynchronize", 1, 9_000_000_000);
        build.profile.accounting.taken = 5;
        build.profile.accounting.lose(Loss::Malformed, 4);
        both.push_str("\n---\n");
        both.push_str(&text(&build, 20, None));
        assert_golden("nothing.txt", include_str!("golden/nothing.txt"), &both);
    }

    /// Few samples are said to be few.
    #[test]
    fn few_samples() {
        let mut build = Build::new();
        let process = build.process("app", 1);
        let thread = build.thread(process, "app", 1);
        let main = build.native("main", "/app");
        build.sample(thread, &[main], 1);
        assert_golden(
            "few.txt",
            include_str!("golden/few.txt"),
            &text(&build, 20, None),
        );
    }

    /// The header reads as the contract's example does.
    #[test]
    fn the_header_of_the_contract() {
        let mut build = Build::new();
        for pid in 0..3 {
            build.process("p", pid);
        }
        for tid in 0..41 {
            build.thread(crate::profile::ProcessId(0), "t", tid);
        }
        let chunk = build.python_at("_chunk_fwd", "/home/me/dflash_model.py", 1000, 1028);
        let other = build.python_at("other", "/home/me/dflash_model.py", 1, 2);
        let thread = crate::profile::ThreadId(0);
        build.sample(thread, &[chunk], 1964);
        build.sample(thread, &[other], 18_775 - 1964 - 12);
        build.sample_as(
            thread,
            &[other],
            12,
            GilState::None,
            Some(Truncation::NativeDepth),
        );
        let session = &mut build.profile.session;
        (session.duration_ns, session.frequency_hz, session.cpus) = (45_000_000_000, 99, 16);
        let books = &mut build.profile.accounting;
        (books.frames, books.unnamed_frames, books.own_cpu_ns) = (1000, 4, 270_000_000);
        let text = text(&build, 20, None);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..3],
            [
                "wholestack: 45.0 s at 99 Hz, 16 CPUs, 3 processes, 41 threads; 18775 samples on CPU = 189.6 s of CPU",
                "            lost 0 · truncated 12 (0.06 %) · unnamed frames 0.4 % · own cost 0.6 % of one CPU",
                "            truncated: more native frames than are walked 12 (of 18775 samples kept)",
            ]
        );
        assert_eq!(
            lines[4],
            "TOP LEAF                                    where stacks end, % of 18775 samples"
        );
        assert_eq!(
            lines[6],
            "   1964  10.5% ±0.4  _chunk_fwd (dflash_model.py:1028)"
        );
        build.profile.accounting.guessed = 15;
        let line = "truncated 12 (0.06 %) · guessed 15 (0.08 %) · unnamed frames";
        assert!(self::text(&build, 20, None).contains(line));
        build.profile.accounting.unwind_table_bytes = (18 << 20) + (200 << 10);
        let line = "% of one CPU · unwind tables 18.2 MiB\n";
        assert!(self::text(&build, 20, None).contains(line));
    }
}
