//! Single threads of a process, stopped by way of tracing them.

use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

/// Threads that stand still until this is dropped, by the thread that froze them.
#[derive(Debug)]
pub struct Frozen {
    threads: Vec<Pid>,
}

impl Frozen {
    /// Freezes the threads of process `pid` whose name begins with `name`.
    ///
    /// # Panics
    /// When there is none, or it cannot be traced.
    #[must_use]
    pub fn threads(pid: u32, name: &str) -> Self {
        let mut threads = Vec::new();
        for task in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().filter_map(Result::ok) {
            let comm = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            if !comm.starts_with(name) {
                continue;
            }
            let thread = Pid::from_raw(task.file_name().to_str().unwrap().parse().unwrap());
            ptrace::seize(thread, ptrace::Options::empty()).unwrap_or_else(|e| panic!("{name} cannot be traced: {e}"));
            ptrace::interrupt(thread).unwrap();
            waitpid(thread, Some(WaitPidFlag::__WALL)).unwrap();
            threads.push(thread);
        }
        assert!(!threads.is_empty(), "no thread is called {name}");
        Self { threads }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        for thread in &self.threads {
            // It has ended when its process was killed.
            let _ = ptrace::detach(*thread, None);
        }
    }
}
