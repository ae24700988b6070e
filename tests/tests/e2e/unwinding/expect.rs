//! What a stack may look like: the chain of calls, root first, and what may be missing from it.

use std::collections::HashMap;

use wholestack_tests::samples::{Frame, Sample};

/// Functions of the C library that a static program shows under their own names.
const STARTERS: [&str; 3] = [
    "__libc_start_main",
    "__libc_start_main_impl",
    "__libc_start_call_main",
];

/// A place in a chain of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// This function of the program.
    Own(&'static str),
    /// This function of a library whose file has this name.
    In(&'static str, &'static str),
    /// What the C library runs before a program or a thread begins, and where a handler returns to.
    Runtime,
    /// Any function of the C library, or of the program's linkage table.
    Library,
    /// Any function of the C library or of the loader.
    Loader,
    /// The library that the kernel puts into every process.
    Vdso,
}

/// A place, and how many frames it has at least and at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part(pub Place, pub usize, pub usize);

/// One frame of a function of the program.
pub const fn own(function: &'static str) -> Part {
    Part(Place::Own(function), 1, 1)
}

/// How far a stack is what was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The chain, from root to leaf.
    Whole,
    /// Its leaf side, with a mark where the rest is missing.
    Cut,
    /// Nothing of the program's own code that is known.
    Elsewhere,
}

/// A program, and the only ways in which its functions call each other.
#[derive(Debug, Clone)]
pub struct Program {
    /// Name of its file.
    pub name: &'static str,
    /// Chains of calls, root first. Kernel code may follow behind each.
    pub chains: Vec<Vec<Part>>,
    /// Functions that have no name in the file, by what they show instead.
    pub unnamed: HashMap<String, String>,
}

impl Program {
    /// A program whose functions have names.
    pub fn new(name: &'static str, chains: Vec<Vec<Part>>) -> Self {
        Self {
            name,
            chains,
            unnamed: HashMap::new(),
        }
    }

    /// Compares a sample with the chains. An error is a caller that is none: it stands in no chain.
    pub fn judge(&self, sample: &Sample) -> Result<Verdict, String> {
        let user: Vec<Frame> = sample
            .frames
            .iter()
            .filter(|frame| !frame.is_kernel())
            .map(|frame| self.named(frame))
            .collect();
        let callers = user.iter().take_while(|frame| frame.is_marker()).count();
        let (marks, frames) = user.split_at(callers);
        if frames.iter().any(Frame::is_marker) {
            return Err("a mark in the middle".to_owned());
        }
        let cut = !marks.is_empty();
        if cut != sample.truncation.is_some() {
            return Err(format!(
                "marked: {cut}; its reason: {:?}",
                sample.truncation
            ));
        }
        if !frames.iter().any(|frame| self.is_known(frame)) {
            return Ok(Verdict::Elsewhere);
        }
        let mut verdicts = self.chains.iter().map(|chain| self.fits(chain, frames));
        match (cut, verdicts.clone().flatten().max()) {
            (false, Some(true)) => Ok(Verdict::Whole),
            (true, Some(_)) if verdicts.any(|verdict| verdict == Some(false)) => Ok(Verdict::Cut),
            (false, Some(false)) => Err("something is missing without a mark".to_owned()),
            (true, Some(_)) => Err("a mark, but nothing is missing".to_owned()),
            (_, None) => Err("they do not call each other so".to_owned()),
        }
    }

    fn named(&self, frame: &Frame) -> Frame {
        let name = (frame.module == self.name)
            .then(|| self.unnamed.get(&frame.function))
            .flatten();
        Frame {
            function: name.unwrap_or(&frame.function).clone(),
            ..frame.clone()
        }
    }

    /// Whether a frame is of a function that only the chains lead to.
    fn is_known(&self, frame: &Frame) -> bool {
        let known = |part: &Part| match part.0 {
            Place::Own(function) => {
                !["_start", "main"].contains(&function) && self.is_at(frame, part.0)
            }
            Place::In(..) => self.is_at(frame, part.0),
            Place::Runtime | Place::Library | Place::Loader | Place::Vdso => false,
        };
        self.chains.iter().flatten().any(known)
    }

    /// `Some(true)` if the frames are the chain, `Some(false)` if they are its leaf side.
    fn fits(&self, chain: &[Part], frames: &[Frame]) -> Option<bool> {
        let mut left = frames;
        for Part(place, least, most) in chain.iter().rev() {
            let mut seen = 0;
            while seen < *most
                && let Some((frame, callers)) = left.split_last()
                && self.is_at(frame, *place)
            {
                left = callers;
                seen += 1;
            }
            if seen < *least {
                return left.is_empty().then_some(false);
            }
        }
        left.is_empty().then_some(true)
    }

    fn is_at(&self, frame: &Frame, place: Place) -> bool {
        let own = frame.module == self.name;
        let function = frame.function.as_str();
        let c_library = frame.module.starts_with("libc.so");
        match place {
            Place::Own(name) => own && function == name,
            Place::In(module, name) => frame.module == module && function == name,
            Place::Runtime => c_library || own && STARTERS.contains(&function),
            Place::Library => {
                c_library
                    || own && (function.starts_with('+') || function.contains("clock_gettime"))
            }
            Place::Loader => c_library || frame.module.starts_with("ld-"),
            Place::Vdso => frame.module == "[vdso]",
        }
    }
}

#[cfg(test)]
mod tests {
    use wholestack::profile::{FrameKind, Truncation};

    use super::*;

    fn program() -> Program {
        let begin = [
            own("_start"),
            Part(Place::Runtime, 1, 2),
            own("main"),
            own("fa"),
        ];
        let leaf = [begin.as_slice(), &[own("fb")]].concat();
        let clock = [begin.as_slice(), &[Part(Place::Vdso, 1, 2)]].concat();
        Program::new("prog", vec![leaf, clock])
    }

    fn judge(frames: &str, truncation: Option<Truncation>) -> Result<Verdict, String> {
        let frame = |text: &str| {
            let (kind, function, module) = match text.split_once('@') {
                Some((function, "kernel")) => (FrameKind::Kernel, function, ""),
                Some((function, module)) => (FrameKind::Native, function, module),
                None if text.starts_with('[') => (FrameKind::Marker, text, ""),
                None => (FrameKind::Native, text, "prog"),
            };
            Frame {
                kind,
                function: function.to_owned(),
                module: module.to_owned(),
            }
        };
        program().judge(&Sample {
            time_ns: 0,
            pid: 1,
            process: "prog".to_owned(),
            frames: frames.split(' ').map(frame).collect(),
            truncation,
        })
    }

    /// Whole chains are whole, cut ones are cut, with kernel code behind them or without.
    #[test]
    fn right_stacks() {
        let cut = Some(Truncation::NoTable);
        for (frames, truncation, expected) in [
            (
                "_start x@libc.so.6 y@libc.so.6 main fa fb",
                None,
                Verdict::Whole,
            ),
            (
                "_start x@libc.so.6 main fa fb tick@kernel",
                None,
                Verdict::Whole,
            ),
            (
                "_start x@libc.so.6 main fa +0x12@[vdso]",
                None,
                Verdict::Whole,
            ),
            ("[cut] y@libc.so.6 main fa fb", cut, Verdict::Cut),
            ("[cut] fb", cut, Verdict::Cut),
            (
                "_start x@libc.so.6 exit@libc.so.6",
                None,
                Verdict::Elsewhere,
            ),
        ] {
            assert_eq!(judge(frames, truncation), Ok(expected), "{frames}");
        }
    }

    /// Every other caller, a gap without a mark and a mark without a gap are refused.
    #[test]
    fn wrong_stacks() {
        let cut = Some(Truncation::NoTable);
        for (frames, truncation) in [
            ("_start x@libc.so.6 main fb", None),
            ("_start x@libc.so.6 main fa fa fb", None),
            ("_start main fa fb", None),
            (
                "_start x@libc.so.6 y@libc.so.6 z@libc.so.6 main fa fb",
                None,
            ),
            ("_start x@libc.so.6 other fa fb", None),
            ("main fa fb", None),
            ("[cut] _start x@libc.so.6 main fa fb", cut),
            ("[cut] main fb", cut),
            ("[cut] other fa fb", cut),
            ("main fa fb", cut),
            ("[cut] main fa fb", None),
            ("_start [cut] fa fb", cut),
        ] {
            assert!(judge(frames, truncation).is_err(), "{frames}");
        }
    }
}
