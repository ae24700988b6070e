//! The line a recording shows while it runs, on stderr, and only where someone sees it.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What a running recording knows about itself.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Figures {
    /// Since sampling began.
    pub elapsed: Duration,
    /// Samples kept so far.
    pub samples: u64,
    /// Samples lost so far.
    pub lost: u64,
    /// wholestack's own CPU time so far, in percent of one CPU.
    pub own_cpu_percent: f64,
}

/// The progress line of one recording.
#[derive(Debug)]
pub struct Progress {
    line: ProgressBar,
    total: Option<Duration>,
}

impl Progress {
    /// A line for a recording of this length; `None` for one that is ended from outside. Without a
    /// terminal at stderr nothing is ever drawn.
    pub fn start(total: Option<Duration>) -> Self {
        let target = match std::io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr_with_hz(5),
            false => ProgressDrawTarget::hidden(),
        };
        Self::drawn_to(target, total)
    }

    fn drawn_to(target: ProgressDrawTarget, total: Option<Duration>) -> Self {
        let line = ProgressBar::with_draw_target(None, target);
        line.set_style(ProgressStyle::with_template("{msg}").expect("the template is a constant"));
        Self { line, total }
    }

    /// Shows new figures.
    pub fn update(&self, figures: &Figures) {
        self.line.set_message(text(figures, self.total));
        self.line.tick();
    }

    /// Takes the line away: what follows is the report.
    pub fn finish(self) {
        self.line.finish_and_clear();
    }
}

/// `12.0 of 45.0 s · 5021 samples · lost 0 · own 0.6 % of one CPU`.
fn text(figures: &Figures, total: Option<Duration>) -> String {
    let elapsed = figures.elapsed.as_secs_f64();
    let time = match total {
        Some(total) => format!("{elapsed:.1} of {:.1} s", total.as_secs_f64()),
        None => format!("{elapsed:.1} s"),
    };
    let samples = super::units::plural(figures.samples, "sample");
    format!(
        "{time} · {samples} · lost {} · own {:.1} % of one CPU",
        figures.lost, figures.own_cpu_percent
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::{Arc, Mutex};

    use indicatif::TermLike;

    use super::*;

    /// Keeps what is written to it; moves of the cursor are of no interest.
    #[derive(Debug, Clone, Default)]
    struct Screen(Arc<Mutex<String>>);

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            100
        }
        fn move_cursor_up(&self, _: usize) -> std::io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> std::io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> std::io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> std::io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> std::io::Result<()> {
            self.write_str(text)
        }
        fn write_str(&self, text: &str) -> std::io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }
        fn clear_line(&self) -> std::io::Result<()> {
            self.0.lock().unwrap().clear();
            Ok(())
        }
        fn flush(&self) -> std::io::Result<()> {
            Ok(())
        }
    }

    const FIGURES: Figures = Figures {
        elapsed: Duration::from_millis(12_040),
        samples: 1,
        lost: 3,
        own_cpu_percent: 0.61,
    };

    /// With an end and without one.
    #[test]
    fn texts() {
        let total = Some(Duration::from_secs(45));
        assert_eq!(
            text(&FIGURES, total),
            "12.0 of 45.0 s · 1 sample · lost 3 · own 0.6 % of one CPU"
        );
        assert_eq!(
            text(&FIGURES, None),
            "12.0 s · 1 sample · lost 3 · own 0.6 % of one CPU"
        );
    }

    /// One line, drawn over, gone at the end.
    #[test]
    fn the_line_comes_and_goes() {
        let screen = Screen::default();
        let shown = || screen.0.lock().unwrap().trim_end().to_owned();
        let target = ProgressDrawTarget::term_like(Box::new(screen.clone()));
        let progress = Progress::drawn_to(target, None);
        progress.update(&FIGURES);
        progress.update(&Figures {
            samples: 2,
            ..FIGURES
        });
        assert_eq!(
            shown(),
            "12.0 s · 2 samples · lost 3 · own 0.6 % of one CPU"
        );
        progress.finish();
        assert_eq!(shown(), "");
    }
}
