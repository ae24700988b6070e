//! Names of processes and threads that formats put at the root of stacks: `python3 (1234)`.
//!
//! The id keeps two processes, or two threads, of one name apart. An id that the kernel gave out
//! again in the same recording, under the same name, is numbered: `python3 (1234) #2`.

use std::collections::HashSet;

use crate::profile::{ProcessId, Profile, ThreadId};

/// The labels of a profile's processes and threads.
#[derive(Debug)]
pub(super) struct TaskLabels {
    processes: Vec<String>,
    threads: Vec<String>,
}

impl TaskLabels {
    /// Names everything that ran.
    pub fn new(profile: &Profile) -> Self {
        let mut taken = HashSet::new();
        let process = |process: &crate::profile::Process| {
            unused(&mut taken, "", profile.text(process.name), process.pid)
        };
        let processes: Vec<String> = profile.processes.iter().map(process).collect();
        let mut taken = HashSet::new();
        let thread = |thread: &crate::profile::Thread| {
            let process = &processes[thread.process.0 as usize];
            unused(&mut taken, process, profile.text(thread.name), thread.tid)
        };
        let threads = profile.threads.iter().map(thread).collect();
        Self { processes, threads }
    }

    /// A process's label.
    pub fn process(&self, id: ProcessId) -> &str {
        &self.processes[id.0 as usize]
    }

    /// A thread's label, without its process.
    pub fn thread(&self, id: ThreadId) -> &str {
        &self.threads[id.0 as usize]
    }
}

/// `name (id)`, numbered if the parent already has a child that is called so.
fn unused(taken: &mut HashSet<(String, String)>, parent: &str, name: &str, id: u32) -> String {
    let name = if name.is_empty() { "[unnamed]" } else { name };
    let first = format!("{name} ({id})");
    let numbered = (2_u32..).map(|number| format!("{first} #{number}"));
    std::iter::once(first.clone())
        .chain(numbered)
        .find(|label| taken.insert((parent.to_owned(), label.clone())))
        .expect("there are more numbers than tasks")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::testing::Build;

    /// Ids tell namesakes apart, numbers tell two lives of one id apart.
    #[test]
    fn labels_are_distinct() {
        let mut build = Build::new();
        let processes: Vec<_> = [("p", 1), ("p", 2), ("p", 1), ("", 3)]
            .map(|(name, pid)| build.process(name, pid))
            .into();
        let threads: Vec<_> = [(0, "t", 1), (0, "t", 1), (1, "t", 1)]
            .map(|(of, name, tid)| build.thread(processes[of], name, tid))
            .into();
        let labels = TaskLabels::new(&build.profile);
        let read: Vec<_> = processes.iter().map(|id| labels.process(*id)).collect();
        assert_eq!(read, ["p (1)", "p (2)", "p (1) #2", "[unnamed] (3)"]);
        let read: Vec<_> = threads.iter().map(|id| labels.thread(*id)).collect();
        assert_eq!(read, ["t (1)", "t (1) #2", "t (1)"]);
    }
}
