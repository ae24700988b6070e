//! Libraries whose code is not followed: NVIDIA's licences forbid it. They come with call frame information for nearly
//! all of their code, and that is read.

use object::ReadRef;

use super::elf::Elf;

/// How their names (`DT_SONAME`) begin.
const NAMES: [&str; 14] = [
    "libcuda.so",
    "libcudart",
    "libcudadebugger",
    "libcudnn",
    "libcublas",
    "libcufft",
    "libcufile",
    "libcupti",
    "libcurand",
    "libcusolver",
    "libcusparse",
    "libcutensor",
    "libnv",
    "libnpp",
];

/// Whether a file's code may be followed.
pub(super) fn may_be_followed<'d, R: ReadRef<'d>>(elf: &Elf<'d, R>) -> bool {
    let Some(name) = elf.so_name() else {
        return true;
    };
    let name = String::from_utf8_lossy(name);
    !name.contains("nvidia") && !NAMES.iter().any(|begin| name.starts_with(begin))
}
