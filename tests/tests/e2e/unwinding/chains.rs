//! The programs, and how their functions call each other.

use std::fs;
use std::process::Command;
use std::sync::LazyLock;

use wholestack_tests::scratch::{Scratch, small_program, workload};

use super::expect::{Functions, Part, Place, Program, own};
use super::gallery::{Exhibit, Gallery};

/// How a program begins.
const START: [Part; 3] = [own("_start"), Part(Place::Runtime, 1, 2), own("main")];
/// How a thread begins.
const THREAD: [Part; 1] = [Part(Place::Runtime, 1, 2)];
/// The clock being read.
const CLOCK: [Part; 2] = [Part(Place::Clock, 0, 2), Part(Place::Vdso, 0, 2)];
/// A library being called; for the first time, by way of the loader, which looks for it.
const LIBRARY: [Part; 1] = [Part(Place::Library, 1, 40)];
/// The end of most chains.
const BURN: [&str; 2] = ["burn_until", "burn"];

/// How long a program runs: one second that is only shown, and some that count.
const SECONDS: &str = "4";
/// When the library is loaded. It is used for as long again as the others run.
const LOAD_AFTER: &str = "2";
const LOAD_SECONDS: &str = "5";

/// Functions, root first, as parts of a chain.
fn parts(functions: &[&'static str]) -> Vec<Part> {
    functions.iter().map(|function| own(function)).collect()
}

/// Chains that begin so and in turn end in each of these functions, at times reading the clock there, or calling a library.
fn chains(begin: &[Part], functions: &[Part]) -> Vec<Vec<Part>> {
    let ends = |count| {
        let caller = [begin, &functions[..count]].concat();
        [&CLOCK[..], &LIBRARY].map(|end| [&caller[..], end].concat())
    };
    (1..=functions.len()).flat_map(ends).collect()
}

/// The same, from a program's start on.
fn from_main(functions: &[&'static str]) -> Vec<Vec<Part>> {
    chains(&START, &parts(functions))
}

/// From a thread's start on, and what the main thread does meanwhile.
fn in_thread(functions: &[&'static str]) -> Vec<Vec<Part>> {
    let thread = chains(&THREAD, &parts(functions));
    [thread, from_main(&["threads"])].concat()
}

fn then_burn(functions: &[&'static str]) -> Vec<&'static str> {
    [functions, &BURN].concat()
}

/// `chain.c`, however it may be built.
pub fn builds() -> &'static Gallery {
    static GALLERY: LazyLock<Gallery> = LazyLock::new(|| {
        let scratch = Scratch::new();
        let exhibits: Vec<Exhibit> = BUILDS
            .iter()
            .map(|(name, flags)| build(&scratch, name, flags))
            .collect();
        Gallery::record(&scratch, &exhibits)
    });
    &GALLERY
}

const KEEP: &str = "-fno-omit-frame-pointer";
const OMIT: &str = "-fomit-frame-pointer";
const NO_TABLES: &str = "-fno-asynchronous-unwind-tables";

const BUILDS: [(&str, &[&str]); 14] = [
    ("fp", &[KEEP]),
    ("nofp", &[OMIT]),
    ("fp-none", &[KEEP, NO_TABLES, "-fno-unwind-tables"]),
    ("nofp-none", &[OMIT, NO_TABLES, "-fno-unwind-tables"]),
    ("debug-frame", &[OMIT, NO_TABLES, "-gdwarf"]),
    ("static", &[OMIT, "-static"]),
    ("static-pie", &[OMIT, "-static-pie", "-fPIE"]),
    ("no-pie", &[OMIT, "-no-pie"]),
    ("separate", &[OMIT, "-Wl,-z,separate-code"]),
    ("noseparate", &[OMIT, "-Wl,-z,noseparate-code"]),
    (
        "high-text",
        &[OMIT, "-no-pie", "-Wl,-Ttext-segment=0x17654000"],
    ),
    ("large-pages", &[OMIT, "-Wl,-z,max-page-size=0x200000"]),
    ("stripped", &[OMIT]),
    ("headless", &[OMIT]),
];

fn build(scratch: &Scratch, name: &'static str, flags: &[&str]) -> Exhibit {
    let flags = [&["-O2"], flags].concat();
    let path = scratch.build(name, &workload("chain.c"), &flags);
    let mut program = Program::new(name, from_main(&["fa", "fb", "fc", "fd"]));
    if ["stripped", "headless"].contains(&name) {
        program.functions = Functions::read(&path);
        let done = Command::new("strip").arg(&path).status();
        assert!(done.expect("a C compiler brings strip").success());
    }
    if name == "headless" {
        // Where the section headers lie, and how many there are: what runs does not need them.
        let mut data = fs::read(&path).unwrap();
        data[40..48].fill(0);
        data[58..64].fill(0);
        fs::write(&path, data).unwrap();
    }
    Exhibit {
        program,
        words: SECONDS.to_owned(),
    }
}

/// `stacks.c`, each of its modes as a program of its own; `throws.cc`; and `rust-chain`.
pub fn modes() -> &'static Gallery {
    static GALLERY: LazyLock<Gallery> = LazyLock::new(|| {
        let scratch = Scratch::new();
        let mut exhibits: Vec<Exhibit> = mode_chains()
            .into_iter()
            .filter(|(name, _)| *name != "realigned" || has_avx2())
            .map(|(name, chains)| {
                build_mode(&scratch, name);
                Exhibit {
                    program: Program::new(name, chains),
                    words: format!("{name} {SECONDS}"),
                }
            })
            .collect();
        let throws = ["-O2", "-Wl,--no-as-needed", "-lstdc++"];
        scratch.build("throws", &small_program("throws.cc"), &throws);
        fs::copy(env!("CARGO_BIN_EXE_rust-chain"), scratch.path("rust-chain")).unwrap();
        for (name, chains) in [("throws", throws_chains()), ("rust-chain", rust_chains())] {
            exhibits.push(Exhibit {
                program: Program::new(name, chains),
                words: SECONDS.to_owned(),
            });
        }
        Gallery::record(&scratch, &exhibits)
    });
    &GALLERY
}

/// Whether this machine runs code that realigns its stack for AVX.
pub fn has_avx2() -> bool {
    std::arch::is_x86_feature_detected!("avx2")
}

/// Builds `stacks.c` under the name of one of its modes.
pub fn build_mode(scratch: &Scratch, name: &str) -> std::path::PathBuf {
    // Functions one right behind the other, in the order of the file.
    let tail = ["-falign-functions=1", "-fno-toplevel-reorder"];
    let flags: &[&str] = if name == "tail" { &tail } else { &[] };
    let flags = [&["-O2", "-pthread"], flags].concat();
    scratch.build(name, &small_program("stacks.c"), &flags)
}

fn mode_chains() -> Vec<(&'static str, Vec<Vec<Part>>)> {
    let deep = |depth| [vec!["deep_thread"], vec!["deeper"; depth], BURN.to_vec()].concat();
    vec![
        ("handler", handler_chains()),
        ("other-stack", handler_chains()),
        ("vdso", from_main(&["reads_clocks", "asks_the_time"])),
        ("vfork", vfork_chains()),
        (
            "frame-150k",
            from_main(&then_burn(&["large_frames", "frame_150k"])),
        ),
        (
            "frame-400k",
            from_main(&then_burn(&["large_frames", "frame_400k"])),
        ),
        (
            "frame-full",
            from_main(&then_burn(&["large_frames", "frame_full"])),
        ),
        ("realigned", from_main(&["realigns", "realigned", "burn"])),
        ("thread", in_thread(&then_burn(&["shallow_thread"]))),
        ("deep-200", in_thread(&deep(200))),
        ("deep-400", in_thread(&deep(400))),
        (
            "tail",
            from_main(&then_burn(&[
                "stands_behind_it",
                "ends_in_a_call",
                "never_returns",
            ])),
        ),
    ]
}

/// What is interrupted, and the handler on top of it, with the place it returns to between them.
fn handler_chains() -> Vec<Vec<Part>> {
    let interrupted = ["handles", "interrupted", "below"];
    let below = [
        &START[..],
        &parts(&interrupted),
        &[Part(Place::Runtime, 1, 1)],
    ]
    .concat();
    let handler = parts(&["handler", "in_handler", "burn"]);
    let mut all = [from_main(&interrupted), chains(&below, &handler)].concat();
    // The handler's own return.
    all.push(below);
    all
}

/// A child of vfork stands on its parent's stack.
fn vfork_chains() -> Vec<Vec<Part>> {
    from_main(&["vforks", "in_child", "burn"])
}

/// What is thrown passes through libraries that come with the compiler.
fn throws_chains() -> Vec<Vec<Part>> {
    const FUNCTIONS: [&str; 3] = ["catches", "passes_on", "throws"];
    let guard = own("Guard::~Guard()");
    let mut all = from_main(&FUNCTIONS);
    for count in 1..=FUNCTIONS.len() {
        let caller = [&START[..], &parts(&FUNCTIONS[..count])].concat();
        all.push([&caller[..], &[guard]].concat());
        // The exception's type is compared, through the linkage table.
        all.push([&caller[..], &[Part(Place::Clock, 1, 1)]].concat());
    }
    // The unwinder replaces what it saved by what the handler's function saved, its own return address included: for
    // that long, the handler's callers are in the stack's memory as its own.
    let replaced = [
        Part(Place::AnyOwn(&FUNCTIONS), 0, 6),
        Part(Place::Unwinder, 1, 1),
        Part(Place::Library, 0, 1),
    ];
    all.push([&START[..], &replaced].concat());
    all
}

/// Rust's libraries stand between the functions, and are inlined into them.
fn rust_chains() -> Vec<Vec<Part>> {
    let rust = Part(Place::Rust, 0, 40);
    let through = |functions: &[&'static str]| -> Vec<Part> {
        let parts = functions.iter().flat_map(|function| [own(function), rust]);
        [rust].into_iter().chain(parts).collect()
    };
    let main = [&START[..], &through(&["main"])].concat();
    let thread = [&THREAD[..], &through(&["catches", "panics"])].concat();
    [main, thread]
        .iter()
        .flat_map(|begin| {
            [&BURN[..1], &BURN].map(|burn| [&begin[..], &through(burn), &CLOCK].concat())
        })
        .collect()
}

/// Code that is new while it is sampled: a library loaded late, and programs that end at once.
pub fn newcomers() -> &'static Gallery {
    static GALLERY: LazyLock<Gallery> = LazyLock::new(|| {
        let scratch = Scratch::new();
        build_mode(&scratch, "load");
        build_mode(&scratch, "spawn");
        let flags = ["-O2", "-shared", "-fPIC", "-pthread"];
        let library = scratch.build("libstacks.so", &small_program("stacks.c"), &flags);
        let exhibits = [
            Exhibit {
                program: Program::new("load", load_chains()),
                words: format!("load {LOAD_SECONDS} {} {LOAD_AFTER}", library.display()),
            },
            Exhibit {
                program: Program::new("spawn", spawn_chains()),
                words: format!("spawn {LOAD_SECONDS}"),
            },
        ];
        Gallery::record(&scratch, &exhibits)
    });
    &GALLERY
}

fn load_chains() -> Vec<Vec<Part>> {
    let begin = [&START[..], &[own("loads")]].concat();
    let library = ["library", "burn_until", "burn"]
        .map(|function| Part(Place::In("libstacks.so", function), 1, 1));
    let mut all = from_main(&["loads", "burn_until", "burn"]);
    all.extend(chains(&begin, &library));
    all
}

fn spawn_chains() -> Vec<Vec<Part>> {
    [from_main(&["spawns"]), from_main(&["tiny", "burn"])].concat()
}
