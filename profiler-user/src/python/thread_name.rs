//! The name a thread was given in Python: `threading.Thread`'s own, which the kernel does not know before
//! CPython 3.14.
//!
//! Read off the thread's outermost frame, `Thread._bootstrap(self)`: its first local is the thread object,
//! whose attributes lie in place (keys shared by the class) or in a dict.

use profiler_ebpf::wire::{PythonInfo, anchors};

use super::Interpreter;
use super::text::read_text;
use super::thread_layout::{Attributes, Keys};
use crate::process::TargetMemory;

/// Threads looked through to find one.
const MAX_THREADS: usize = 4096;
/// Frames walked to the outermost one.
const MAX_FRAMES: usize = 1024;
/// Attributes of a thread object looked through.
const MAX_ATTRIBUTES: u64 = 128;
/// Owners of frames from here on are no Python code (3.12 on).
const SHIM_OWNER: u8 = 3;

/// The Python name of thread `tid` of a process that runs this interpreter. `None` for a thread that `threading` did
/// not make, or that cannot be read.
pub fn thread_name(memory: TargetMemory, interpreter: &Interpreter, tid: u32) -> Option<String> {
    let reader = Reader {
        memory,
        interpreter,
    };
    let layout = &interpreter.layout.threads;
    let state = word(memory, interpreter.runtime, layout.interpreters)?;
    let mut state = word(memory, state, layout.interpreter_threads)?;
    for _ in 0..MAX_THREADS {
        if state == 0 {
            return None;
        }
        // Where the state does not say whose it is, its thread object does.
        match layout.state_native_id {
            Some(at) if word(memory, state, at)? == u64::from(tid) => {
                return reader.name(reader.thread_object(state)?);
            }
            Some(_) => {}
            None => {
                let thread = reader.thread_object(state);
                if let Some(thread) = thread.filter(|thread| reader.native_id(*thread) == Some(tid))
                {
                    return reader.name(thread);
                }
            }
        }
        state = word(memory, state, 8)?; // next
    }
    None
}

fn word(memory: TargetMemory, base: u64, offset: u64) -> Option<u64> {
    memory.read(base.checked_add(offset)?)
}

struct Reader<'a> {
    memory: TargetMemory,
    interpreter: &'a Interpreter,
}

impl Reader<'_> {
    fn word(&self, base: u64, offset: u64) -> Option<u64> {
        word(self.memory, base, offset)
    }

    fn text(&self, address: u64) -> Option<String> {
        read_text(self.memory, &self.interpreter.layout.objects, address)
    }

    /// The `Thread` that a thread state's outermost frame runs.
    fn thread_object(&self, state: u64) -> Option<u64> {
        let layout = &self.interpreter.layout;
        let frame = self.outermost_frame(state)?;
        let code = self.frame_word(frame, layout.kernel.frame_code_word)? & !3;
        let name = self.text(self.word(code, layout.objects.code_name as u64)?)?;
        if name != "_bootstrap" {
            return None;
        }
        let local = self.word(frame, layout.threads.frame_first_local)?;
        Some(local & !3) // tagged from 3.14 on
    }

    fn frame_word(&self, frame: u64, index: u8) -> Option<u64> {
        let start = self.interpreter.layout.kernel.frame_start;
        self.word(frame, u64::from(start) + 8 * u64::from(index))
    }

    fn outermost_frame(&self, state: u64) -> Option<u64> {
        let info = &self.interpreter.layout.kernel;
        let mut frame = if info.tstate_frame == 0 {
            let record = self.word(state, info.tstate_cframe.into())?;
            self.word(record, info.cframe_current_frame.into())?
        } else {
            self.word(state, info.tstate_frame.into())?
        };
        let mut outermost = None;
        for _ in 0..MAX_FRAMES {
            if frame == 0 {
                return outermost;
            }
            if !self.is_shim(info, frame)? {
                outermost = Some(frame);
            }
            frame = self.frame_word(frame, info.frame_previous_word)?;
        }
        None
    }

    fn is_shim(&self, info: &PythonInfo, frame: u64) -> Option<bool> {
        if info.anchors != anchors::SHIM {
            return Some(false);
        }
        let flags = self.frame_word(frame, info.frame_flags_word)? >> info.frame_flags_shift;
        Some(flags.to_le_bytes()[0] >= SHIM_OWNER)
    }

    fn name(&self, thread: u64) -> Option<String> {
        self.text(self.attribute(thread, "_name")?)
    }

    fn native_id(&self, thread: u64) -> Option<u32> {
        let number = self.attribute(thread, "_native_id")?;
        // An int of one or two digits of 30 bits.
        let [low, high] = self.memory.read::<[u32; 2]>(number.checked_add(24)?)?;
        match self.word(number, 16)? {
            1 => Some(low),
            2 => high.checked_shl(30).map(|high| high | low),
            _ => None,
        }
    }

    /// The value of an attribute kept by the object itself.
    fn attribute(&self, object: u64, name: &str) -> Option<u64> {
        let class = self.word(object, self.interpreter.layout.objects.object_head - 8)?;
        let before = |bytes| self.word(object.checked_sub(bytes)?, 0);
        let dict = match self.interpreter.layout.threads.attributes {
            Attributes::DictOffset(at) => {
                let offset = self.word(class, at)?;
                self.word(object, offset)?
            }
            Attributes::BeforeObject { cached_keys } => match before(32)? {
                0 => before(24)?,
                values => return self.in_place(class, cached_keys, values, name),
            },
            Attributes::TaggedBeforeObject { cached_keys } => match before(24)? {
                tagged if tagged & 1 != 0 => {
                    return self.in_place(class, cached_keys, tagged.checked_add(1)?, name);
                }
                dict => dict,
            },
            Attributes::BehindObject { cached_keys } => {
                let behind = object.checked_add(self.word(class, 32)?)?; // tp_basicsize
                let [_, _, _, valid] = self.memory.read::<[u8; 4]>(behind)?;
                if valid == 1 {
                    return self.in_place(class, cached_keys, behind.checked_add(8)?, name);
                }
                before(24)?
            }
        };
        self.in_dict(dict, name)
    }

    fn in_place(&self, class: u64, cached_keys: u64, values: u64, name: &str) -> Option<u64> {
        let keys = self.word(class, cached_keys)?;
        let (index, _) = self.find_key(keys, name)?;
        self.word(values, 8 * index).filter(|value| *value != 0)
    }

    fn in_dict(&self, dict: u64, name: &str) -> Option<u64> {
        let (keys, mut values) = (self.word(dict, 32)?, self.word(dict, 40)?);
        if values != 0
            && let Attributes::BehindObject { .. } = self.interpreter.layout.threads.attributes
        {
            values = values.checked_add(8)?;
        }
        let (index, value_at) = self.find_key(keys, name)?;
        let value = if values != 0 {
            self.word(values, 8 * index)?
        } else {
            self.word(value_at, 0)?
        };
        (value != 0).then_some(value)
    }

    /// Where a key stands in a dict's key table: its index, and the address of the value beside it.
    fn find_key(&self, keys: u64, name: &str) -> Option<(u64, u64)> {
        let (count, entries, entry_bytes, key_at) = match self.interpreter.layout.threads.keys {
            Keys::WithLookup => {
                let size = self.word(keys, 8)?;
                let index_bytes = match size {
                    0..=0xff => size,
                    0x100..=0xffff => 2 * size,
                    _ => return None,
                };
                (self.word(keys, 32)?, 40 + index_bytes, 24, 8)
            }
            Keys::WithKind => {
                let [_, log2_index_bytes, kind, _] =
                    self.memory.read::<[u8; 4]>(keys.checked_add(8)?)?;
                if log2_index_bytes > 16 {
                    return None;
                }
                // General tables keep a hash before key and value.
                let (entry_bytes, key_at) = if kind == 0 { (24, 8) } else { (16, 0) };
                let entries = 32 + (1 << log2_index_bytes);
                (self.word(keys, 24)?, entries, entry_bytes, key_at)
            }
        };
        let entries = keys.checked_add(entries)?;
        (0..count.min(MAX_ATTRIBUTES)).find_map(|index| {
            let entry = entries.checked_add(index * entry_bytes)?;
            let key = self.word(entry, key_at).filter(|key| *key != 0)?;
            (self.text(key)? == name).then_some((index, entry + key_at + 8))
        })
    }
}
