//! The report's first lines: what was recorded, and what became of every sample.

use crate::evidence::{Counted, Part, Summary};

use super::text::visible;
use super::units::{mebibytes, plural, small_part};

/// Below this, shares are too open to act on.
const FEW_SAMPLES: u64 = 100;

/// Continuation lines stand under the text after `wholestack: `.
const INDENT: &str = "            ";

/// The header, line by line.
pub(super) fn lines(summary: &Summary) -> Vec<String> {
    let mut lines = vec![recorded(summary), format!("{INDENT}{}", quality(summary))];
    let more = [reasons(summary), remarks(summary)].concat();
    lines.extend(more.into_iter().map(|line| format!("{INDENT}{line}")));
    lines
}

fn recorded(summary: &Summary) -> String {
    format!(
        "wholestack: {:.1} s at {} Hz, {}, {}, {}; {} on CPU = {:.1} s of CPU",
        summary.duration_seconds,
        summary.frequency_hz,
        plural(summary.cpus.into(), "CPU"),
        plural(summary.processes as u64, "process"),
        plural(summary.threads as u64, "thread"),
        plural(summary.kept, "sample"),
        summary.cpu_seconds,
    )
}

fn quality(summary: &Summary) -> String {
    let mut figures = vec![
        format!("lost {}", with_percent(&summary.lost)),
        format!("truncated {}", with_percent(&summary.truncated)),
    ];
    if summary.guessed.count > 0 {
        figures.push(format!("guessed {}", with_percent(&summary.guessed)));
    }
    figures.push(format!(
        "unnamed frames {}",
        unnamed(&summary.unnamed_frames)
    ));
    let own_cost = summary.own_cpu_percent;
    figures.push(format!("own cost {own_cost:.1} % of one CPU"));
    if summary.unwind_table_bytes > 0 {
        figures.push(format!(
            "unwind tables {}",
            mebibytes(summary.unwind_table_bytes)
        ));
    }
    figures.join(" · ")
}

/// `12 (0.06 %)`, or a bare `0`.
fn with_percent(part: &Part) -> String {
    match part.count {
        0 => "0".to_owned(),
        count => format!("{count} ({})", small_part(part)),
    }
}

fn unnamed(part: &Part) -> String {
    if part.count > 0 && part.percent < 0.05 {
        return "<0.1 %".to_owned();
    }
    format!("{:.1} %", part.percent)
}

/// Why samples were lost or stacks truncated, where any were.
fn reasons(summary: &Summary) -> Vec<String> {
    let mut lines = Vec::new();
    let line = |what: &str, part: &Part, reasons: &[Counted]| {
        let reasons: Vec<String> = reasons
            .iter()
            .map(|reason| format!("{} {}", visible(&reason.name), reason.count))
            .collect();
        format!(
            "{what}: {} (of {} {})",
            reasons.join(", "),
            part.base,
            part.of
        )
    };
    if summary.lost.count > 0 {
        lines.push(line("lost", &summary.lost, &summary.lost_by_reason));
    }
    if summary.truncated.count > 0 {
        lines.push(line(
            "truncated",
            &summary.truncated,
            &summary.truncated_by_reason,
        ));
    }
    if !summary.balanced {
        let (taken, kept, lost) = (summary.taken, summary.kept, summary.lost.count);
        lines.push(format!(
            "the books do not balance: {taken} samples taken, but {kept} kept and {lost} lost"
        ));
    }
    lines
}

/// What the reader has to know to judge the figures.
fn remarks(summary: &Summary) -> Vec<String> {
    let mut lines = Vec::new();
    if !summary.closed {
        lines.push(
            "the recording was cut before it was closed: this is what it holds up to there"
                .to_owned(),
        );
    }
    lines.extend(few_samples(summary));
    lines.extend(
        summary
            .notes
            .iter()
            .map(|note| format!("note: {}", visible(note))),
    );
    let limits = summary.limits.iter();
    lines.extend(limits.map(|limit| {
        format!(
            "limit hit: {} ({})",
            visible(&limit.name),
            times(limit.count)
        )
    }));
    lines
}

fn few_samples(summary: &Summary) -> Option<String> {
    match (summary.kept, summary.lost.count) {
        (0, 0) if !summary.closed => {
            Some("no samples: the recording was cut before the first of them was written".to_owned())
        }
        (0, 0) => Some(
            "no samples: nothing that was watched ran on a CPU meanwhile. A program that waits takes no CPU time \
             and is not sampled; record longer (-d), or check which programs are watched (-p)"
                .to_owned(),
        ),
        (0, _) => Some("no samples left: all that were taken are lost, for the reasons above".to_owned()),
        (kept, _) if kept < FEW_SAMPLES => Some(format!(
            "only {}: below {FEW_SAMPLES} the shares say little; record longer (-d) or more often (-F)",
            plural(kept, "sample")
        )),
        _ => None,
    }
}

fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}
