//! What one recorder has in the kernel: seen from outside, by its descriptors and the kernel's own lists.
//!
//! By id, not by name: another recorder on the machine, of another user or another test, does not confuse it. The
//! kernel gives ids out in a row, so that none comes again soon.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use aya::maps::{Array, Map, MapData, MapInfo};
use profiler_ebpf::wire::Config;

use crate::wait;

/// The kernel's number of the kind of map that holds programs to jump to.
const PROGRAM_ARRAY: u32 = 3;

/// How long to leave an array of programs alone between two looks at it.
///
/// A look opens it, and closing what was opened last makes the kernel clear it, in a moment: it takes a reference and
/// queues the work (`prog_array_map_clear` in kernel/bpf/arraymap.c, 6.18). If the work is still queued from the time
/// before, it is not queued again, and that reference is never given back: looking often keeps the array for ever.
const LEAVE_ALONE: Duration = Duration::from_millis(500);

/// Everything of BPF that a process holds open, by id.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Held {
    /// Programs.
    pub programs: BTreeSet<u32>,
    /// Links.
    pub links: BTreeSet<u32>,
    /// Maps, but for those in `program_arrays`.
    pub maps: BTreeSet<u32>,
    /// Maps of programs.
    pub program_arrays: BTreeSet<u32>,
}

impl Held {
    /// What a process holds now.
    pub fn by(pid: u32) -> Self {
        let mut held = Self::default();
        let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fdinfo")) else {
            return held;
        };
        for descriptor in descriptors.flatten() {
            let text = fs::read_to_string(descriptor.path()).unwrap_or_default();
            let field = |name: &str| {
                let value = text.lines().find_map(|line| line.strip_prefix(name));
                value.and_then(|value| value.trim().parse::<u32>().ok())
            };
            let maps = if field("map_type:") == Some(PROGRAM_ARRAY) {
                &mut held.program_arrays
            } else {
                &mut held.maps
            };
            maps.extend(field("map_id:"));
            held.links.extend(field("link_id:"));
            // The descriptor of a link names its program, too.
            held.programs.extend(field("prog_id:"));
        }
        held
    }

    /// Which of these are in the kernel now, whoever holds them. Of arrays of programs nothing is said.
    pub fn alive(&self) -> Self {
        let programs = aya::programs::loaded_programs().flatten();
        let links = aya::programs::loaded_links().flatten();
        Self {
            programs: programs
                .map(|program| program.id())
                .filter(|id| self.programs.contains(id))
                .collect(),
            links: links
                .map(|link| link.id())
                .filter(|id| self.links.contains(id))
                .collect(),
            maps: self
                .maps
                .iter()
                .copied()
                .filter(|id| MapInfo::from_id(*id).is_ok())
                .collect(),
            program_arrays: BTreeSet::new(),
        }
    }

    /// Waits until nothing of it is in the kernel. That frees programs a little after the last descriptor is closed, and
    /// takes a tenth of a second for each probe.
    ///
    /// # Panics
    ///
    /// When something is left.
    pub fn wait_until_gone(&self) {
        let is_gone = || (self.alive() == Self::default()).then_some(());
        wait::until_or(is_gone, || {
            format!("this is left of the recorder: {:#?}", self.alive())
        });
        let mut looked: Option<Instant> = None;
        let is_gone = || {
            if looked.is_some_and(|last| last.elapsed() < LEAVE_ALONE) {
                return None;
            }
            looked = Some(Instant::now());
            self.program_arrays
                .iter()
                .all(|id| MapInfo::from_id(*id).is_err())
                .then_some(())
        };
        wait::until("the recorder's arrays of programs are gone", is_gone);
    }
}

/// Whether the recorder with this pid has told its kernel side to record.
pub fn is_recording(pid: u32) -> bool {
    Held::by(pid)
        .maps
        .iter()
        .any(|id| active(*id) == Some(true))
}

/// Whether the map is a recorder's settings, and if so, whether they say that it records.
fn active(map: u32) -> Option<bool> {
    let info = MapInfo::from_id(map).ok()?;
    let size = u32::try_from(size_of::<Config>()).ok()?;
    if info.name_as_str() != Some("CONFIG") || info.value_size() != size {
        return None;
    }
    let map = Map::Array(MapData::from_id(map).ok()?);
    let settings: Array<_, [u8; size_of::<Config>()]> = Array::try_from(map).ok()?;
    let settings = settings.get(&0, 0).ok()?;
    let at = std::mem::offset_of!(Config, active);
    let flag = u32::from_ne_bytes(settings.get(at..at + 4)?.try_into().ok()?);
    Some(flag == 1)
}
