//! How a thread came into the kernel, from the registers it left behind.

/// System calls that replace the program: when they are done the program counter is the new one's first
/// instruction (x86-64: execve, execveat).
const EXECS: [u64; 2] = [59, 322];

/// Whether a thread is replacing its program.
#[inline(always)]
pub fn is_exec(orig_rax: u64) -> bool {
    EXECS.contains(&orig_rax)
}

/// Whether the saved program counter is a return address: behind the instruction that made a system call,
/// perhaps in another function. `orig_rax`: the system call's number, or -1 for an interrupt.
#[inline(always)]
pub fn returns_to_pc(orig_rax: u64) -> bool {
    orig_rax.cast_signed() != -1 && !is_exec(orig_rax)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A system call returns; an interrupt does not, nor does a call that replaces the program.
    #[test]
    fn who_returns() {
        assert!(returns_to_pc(0) && returns_to_pc(57));
        assert!(!returns_to_pc(u64::MAX) && !returns_to_pc(59) && !returns_to_pc(322));
        assert!(is_exec(59) && is_exec(322) && !is_exec(57) && !is_exec(u64::MAX));
    }
}
