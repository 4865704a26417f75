//! Reads the process table from `/proc`. On a system without `/proc` the table is empty.
//!
//! Every read may fail, because a process may end at any moment: a process that cannot be read is left out and is never an error.
//! A change must not signal or change a process here. An id alone may belong to another process by the time it is used, so code
//! that acts on a process must name it by an [`Entry`]: id and start time. All functions block on `/proc`.

use std::{fs, io::Read as _};

use crate::process::Tag;

/// How much of one process's environment is read, in bytes. Linux starts no process with more than 6 MiB of arguments and
/// environment together, under any stack limit (`execve(2)`).
const ENVIRONMENT_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// One process as a look found it. Two entries are equal when they are of the same process, also when its parent or its group
/// changed in between.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) pid: i32,
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
    /// When it was started, in ticks since the machine was: together with `pid` it names one process until the
    /// machine restarts.
    pub(super) started: u64,
    /// Whether it has ended and stays in the table only until its parent waits for it (a zombie).
    pub(super) is_dead: bool,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        (self.pid, self.started) == (other.pid, other.started)
    }
}

impl Eq for Entry {}

/// All processes that have not ended. This is not a snapshot: a process that starts during the look may be missing, so a caller
/// that wants all of them looks again.
pub(super) fn live() -> Vec<Entry> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(entry).filter(|entry| !entry.is_dead).collect()
}

/// One process, dead or alive.
pub(super) fn entry(pid: i32) -> Option<Entry> {
    // pid (name) state parent group session … with the start time as field 22; the name may hold anything, also brackets.
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
    let has_ended = matches!(fields.next()?, "Z" | "X" | "x");
    let mut number = || fields.next()?.parse().ok();
    let (parent, group, session) = (number()?, number()?, number()?);
    let threads: u64 = fields.nth(13)?.parse().ok()?;
    let started = fields.nth(1)?.parse().ok()?;
    // The state is that of the process's first thread, which may end before the others do.
    let is_dead = has_ended && threads <= 1;
    Some(Entry { pid, parent, group, session, started, is_dead })
}

/// The soft file size limit of a process, in bytes; `None` if it has none, or where this process may not read it.
pub(super) fn file_size_limit(pid: i32) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let soft = limits.lines().find_map(|line| line.strip_prefix("Max file size")?.split_ascii_whitespace().next());
    soft?.parse().ok()
}

/// The tags in a process's environment. The variable occurs once, unless a program made its environment by hand.
pub(super) fn tags(pid: i32) -> Vec<Tag> {
    let mut environment = Vec::new();
    let file = fs::File::open(format!("/proc/{pid}/environ"));
    if file.and_then(|file| file.take(ENVIRONMENT_BYTES_MAX).read_to_end(&mut environment)).is_err() {
        return Vec::new();
    }
    let name = super::CALL_VARIABLE.as_bytes();
    let values = environment.split(|byte| *byte == 0).filter_map(|pair| pair.strip_prefix(name)?.strip_prefix(b"="));
    values.filter_map(|value| std::str::from_utf8(value).ok()).flat_map(Tag::all_in).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{
        io::{BufRead as _, BufReader},
        process::{Command, Stdio},
    };

    use super::*;
    use crate::process::Owner;

    /// A call could hide its children: they put 4 MiB of other variables in front of the tag.
    #[test]
    fn a_tag_behind_a_large_environment_is_found() {
        let tag = Tag::new(Owner::new());
        let script = "ulimit -S -s $(ulimit -H -s); pad=$(head -c 120000 /dev/zero | tr '\\0' x); n=0
            while [ $n -lt 40 ]; do export P$n=$pad; n=$((n+1)); done
            exec env TAMTAM_CALL=$0 sh -c 'echo ready; read _'";
        let mut child = Command::new("sh");
        child.args(["-c", script, &tag.to_string()]).env_clear().env("PATH", "/usr/bin:/bin");
        let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let found = tags(child.id().try_into().unwrap());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!((line.as_str(), found), ("ready\n", vec![tag]));
    }
}
