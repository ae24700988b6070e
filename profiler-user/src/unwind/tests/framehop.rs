//! The second oracle: framehop.

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder as _};
use profiler_ebpf::unwind::Registers;

use super::sections::Sections;
use super::stack::{BIAS, MadeUp, registers};

/// framehop, with one file loaded.
pub struct Framehop {
    unwinder: UnwinderX86_64<Vec<u8>>,
    cache: CacheX86_64,
}

impl Framehop {
    /// Loads a file.
    pub fn new(sections: &Sections) -> Self {
        let frames = sections.frames.clone();
        let mut info = ExplicitModuleSectionInfo::default();
        if sections.debug {
            info.debug_frame = Some(frames);
        } else {
            let size = frames.len() as u64;
            info.eh_frame_svma = Some(sections.address..sections.address + size);
            info.eh_frame = Some(frames);
        }
        if let Some((header, address)) = &sections.header {
            info.eh_frame_hdr_svma = Some(*address..*address + header.len() as u64);
            info.eh_frame_hdr = Some(header.clone());
        }
        let range = BIAS..BIAS + u64::from(u32::MAX);
        let module = Module::new("file".to_owned(), range, BIAS, info);
        let mut unwinder = UnwinderX86_64::new();
        unwinder.add_module(module);
        Self {
            unwinder,
            cache: CacheX86_64::new(),
        }
    }

    /// The caller of a leaf frame at an address in the file; `None` at the end of the stack.
    pub fn caller(&mut self, address: u64) -> Option<Registers> {
        let frame = registers(address);
        let mut caller = UnwindRegsX86_64::new(frame.pc, frame.sp, frame.fp);
        let at = FrameAddress::from_instruction_pointer(frame.pc);
        let mut read = |address| Ok(MadeUp::word(address));
        let pc = self
            .unwinder
            .unwind_frame(at, &mut caller, &mut self.cache, &mut read)
            .unwrap()?;
        Some(Registers {
            pc,
            sp: caller.sp(),
            fp: caller.bp(),
        })
    }
}
