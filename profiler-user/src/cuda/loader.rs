//! Which libraries a loader would find: they can be probed before the first process maps them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// The loader's own table of libraries.
const CACHE: &str = "/etc/ld.so.cache";
/// The most of it that is read.
const MAX_CACHE_BYTES: u64 = 64 << 20;
/// Where a loader looks when its table has nothing.
const FOLDERS: [&str; 6] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];
/// What programs ask for.
const NAMES: [&str; 5] = [
    "libcuda.so.1",
    "libcudart.so.13",
    "libcudart.so.12",
    "libcudart.so.11.0",
    "libcudart.so.10.2",
];
/// Folders of a search path that are looked at.
const MAX_FOLDERS: usize = 256;

/// Starts the newer of the two tables that the file may hold.
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
/// Starts the older one, which may come first.
const OLD_MAGIC: &[u8] = b"ld.so-1.7.0\0";
/// Flags of a library for x86-64 and this C library (`FLAG_X8664_LIB64`, `FLAG_ELF_LIBC6`).
const X86_64: u32 = 0x0303;

/// Where a loader looks.
#[derive(Debug, Clone, Default)]
pub struct LoaderPaths {
    /// `LD_LIBRARY_PATH` of the command.
    pub library_path: Option<OsString>,
}

/// The files of CUDA's libraries that programs would get if they asked for them now. Each is there; several may be
/// the same file.
pub fn libraries_to_be(paths: &LoaderPaths) -> Vec<PathBuf> {
    let asked = paths.library_path.as_deref().unwrap_or(OsStr::new(""));
    let folders = asked
        .as_bytes()
        .split(|byte| matches!(byte, b':' | b';'))
        .filter(|folder| folder.starts_with(b"/"))
        .take(MAX_FOLDERS)
        .map(|folder| PathBuf::from(OsStr::from_bytes(folder)))
        .chain(FOLDERS.map(PathBuf::from));
    let mut files: Vec<PathBuf> = folders
        .flat_map(|folder| NAMES.map(|name| folder.join(name)))
        .chain(read_cache(Path::new(CACHE)))
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    files.dedup();
    files
}

fn read_cache(path: &Path) -> Vec<PathBuf> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let Ok(file) = std::fs::File::open(path) else {
        return Vec::new();
    };
    match file.take(MAX_CACHE_BYTES).read_to_end(&mut bytes) {
        Ok(_) => parse_cache(&bytes),
        Err(_) => Vec::new(),
    }
}

/// The paths of the libraries we know, in a loader's table; nothing from one that is damaged or of another form.
fn parse_cache(bytes: &[u8]) -> Vec<PathBuf> {
    newer_table(bytes)
        .and_then(|table| Some((table, word(table, 20)?)))
        .map(|(table, count)| {
            let entries = table.get(48..).unwrap_or_default().chunks_exact(24);
            entries
                .take(count as usize)
                .filter_map(|entry| {
                    let name = text(table, word(entry, 4)?)?;
                    let wanted = word(entry, 0)? == X86_64
                        && NAMES.iter().any(|known| known.as_bytes() == name);
                    let path = wanted.then(|| text(table, word(entry, 8)?)).flatten()?;
                    path.starts_with(b"/")
                        .then(|| OsString::from_vec(path.to_vec()).into())
                })
                .collect()
        })
        .unwrap_or_default()
}

/// The table with magic [`MAGIC`], which offsets in it are counted from.
fn newer_table(bytes: &[u8]) -> Option<&[u8]> {
    let at = if bytes.starts_with(OLD_MAGIC) {
        let old = 16 + 12 * word(bytes, 12)? as usize;
        old.next_multiple_of(8)
    } else {
        0
    };
    bytes.get(at..).filter(|table| table.starts_with(MAGIC))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

fn text(table: &[u8], at: u32) -> Option<&[u8]> {
    let rest = table.get(at as usize..)?;
    // PATH_MAX is the longest a path can be.
    let end = rest.iter().take(4096).position(|byte| *byte == 0)?;
    Some(&rest[..end])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A table with these libraries, perhaps behind an older one.
    fn table(libraries: &[(u32, &str, &str)], old: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        if old {
            bytes.extend(OLD_MAGIC);
            bytes.extend(1u32.to_le_bytes());
            bytes.extend([0; 12]);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        let (mut entries, mut strings) = (Vec::new(), Vec::new());
        let strings_at = 48 + 24 * libraries.len();
        for (flags, name, path) in libraries {
            entries.extend(flags.to_le_bytes());
            for text in [name, path] {
                entries.extend(((strings_at + strings.len()) as u32).to_le_bytes());
                strings.extend(text.as_bytes());
                strings.push(0);
            }
            entries.extend([0; 12]);
        }
        bytes.extend(MAGIC);
        bytes.extend((libraries.len() as u32).to_le_bytes());
        bytes.extend((strings.len() as u32).to_le_bytes());
        bytes.extend([0; 20]);
        bytes.extend(entries);
        bytes.extend(strings);
        bytes
    }

    const LIBRARIES: [(u32, &str, &str); 4] = [
        (X86_64, "libc.so.6", "/lib/libc.so.6"),
        (X86_64, "libcuda.so.1", "/usr/lib/nvidia/libcuda.so.1"),
        (3, "libcuda.so.1", "/usr/lib32/libcuda.so.1"),
        (X86_64, "libcudart.so.12", "/opt/cuda/libcudart.so.12"),
    ];

    /// The 64-bit libraries of ours are found in both forms of the file.
    #[test]
    fn finds_libraries() {
        for old in [false, true] {
            assert_eq!(
                parse_cache(&table(&LIBRARIES, old)),
                ["/usr/lib/nvidia/libcuda.so.1", "/opt/cuda/libcudart.so.12"].map(PathBuf::from)
            );
        }
    }

    /// Cut anywhere, or with any byte changed, it gives paths or nothing; never a panic.
    #[test]
    fn survives_damage() {
        let whole = table(&LIBRARIES, true);
        for end in 0..whole.len() {
            assert!(parse_cache(&whole[..end]).len() <= 2);
        }
        for at in 0..whole.len() {
            for value in [0, 0x7f, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = value;
                let _ = parse_cache(&damaged);
            }
        }
    }

    /// This machine's own table is understood: what is in it that we know is there.
    #[test]
    fn a_search_path_is_searched() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libcuda.so.1");
        std::fs::write(&path, "").unwrap();
        let mut library_path = OsString::from("relative:/nowhere:");
        library_path.push(folder.path());
        let paths = LoaderPaths {
            library_path: Some(library_path),
        };
        assert!(libraries_to_be(&paths).contains(&path));
        assert!(!libraries_to_be(&LoaderPaths::default()).contains(&path));
    }
}
