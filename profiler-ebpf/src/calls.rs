//! Which driver calls of a thread are open, kept honest by the stack pointer.
//!
//! The stack grows down: a call that has begun has its return address at or above every later stack
//! pointer of the thread for as long as it lasts. So a recorded call whose `sp` lies below that of a call
//! that begins now has ended, even if its return was never seen (a long jump, an exception). At the
//! same `sp` one function may have jumped to another (both are open), but not to itself.

use crate::memory::USER_ADDRESS_END;
use crate::wire::{MAX_OPEN_CALLS, OpenCall, OpenCalls};

/// Drops calls that must have ended, given that one of `function` begins with its return address at
/// `sp`. Returns how many.
#[inline(always)]
pub fn drop_ended(open: &mut OpenCalls, function: u32, sp: u64) -> u32 {
    let mut dropped = 0;
    for index in (0..MAX_OPEN_CALLS).rev() {
        if index < open.depth as usize {
            let call = open.calls[index];
            if call.sp < sp || (call.sp == sp && call.function == function) {
                dropped += open.depth - index as u32;
                open.depth = index as u32;
            }
        }
    }
    dropped
}

/// Adds a call; false when too many are open.
#[inline(always)]
pub fn push(open: &mut OpenCalls, call: OpenCall) -> bool {
    let depth = open.depth as usize;
    if depth >= MAX_OPEN_CALLS {
        return false;
    }
    open.calls[depth] = call;
    open.depth = depth as u32 + 1;
    true
}

/// Takes the call of `function` whose return address lay at `sp`, and drops those inside it. The second value says
/// whether it was itself inside another one.
#[inline(always)]
pub fn pop(open: &mut OpenCalls, function: u32, sp: u64) -> Option<(OpenCall, bool)> {
    for index in (0..MAX_OPEN_CALLS).rev() {
        if index < open.depth as usize {
            let call = open.calls[index];
            if call.sp == sp && call.function == function {
                open.depth = index as u32;
                return Some((call, index > 0));
            }
        }
    }
    None
}

/// The return address that lies at `slot`, if a call that is open was entered there: a return probe has put
/// another one on the stack. The outermost such call knows the original.
#[inline(always)]
pub fn return_address_at(open: &OpenCalls, slot: u64) -> Option<u64> {
    for index in 0..MAX_OPEN_CALLS {
        if index < open.depth as usize && open.calls[index].sp == slot {
            return Some(open.calls[index].return_address);
        }
    }
    None
}

/// The innermost call that a sample with this stack pointer is inside of.
#[inline(always)]
pub fn innermost(open: &OpenCalls, sp: u64) -> Option<OpenCall> {
    for index in (0..MAX_OPEN_CALLS).rev() {
        if index < open.depth as usize && open.calls[index].sp >= sp {
            return Some(open.calls[index]);
        }
    }
    None
}

/// Where a return probe's code is (kernel 6.11): the last page that programs can use, behind the system call that ends
/// the probed call. Until then it has pushed three words where the return address lay before.
const RETURN_PROBE_PC: u64 = USER_ADDRESS_END - 0x1000 + 0xd;
const RETURN_PROBE_PUSHED: u64 = 16;

/// The open call that is just returning, through a return probe's code with these registers.
#[inline(always)]
pub fn returning(open: &OpenCalls, pc: u64, sp: u64) -> Option<OpenCall> {
    if pc != RETURN_PROBE_PC {
        return None;
    }
    // Once its end is booked another one is the innermost, and lies elsewhere.
    innermost(open, sp).filter(|call| call.sp == sp + RETURN_PROBE_PUSHED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(function: u32, sp: u64) -> OpenCall {
        OpenCall {
            sp,
            return_address: 77,
            start_ns: 5,
            function,
            _pad: 0,
        }
    }

    fn popped(open: &mut OpenCalls, function: u32, sp: u64) -> Option<(u32, bool)> {
        pop(open, function, sp).map(|(call, nested)| (call.function, nested))
    }

    /// Nested calls open and close in order.
    #[test]
    fn nests() {
        let mut open = OpenCalls::default();
        assert!(push(&mut open, call(1, 1000)));
        assert!(push(&mut open, call(2, 900)));
        assert_eq!(innermost(&open, 800).map(|call| call.function), Some(2));
        assert_eq!(innermost(&open, 950).map(|call| call.function), Some(1));
        assert_eq!(innermost(&open, 1100), None);
        assert_eq!(popped(&mut open, 2, 900), Some((2, true)));
        assert_eq!(popped(&mut open, 1, 1000), Some((1, false)));
        assert_eq!(open.depth, 0);
    }

    /// A call whose return was not seen is dropped when a later one begins at or above it.
    #[test]
    fn drops_what_must_have_ended() {
        let mut open = OpenCalls::default();
        push(&mut open, call(1, 1000));
        push(&mut open, call(2, 900));
        assert_eq!(drop_ended(&mut open, 3, 950), 1);
        assert_eq!(open.depth, 1);
        assert_eq!(drop_ended(&mut open, 1, 1000), 1);
        assert_eq!(open.depth, 0);
    }

    /// A call that jumped on to another function at the same stack pointer stays open.
    #[test]
    fn keeps_a_call_that_jumped_on() {
        let mut open = OpenCalls::default();
        push(&mut open, call(1, 1000));
        assert_eq!(drop_ended(&mut open, 2, 1000), 0);
        push(&mut open, call(2, 1000));
        assert_eq!(popped(&mut open, 2, 1000), Some((2, true)));
        assert_eq!(popped(&mut open, 1, 1000), Some((1, false)));
    }

    /// A call that returns through a return probe is known by where the probe's code has its stack, until it is booked.
    #[test]
    fn knows_what_returns() {
        let mut open = OpenCalls::default();
        push(&mut open, call(1, 1008));
        push(&mut open, call(2, 1000));
        let pc = 0x7fff_ffff_e00d;
        assert_eq!(returning(&open, pc, 984).map(|call| call.function), Some(2));
        assert_eq!(returning(&open, pc - 1, 984), None);
        pop(&mut open, 2, 1000);
        assert_eq!(returning(&open, pc, 984), None);
        assert_eq!(returning(&open, pc, 992).map(|call| call.function), Some(1));
    }

    /// A return that fits no open call, and a fifth nested call, change nothing.
    #[test]
    fn refuses_strangers_and_overflow() {
        let mut open = OpenCalls::default();
        for level in 0..MAX_OPEN_CALLS as u64 {
            assert!(push(&mut open, call(1, 1000 - level)));
        }
        assert!(!push(&mut open, call(1, 1)));
        assert_eq!(pop(&mut open, 2, 1000), None);
        assert_eq!(pop(&mut open, 1, 1), None);
        assert_eq!(open.depth as usize, MAX_OPEN_CALLS);
    }
}
