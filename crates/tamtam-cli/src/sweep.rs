//! `tamtam tape sweep`, `delete` and `protect`: removes sessions that need not be kept, or one by its id, and exempts a session
//! from sweeps.
//!
//! A sweep removes only sessions of its plan, and with the last fork of a hidden session that one; the library looks at each once
//! more before it removes it. `--dry-run` opens the store to read only.
//!
//! A change must keep this: nothing is removed without a yes, because it cannot be brought back. A yes is `--yes`, or an answer on
//! a terminal after the plan (`delete`: the question) was shown.

use std::{
    fmt::Write as _,
    io::{BufRead as _, IsTerminal as _, Write as _},
    path::Path,
    time::Duration,
};

use serde_json::json;
use tamtam::{
    Millis, SessionId,
    ops::{self, KeptSession, Sweep, SweepPolicy, SweptSession},
    runtime::DeleteError,
    tape::{Deleted, Store, StoreOptions, TapeAccess, TapeError, TapeStoreExt as _},
    tool::truncate::format_bytes,
};

use super::{
    arguments::SweepArguments,
    branch,
    environment::Environment,
    escape,
    failure::{Exit, Failure},
    print, print_to_be_read,
    progress::Progress,
    sessions::count,
    tapes,
};

/// Removes sessions by age, number or size. Without `--yes` it shows the plan first, and removes only after a yes on the terminal.
pub(super) fn sweep(given: &SweepArguments, path: &Path) -> Result<Exit, Failure> {
    let mut policy = SweepPolicy::default();
    policy.older_than = given.older_than;
    policy.keep_newest = given.keep;
    policy.bytes_max = given.max_bytes;
    if policy == SweepPolicy::default() {
        return Err(Failure::usage("no limit was given: use --older-than, --keep or --max-bytes"));
    }
    let is_heard = !given.json && std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if !given.dry_run && !given.yes && !is_heard {
        let why = if given.json { "--json does not ask" } else { "there is no terminal to ask at" };
        return Err(Failure::usage(format!(
            "nothing was removed, because {why}: --dry-run shows what would be removed, --yes removes it"
        )));
    }
    if !tapes::is_there(path)? {
        return said(&Sweep::default(), given.json, given.yes);
    }
    // A dry run needs no right to write.
    let access = if given.dry_run { TapeAccess::Read } else { TapeAccess::Write };
    let store = Store::open(path, StoreOptions::default().access(access))?;
    let plan = ops::sweep_plan(&store, policy, Millis::now(), || false)?;
    if !given.yes {
        if given.dry_run || plan.gone.is_empty() {
            return said(&plan, given.json, false);
        }
        print_to_be_read(&as_text(&plan, false))?;
        if !is_agreed("remove them for good? [y/N] ") {
            return print("nothing was removed\n");
        }
    }
    // Only the sessions of the plan: a session that became old meanwhile waits for the next sweep.
    let swept = ops::sweep_planned(&store, plan, || false)?;
    match store.scrub(&|| false) {
        Ok(true) => {}
        Ok(false) => Progress::warn(
            "another program is using the search index: the removed sessions leave it when that program is done",
        ),
        Err(error) => Progress::warn(&format!("the removed sessions are still in the search index: {error}")),
    }
    said(&swept, given.json, true)
}

/// Prints the sessions that would be removed, or that were removed.
fn said(sweep: &Sweep, json: bool, removed: bool) -> Result<Exit, Failure> {
    print(&if json { as_json(sweep, removed) } else { as_text(sweep, removed) })?;
    let is_whole = !sweep.kept.iter().any(|kept| matches!(kept.why, ops::KeptReason::Failed(_)));
    Ok(if is_whole { Exit::Done } else { Exit::Failed })
}

/// Asks on the terminal. Only `y` or `yes` agrees.
fn is_agreed(question: &str) -> bool {
    let mut stderr = std::io::stderr().lock();
    drop(write!(stderr, "{question}").and_then(|()| stderr.flush()));
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    read.is_ok() && matches!(line.trim().to_lowercase().as_str(), "y" | "yes")
}

fn as_json(sweep: &Sweep, removed: bool) -> String {
    let gone = sweep.gone.iter().map(|SweptSession { session, last, bytes, why, .. }| {
        json!({"session": session, "last": last, "bytes": bytes, "why": why, "removed": removed})
    });
    let kept = sweep.kept.iter().map(|KeptSession { session, why, .. }| json!({"session": session, "kept": why}));
    gone.chain(kept).map(|line| format!("{line}\n")).collect()
}

fn as_text(sweep: &Sweep, removed: bool) -> String {
    let size = |bytes: u64| format_bytes(usize::try_from(bytes).unwrap_or(usize::MAX));
    let verb = if removed { "removed" } else { "would remove" };
    let mut text = String::new();
    for SweptSession { session, bytes, why, .. } in &sweep.gone {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{verb} {session}  {}: {why}", size(*bytes));
    }
    for KeptSession { session, why, .. } in &sweep.kept {
        let _ = writeln!(text, "kept {session}: {}", escape::line(&why.to_string()));
    }
    let sessions = count(sweep.gone.len() as u64, "session");
    let _ = writeln!(text, "{verb} {sessions}, {}", size(sweep.bytes()));
    text
}

/// Deletes one session for good. Without `--yes` it asks on the terminal first.
pub(super) async fn delete(path: &Path, id: &SessionId, yes: bool, environment: &Environment) -> Result<Exit, Failure> {
    let is_heard = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if !yes && !is_heard {
        let why = "nothing was deleted, because there is no terminal to ask at: --yes deletes without asking";
        return Err(Failure::usage(why));
    }
    if !tapes::open_for(path, id)?.exists(id) {
        return Err(TapeError::Missing { session: id.clone() }.into());
    }
    if !yes && !is_agreed(&format!("delete session {id} for good? [y/N] ")) {
        return print("nothing was deleted\n");
    }
    let runtime = branch::start(path, None, environment).await?;
    let deleted = runtime.delete(id).await;
    drop(runtime.shutdown().await);
    let deleted = deleted.map_err(|error| match error {
        DeleteError::Busy { .. } => branch::unfinished(id),
        DeleteError::Open(error) => error.into(),
        error => Failure::failed(error.to_string()),
    })?;
    if let Some(left) = &deleted.left {
        Progress::warn(&format!("words of session {id} are left for now: {left}"));
    }
    match deleted.session {
        Deleted::Hidden => {
            print(&format!("session {id} is hidden: its forks need it, and it goes with the last of them\n"))
        }
        _ => print(&format!("session {id} is deleted\n")),
    }
}

/// Exempts a session from sweeps, or with `off` ends the exemption.
pub(super) fn protect(path: &Path, id: &SessionId, off: bool) -> Result<Exit, Failure> {
    let store = tapes::open_to_change(path, id)?;
    match off {
        true => store.unprotect(id)?,
        false => store.protect(id)?,
    }
    Ok(Exit::Done)
}

/// Reads a length of time: a number and `d`, `h`, `m` or `s`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let seconds = amount(text, &[("d", 24 * 60 * 60), ("h", 60 * 60), ("m", 60), ("s", 1)]);
    let seconds = seconds.ok_or_else(|| "expected a length of time such as 30d, 12h, 90m or 45s".to_owned());
    seconds.map(Duration::from_secs)
}

/// Reads a number of bytes: a number, alone or with `K`, `M` or `G` (powers of 1024).
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let bytes = amount(text, &[("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30), ("", 1)]);
    bytes.ok_or_else(|| "expected a number of bytes such as 1000000, 500K, 200M or 2G".to_owned())
}

/// Reads a number with one of the units behind it; `None` for anything else, and for an overflow.
fn amount(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let of = |(unit, times): &(&str, u64)| text.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(*times);
    units.iter().find_map(of)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn lengths_and_sizes_have_units_and_what_is_none_is_said() {
        assert_eq!(duration("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert_eq!((duration("2h"), duration("0s")), (Ok(Duration::from_secs(7_200)), Ok(Duration::ZERO)));
        assert_eq!((bytes("7"), bytes("2K"), bytes("1G")), (Ok(7), Ok(2048), Ok(1 << 30)));
        for bad in ["", "d", "30", "-1d", "30 d", "1.5h", "99999999999999999999d", "9999999999999999999d", "3é"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        for bad in ["", "K", "-1", "1T", "99999999999999999999", "99999999999999G"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
    }
}
