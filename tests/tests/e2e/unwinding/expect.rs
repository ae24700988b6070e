//! What a stack may look like: the chain of calls, root first, and what may be missing from it.

use std::fs;
use std::ops::Range;
use std::path::Path;

use object::{Object as _, ObjectSegment as _, ObjectSymbol as _, SymbolKind};
use wholestack::profile::Truncation;
use wholestack_tests::samples::{Frame, Sample};

/// Functions of the C library that a static program shows under their own names.
const STARTERS: [&str; 3] = [
    "__libc_start_main",
    "__libc_start_main_impl",
    "__libc_start_call_main",
];
/// What Rust's libraries, which a program contains, do not have for functions.
const NOT_RUST: [&str; 6] = ["_start", "main", "catches", "panics", "burn_until", "burn"];

/// A place in a chain of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// This function of the program.
    Own(&'static str),
    /// This function of a library whose file has this name.
    In(&'static str, &'static str),
    /// What the C library runs before a program or a thread begins, and where a handler returns to.
    Runtime,
    /// The clock being read: functions of the C library, the program's linkage table, or what is inlined.
    Clock,
    /// One of these functions of the program.
    AnyOwn(&'static [&'static str]),
    /// A function that leads an exception to its handler.
    Unwinder,
    /// Any function of the libraries that come with the compiler.
    Library,
    /// Any function of Rust's libraries, and closures.
    Rust,
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
    /// Where its functions lie in the file, if the file does not say.
    pub functions: Functions,
}

/// Functions by their extent, as offsets in a file.
#[derive(Debug, Clone, Default)]
pub struct Functions(Vec<(Range<u64>, String)>);

impl Functions {
    /// Reads the symbols of a file.
    pub fn read(path: &Path) -> Self {
        let data = fs::read(path).unwrap();
        let file = object::File::parse(&*data).unwrap();
        let functions = file.symbols().filter_map(|symbol| {
            let address = symbol.address();
            let inside = |start: u64, size: u64| (start..start + size).contains(&address);
            let segment = file
                .segments()
                .find(|segment| inside(segment.address(), segment.size()))?;
            let start = address - segment.address() + segment.file_range().0;
            let wanted = symbol.kind() == SymbolKind::Text && symbol.is_definition();
            wanted.then(|| {
                let name = symbol.name().unwrap().to_owned();
                (start..start + symbol.size(), name)
            })
        });
        Self(functions.collect())
    }

    /// The extent of a function.
    pub fn extent(&self, name: &str) -> Range<u64> {
        let found = self.0.iter().find(|(_, known)| known == name);
        found.unwrap_or_else(|| panic!("no {name}")).0.clone()
    }

    /// The function that begins at an offset.
    pub fn beginning_at(&self, offset: u64) -> Option<&str> {
        let found = self.0.iter().find(|(extent, _)| extent.start == offset);
        Some(&found?.1)
    }

    /// The function of an unnamed frame, `+0x12`.
    fn at(&self, unnamed: &str) -> Option<&str> {
        let offset = u64::from_str_radix(unnamed.strip_prefix("+0x")?, 16).ok()?;
        let found = self.0.iter().find(|(extent, _)| extent.contains(&offset));
        Some(&found?.1)
    }
}

impl Program {
    /// A program whose functions have names.
    pub fn new(name: &'static str, chains: Vec<Vec<Part>>) -> Self {
        Self {
            name,
            chains,
            functions: Functions::default(),
        }
    }

    /// Compares a sample with the chains. An error is a caller that is none: it stands in no chain.
    pub fn judge(&self, sample: &Sample) -> Result<Verdict, String> {
        let user = sample.frames.iter().filter(|frame| !frame.is_kernel());
        let user: Vec<Frame> = user.map(|frame| self.named(frame)).collect();
        let marks = user.iter().take_while(|frame| frame.is_marker()).count();
        let (marks, frames) = user.split_at(marks);
        if frames.iter().any(Frame::is_marker) {
            return Err("a mark in the middle".to_owned());
        }
        let cut = !marks.is_empty();
        let user_cut = |why: &Truncation| *why != Truncation::KernelStack;
        if cut != sample.truncation.filter(user_cut).is_some() {
            return Err(format!("marked: {cut}; why: {:?}", sample.truncation));
        }
        if !frames.iter().any(|frame| self.is_known(frame)) {
            return Ok(Verdict::Elsewhere);
        }
        let fits = |chain: &Vec<Part>| self.fits(chain, frames);
        let fits: Vec<bool> = self.chains.iter().filter_map(fits).collect();
        match (cut, fits.contains(&true), fits.contains(&false)) {
            (false, true, _) => Ok(Verdict::Whole),
            (true, _, true) => Ok(Verdict::Cut),
            (false, false, true) => Err("something is missing without a mark".to_owned()),
            (true, true, false) => Err("a mark, but nothing is missing".to_owned()),
            (_, false, false) => Err("they do not call each other so".to_owned()),
        }
    }

    fn named(&self, frame: &Frame) -> Frame {
        let own = frame.module == self.name;
        let name = own.then(|| self.functions.at(&frame.function)).flatten();
        let name = name.unwrap_or(&frame.function);
        Frame {
            // A part of a function that the compiler put elsewhere.
            function: name.strip_suffix(".cold").unwrap_or(name).to_owned(),
            ..frame.clone()
        }
    }

    /// Whether a frame is of a function that only the chains lead to.
    fn is_known(&self, frame: &Frame) -> bool {
        let known = |part: &Part| match part.0 {
            Place::Own("_start" | "main") => false,
            Place::Own(_) | Place::In(..) => self.is_at(frame, part.0),
            _ => false,
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
        // Rust's symbols have their crate before them, its debug information does not.
        let full = frame.function.as_str();
        let function = full.strip_prefix("rust_chain::").unwrap_or(full);
        let library = |names: &[&str]| names.iter().any(|name| frame.module.starts_with(name));
        match place {
            Place::Own(name) => own && function == name,
            Place::In(module, name) => frame.module == module && function == name,
            Place::Runtime => library(&["libc.so"]) || own && STARTERS.contains(&function),
            Place::Clock => {
                let own_clock = function.starts_with('+') || function.contains("clock_");
                library(&["libc.so"]) || own && own_clock
            }
            Place::AnyOwn(names) => own && names.contains(&function),
            Place::Unwinder => library(&["libgcc_s."]) && function.starts_with("_Unwind_"),
            Place::Library => library(&["libc.so", "ld-", "libgcc_s.", "libstdc++."]),
            Place::Rust => own && !NOT_RUST.contains(&function),
            Place::Vdso => frame.module == "[vdso]",
        }
    }
}

#[cfg(test)]
mod tests {
    use wholestack::profile::FrameKind;

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
