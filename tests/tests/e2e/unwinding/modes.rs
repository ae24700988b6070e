//! The kinds of code.

use wholestack_tests::require_bpf;
use wholestack_tests::scratch::{Scratch, small_program};

use super::expect::{Part, Place, Program, own};
use super::gallery::{Exhibit, record};

/// How a program begins.
const START: [Part; 3] = [own("_start"), Part(Place::Runtime, 1, 2), own("main")];
/// How a thread begins.
const THREAD: [Part; 1] = [Part(Place::Runtime, 1, 2)];
/// The clock being read.
const CLOCK: [Part; 2] = [Part(Place::Library, 0, 2), Part(Place::Vdso, 0, 2)];

/// Chains that begin so, in turn end in these functions, and at times read the clock in one of them.
fn chains(begin: &[Part], functions: &[&'static str]) -> Vec<Vec<Part>> {
    let parts: Vec<Part> = functions.iter().map(|function| own(function)).collect();
    (1..=parts.len())
        .map(|count| [begin, &parts[..count], &CLOCK].concat())
        .collect()
}

#[test]
fn hard_code_is_unwound() {
    require_bpf!();
    let scratch = Scratch::new();
    let burn = ["burn_until", "burn"];
    let of = |functions: &[&'static str]| [functions, &burn].concat();
    let main = |functions: &[&'static str]| chains(&START, functions);
    let handler = main(&["handles", "interrupted", "below"]);
    let handler = [
        handler,
        chains(
            &[
                &START[..],
                &[
                    own("handles"),
                    own("interrupted"),
                    own("below"),
                    Part(Place::Runtime, 1, 1),
                ],
            ]
            .concat(),
            &["handler", "in_handler", "burn"],
        ),
    ]
    .concat();
    let thread =
        |functions: &[&'static str]| [chains(&THREAD, functions), main(&["threads"])].concat();
    let deep = |depth: usize| [&["deep_thread"][..], &vec!["deeper"; depth], &burn].concat();
    let seconds = std::env::var("FIXT_S").unwrap_or("4".into());
    let modes: Vec<(&'static str, Vec<Vec<Part>>)> = vec![
        ("handler", handler.clone()),
        ("other-stack", handler),
        ("vdso", main(&["reads_clocks", "asks_the_time"])),
        ("vfork", main(&["vforks", "in_child", "burn"])),
        ("frame-150k", main(&of(&["large_frames", "frame_150k"]))),
        ("frame-400k", main(&of(&["large_frames", "frame_400k"]))),
        ("frame-full", main(&of(&["large_frames", "frame_full"]))),
        ("realigned", main(&["realigns", "realigned", "burn"])),
        ("thread", thread(&of(&["shallow_thread"]))),
        ("deep-200", thread(&deep(200))),
        ("deep-400", thread(&deep(400))),
        (
            "tail",
            main(&of(&[
                "stands_behind_it",
                "ends_in_a_call",
                "never_returns",
            ])),
        ),
    ];
    let mut exhibits = Vec::new();
    for (name, chains) in modes {
        let flags: &[&str] = &[
            "-O2",
            "-pthread",
            if name == "tail" {
                "-falign-functions=1"
            } else {
                "-O2"
            },
        ];
        scratch.build(name, &small_program("stacks.c"), flags);
        exhibits.push(Exhibit {
            program: Program::new(name, chains),
            words: format!("{name} {seconds}"),
        });
    }
    let seen = record(&scratch, &exhibits);
    report(&seen);
}

fn report(seen: &[super::gallery::Seen]) {
    for one in seen {
        if let Some((example, count)) = &one.wrong {
            println!("{}: {count} {}", one.name, example);
        }
    }
}

fn chain_chains() -> Vec<Vec<Part>> {
    chains(&START, &["fa", "fb", "fc", "fd"])
}

#[test]
fn however_built() {
    require_bpf!();
    let scratch = Scratch::new();
    let none = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];
    let fp = "-fno-omit-frame-pointer";
    let nofp = "-fomit-frame-pointer";
    let builds: Vec<(&'static str, Vec<&str>)> = vec![
        ("fp", vec![fp]),
        ("nofp", vec![nofp]),
        ("fp-none", [&[fp][..], &none].concat()),
        ("nofp-none", [&[nofp][..], &none].concat()),
        ("debug-frame", vec![nofp, "-gdwarf", none[0]]),
        ("static", vec![nofp, "-static"]),
        ("static-pie", vec![nofp, "-static-pie", "-fPIE"]),
        ("no-pie", vec![nofp, "-no-pie"]),
        ("separate", vec![nofp, "-Wl,-z,separate-code"]),
        ("noseparate", vec![nofp, "-Wl,-z,noseparate-code"]),
        (
            "high-text",
            vec![nofp, "-no-pie", "-Wl,-Ttext-segment=0x17654000"],
        ),
        ("large-pages", vec![nofp, "-Wl,-z,max-page-size=0x200000"]),
        ("stripped", vec![nofp]),
        ("headless", vec![nofp]),
    ];
    let mut exhibits = Vec::new();
    for (name, flags) in builds {
        let flags = [&["-O2"], &flags[..]].concat();
        let path = scratch.build(
            name,
            &wholestack_tests::scratch::workload("chain.c"),
            &flags,
        );
        let mut program = Program::new(name, chain_chains());
        if name == "stripped" || name == "headless" {
            program.unnamed = unnamed(&path);
            let ok = std::process::Command::new("strip")
                .arg(&path)
                .status()
                .unwrap();
            assert!(ok.success());
        }
        if name == "headless" {
            let mut data = std::fs::read(&path).unwrap();
            data[40..48].fill(0);
            data[58..64].fill(0);
            std::fs::write(&path, data).unwrap();
        }
        exhibits.push(Exhibit {
            program,
            words: "4".to_owned(),
        });
    }
    let seen = record(&scratch, &exhibits);
    report(&seen);
}

fn unnamed(path: &std::path::Path) -> std::collections::HashMap<String, String> {
    use object::{Object as _, ObjectSegment as _, ObjectSymbol as _};
    let data = std::fs::read(path).unwrap();
    let file = object::File::parse(&*data).unwrap();
    let mut found = std::collections::HashMap::new();
    for symbol in file
        .symbols()
        .filter(|symbol| symbol.kind() == object::SymbolKind::Text && symbol.is_definition())
    {
        let address = symbol.address();
        let Some(segment) = file
            .segments()
            .find(|s| (s.address()..s.address() + s.size()).contains(&address))
        else {
            continue;
        };
        let offset = address - segment.address() + segment.file_range().0;
        found.insert(format!("+{offset:#x}"), symbol.name().unwrap().to_owned());
    }
    found
}

#[test]
fn new_code() {
    require_bpf!();
    let scratch = Scratch::new();
    let burn = ["burn_until", "burn"];
    let source = small_program("stacks.c");
    for name in ["spawn", "load"] {
        scratch.build(name, &source, &["-O2", "-pthread"]);
    }
    scratch.build(
        "libstacks.so",
        &source,
        &["-O2", "-shared", "-fPIC", "-pthread"],
    );
    let library = |function| Part(Place::In("libstacks.so", function), 1, 1);
    let mut load = chains(&START, &["loads", burn[0], burn[1]]);
    let begin = [&START[..], &[own("loads")]].concat();
    for count in 1..=3 {
        let parts = [library("library"), library("burn_until"), library("burn")];
        load.push([&begin[..], &parts[..count], &CLOCK].concat());
    }
    load.push([&begin[..], &[Part(Place::Loader, 1, 30)]].concat());
    let mut spawn = chains(&START, &["spawns"]);
    spawn.extend(chains(&START, &["tiny", "burn"]));
    spawn.push([&START[..], &[own("spawns"), Part(Place::Loader, 1, 12)]].concat());
    let path = scratch.path("libstacks.so");
    let exhibits = vec![
        Exhibit {
            program: Program::new("load", load),
            words: format!("load 5 {} 2", path.display()),
        },
        Exhibit {
            program: Program::new("spawn", spawn),
            words: "spawn 5".to_owned(),
        },
    ];
    let seen = record(&scratch, &exhibits);
    report(&seen);
}
