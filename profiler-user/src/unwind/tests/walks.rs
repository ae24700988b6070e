//! Whole walks, by the very code that walks in the kernel, over stacks that a program wrote out: each frame
//! against the program's own functions and against framehop.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use bytemuck::AnyBitPattern;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder as _};
use object::{Object as _, ObjectSymbol as _};
use profiler_ebpf::memory::UserMemory;
use profiler_ebpf::unwind::{Registers, step};
use profiler_ebpf::wire::{NO_TABLE_EVER, NativeEnd, SpaceEntry, SpaceRef};

use super::sections::Sections;
use super::skip;
use crate::process::ElfLoad;
use crate::unwind::build;

const SOURCE: &str = include_str!("walk.c");

/// How the program's functions call each other, outermost first. In between are the C library's.
const CHAIN: [&str; 10] = [
    "run",
    "deep",
    "deep",
    "deep",
    "deep",
    "large",
    "realigned",
    "interrupted",
    "handler",
    "leaf",
];

/// What calls the outermost on the program's main thread.
const OUTER: [&str; 2] = ["_start", "main"];

/// What a program wrote out.
struct Stored {
    registers: Registers,
    /// Bytes by address.
    memory: BTreeMap<u64, Vec<u8>>,
    /// Start, end, file offset and file of the executable mappings.
    mappings: Vec<(u64, u64, u64, PathBuf)>,
}

impl Stored {
    fn parse(text: &str) -> Self {
        let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
        let mut stored = Self {
            registers: Registers::default(),
            memory: BTreeMap::new(),
            mappings: Vec::new(),
        };
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["registers", pc, sp, fp] => {
                    let [pc, sp, fp] = [pc, sp, fp].map(number);
                    stored.registers = Registers { pc, sp, fp };
                }
                ["memory", start, bytes] => {
                    let bytes = (0..bytes.len()).step_by(2).map(|at| &bytes[at..at + 2]);
                    let bytes = bytes.map(|byte| u8::from_str_radix(byte, 16).unwrap());
                    stored.memory.insert(number(start), bytes.collect());
                }
                ["map", range, _, offset, _, _, path] => {
                    let (start, end) = range.split_once('-').unwrap();
                    let mapping = (number(start), number(end), number(offset), path.into());
                    stored.mappings.push(mapping);
                }
                _ => panic!("{line}"),
            }
        }
        stored
    }
}

impl UserMemory for &Stored {
    fn read<T: AnyBitPattern>(&self, address: u64) -> Option<T> {
        let (start, bytes) = self.memory.range(..=address).next_back()?;
        let at = usize::try_from(address - start).unwrap();
        let bytes = bytes.get(at..at.checked_add(size_of::<T>())?)?;
        Some(bytemuck::pod_read_unaligned(bytes))
    }
}

/// Mappings and tables, as they lie in the memory both sides see.
fn lay_out(stored: &Stored) -> (Vec<u64>, SpaceRef) {
    let (mut words, mut entries) = (vec![0], Vec::new());
    for (start, end, offset, path) in &stored.mappings {
        let mut entry = SpaceEntry {
            start: *start,
            end: *end,
            pages: NO_TABLE_EVER,
            ..SpaceEntry::default()
        };
        if let Ok(file) = File::open(path) {
            let table = build(&file).unwrap();
            let bias = ElfLoad::read(&file).unwrap().bias(*start, *offset).unwrap();
            entry.origin = bias.wrapping_add(table.base);
            entry.table = words.len().try_into().unwrap();
            entry.pages = table.pages;
            words.extend(table.words);
        }
        entries.push(entry);
    }
    let space = SpaceRef {
        start: words.len().try_into().unwrap(),
        count: entries.len().try_into().unwrap(),
    };
    words.extend(bytemuck::cast_slice::<_, u64>(&entries));
    (words, space)
}

/// A frame, and whether its `pc` is a return address.
type Frame = (Registers, bool);

/// Frames from the leaf outwards, and how the walk ended.
fn walk(stored: &Stored) -> (Vec<Frame>, NativeEnd) {
    let (words, space) = lay_out(stored);
    let word = |index: u32| words.get(index as usize).copied();
    let mut frames = vec![(stored.registers, false)];
    loop {
        let (frame, returns) = frames[frames.len() - 1];
        assert!(frames.len() < 100);
        match step(&stored, frame, returns, space, word) {
            Ok((caller, guess)) => {
                assert_eq!(guess, 0, "{frames:x?}");
                frames.push((caller.registers, !caller.interrupted));
            }
            Err(end) => return (frames, end),
        }
    }
}

/// Each frame's caller by framehop, which cannot leave a signal handler. Returns how many it found. (Of a
/// realigned frame it finds the return address, but not the stack pointer.)
fn check_by_framehop(stored: &Stored, frames: &[Frame]) -> usize {
    let mut unwinder = UnwinderX86_64::new();
    for (start, end, offset, path) in &stored.mappings {
        let Ok(file) = File::open(path) else { continue };
        let sections = Sections::read(path);
        let bias = ElfLoad::read(&file).unwrap().bias(*start, *offset).unwrap();
        let size = sections.frames.len() as u64;
        let info = ExplicitModuleSectionInfo {
            eh_frame_svma: Some(sections.address..sections.address + size),
            eh_frame: Some(sections.frames),
            ..ExplicitModuleSectionInfo::default()
        };
        let name = path.display().to_string();
        unwinder.add_module(Module::new(name, *start..*end, bias, info));
    }
    let mut cache = CacheX86_64::<_>::new();
    let mut read = |address| stored.read::<u64>(address).ok_or(());
    let mut found = 0;
    for pair in frames.windows(2) {
        let [(frame, returns), (caller, caller_returns)] = pair else {
            continue;
        };
        let mut registers = UnwindRegsX86_64::new(frame.pc, frame.sp, frame.fp);
        let at = if *returns {
            FrameAddress::from_return_address(frame.pc).unwrap()
        } else {
            FrameAddress::from_instruction_pointer(frame.pc)
        };
        let theirs = unwinder.unwind_frame(at, &mut registers, &mut cache, &mut read);
        if let Ok(Some(pc)) = theirs
            && *caller_returns
        {
            assert_eq!(pc, caller.pc, "{frame:x?}");
            found += 1;
        }
    }
    found
}

/// The program's own functions that lie at these addresses, outermost first.
fn own_functions(stored: &Stored, program: &Path, frames: &[Frame]) -> Vec<String> {
    let data = std::fs::read(program).unwrap();
    let elf = object::File::parse(&*data).unwrap();
    let mapped = |mapping: &&(u64, u64, u64, PathBuf)| mapping.3 == *program;
    let (start, _, offset, _) = stored.mappings.iter().find(mapped).unwrap();
    let load = ElfLoad::read(&File::open(program).unwrap()).unwrap();
    let bias = load.bias(*start, *offset).unwrap();
    let name = |(frame, _): &Frame| {
        let address = frame.pc.wrapping_sub(bias) - 1;
        let symbol = elf
            .symbols()
            .find(|symbol| (symbol.address()..symbol.address() + symbol.size()).contains(&address));
        let name = symbol?.name().unwrap().to_owned();
        (CHAIN.contains(&&*name) || OUTER.contains(&&*name)).then_some(name)
    };
    frames.iter().rev().filter_map(name).collect()
}

/// Walks; returns how many frames' callers framehop did not find.
fn check(flags: &[&str], thread: bool) -> usize {
    let test = "unwind::tests::walks";
    let folder = tempfile::tempdir().unwrap();
    let [source, program, out] = ["walk.c", "walk", "out"].map(|name| folder.path().join(name));
    std::fs::write(&source, SOURCE).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-pthread"]).args(flags).arg("-o");
    let built = compiler.arg(&program).arg(&source).output();
    if !built.is_ok_and(|output| output.status.success()) {
        skip(test, &format!("no cc that takes {flags:?}"));
        return 0;
    }
    let mut run = Command::new(&program);
    run.arg(&out).args(thread.then_some("thread"));
    assert!(run.status().unwrap().success());
    let stored = Stored::parse(&std::fs::read_to_string(&out).unwrap());
    let (frames, end) = walk(&stored);
    let own = own_functions(&stored, &program, &frames);
    let outer = if thread { &[] } else { &OUTER[..] };
    let expected: Vec<&str> = outer.iter().chain(&CHAIN).copied().collect();
    assert_eq!(own, expected, "{flags:?}");
    assert_eq!(end, NativeEnd::Outermost, "{flags:?}");
    // Framehop guesses where nothing is described.
    if flags.contains(&"-fno-unwind-tables") {
        return 0;
    }
    frames.len() - 1 - check_by_framehop(&stored, &frames)
}

/// From a signal handler on its own stack through realigned and large frames to where the program begins.
#[test]
fn down_to_the_start() {
    for flags in [
        &["-fomit-frame-pointer"][..],
        &["-fno-omit-frame-pointer"],
        &["-no-pie"],
        &["-Wl,-z,noseparate-code"],
        &["-static"],
        &["-static-pie", "-fPIE"],
    ] {
        // Out of the handler.
        assert!(check(flags, false) <= 1, "{flags:?}");
    }
}

/// The same on another thread, down to where that begins.
#[test]
fn down_to_the_thread() {
    for flags in [
        &["-fomit-frame-pointer"][..],
        &["-fno-omit-frame-pointer", "-static"],
    ] {
        assert!(check(flags, true) <= 1, "{flags:?}");
    }
}

/// A program that has no call frame information of its own, walked by what its code tells.
#[test]
fn without_call_frame_information() {
    check(
        &["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"],
        false,
    );
}
