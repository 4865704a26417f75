//! The processes that a test has caused: each carries the test's mark in its environment, and passes it on.

use std::fs;

/// A mark that no other test has.
#[derive(Clone, Debug)]
pub(crate) struct Mark(String);

impl Mark {
    /// A new one.
    pub(crate) fn new() -> Mark {
        Mark(uuid::Uuid::now_v7().simple().to_string())
    }

    /// The variable that carries it.
    pub(crate) fn variable(&self) -> &'static str {
        "TEST_MARK"
    }

    /// What the variable says.
    pub(crate) fn value(&self) -> &str {
        &self.0
    }

    /// The processes that carry the mark, but for this one. Zombies have no environment any more, and do not count.
    pub(crate) fn processes(&self, but: u32) -> Vec<u32> {
        let Ok(all) = fs::read_dir("/proc") else { return Vec::new() };
        let pids = all.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let carries = |pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.windows(self.0.len()).any(|window| window == self.0.as_bytes())
        };
        pids.filter(|pid| *pid != but && *pid != std::process::id()).filter(carries).collect()
    }

    /// Ends them, and waits until they are gone.
    pub(crate) fn end_all(&self) {
        for _ in 0..400 {
            let left = self.processes(0);
            if left.is_empty() {
                return;
            }
            for pid in left {
                let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
                let _ = pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::KILL));
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}
