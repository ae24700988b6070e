//! Programs that are watched: started by a test, ended with it, and observed for being left alone.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::wait;

/// A running program, killed when the value goes. Once it has ended nothing of it is left in the list of processes: a
/// shell, too, waits for its commands.
#[derive(Debug)]
pub struct Target {
    pid: u32,
    child: Arc<Mutex<Child>>,
}

impl Target {
    /// Starts it, silent.
    pub fn start(command: &mut Command) -> Self {
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Self::spawn(command)
    }

    /// Starts it with its standard output in a file.
    pub fn start_into(command: &mut Command, out: &Path) -> Self {
        let out = fs::File::create(out).expect("a file can be made");
        command.stdout(out);
        Self::spawn(command)
    }

    fn spawn(command: &mut Command) -> Self {
        let child = command
            .stdin(Stdio::null())
            .spawn()
            .expect("the target can be started");
        let pid = child.id();
        let child = Arc::new(Mutex::new(child));
        let waited_for = Arc::clone(&child);
        thread::spawn(move || {
            while ended(&waited_for).is_none() {
                thread::sleep(Duration::from_millis(5));
            }
        });
        Self { pid, child }
    }

    /// Its pid.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// CPU seconds it has used.
    pub fn cpu_seconds(&self) -> f64 {
        cpu_seconds(self.pid)
    }

    /// Whether it has not ended.
    pub fn is_running(&self) -> bool {
        ended(&self.child).is_none()
    }

    /// Waits for its end.
    ///
    /// # Panics
    ///
    /// When it fails.
    #[track_caller]
    pub fn finish(self) {
        let status = wait::until("the target ends", || ended(&self.child));
        assert!(status.success(), "the target failed: {status}");
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // Fails if it has ended, and that is what is wanted.
        let _ = self.child.lock().map(|mut child| child.kill());
        wait::until("the target is gone", || ended(&self.child));
    }
}

fn ended(child: &Mutex<Child>) -> Option<ExitStatus> {
    child
        .lock()
        .expect("nobody panics with it")
        .try_wait()
        .expect("it is our child")
}

/// CPU seconds that a process has used; none if it is not there.
pub fn cpu_seconds(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // Behind the name, which may hold anything: state, 10 more fields, then user and system time.
    let fields = stat
        .rsplit_once(')')
        .map_or("", |(_, fields)| fields)
        .split_whitespace();
    let ticks: f64 = fields
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<f64>().ok())
        .sum();
    ticks / rustix::param::clock_ticks_per_second() as f64
}

/// Sends a signal to a process.
pub fn send(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).expect("pids are small");
    kill(Pid::from_raw(pid), signal).expect("the process is ours and there");
}

/// Sends a signal to a process group, as a terminal does.
pub fn send_to_group(leader: u32, signal: Signal) {
    let group = i32::try_from(leader).expect("pids are small");
    kill(Pid::from_raw(-group), signal).expect("the group is ours and there");
}

/// A pid that no process has: pids are below the kernel's limit.
pub fn no_pid() -> u32 {
    let limit = fs::read_to_string("/proc/sys/kernel/pid_max").expect("every Linux has it");
    limit.trim().parse().expect("it is a number")
}

/// Looks all the time whether any thread of a process is stopped or traced.
#[derive(Debug)]
pub struct Watch {
    over: Arc<AtomicBool>,
    seen: Arc<Mutex<Watched>>,
    watcher: JoinHandle<()>,
}

/// What was seen of a process.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Watched {
    /// How often a thread was looked at.
    pub looks: u64,
    /// Threads found stopped or traced, as `tid state`.
    pub stopped: Vec<String>,
    /// Pids found attached to it.
    pub tracers: Vec<String>,
}

impl Watch {
    /// Begins to look.
    pub fn on(pid: u32) -> Self {
        let (over, seen) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(Mutex::new(Watched::default())),
        );
        let (is_over, sees) = (Arc::clone(&over), Arc::clone(&seen));
        let watcher = thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                look(pid, &mut sees.lock().expect("nobody panics with it"));
                thread::sleep(Duration::from_millis(2));
            }
        });
        Self {
            over,
            seen,
            watcher,
        }
    }

    /// What was seen so far.
    pub fn so_far(&self) -> Watched {
        self.seen.lock().expect("nobody panics with it").clone()
    }

    /// Ends it.
    pub fn end(self) -> Watched {
        self.over.store(true, Ordering::Relaxed);
        let seen = Arc::clone(&self.seen);
        self.watcher.join().expect("the watcher does not panic");
        seen.lock().expect("nobody panics with it").clone()
    }
}

fn look(pid: u32, seen: &mut Watched) {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return;
    };
    for thread in threads.flatten() {
        // A thread that ends while it is looked at has no files any more.
        let Ok(status) = fs::read_to_string(thread.path().join("status")) else {
            continue;
        };
        let field = |name: &str| {
            status
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .map_or("", str::trim)
        };
        seen.looks += 1;
        if field("State:").starts_with(['T', 't']) {
            seen.stopped.push(format!(
                "{} {}",
                thread.file_name().to_string_lossy(),
                field("State:")
            ));
        }
        if field("TracerPid:") != "0" {
            seen.tracers.push(field("TracerPid:").to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that is stopped is seen, so that one that was not seen stopped was not.
    #[test]
    fn a_stop_is_seen() {
        let target = Target::start(Command::new("sleep").arg("60"));
        let watch = Watch::on(target.pid());
        send(target.pid(), Signal::SIGSTOP);
        wait::until("the stop is seen", || {
            (!watch.so_far().stopped.is_empty()).then_some(())
        });
        assert!(watch.end().looks > 0);
    }
}
