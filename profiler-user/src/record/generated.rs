//! Names of code that processes generate: each one's perf map, read when such code is first met, and again as it grows.

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::process::{PerfMapFile, PerfMapVersion, open_perf_map};
use crate::symbols::PerfMap;

/// How often a process's list is looked at, at most.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often it is looked for where there was none.
const LOOK_FOR_EVERY: Duration = Duration::from_secs(1);
/// Reading lists takes one part in this many of the time.
const READING_SHARE: u32 = 20;
/// Memory that the lists of all processes may take.
const MAX_BYTES: usize = 256 << 20;

/// Beginnings of the names of mapped files that are memory with another name.
const MEMORY_FILES: [&str; 5] = [
    "/memfd:",
    "/dev/zero",
    "/dev/shm/",
    "/SYSV",
    "/anon_hugepage",
];

/// Whether a mapped file is only memory, as of a program that maps its generated code twice.
pub(super) fn is_memory(path: &str) -> bool {
    MEMORY_FILES.iter().any(|start| path.starts_with(start))
}

/// The lists of all processes.
#[derive(Debug, Default)]
pub(super) struct GeneratedNames {
    processes: HashMap<u32, Listed>,
    /// Bytes that the lists take.
    bytes: usize,
    pub limits: GeneratedLimits,
}

/// What was not read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct GeneratedLimits {
    /// Lines that were not understood, in the lists as they were last read.
    pub not_understood: u64,
    /// Lists longer than is kept.
    pub cut: u64,
    /// Lists that belong to strangers.
    pub strangers: u64,
    /// Lists for which there was no memory, or that could not be read.
    pub not_read: u64,
}

/// What a process lists.
#[derive(Debug, Default)]
struct Listed {
    map: Option<Rc<PerfMap>>,
    version: Option<PerfMapVersion>,
    /// The list of the process it was forked from, whose code it has.
    inherited: Option<Rc<PerfMap>>,
    /// Not to be looked at before.
    look_at: Option<Instant>,
    /// What has been counted of it, once for each process.
    counted: GeneratedLimits,
}

impl GeneratedNames {
    /// The function at an address of a process, if it lists one there.
    pub fn name(&mut self, pid: u32, address: u64) -> Option<Cow<'_, str>> {
        self.name_at(pid, address, Instant::now(), open_perf_map)
    }

    fn name_at(
        &mut self,
        pid: u32,
        address: u64,
        now: Instant,
        open: impl FnOnce(u32) -> PerfMapFile,
    ) -> Option<Cow<'_, str>> {
        let listed = self.processes.entry(pid).or_default();
        if listed.look_at.is_none_or(|at| at <= now) {
            self.look(pid, now, open(pid));
        }
        let listed = self.processes.get(&pid)?;
        [&listed.map, &listed.inherited]
            .into_iter()
            .flatten()
            .find_map(|map| map.name(address))
    }

    fn look(&mut self, pid: u32, now: Instant, found: PerfMapFile) {
        let Some(listed) = self.processes.get_mut(&pid) else {
            return;
        };
        let counted = &mut listed.counted;
        let mut pause = LOOK_EVERY;
        match found {
            PerfMapFile::Missing => pause = LOOK_FOR_EVERY,
            PerfMapFile::Strangers => {
                count_once(&mut counted.strangers, &mut self.limits.strangers);
                pause = LOOK_FOR_EVERY;
            }
            PerfMapFile::Found(_, version) if listed.version == Some(version) => {}
            PerfMapFile::Found(file, version) => {
                listed.version = Some(version);
                let begun = Instant::now();
                let before = listed.map.take().map_or(0, |map| map.size());
                self.bytes = self.bytes.saturating_sub(before);
                let room = self.bytes < MAX_BYTES;
                let read = room
                    .then(|| PerfMap::read(&file, version.bytes).ok())
                    .flatten();
                match read.filter(|map| self.bytes + map.size() <= MAX_BYTES) {
                    Some(map) => {
                        self.bytes += map.size();
                        // The list is read as a whole each time: what was counted before is in it again.
                        self.limits.not_understood -= counted.not_understood;
                        counted.not_understood = map.not_understood;
                        self.limits.not_understood += counted.not_understood;
                        if map.cut {
                            count_once(&mut counted.cut, &mut self.limits.cut);
                        }
                        listed.map = Some(Rc::new(map));
                    }
                    None => count_once(&mut counted.not_read, &mut self.limits.not_read),
                }
                pause = pause.max(READING_SHARE * begun.elapsed());
            }
        }
        listed.look_at = Some(now + pause);
    }

    /// A process was made by fork: it has its parent's code, which it need not list itself.
    pub fn fork(&mut self, parent: u32, child: u32) {
        let Some(parent) = self.processes.get(&parent) else {
            return;
        };
        let listed = Listed {
            inherited: parent.map.clone().or_else(|| parent.inherited.clone()),
            ..Listed::default()
        };
        self.processes.insert(child, listed);
    }

    /// A process ended or became another program.
    pub fn forget(&mut self, pid: u32) {
        if let Some(map) = self.processes.remove(&pid).and_then(|listed| listed.map) {
            self.bytes = self.bytes.saturating_sub(map.size());
        }
    }
}

fn count_once(counted: &mut u64, sum: &mut u64) {
    *sum += u64::from(*counted == 0);
    *counted = 1;
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs::File;
    use std::io::Write as _;

    use super::*;

    const PID: u32 = u32::MAX - 1;

    /// A list as it is found.
    fn found(text: &str) -> PerfMapFile {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        PerfMapFile::Found(file, version(text))
    }

    fn version(text: &str) -> PerfMapVersion {
        let mut version = PerfMapVersion::of(&File::open("/dev/null").unwrap().metadata().unwrap());
        version.bytes = text.len() as u64;
        version
    }

    fn never(_: u32) -> PerfMapFile {
        panic!("looked at too early")
    }

    fn name(
        names: &mut GeneratedNames,
        now: Instant,
        open: impl FnOnce(u32) -> PerfMapFile,
    ) -> Option<String> {
        names.name_at(PID, 0x1000, now, open).map(Cow::into_owned)
    }

    /// A list that is written late, or grows, is read again, but not all the time.
    #[test]
    fn read_as_it_grows() {
        let mut names = GeneratedNames::default();
        let start = Instant::now();
        assert_eq!(name(&mut names, start, |_| PerfMapFile::Missing), None);
        assert_eq!(name(&mut names, start + LOOK_FOR_EVERY / 2, never), None);
        let later = start + LOOK_FOR_EVERY;
        let first = name(&mut names, later, |_| found("1000 10 f\n"));
        assert_eq!(first.as_deref(), Some("f"));
        assert_eq!(name(&mut names, later, never).as_deref(), Some("f"));
        let later = later + Duration::from_secs(60);
        let text = "1000 10 f\n1000 10 g\nrubbish\n";
        let second = name(&mut names, later, |_| found(text));
        assert_eq!(second.as_deref(), Some("g"));
        assert_eq!(names.limits.not_understood, 1);
        let later = later + Duration::from_secs(60);
        let text = "1000 10 f\n1000 10 g\nrubbish\nrubbish\n";
        assert!(name(&mut names, later, |_| found(text)).is_some());
        assert_eq!(names.limits.not_understood, 2);
    }

    /// A list that did not change is not read again; one that is gone stays known.
    #[test]
    fn kept_while_it_is_the_same() {
        let mut names = GeneratedNames::default();
        let mut now = Instant::now();
        name(&mut names, now, |_| found("1000 10 f\n"));
        let same = |_| PerfMapFile::Found(tempfile::tempfile().unwrap(), version("1000 10 f\n"));
        now += Duration::from_secs(60);
        assert_eq!(name(&mut names, now, same).as_deref(), Some("f"));
        now += Duration::from_secs(60);
        let gone = name(&mut names, now, |_| PerfMapFile::Missing);
        assert_eq!(gone.as_deref(), Some("f"));
    }

    /// A child has its parent's names behind its own; a process that is forgotten takes its memory along.
    #[test]
    fn inherited_and_forgotten() {
        let mut names = GeneratedNames::default();
        let now = Instant::now();
        name(&mut names, now, |_| found("1000 10 f\n2000 10 g\n"));
        let child = 7;
        names.fork(PID, child);
        let mut ask = |address| {
            let name = names.name_at(child, address, now, |_| found("1000 10 own\n"));
            name.map(Cow::into_owned)
        };
        assert_eq!(ask(0x1000).as_deref(), Some("own"));
        assert_eq!(ask(0x2000).as_deref(), Some("g"));
        assert!(names.bytes > 0);
        names.forget(PID);
        names.forget(child);
        assert_eq!((names.bytes, names.processes.len()), (0, 0));
    }

    /// A stranger's list is not read, and counted once.
    #[test]
    fn strangers_are_counted() {
        let mut names = GeneratedNames::default();
        for seconds in [0, 60] {
            let now = Instant::now() + Duration::from_secs(seconds);
            assert_eq!(name(&mut names, now, |_| PerfMapFile::Strangers), None);
        }
        assert_eq!(names.limits.strangers, 1);
    }
}
