//! Folded stacks, read as docs/formats/folded.md describes them, by the tests' own reader.

use std::fs;
use std::path::Path;

use wholestack::export::unescape;

/// A folded file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folded {
    /// The file as it is.
    pub text: String,
    /// Its stacks.
    pub stacks: Vec<Stack>,
    /// Samples taken, kept, lost, truncated, as its first line says.
    pub books: [u64; 4],
    /// Reasons of losses and their counts.
    pub losses: Vec<(String, u64)>,
}

/// A distinct stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// Process.
    pub process: Task,
    /// Thread.
    pub thread: Task,
    /// Frames, root first.
    pub frames: Vec<String>,
    /// Samples.
    pub count: u64,
}

/// A process or thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Name.
    pub name: String,
    /// Pid or tid.
    pub id: u32,
}

/// A frame in source code, `function (file:line)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source<'a> {
    /// Function.
    pub function: &'a str,
    /// Last part of the file's path.
    pub file: &'a str,
    /// The line being executed.
    pub line: u32,
}

impl Folded {
    /// Reads a file.
    pub fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).expect("the stacks were written");
        let mut lines = text.lines();
        let books = lines
            .next()
            .and_then(books)
            .unwrap_or_else(|| panic!("no books in {text}"));
        let losses = text.lines().filter_map(loss).collect();
        let stacks = lines
            .filter(|line| !line.starts_with("# "))
            .map(Stack::parse)
            .collect();
        Self {
            text,
            stacks,
            books,
            losses,
        }
    }

    /// Samples in all.
    pub fn samples(&self) -> u64 {
        self.count(|_| true)
    }

    /// Samples in stacks like that.
    pub fn count(&self, like: impl Fn(&Stack) -> bool) -> u64 {
        self.stacks
            .iter()
            .filter(|stack| like(stack))
            .map(|stack| stack.count)
            .sum()
    }

    /// The stacks of one process.
    pub fn of_process(&self, pid: u32) -> impl Iterator<Item = &Stack> {
        self.stacks
            .iter()
            .filter(move |stack| stack.process.id == pid)
    }
}

impl Stack {
    fn parse(line: &str) -> Self {
        let (stack, count) = line
            .rsplit_once(' ')
            .unwrap_or_else(|| panic!("no count: {line}"));
        let count = count.parse().unwrap_or_else(|_| panic!("no count: {line}"));
        let name = |name| unescape(name).unwrap_or_else(|_| panic!("no such escape: {line}"));
        let mut names = stack.split(';').map(name);
        let mut task = || {
            let text = names.next()?;
            let (name, id) = text
                .split_once(" #")
                .map_or(&*text, |(task, _)| task)
                .strip_suffix(')')?
                .rsplit_once(" (")?;
            Some(Task {
                name: name.to_owned(),
                id: id.parse().ok()?,
            })
        };
        let (process, thread) = task()
            .zip(task())
            .unwrap_or_else(|| panic!("no process and thread: {line}"));
        Self {
            process,
            thread,
            frames: names.collect(),
            count,
        }
    }

    /// Whether the frame is in the stack.
    pub fn has(&self, frame: &str) -> bool {
        self.frames.iter().any(|found| found == frame)
    }

    /// Whether there is a frame of kernel code.
    pub fn has_kernel(&self) -> bool {
        self.frames.iter().any(|frame| frame.ends_with(" [kernel]"))
    }

    /// The frames in this source file, root first.
    pub fn in_file<'a>(&'a self, file: &'a str) -> impl Iterator<Item = Source<'a>> + 'a {
        self.frames
            .iter()
            .filter_map(|frame| Source::parse(frame))
            .filter(move |source| source.file == file)
    }

    /// Whether this function of this source file is in the stack.
    pub fn has_function(&self, file: &str, function: &str) -> bool {
        self.in_file(file).any(|source| source.function == function)
    }
}

impl<'a> Source<'a> {
    /// Takes a frame apart, if it is one in source code.
    pub fn parse(frame: &'a str) -> Option<Self> {
        let (function, place) = frame.strip_suffix(')')?.rsplit_once(" (")?;
        let (file, line) = place.rsplit_once(':')?;
        Some(Self {
            function,
            file,
            line: line.parse().ok()?,
        })
    }
}

/// `# wholestack;taken 12, kept 11, lost 1, truncated 3 samples 0`
fn books(line: &str) -> Option<[u64; 4]> {
    let list = line
        .strip_prefix("# wholestack;")?
        .strip_suffix(" samples 0")?;
    let mut figures = list
        .split(", ")
        .zip(["taken ", "kept ", "lost ", "truncated "]);
    let mut next = || {
        figures
            .next()
            .and_then(|(text, name)| text.strip_prefix(name)?.parse().ok())
    };
    Some([next()?, next()?, next()?, next()?])
}

/// `# wholestack;lost;REASON: 12 samples 0`
fn loss(line: &str) -> Option<(String, u64)> {
    let (reason, count) = line
        .strip_prefix("# wholestack;lost;")?
        .strip_suffix(" samples 0")?
        .rsplit_once(": ")?;
    Some((reason.to_owned(), count.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line is taken apart into process, thread, frames and count; a frame into function, file and line.
    #[test]
    fn lines_are_taken_apart() {
        let stack = Stack::parse("py th (on) (7) #2;main (8);<lambda> (a b.py:12);x [kernel] 34");
        assert_eq!(
            stack.process,
            Task {
                name: "py th (on)".to_owned(),
                id: 7
            }
        );
        assert_eq!((stack.thread.id, stack.count), (8, 34));
        assert!(stack.has_kernel() && stack.has_function("a b.py", "<lambda>"));
        assert_eq!(
            stack
                .in_file("a b.py")
                .map(|source| source.line)
                .collect::<Vec<_>>(),
            [12]
        );
        assert_eq!(Source::parse("main (libc.so.6)"), None);
    }

    /// The first line's books and the reasons of losses are found.
    #[test]
    fn books_are_read() {
        assert_eq!(
            books("# wholestack;taken 12, kept 11, lost 1, truncated 3 samples 0"),
            Some([12, 11, 1, 3])
        );
        assert_eq!(
            loss("# wholestack;lost;ring full: 2 samples 0"),
            Some(("ring full".to_owned(), 2))
        );
    }
}
