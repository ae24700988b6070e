//! Which of our threads may not wait.

use rustix::process::{getpriority_process, setpriority_process};

/// Niceness of threads that keep the kernel side up to date. They do little, and while they wait for a CPU, new programs
/// are seen without unwind tables and drivers without probes.
const URGENT: i32 = -10;

/// While this lives, the thread that made it goes before others, and so does what it starts meanwhile.
pub(super) struct Urgent {
    before: Option<i32>,
}

impl Urgent {
    /// Without the right to it all goes on, only later.
    pub fn begin() -> Self {
        // Linux takes no process for the calling thread alone.
        let before = getpriority_process(None).ok();
        let before = before.filter(|_| setpriority_process(None, URGENT).is_ok());
        Self { before }
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // Going back needs no right.
            let _ = setpriority_process(None, before);
        }
    }
}
