//! Many probes on one file at once (kernel 6.6).
//!
//! A probe of its own for each function takes the kernel a tenth of a second to take off, one after the other. One
//! link for all functions of a file takes that long once. The loader does not know such links, so here the two
//! probe programs are loaded once more, for them.

use std::collections::HashSet;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use aya::Ebpf;
use aya::maps::{Map, MapData};
use aya_obj::Object;
use aya_obj::generated::{
    BPF_F_UPROBE_MULTI_RETURN, bpf_attach_type, bpf_attr, bpf_cmd, bpf_insn, bpf_prog_type,
};
use nix::libc;
use profiler_ebpf::wire::Cookie;

use super::KernelError;
use super::load::retried;

/// A driver function to probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallSite {
    /// Where, as a file offset. All arguments and the return address are still in place there.
    pub file_offset: u64,
    /// Which function it is, and how to read its arguments, for the programs.
    pub cookie: Cookie,
    /// It is probed also where each probe goes on and off by itself.
    pub common: bool,
}

/// The probe programs, for links to many places.
pub(super) struct MultiProbes {
    enter: OwnedFd,
    exit: OwnedFd,
}

impl MultiProbes {
    /// Loads them; `None` where the kernel has no such links.
    pub fn load(object: &[u8], ebpf: &Ebpf) -> Result<Option<Self>, KernelError> {
        let wrong = |error: &dyn std::error::Error| KernelError::WrongObject(error.to_string());
        let mut object = Object::parse(object).map_err(|error| wrong(&error))?;
        let text: HashSet<usize> = object
            .functions
            .keys()
            .map(|(section, _)| *section)
            .collect();
        let maps = std::mem::take(&mut object.maps);
        // Programs that are not loaded here may use maps that are elsewhere by now: any descriptor does for those.
        let with_descriptors = maps.iter().map(|(name, map)| {
            let descriptor = ebpf
                .map(name)
                .and_then(data)
                .map_or(-1, |data| data.fd().as_fd().as_raw_fd());
            (name.as_str(), descriptor, map)
        });
        object
            .relocate_maps(with_descriptors, &text)
            .map_err(|error| wrong(&error))?;
        object
            .relocate_calls(&text)
            .map_err(|error| wrong(&error))?;
        let load = |name: &str| {
            let program = object.programs.get(name)?;
            let function = object.functions.get(&program.function_key())?;
            Some(load_program(&function.instructions, &program.license))
        };
        let missing = || KernelError::WrongObject("it lacks the probe programs".to_owned());
        let enter = load("cuda_enter").ok_or_else(missing)?;
        let exit = load("cuda_exit").ok_or_else(missing)?;
        // A kernel that does not know the kind of link says so here; probes of their own are left then.
        Ok(enter
            .ok()
            .zip(exit.ok())
            .map(|(enter, exit)| Self { enter, exit }))
    }

    /// Probes functions of a file, in every process: first where they return, then where they begin. The probes
    /// last as long as what is returned.
    pub fn attach(&self, file: &Path, sites: &[CallSite]) -> io::Result<[OwnedFd; 2]> {
        let path = CString::new(file.as_os_str().as_bytes())?;
        let offsets: Vec<u64> = sites.iter().map(|site| site.file_offset).collect();
        let cookies: Vec<u64> = sites.iter().map(|site| site.cookie.0).collect();
        let link = |program: &OwnedFd, flags: u32| {
            // SAFETY: all zero is a valid value of this union of plain structs.
            let mut attr: bpf_attr = unsafe { std::mem::zeroed() };
            attr.link_create.__bindgen_anon_1.prog_fd = program.as_raw_fd().cast_unsigned();
            attr.link_create.attach_type = bpf_attach_type::BPF_TRACE_UPROBE_MULTI as u32;
            // SAFETY: the fields of the union that this kind of link reads, from all zero.
            let multi = unsafe { &mut attr.link_create.__bindgen_anon_3.uprobe_multi };
            multi.path = path.as_ptr() as u64;
            multi.offsets = offsets.as_ptr() as u64;
            multi.cookies = cookies.as_ptr() as u64;
            multi.cnt = u32::try_from(sites.len()).unwrap_or(u32::MAX);
            multi.flags = flags;
            // SAFETY: the pointers are to a string and to arrays of `cnt` words, which outlive the call.
            unsafe { bpf(bpf_cmd::BPF_LINK_CREATE, &mut attr) }
        };
        Ok([
            link(&self.exit, BPF_F_UPROBE_MULTI_RETURN)?,
            link(&self.enter, 0)?,
        ])
    }
}

fn load_program(instructions: &[bpf_insn], license: &CString) -> io::Result<OwnedFd> {
    // SAFETY: all zero is a valid value of this union of plain structs.
    let mut attr: bpf_attr = unsafe { std::mem::zeroed() };
    // SAFETY: the struct of the union that loading a program reads, from all zero.
    let load = unsafe { &mut attr.__bindgen_anon_3 };
    load.prog_type = bpf_prog_type::BPF_PROG_TYPE_KPROBE as u32;
    load.expected_attach_type = bpf_attach_type::BPF_TRACE_UPROBE_MULTI as u32;
    load.insns = instructions.as_ptr() as u64;
    load.insn_cnt = u32::try_from(instructions.len()).unwrap_or(u32::MAX);
    load.license = license.as_ptr() as u64;
    // SAFETY: the pointers are to an array of `insn_cnt` instructions and to a string, which outlive the call.
    unsafe { bpf(bpf_cmd::BPF_PROG_LOAD, &mut attr) }
}

/// The bpf system call, for commands that return a descriptor.
///
/// # Safety
///
/// Pointers in `attr` must be valid for what the command does with them.
unsafe fn bpf(command: bpf_cmd, attr: &mut bpf_attr) -> io::Result<OwnedFd> {
    let attempt = || {
        // SAFETY: the caller answers for the pointers in `attr`, whose size is right.
        let result = unsafe {
            libc::syscall(
                libc::SYS_bpf,
                command as libc::c_long,
                std::ptr::from_mut(attr),
                size_of::<bpf_attr>(),
            )
        };
        match i32::try_from(result) {
            // SAFETY: a new descriptor that nobody else has.
            Ok(descriptor) if descriptor >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
            _ => Err(io::Error::last_os_error()),
        }
    };
    retried(attempt, |error| {
        matches!(
            error.kind(),
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
        )
    })
}

/// A map of the kinds that the probe programs use.
fn data(map: &Map) -> Option<&MapData> {
    match map {
        Map::Array(data) | Map::HashMap(data) | Map::PerCpuArray(data) => Some(data),
        _ => None,
    }
}
