//! The lines of a folded file that say where the samples went.
//!
//! The format has no comments, but its readers leave room for one: inferno skips lines that begin
//! with `# `, and a line with a count of 0 adds nothing for flamegraph.pl and speedscope, which would
//! complain about a line without a count. A line that is both passes all three in silence and changes
//! no total. Its last word but one is never a number: flamegraph.pl would take it for a second count.

use crate::profile::{Accounting, Loss, Truncation};

/// One line for the books, one for each reason that occurred.
pub(super) fn lines(books: &Accounting) -> Vec<String> {
    let (taken, kept, lost) = (books.taken, books.kept(), books.lost_total());
    let truncated = books.truncated_total();
    let first = format!(
        "# wholestack;taken {taken}, kept {kept}, lost {lost}, truncated {truncated} samples 0"
    );
    let lost = Loss::ALL.iter().filter_map(|reason| {
        let count = books.lost.get(reason).filter(|count| **count > 0)?;
        Some(format!(
            "# wholestack;lost;{}: {count} samples 0",
            reason.text()
        ))
    });
    let truncated = Truncation::ALL.iter().filter_map(|reason| {
        let count = books.truncated.get(reason).filter(|count| **count > 0)?;
        Some(format!(
            "# wholestack;truncated;{}: {count} samples 0",
            reason.text()
        ))
    });
    let guessed =
        (books.guessed > 0).then(|| format!("# wholestack;guessed: {} samples 0", books.guessed));
    std::iter::once(first)
        .chain(lost)
        .chain(truncated)
        .chain(guessed)
        .collect()
}
