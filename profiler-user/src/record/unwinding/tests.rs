//! Tables and mappings in a stand-in for the kernel's memory: whatever a walk may be looking at is what it should be.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::kernel::sideband::MappingRecord;
use crate::process::FileTable;
use crate::record::tables::REST;
use crate::unwind::TableStats;

/// Memory of so many words, taken from the first stretch that has room.
struct Fake {
    words: Vec<u64>,
    taken: BTreeMap<u32, u32>,
    bound: BTreeMap<u32, SpaceRef>,
}

impl Fake {
    fn new(words: usize) -> Self {
        Self {
            words: vec![0; words],
            taken: BTreeMap::new(),
            bound: BTreeMap::new(),
        }
    }

    /// The mappings in a place.
    fn entries(&self, space: SpaceRef) -> Vec<SpaceEntry> {
        let words = &self.words[space.start as usize..][..4 * space.count as usize];
        words
            .chunks_exact(4)
            .map(|words| bytemuck::pod_read_unaligned(bytemuck::cast_slice(words)))
            .collect()
    }

    /// Every table that the mappings lead to is that of the mapped file, and its memory is taken.
    fn assert_right(&self, entries: &[SpaceEntry]) {
        for entry in entries.iter().filter(|entry| entry.table != 0) {
            let (start, words) = self.taken.range(..=entry.table).next_back().unwrap();
            assert_eq!(*start, entry.table, "in the middle of something");
            let table = &self.words[*start as usize..][..*words as usize];
            let expected = file_at(entry.start);
            assert!(table.iter().all(|word| *word == expected), "another table");
        }
    }

    fn assert_all_right(&self) {
        for space in self.bound.values() {
            self.assert_right(&self.entries(*space));
        }
    }

    /// What a process may be walked by.
    fn tables_of(&self, pid: u32) -> Vec<u64> {
        let Some(space) = self.bound.get(&pid) else {
            return Vec::new();
        };
        let entries = self.entries(*space).into_iter();
        entries
            .filter(|entry| entry.table != 0)
            .map(|entry| file_at(entry.start))
            .collect()
    }
}

impl SharedMemory for Fake {
    fn allocate(&mut self, count: u32) -> Result<Option<u32>, KernelError> {
        let mut start = 1;
        for (at, words) in &self.taken {
            if start + count <= *at {
                break;
            }
            start = at + words;
        }
        if (start + count) as usize > self.words.len() {
            return Ok(None);
        }
        self.taken.insert(start, count);
        Ok(Some(start))
    }

    fn free(&mut self, start: u32, count: u32) {
        assert_eq!(self.taken.remove(&start), Some(count));
        self.words[start as usize..][..count as usize].fill(u64::MAX);
    }

    fn write_words(&mut self, start: u32, words: &[u64]) {
        let (at, count) = self.taken.range(..=start).next_back().unwrap();
        assert!(start as usize + words.len() <= (at + count) as usize);
        self.words[start as usize..][..words.len()].copy_from_slice(words);
    }

    fn bind_space(&mut self, pid: u32, space: SpaceRef) -> Result<(), KernelError> {
        self.bound.insert(pid, space);
        Ok(())
    }

    fn unbind_space(&mut self, pid: u32) {
        self.bound.remove(&pid);
    }

    fn bound_spaces(&self) -> Result<Vec<(u32, SpaceRef)>, KernelError> {
        Ok(self
            .bound
            .iter()
            .map(|(pid, space)| (*pid, *space))
            .collect())
    }
}

/// Files by number, each mapped at an address that tells it.
struct Files(Vec<FileId>);

impl Files {
    fn new(count: u64) -> Self {
        let mut table = FileTable::default();
        let mut id = |inode| {
            let record = MappingRecord {
                start: 0,
                bytes: 1,
                file_offset: 0,
                device: (0, 0),
                inode,
                path: Vec::new(),
            };
            table.intern_record(u32::MAX, &record).unwrap()
        };
        Self((0..count).map(|number| id(number + 1)).collect())
    }

    fn mapping(&self, number: u64) -> Mapping {
        Mapping {
            start: 0x10_0000 * (number + 1),
            end: 0x10_0000 * (number + 1) + 0x1000,
            file_offset: 0,
            file: Some(self.0[number as usize]),
        }
    }
}

/// The number of the file that is mapped there.
fn file_at(start: u64) -> u64 {
    start / 0x10_0000 - 1
}

/// A table of so many words that all say whose it is.
fn table(number: u64, words: usize) -> Result<(Table, ElfLoad), NoTable> {
    let table = Table {
        base: 0,
        pages: 1,
        words: vec![number; words],
        stats: TableStats::default(),
    };
    Ok((table, ElfLoad::of_bytes(0x1000)))
}

/// Everything together, at a time that the test sets.
struct World {
    memory: Fake,
    files: Files,
    unwinding: Unwinding,
    now: Instant,
}

const WORDS: usize = 100;

impl World {
    /// With memory, and a budget for tables, of so many tables.
    fn new(memory: usize, budget: u64) -> Self {
        Self {
            memory: Fake::new(memory * WORDS),
            files: Files::new(8),
            unwinding: Unwinding::with_budget(budget * WORDS as u64),
            now: Instant::now(),
        }
    }

    /// A process maps a file, whose table is built if it is not there.
    fn map(&mut self, pid: u32, number: u64) {
        self.unwinding.map(pid, self.files.mapping(number));
        let file = self.files.0[number as usize];
        if self.unwinding.tables.get(file).is_none() {
            self.build(number);
        }
        self.flush();
    }

    fn build(&mut self, number: u64) {
        let file = self.files.0[number as usize];
        self.unwinding.building(file);
        let table = table(number, WORDS);
        self.unwinding.built(&mut self.memory, file, table);
    }

    fn flush(&mut self) {
        self.unwinding.flush(&mut self.memory, self.now);
        self.memory.assert_all_right();
    }

    fn forget(&mut self, pid: u32) {
        self.unwinding.forget(&mut self.memory, pid, self.now);
    }

    /// Time passes; then memory is looked after.
    fn after(&mut self, wait: Duration) {
        self.now += wait;
        let (unwinding, memory) = (&mut self.unwinding, &mut self.memory);
        assert!(unwinding.look(memory, self.now, |_| true));
        let again = unwinding.make_room(memory, self.now);
        for file in again {
            let number = self.files.0.iter().position(|id| *id == file).unwrap();
            self.build(number as u64);
        }
        self.flush();
    }

    fn given_back(&self) -> u64 {
        self.unwinding.limits().tables.given_back
    }
}

/// A table in use stays, however short memory is; one that nobody uses goes, but not before it has rested.
#[test]
fn unused_tables_go_after_a_rest() {
    let mut world = World::new(20, 1);
    for number in 0..3 {
        world.map(10 + number as u32, number);
    }
    assert!(world.unwinding.is_short());
    world.after(REST);
    world.after(2 * REST);
    assert_eq!(world.given_back(), 0);
    world.forget(11);
    world.after(REST);
    world.after(REST / 2);
    assert_eq!(world.given_back(), 0);
    world.after(REST / 2);
    assert_eq!(world.given_back(), 1);
    assert_eq!(world.memory.tables_of(10), [0]);
    assert_eq!(world.memory.tables_of(12), [2]);
    assert_eq!(
        world.unwinding.limits().tables.most_bytes,
        8 * 3 * WORDS as u64
    );
}

/// Tables that nobody uses stay while there is room; the one unused for longest goes first; mapped again, it is built
/// again.
#[test]
fn the_longest_unused_goes_first() {
    let mut world = World::new(20, 2);
    world.map(10, 0);
    world.map(11, 1);
    world.forget(10);
    world.after(REST);
    world.forget(11);
    world.after(REST);
    world.after(2 * REST);
    assert_eq!(world.given_back(), 0);
    world.map(12, 2);
    world.after(REST);
    assert_eq!(world.given_back(), 1);
    let [first, second] = [world.files.0[0], world.files.0[1]];
    assert!(world.unwinding.is_gone(first) && !world.unwinding.is_gone(second));
    world.map(13, 0);
    world.map(14, 1);
    assert_eq!(world.memory.tables_of(13), [0]);
    assert_eq!(world.memory.tables_of(14), [1]);
}

/// A table for which there is no memory is built when there is.
#[test]
fn starved_tables_are_built_later() {
    let mut world = World::new(4, 100);
    world.map(10, 0);
    world.map(11, 1);
    world.map(12, 2);
    assert_eq!(world.unwinding.limits().tables.no_room, 1);
    assert!(world.memory.tables_of(12).is_empty());
    world.after(REST);
    world.forget(10);
    world.after(REST);
    world.after(REST);
    assert_eq!(world.memory.tables_of(12), [2]);
    assert!(!world.unwinding.is_short());
}

/// A child that the kernel side gave a place which its parent has left since gets the one that is kept up to date.
#[test]
fn late_fork_records() {
    let mut world = World::new(20, 100);
    world.map(10, 0);
    let at_fork = world.memory.bound[&10];
    world.memory.bound.insert(11, at_fork);
    world.map(10, 1);
    assert_ne!(world.memory.bound[&10], at_fork);
    world.unwinding.fork(10, 11);
    world.flush();
    assert_eq!(world.memory.tables_of(11), [0, 1]);
    world.memory.bound.insert(20, at_fork);
    world.unwinding.fork(19, 20);
    world.flush();
    assert!(
        !world.memory.bound.contains_key(&20),
        "of a parent that is not known"
    );
    world.now += 2 * REST;
    world.map(12, 2);
    assert_eq!(
        world.memory.bound[&12].start, at_fork.start,
        "the old place is used again"
    );
    assert_eq!(world.memory.tables_of(11), [0, 1]);
}

/// What a child uses whose fork was not reported stays; what the kernel still has of processes that are gone, or that
/// lies in a place that may be used again, is taken back.
#[test]
fn unreported_processes() {
    let mut world = World::new(20, 1);
    world.map(10, 0);
    world.map(12, 1);
    let shared = world.memory.bound[&10];
    world.memory.bound.insert(11, shared);
    world.memory.bound.insert(13, world.memory.bound[&12]);
    world.forget(12);
    let memory = &mut world.memory;
    assert!(world.unwinding.look(memory, world.now, |_| true));
    assert!(memory.bound.contains_key(&11) && !memory.bound.contains_key(&13));
    assert!(world.unwinding.look(memory, world.now, |pid| pid != 11));
    assert!(!memory.bound.contains_key(&11));
}

/// Files that nobody maps are forgotten, with their tables, if they are too many; not those that are to be kept.
#[test]
fn files_are_forgotten() {
    let mut world = World::new(20, 100);
    for number in 0..4 {
        world.map(10 + number as u32, number);
    }
    for pid in [10, 11, 12] {
        world.forget(pid);
    }
    world.after(Duration::ZERO);
    world.now += REST;
    let kept = world.files.0[1];
    let rest = Duration::ZERO;
    let (unwinding, memory) = (&mut world.unwinding, &mut world.memory);
    let mut forgotten = unwinding.forget_unused(memory, 9, rest, world.now, |file| file == kept);
    forgotten.sort_unstable();
    assert_eq!(forgotten, [world.files.0[0], world.files.0[2]]);
    assert_eq!(world.given_back(), 2);
    world.map(14, 0);
    assert_eq!(world.memory.tables_of(14), [0]);
}

/// One thing that happens.
#[derive(Debug, Clone)]
enum Step {
    Map(u32, u64),
    Fork { parent: u32, child: u32, late: bool },
    Exit(u32),
    Wait(u64),
    Walk(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let pid = 0..6_u32;
    prop_oneof![
        4 => (pid.clone(), 0..8_u64).prop_map(|(pid, number)| Step::Map(pid, number)),
        2 => (pid.clone(), pid.clone(), any::<bool>())
            .prop_map(|(parent, child, late)| Step::Fork { parent, child, late }),
        2 => pid.clone().prop_map(Step::Exit),
        3 => (0..2500_u64).prop_map(Step::Wait),
        3 => pid.prop_map(Step::Walk),
    ]
}

/// A walk that began with what the kernel had of a process then.
struct Walking {
    began: Instant,
    space: SpaceRef,
    entries: Vec<SpaceEntry>,
}

proptest! {
    /// Whatever happens: as long as a walk may last, the mappings it began with are there, and every table they lead
    /// to is the right one.
    #[test]
    fn walks_are_never_misled(steps in prop::collection::vec(step(), 1..120), budget in 1_u64..6) {
        let mut world = World::new(8, budget);
        let mut walks: Vec<Walking> = Vec::new();
        let mut reported_late: Vec<(u32, u32)> = Vec::new();
        for step in steps {
            match step {
                Step::Map(pid, number) => world.map(pid, number),
                Step::Fork { parent, child, late } if parent != child => {
                    world.forget(child);
                    // The kernel side copies at once; the record comes later.
                    if let Some(space) = world.memory.bound.get(&parent).copied() {
                        world.memory.bound.insert(child, space);
                    }
                    if late {
                        reported_late.push((parent, child));
                    } else {
                        world.unwinding.fork(parent, child);
                        world.flush();
                    }
                }
                Step::Fork { .. } => {}
                Step::Exit(pid) => world.forget(pid),
                Step::Wait(ms) => {
                    for (parent, child) in reported_late.drain(..) {
                        if !world.unwinding.spaces.contains_key(&child) {
                            world.unwinding.fork(parent, child);
                        }
                    }
                    world.flush();
                    world.after(Duration::from_millis(ms));
                }
                Step::Walk(pid) => {
                    if let Some(space) = world.memory.bound.get(&pid).copied() {
                        let entries = world.memory.entries(space);
                        walks.push(Walking { began: world.now, space, entries });
                    }
                }
            }
            walks.retain(|walk| world.now - walk.began < REST);
            for walk in &walks {
                assert_eq!(world.memory.entries(walk.space), walk.entries);
                world.memory.assert_right(&walk.entries);
            }
        }
    }
}
