//! A file's separate debug file: where the file says it is, in the root of a process that maps it.
//!
//! As gdb looks for it ("Debugging Information in Separate Files"): by build id below `/usr/lib/debug/.build-id`; by the
//! name in `.gnu_debuglink` beside the file, in `.debug` there, and below `/usr/lib/debug`. What is found belongs to the
//! file only if it has the same build id or, where one of the two has none, the checksum that the link gives.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};

use object::elf::FileHeader64;
use object::read::elf::{FileHeader as _, SectionHeader as _};
use object::{LittleEndian, ReadCache};

use super::TargetRoot;

/// Where distributions put debug files.
const DEBUG_FOLDER: &[u8] = b"/usr/lib/debug";
/// A larger debug file is not used.
const MAX_BYTES: u64 = 4 << 30;
/// A larger one is not read for its checksum.
const MAX_SUMMED_BYTES: u64 = 512 << 20;
/// Section headers that are looked at. What runs has a few dozen.
const MAX_SECTIONS: usize = 4096;
/// Bytes of a section that refers to a debug file.
const MAX_REFERENCE: u64 = 4096;
/// Bytes of a build id: 20 as a rule, 64 at most.
const MAX_BUILD_ID: usize = 64;

/// How a file refers to its debug file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DebugReference {
    build_id: Option<Vec<u8>>,
    link: Option<DebugLink>,
}

/// What `.gnu_debuglink` holds.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DebugLink {
    /// A file name without a folder.
    name: Vec<u8>,
    /// CRC-32 of the debug file.
    checksum: u32,
}

impl DebugReference {
    /// Of a file; empty if it refers to none, or is no ELF file that can be read.
    pub fn of(file: &File) -> Self {
        Self::read(file).unwrap_or_default()
    }

    fn read(file: &File) -> Option<Self> {
        let data = &ReadCache::new(file);
        let header = FileHeader64::<LittleEndian>::parse(data).ok()?;
        let endian = header.endian().ok()?;
        if header.shnum(endian, data).ok()? > MAX_SECTIONS {
            return None;
        }
        let sections = header.sections(endian, data).ok()?;
        let section = |name: &[u8]| {
            let (_, section) = sections.section_by_name(endian, name)?;
            let is_small = section.sh_size(endian) <= MAX_REFERENCE;
            is_small.then(|| section.data(endian, data).ok()).flatten()
        };
        Some(Self {
            build_id: section(b".note.gnu.build-id").and_then(build_id),
            link: section(b".gnu_debuglink").and_then(debug_link),
        })
    }

    /// Whether the file names a debug file.
    pub fn has_link(&self) -> bool {
        self.link.is_some()
    }

    /// Finds the debug file of the file at `path` in a root.
    pub fn find(&self, root: &TargetRoot, path: &[u8]) -> Option<File> {
        self.candidates(path).into_iter().find_map(|candidate| {
            let found = root.open(&candidate)?;
            self.is_of(&found).then_some(found)
        })
    }

    /// Where it may be, best first.
    fn candidates(&self, path: &[u8]) -> Vec<Vec<u8>> {
        let mut candidates = Vec::new();
        if let Some([first, rest @ ..]) = self.build_id.as_deref() {
            let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let (first, rest): (String, String) = (hex(&[*first]), hex(rest));
            let name = format!("/.build-id/{first}/{rest}.debug");
            candidates.push([DEBUG_FOLDER, name.as_bytes()].concat());
        }
        let folder = path
            .iter()
            .rposition(|byte| *byte == b'/')
            .map(|at| &path[..at]);
        if let (Some(link), Some(folder)) = (&self.link, folder) {
            candidates.push([folder, b"/", &link.name].concat());
            candidates.push([folder, b"/.debug/", &link.name].concat());
            candidates.push([DEBUG_FOLDER, folder, b"/", &link.name].concat());
        }
        candidates
    }

    fn is_of(&self, debug: &File) -> bool {
        let bytes = debug.metadata().map_or(u64::MAX, |metadata| metadata.len());
        if bytes > MAX_BYTES {
            return false;
        }
        let theirs = Self::of(debug).build_id;
        match (&self.build_id, theirs) {
            (Some(ours), Some(theirs)) => *ours == theirs,
            _ => self.link.as_ref().is_some_and(|link| {
                bytes <= MAX_SUMMED_BYTES && checksum(debug).ok() == Some(link.checksum)
            }),
        }
    }
}

/// The id in a note: sizes of name and content, kind, name `GNU`, content.
fn build_id(note: &[u8]) -> Option<Vec<u8>> {
    let word = |at: usize| Some(u32::from_le_bytes(note.get(at..at + 4)?.try_into().ok()?));
    let (name, bytes, kind) = (word(0)?, word(4)? as usize, word(8)?);
    if (name, kind) != (4, object::elf::NT_GNU_BUILD_ID) || note.get(12..16)? != b"GNU\0" {
        return None;
    }
    let id = note.get(16..16_usize.checked_add(bytes)?)?;
    (2..=MAX_BUILD_ID).contains(&id.len()).then(|| id.to_vec())
}

/// A name, a NUL, padding to four bytes, the checksum. The name has no folder, so that it cannot lead anywhere else.
fn debug_link(section: &[u8]) -> Option<DebugLink> {
    let end = section.iter().position(|byte| *byte == 0)?;
    let name = section.get(..end)?;
    let at = (end + 1).next_multiple_of(4);
    let checksum = u32::from_le_bytes(section.get(at..at + 4)?.try_into().ok()?);
    let is_plain = !matches!(name, b"" | b"." | b"..") && !name.contains(&b'/');
    is_plain.then(|| DebugLink {
        name: name.to_vec(),
        checksum,
    })
}

fn checksum(mut file: &File) -> io::Result<u32> {
    file.rewind()?;
    let mut sum = crc32fast::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    let mut left = MAX_SUMMED_BYTES;
    loop {
        let read = file.read(&mut buffer)?;
        left = left.saturating_sub(read as u64);
        if read == 0 || left == 0 {
            return Ok(sum.finalize());
        }
        sum.update(&buffer[..read]);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::Path;

    use super::*;

    /// A note section with a build id.
    fn note(id: &[u8]) -> Vec<u8> {
        let mut note = Vec::new();
        for word in [4, id.len() as u32, 3] {
            note.extend(word.to_le_bytes());
        }
        [&note[..], b"GNU\0", id].concat()
    }

    /// A debug link section.
    fn link(name: &[u8], checksum: u32) -> Vec<u8> {
        let mut link = name.to_vec();
        link.resize((name.len() + 1).next_multiple_of(4), 0);
        link.extend(checksum.to_le_bytes());
        link
    }

    /// An ELF file of nothing but these sections.
    fn elf(sections: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let mut names = vec![0];
        let mut data = vec![0; 64];
        let mut headers = vec![0; 64];
        let mut add = |data: &mut Vec<u8>, names: &mut Vec<u8>, name: &str, bytes: &[u8]| {
            let at = names.len() as u32;
            names.extend(name.as_bytes());
            names.push(0);
            let bytes = if bytes.is_empty() {
                names.clone()
            } else {
                bytes.to_vec()
            };
            let mut header = [at, 1].map(u32::to_le_bytes).concat();
            for word in [0, 0, data.len() as u64, bytes.len() as u64, 0, 1, 0] {
                header.extend(word.to_le_bytes());
            }
            data.extend(bytes);
            headers.extend(header);
        };
        for (name, bytes) in sections {
            add(&mut data, &mut names, name, bytes);
        }
        add(&mut data, &mut names, ".shstrtab", b"");
        let count = sections.len() as u16 + 2;
        data[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\0");
        data[18] = 62;
        data[20] = 1;
        let at = data.len() as u64;
        data[40..48].copy_from_slice(&at.to_le_bytes());
        data[52] = 64;
        data[58] = 64;
        data[60..62].copy_from_slice(&count.to_le_bytes());
        data[62..64].copy_from_slice(&(count - 1).to_le_bytes());
        [data, headers].concat()
    }

    /// A root with files in it.
    struct Root(tempfile::TempDir);

    impl Root {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn put(&self, path: &str, bytes: &[u8]) {
            let path = self.0.path().join(path.trim_start_matches('/'));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }

        /// What the file at a path finds, as text.
        fn found(&self, path: &str) -> Option<Vec<u8>> {
            let root = TargetRoot::at(self.0.path().to_string_lossy().into_owned()).unwrap();
            let file = root.open(path.as_bytes()).unwrap();
            let mut debug = DebugReference::of(&file).find(&root, path.as_bytes())?;
            let mut bytes = Vec::new();
            debug.rewind().unwrap();
            debug.read_to_end(&mut bytes).unwrap();
            Some(bytes)
        }
    }

    const ID: [u8; 4] = [0xab, 0xcd, 0xef, 0x01];

    /// By build id: wherever the file lies, but only with the same id.
    #[test]
    fn by_build_id() {
        let root = Root::new();
        let mine = elf(&[(".note.gnu.build-id", note(&ID))]);
        root.put("/app/program", &mine);
        assert_eq!(root.found("/app/program"), None);
        let other = elf(&[(".note.gnu.build-id", note(&[0xab, 0xcd, 0xef, 2]))]);
        root.put("/usr/lib/debug/.build-id/ab/cdef01.debug", &other);
        assert_eq!(root.found("/app/program"), None);
        let debug = elf(&[(".note.gnu.build-id", note(&ID)), (".debug_x", vec![1])]);
        root.put("/usr/lib/debug/.build-id/ab/cdef01.debug", &debug);
        assert_eq!(root.found("/app/program"), Some(debug));
    }

    /// By link: in each of the three places, with the checksum that the link gives.
    #[test]
    fn by_link() {
        let debug = elf(&[(".debug_x", vec![1, 2, 3])]);
        let sum = crc32fast::hash(&debug);
        for place in [
            "/app/x.debug",
            "/app/.debug/x.debug",
            "/usr/lib/debug/app/x.debug",
        ] {
            let root = Root::new();
            root.put(
                "/app/program",
                &elf(&[(".gnu_debuglink", link(b"x.debug", sum))]),
            );
            assert_eq!(root.found("/app/program"), None);
            root.put(place, &debug);
            assert_eq!(root.found("/app/program").as_ref(), Some(&debug), "{place}");
            root.put(place, &elf(&[(".debug_x", vec![1, 2, 4])]));
            assert_eq!(root.found("/app/program"), None, "{place}");
        }
    }

    /// A link with a checksum that fits does not help against another build id.
    #[test]
    fn ids_that_differ() {
        let root = Root::new();
        let debug = elf(&[(".note.gnu.build-id", note(&[1, 2, 3]))]);
        let sum = crc32fast::hash(&debug);
        let sections = [
            (".note.gnu.build-id", note(&ID)),
            (".gnu_debuglink", link(b"x.debug", sum)),
        ];
        root.put("/app/program", &elf(&sections));
        root.put("/app/x.debug", &debug);
        assert_eq!(root.found("/app/program"), None);
        root.put("/app/program", &elf(&sections[1..]));
        assert_eq!(root.found("/app/program"), Some(debug));
    }

    /// A link that would lead elsewhere, or a reference that makes no sense, refers to nothing.
    #[test]
    fn hostile_references() {
        for name in [&b""[..], b"..", b"../x", b"/etc/passwd", b"a/b"] {
            assert_eq!(debug_link(&link(name, 1)), None, "{name:?}");
        }
        assert_eq!(debug_link(b"unfinished"), None);
        assert_eq!(debug_link(b"abc\0\x01\x02"), None);
        let whole = note(&ID);
        for length in 0..whole.len() {
            assert_eq!(build_id(&whole[..length]), None);
        }
        assert_eq!(build_id(&note(&[1])), None);
        assert_eq!(build_id(&note(&[1; 65])), None);
        assert_eq!(
            build_id(&[&[4, 0, 0, 0, 255, 255, 255, 255, 3, 0, 0, 0][..], b"GNU\0"].concat()),
            None
        );
        let many = [(".gnu_debuglink", vec![b'x'; 5000])];
        let root = Root::new();
        root.put("/program", &elf(&many));
        assert_eq!(root.found("/program"), None);
        root.put("/program", &elf(&many)[..80]);
        assert_eq!(root.found("/program"), None);
        let text = File::open(Path::new("/proc/version")).unwrap();
        assert_eq!(DebugReference::of(&text), DebugReference::default());
    }
}
