//! The process table, as `/proc` shows it. Where there is none, it is empty.

use std::{fs, io::Read as _};

use crate::process::sweep::Whose;

/// How much of one process's environment is looked at.
const ENVIRONMENT_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// One live process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) pid: i32,
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
    /// When it was started, in ticks since the machine was: with the pid it names a process for good.
    pub(super) started: u64,
}

/// All processes but the dead ones that nobody has waited for yet.
pub(super) fn live() -> Vec<Entry> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(entry).collect()
}

/// One process, if it is alive.
pub(super) fn entry(pid: i32) -> Option<Entry> {
    // pid (name) state parent group session … with the start time as field 22; the name may hold anything, also brackets.
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X" | "x") {
        return None;
    }
    let mut number = || fields.next()?.parse().ok();
    let (parent, group, session) = (number()?, number()?, number()?);
    let started = fields.nth(15)?.parse().ok()?;
    Some(Entry { pid, parent, group, session, started })
}

/// Whether a process carries a mark.
pub(super) fn carries(pid: i32, whose: &Whose) -> bool {
    in_limit(pid, whose) || in_environment(pid, whose)
}

fn in_limit(pid: i32, whose: &Whose) -> bool {
    let Ok(limits) = fs::read_to_string(format!("/proc/{pid}/limits")) else { return false };
    let soft = limits.lines().find_map(|line| line.strip_prefix("Max file size")?.split_ascii_whitespace().next());
    soft.and_then(|bytes| bytes.parse().ok()).is_some_and(|bytes| whose.in_limit(bytes))
}

fn in_environment(pid: i32, whose: &Whose) -> bool {
    let Ok(file) = fs::File::open(format!("/proc/{pid}/environ")) else { return false };
    let mut environment = Vec::new();
    if file.take(ENVIRONMENT_BYTES_MAX).read_to_end(&mut environment).is_err() {
        return false;
    }
    let name = super::CALL_VARIABLE.as_bytes();
    let mut values =
        environment.split(|byte| *byte == 0).filter_map(|pair| pair.strip_prefix(name)?.strip_prefix(b"="));
    values.any(|value| std::str::from_utf8(value).is_ok_and(|value| whose.in_variable(value)))
}
