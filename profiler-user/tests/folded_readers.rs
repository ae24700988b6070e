//! Folded files as their readers see them: the `inferno` crate itself, and the rules by which
//! flamegraph.pl and speedscope split a line, written down here a second time.
//!
//! Inferno reports what it cannot read through the `log` crate, so this is a program of its own: a
//! process has only one logger.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use inferno::flamegraph;
use wholestack::export::{Exporter, Folded, unescape};
use wholestack::profile::{
    Frame, FrameKind, GilState, Loss, Process, ProcessId, Profile, Sample, StringId, Thread,
    ThreadId, Truncation,
};

/// Names that break careless writers, among them those of `names.py` in the field reports.
const NAMES: [&str; 26] = [
    "zażółć_gęślą",
    "кириллица",
    "函数_𝒳",
    "a;b;c",
    "two words 12",
    "line1\nline2",
    "q\"<&>'x",
    "esc\u{1b}[31m",
    "trail 7",
    "trail 7 8",
    "trail 1.5",
    " lead",
    "",
    "semi; 99",
    "back\\slash",
    "\\u{3b}",
    "carriage\rreturn",
    "next\u{85}line",
    "para\u{2029}graph",
    "no-break\u{a0}12",
    "arabic ٣",
    "# comment",
    "entry_[k]",
    "-",
    "--",
    "La/b/C;::m",
];

/// What inferno had to say.
static COMPLAINTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Collect;

impl log::Log for Collect {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        if record.level() <= log::Level::Warn {
            COMPLAINTS.lock().unwrap().push(record.args().to_string());
        }
    }

    fn flush(&self) {}
}

/// Two threads, each name as a bare leaf, as a middle frame and as a Python function, with losses.
fn profile() -> Profile {
    let mut profile = Profile::default();
    let name = profile.strings.intern("proc;ess 12");
    profile.processes.push(Process {
        pid: 7,
        name,
        command: StringId::default(),
        ended_ns: None,
    });
    for tid in 0..2 {
        let name = profile.strings.intern("# thread");
        profile.threads.push(Thread {
            process: ProcessId(0),
            tid,
            name,
            cpu_ns: None,
        });
    }
    for (index, name) in NAMES.iter().enumerate() {
        let text = profile.strings.intern(name);
        let file = profile.strings.intern("/x/names.py");
        let bare = profile.intern_frame(Frame::marker(text));
        let python = Frame {
            kind: FrameKind::Python,
            file,
            line: 6,
            first_line: 6,
            ..Frame::marker(text)
        };
        let python = profile.intern_frame(python);
        for (number, frames) in [vec![bare], vec![python, bare], vec![bare, python, bare]]
            .iter()
            .enumerate()
        {
            let stack = profile.intern_stack(frames);
            let truncation = (number == 2).then_some(Truncation::PythonLate);
            for _ in 0..=index {
                let thread = ThreadId(u32::try_from(number % 2).unwrap());
                profile.add_sample(&Sample {
                    time_ns: 0,
                    cpu: 0,
                    thread,
                    stack,
                    gil: GilState::None,
                    truncation,
                });
            }
        }
    }
    profile.accounting.lose(Loss::RingFull, 12);
    profile.accounting.taken = profile.kept() + 12;
    profile
}

fn folded() -> String {
    let mut out = Vec::new();
    Folded.write(&profile(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The stacks of the profile, root first, as they are meant to be read.
fn expected() -> BTreeMap<Vec<String>, u64> {
    let mut stacks = BTreeMap::new();
    for (index, name) in NAMES.iter().enumerate() {
        let (bare, python) = ((*name).to_owned(), format!("{name} (names.py:6)"));
        for (number, frames) in [
            vec![bare.clone()],
            vec![bare.clone(), python.clone()],
            vec![bare.clone(), python, bare],
        ]
        .into_iter()
        .enumerate()
        {
            let start = vec![
                "proc;ess 12 (7)".to_owned(),
                format!("# thread ({})", number % 2),
            ];
            stacks.insert([start, frames].concat(), index as u64 + 1);
        }
    }
    stacks
}

/// Stacks that a way of reading lines finds, with names unescaped; lines that count nothing add nothing.
fn read(folded: &str, split: impl Fn(&str) -> Option<(&str, u64)>) -> BTreeMap<Vec<String>, u64> {
    let mut stacks = BTreeMap::new();
    for line in folded.lines() {
        let (stack, count) = split(line).unwrap_or_else(|| panic!("no count: {line}"));
        if count > 0 {
            let names = stack
                .split(';')
                .map(|name| unescape(name).unwrap())
                .collect();
            assert_eq!(
                stacks.insert(names, count),
                None,
                "two lines for one stack: {line}"
            );
        }
    }
    stacks
}

/// inferno draws every sample, knows every frame by name, and complains about nothing.
#[test]
fn inferno_reads_it_all() {
    log::set_logger(&Collect).unwrap();
    log::set_max_level(log::LevelFilter::Trace);
    let (folded, profile) = (folded(), profile());
    let mut svg = Vec::new();
    let mut options = flamegraph::Options::default();
    options.min_width = 0.0;
    flamegraph::from_lines(&mut options, folded.lines(), &mut svg).unwrap();
    let svg = String::from_utf8(svg).unwrap();
    let all = format!("<title>all ({} samples, 100%)</title>", profile.kept());
    assert!(svg.replace(',', "").contains(&all.replace(',', "")));
    assert_eq!(*COMPLAINTS.lock().unwrap(), Vec::<String>::new());
    let expected: BTreeSet<String> = expected().into_keys().flatten().collect();
    assert_eq!(box_names(&svg), expected);
}

/// The names of the boxes in a flame graph, without the one for everything.
fn box_names(svg: &str) -> BTreeSet<String> {
    let titles = svg
        .split("<title>")
        .skip(1)
        .filter_map(|rest| rest.split_once("</title>"));
    let names = titles.filter_map(|(title, _)| title.rsplit_once(" ("));
    let entities = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&apos;", "'"),
        ("&amp;", "&"),
    ];
    names
        .map(|(name, _)| {
            entities
                .iter()
                .fold(name.to_owned(), |name, (from, to)| name.replace(from, to))
        })
        .filter(|name| name != "all")
        .map(|name| unescape(&name).unwrap())
        .collect()
}

/// flamegraph.pl takes the number after the last blank, and a number before that for a second count.
#[test]
fn flamegraph_pl_reads_it_all() {
    let count = |line: &str| {
        let at = line.rfind(char::is_whitespace)?;
        let number = &line[at..].trim_start();
        let is_count = number.chars().next().is_some_and(char::is_numeric)
            && number.chars().all(|c| c.is_numeric() || c == '.');
        is_count.then(|| (line[..at].to_owned(), (*number).to_owned()))
    };
    let stacks = read(&folded(), |line| {
        let (stack, number) = count(line)?;
        assert_eq!(count(&stack), None, "a second count: {line}");
        Some((&line[..stack.len()], number.parse().ok()?))
    });
    assert_eq!(stacks, expected());
}

/// speedscope wants a blank and a number at the end of every line; its `.` stops at line separators.
#[test]
fn speedscope_reads_it_all() {
    let stacks = read(&folded(), |line| {
        assert!(!line.contains(['\r', '\u{2028}', '\u{2029}']));
        let (stack, number) = line.rsplit_once(' ')?;
        Some((stack, number.parse().ok()?))
    });
    assert_eq!(stacks, expected());
}

/// The file says how many samples there were, lost ones included, in lines that count nothing.
#[test]
fn the_books_are_in_the_file() {
    let folded = folded();
    let books: Vec<&str> = folded
        .lines()
        .filter(|line| line.starts_with("# "))
        .collect();
    let kept = profile().kept();
    assert_eq!(books.len(), 3);
    assert!(books[0].contains(&format!(
        "taken {}, kept {kept}, lost 12, truncated ",
        kept + 12
    )));
    assert!(
        books[1].contains("ring buffer full: 12") && books[2].contains("Python not known yet: ")
    );
    assert!(books.iter().all(|line| line.ends_with(" 0")));
}
