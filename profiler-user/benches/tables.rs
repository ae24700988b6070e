//! `cargo xtask bench tables`: what building an unwind table costs, against merely iterating the same call frame
//! information with gimli, in one run; and what code without such information costs on top, and what the disk
//! cache saves.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::hint::black_box;
use std::path::{Path, PathBuf};

use gimli::{BaseAddresses, CieOrFde, EhFrame, EndianSlice, LittleEndian, UnwindContext};
use gimli::{UnwindSection as _, UnwindTableRow};
use object::{Object as _, ObjectSection as _};
use wholestack::unwind::{Cache, Table, build, build_described};

/// Runs of each kind; the best counts, since others disturb.
const RUNS: usize = 7;

/// What every host has. More can be named.
const USUAL: [&str; 3] = [
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
    "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
];

fn main() {
    let named: Vec<PathBuf> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .map(PathBuf::from)
        .collect();
    let usual = USUAL.iter().map(PathBuf::from).filter(|path| path.exists());
    let files = if named.is_empty() {
        usual.collect()
    } else {
        named
    };
    println!(
        "file                          rows      KiB  build ms  gimli ms  ratio  with code ms  functions by code  cached ms"
    );
    for path in &files {
        match measure(path) {
            Ok(line) => println!("{line}"),
            Err(reason) => println!("{}: {reason}", path.display()),
        }
    }
}

fn measure(path: &Path) -> Result<String, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let described = best(|| build_described(&file).map_err(|error| error.to_string()))?;
    let gimli_ms = best(|| iterate(path))?.1;
    let whole = best(|| build(&file).map_err(|error| error.to_string()))?;
    let cached_ms = best_cached(&file)?;
    let table: &Table = &whole.0;
    Ok(format!(
        "{:<24} {:>9} {:>8} {:>9.1} {:>9.1} {:>6.2} {:>13.1} {:>18} {:>10.1}",
        path.file_name().unwrap_or_default().to_string_lossy(),
        table.stats.rows,
        table.size() / 1024,
        described.1,
        gimli_ms,
        described.1 / gimli_ms,
        whole.1,
        table.stats.derived,
        cached_ms,
    ))
}

/// The result and the least CPU time in ms.
fn best<T>(mut run: impl FnMut() -> Result<T, String>) -> Result<(T, f64), String> {
    let mut least = f64::INFINITY;
    let mut result = None;
    for _ in 0..RUNS {
        let before = cpu_ms();
        let made = black_box(run()?);
        least = least.min(cpu_ms() - before);
        result = Some(made);
    }
    result
        .map(|result| (result, least))
        .ok_or_else(|| "not run".to_owned())
}

/// With what another start left on disk.
fn best_cached(file: &File) -> Result<f64, String> {
    let mut cache = Cache::open();
    let build = |cache: &mut Cache| cache.build(file).map_err(|error| error.to_string());
    build(&mut cache)?;
    Ok(best(|| build(&mut cache))?.1)
}

fn cpu_ms() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

/// Reads the section and looks at every row.
fn iterate(path: &Path) -> Result<usize, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let cache = object::ReadCache::new(&file);
    let elf = object::File::parse(&cache).map_err(|error| error.to_string())?;
    let section = elf.section_by_name(".eh_frame").ok_or("no .eh_frame")?;
    let data = section
        .uncompressed_data()
        .map_err(|error| error.to_string())?;
    let frames = EhFrame::from(EndianSlice::new(&data, LittleEndian));
    let bases = BaseAddresses::default().set_eh_frame(section.address());
    let mut context = UnwindContext::new();
    let mut entries = frames.entries(&bases);
    let mut cies = std::collections::HashMap::new();
    let mut count = 0;
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let parsed = partial.parse(|section, bases, offset| {
            if let Some(known) = cies.get(&offset) {
                return Ok(Clone::clone(known));
            }
            let cie = section.cie_from_offset(bases, offset)?;
            cies.insert(offset, cie.clone());
            Ok(cie)
        });
        let Ok(function) = parsed else { continue };
        let Ok(mut rows) = function.rows(&frames, &bases, &mut context) else {
            continue;
        };
        while let Ok(Some(row)) = rows.next_row() {
            black_box::<&UnwindTableRow<usize>>(row);
            count += 1;
        }
    }
    Ok(count)
}
