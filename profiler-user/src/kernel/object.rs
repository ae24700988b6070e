//! The kernel object that ships with this program, and the check that it is the right one.

use aya::include_bytes_aligned;
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use profiler_ebpf::wire::{ABI, Abi};

use super::KernelError;

/// The object as committed, checked against its sources by `cargo xtask ebpf check`.
static OBJECT: &[u8] = include_bytes_aligned!("../../../profiler-ebpf/prebuilt/wholestack.bpf.o");

/// The object that ships.
pub fn kernel_object() -> &'static [u8] {
    OBJECT
}

/// Compares the ABI the object was built with to ours.
pub(super) fn check_abi(object: &[u8]) -> Result<(), KernelError> {
    let found = read_abi(object)?;
    if found != ABI {
        return Err(KernelError::WrongObject(format!(
            "it speaks ABI {} with sizes {found:?}, this program ABI {} with {ABI:?}",
            found.version, ABI.version
        )));
    }
    Ok(())
}

fn read_abi(object: &[u8]) -> Result<Abi, KernelError> {
    let wrong = |text: &str| KernelError::WrongObject(text.to_owned());
    let file =
        object::File::parse(object).map_err(|error| wrong(&format!("not an ELF file: {error}")))?;
    let symbol = file
        .symbol_by_name("WHOLESTACK_ABI")
        .ok_or_else(|| wrong("it does not say which ABI it speaks"))?;
    let section = symbol
        .section_index()
        .and_then(|index| file.section_by_index(index).ok())
        .ok_or_else(|| wrong("its ABI lies in no section"))?;
    let data = section
        .data()
        .map_err(|error| wrong(&format!("its ABI cannot be read: {error}")))?;
    let start =
        usize::try_from(symbol.address()).map_err(|_| wrong("its ABI lies out of range"))?;
    let bytes = data
        .get(start..)
        .and_then(|rest| rest.get(..size_of::<Abi>()))
        .ok_or_else(|| wrong("its ABI is cut off"))?;
    Ok(bytemuck::pod_read_unaligned(bytes))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The shipped object speaks our ABI.
    #[test]
    fn the_shipped_object_fits() {
        check_abi(kernel_object()).unwrap();
    }

    /// The programs call no helper but those that read, look up, count and send: nothing that writes to a target, signals
    /// it or changes what it does, and nothing that reads text.
    #[test]
    fn the_shipped_object_only_reads() {
        // Numbers of `enum bpf_func_id` in the kernel's uapi bpf.h.
        const ALLOWED: [i32; 16] = [
            1,   // map_lookup_elem
            2,   // map_update_elem
            3,   // map_delete_elem
            5,   // ktime_get_ns
            8,   // get_smp_processor_id
            12,  // tail_call
            14,  // get_current_pid_tgid
            16,  // get_current_comm
            35,  // get_current_task
            67,  // get_stack
            112, // probe_read_user
            113, // probe_read_kernel
            130, // ringbuf_output
            158, // get_current_task_btf
            174, // get_attach_cookie
            175, // task_pt_regs
        ];
        let file = object::File::parse(kernel_object()).unwrap();
        let mut called = std::collections::BTreeSet::new();
        for section in file
            .sections()
            .filter(|section| section.kind() == object::SectionKind::Text)
        {
            for instruction in section.data().unwrap().as_chunks::<8>().0 {
                // A call (0x85) of a helper: source register 0.
                if instruction[0] == 0x85 && instruction[1] >> 4 == 0 {
                    called.insert(i32::from_le_bytes(instruction[4..8].try_into().unwrap()));
                }
            }
        }
        assert!(called.contains(&112) && called.contains(&130), "{called:?}");
        let strangers: Vec<_> = called.iter().filter(|id| !ALLOWED.contains(id)).collect();
        assert!(strangers.is_empty(), "{strangers:?}");
    }

    /// An object of another ABI, a cut one and something else are refused before loading.
    #[test]
    fn others_are_refused() {
        let mut other = kernel_object().to_vec();
        let magic = profiler_ebpf::wire::ABI_MAGIC.to_le_bytes();
        let at = other.windows(8).position(|window| window == magic).unwrap();
        other[at + 8] ^= 0xff;
        let text = check_abi(&other).unwrap_err().to_string();
        assert!(text.contains("ABI"), "{text}");
        assert!(check_abi(&kernel_object()[..2000]).is_err());
        assert!(check_abi(b"not an object").is_err());
    }
}
