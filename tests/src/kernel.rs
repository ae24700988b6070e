//! What one recorder has in the kernel: seen from outside, by its descriptors and the kernel's own lists.
//!
//! By id, not by name: another recorder on the machine, of another user or another test, does not confuse it. The
//! kernel gives ids out in a row, so that none comes again soon.

use std::collections::BTreeSet;
use std::fs;

use aya::maps::{Array, Map, MapData, MapInfo};
use profiler_ebpf::wire::Config;

/// Everything of BPF that a process holds open.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Held {
    /// Ids of programs.
    pub programs: BTreeSet<u32>,
    /// Ids of links.
    pub links: BTreeSet<u32>,
    /// Ids of maps.
    pub maps: BTreeSet<u32>,
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
            for (name, ids) in [
                ("prog_id:", &mut held.programs),
                ("link_id:", &mut held.links),
                ("map_id:", &mut held.maps),
            ] {
                ids.extend(
                    text.lines()
                        .filter_map(|line| line.strip_prefix(name)?.trim().parse::<u32>().ok()),
                );
            }
        }
        held
    }

    /// Which of these are in the kernel now, whoever holds them.
    pub fn alive(&self) -> Self {
        let programs = aya::programs::loaded_programs()
            .flatten()
            .map(|program| program.id());
        let links = aya::programs::loaded_links()
            .flatten()
            .map(|link| link.id());
        let maps = aya::maps::loaded_maps().flatten().map(|map| map.id());
        Self {
            programs: programs.filter(|id| self.programs.contains(id)).collect(),
            links: links.filter(|id| self.links.contains(id)).collect(),
            maps: maps.filter(|id| self.maps.contains(id)).collect(),
        }
    }

    /// The programs and maps among these that are in the kernel now, by id and name; for messages.
    pub fn names(&self) -> Vec<String> {
        let programs = aya::programs::loaded_programs()
            .flatten()
            .filter(|program| self.programs.contains(&program.id()));
        let maps = aya::maps::loaded_maps()
            .flatten()
            .filter(|map| self.maps.contains(&map.id()));
        let programs =
            programs.map(|program| format!("program {} {:?}", program.id(), program.name_as_str()));
        programs
            .chain(maps.map(|map| format!("map {} {:?}", map.id(), map.name_as_str())))
            .collect()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.programs.is_empty() && self.links.is_empty() && self.maps.is_empty()
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
    if info.name_as_str() != Some("CONFIG")
        || info.value_size() != u32::try_from(size_of::<Config>()).ok()?
    {
        return None;
    }
    let map = Map::Array(MapData::from_id(map).ok()?);
    let settings: Array<_, [u8; size_of::<Config>()]> = Array::try_from(map).ok()?;
    let settings = settings.get(&0, 0).ok()?;
    let at = std::mem::offset_of!(Config, active);
    let flag = u32::from_ne_bytes(settings.get(at..at + 4)?.try_into().ok()?);
    Some(flag == 1)
}
