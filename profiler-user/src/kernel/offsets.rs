//! Where the fields of `task_struct` lie in the running kernel, from its own type information.

use std::fs;
use std::io;

use btfparse::{Error, ErrorKind, Offset, Readable, TypeInformation};
use profiler_ebpf::wire::Config;

use super::KernelError;

const VMLINUX_BTF: &str = "/sys/kernel/btf/vmlinux";

/// The fields the kernel side reads, as [`Config`] holds them; everything else in it is zero.
pub(super) fn task_offsets() -> Result<Config, KernelError> {
    let bytes = fs::read(VMLINUX_BTF).map_err(|source| KernelError::NoBtf {
        path: VMLINUX_BTF.to_owned(),
        source,
    })?;
    let types = TypeInformation::new(&Bytes(bytes)).map_err(|error| KernelError::NoBtf {
        path: VMLINUX_BTF.to_owned(),
        source: io::Error::other(format!("{error:?}")),
    })?;
    Ok(Config {
        task_mm: offset(&types, "mm")?,
        task_fsbase: offset(&types, "thread.fsbase")?,
        task_pid: offset(&types, "pid")?,
        task_tgid: offset(&types, "tgid")?,
        task_runtime: offset(&types, "se.sum_exec_runtime")?,
        ..Config::default()
    })
}

fn offset(types: &TypeInformation, field: &'static str) -> Result<u32, KernelError> {
    let failed = |reason: String| KernelError::NoField { field, reason };
    let task = types
        .id_of("task_struct")
        .ok_or_else(|| failed("no such type".to_owned()))?;
    match types.offset_of(task, field) {
        Ok((_, Offset::ByteOffset(bytes))) => Ok(bytes),
        Ok((_, Offset::BitOffsetAndSize(..))) => Err(failed("it is a bit field".to_owned())),
        Err(error) => Err(failed(format!("{error:?}"))),
    }
}

/// Type information held in memory.
struct Bytes(Vec<u8>);

impl Readable for Bytes {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> btfparse::Result<()> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let found = self
            .0
            .get(start..)
            .and_then(|rest| rest.get(..buffer.len()));
        let bytes =
            found.ok_or_else(|| Error::new(ErrorKind::EOF, "the type information is cut off"))?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
}
