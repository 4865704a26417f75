//! Removing sessions that need not be kept, and keeping one whatever happens.

use std::{
    fmt::Write as _,
    io::{BufRead as _, IsTerminal as _, Write as _},
    time::Duration,
};

use serde_json::json;
use tamtam::{
    Millis,
    ops::{self, KeptSession, Sweep, SweepPolicy, SweptSession},
    tape::{Access, Store, StoreOptions, TapeError, TapeStoreExt as _},
    tool::truncate::format_bytes,
};

use super::{
    arguments::{ProtectArguments, SweepArguments},
    escape,
    failure::{Exit, Failure},
    place::Environment,
    print,
    progress::Progress,
};

/// Removes sessions by age, number or size. What would go is said first, and nothing goes before somebody said yes: with
/// `--yes`, or when asked on a terminal.
pub(super) fn sweep(given: &SweepArguments, environment: &Environment) -> Result<Exit, Failure> {
    let mut policy = SweepPolicy::default();
    policy.older_than = given.older_than;
    policy.keep_newest = given.keep;
    policy.bytes_max = given.max_bytes;
    if policy == SweepPolicy::default() {
        return Err(Failure::usage("no limit was given: use --older-than, --keep or --max-bytes"));
    }
    let asks = !given.dry_run && !given.yes;
    let is_heard = !given.json && std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if asks && !is_heard {
        return Err(Failure::usage(
            "nothing was removed, because there is no terminal to ask on: --dry-run shows what would be removed, --yes removes it",
        ));
    }
    let path = environment.store(given.store.store.as_deref())?;
    if !path.exists() {
        return said(&Sweep::default(), given.json, given.yes);
    }
    // Who only looks needs no more than that.
    let access = if given.dry_run { Access::Read } else { Access::Write };
    let store = Store::open(path, StoreOptions { access, ..StoreOptions::default() })?;
    let plan = ops::sweep_plan(&store, policy, Millis::now())?;
    if !given.yes {
        let shown = said(&plan, given.json, false)?;
        if given.dry_run || plan.gone.is_empty() {
            return Ok(shown);
        }
        if !is_agreed("remove them for good? [y/N] ") {
            print("nothing was removed\n")?;
            return Ok(Exit::Done);
        }
    }
    // What was shown and nothing else: what became old meanwhile goes another time.
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

/// Prints what goes, or is gone.
fn said(sweep: &Sweep, json: bool, removed: bool) -> Result<Exit, Failure> {
    print(&if json { as_json(sweep, removed) } else { as_text(sweep, removed) })?;
    let is_whole = !sweep.kept.iter().any(|kept| matches!(kept.why, ops::KeptReason::Failed(_)));
    Ok(if is_whole { Exit::Done } else { Exit::Failed })
}

/// Asks on the terminal. Only a yes is one.
fn is_agreed(question: &str) -> bool {
    let mut stderr = std::io::stderr().lock();
    drop(write!(stderr, "{question}").and_then(|()| stderr.flush()));
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    read.is_ok() && matches!(line.trim().to_lowercase().as_str(), "y" | "yes")
}

fn as_json(sweep: &Sweep, removed: bool) -> String {
    let mut text = String::new();
    for SweptSession { session, last, bytes, why, .. } in &sweep.gone {
        let line = json!({"session": session, "last": last, "bytes": bytes, "why": why, "removed": removed});
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{line}");
    }
    for KeptSession { session, why, .. } in &sweep.kept {
        let _ = writeln!(text, "{}", json!({"session": session, "kept": why}));
    }
    text
}

fn as_text(sweep: &Sweep, removed: bool) -> String {
    let size = |bytes: u64| format_bytes(usize::try_from(bytes).unwrap_or(usize::MAX));
    let verb = if removed { "removed" } else { "would remove" };
    let mut text = String::new();
    for SweptSession { session, bytes, why, .. } in &sweep.gone {
        let _ = writeln!(text, "{verb} {session}  {}: {why}", size(*bytes));
    }
    for KeptSession { session, why, .. } in &sweep.kept {
        let _ = writeln!(text, "kept {session}: {}", escape::line(&why.to_string()));
    }
    let count = sweep.gone.len();
    let sessions = if count == 1 { "session" } else { "sessions" };
    let _ = writeln!(text, "{verb} {count} {sessions}, {}", size(sweep.bytes()));
    text
}

/// Keeps a session from being swept, or lets it be swept again.
pub(super) fn protect(given: &ProtectArguments, environment: &Environment) -> Result<Exit, Failure> {
    let missing = || TapeError::Missing { session: given.session.clone() };
    let path = environment.store(given.store.store.as_deref())?;
    if !path.exists() {
        return Err(missing().into());
    }
    let store = Store::open(path, StoreOptions::default())?;
    if !store.exists(&given.session) {
        return Err(missing().into());
    }
    match given.off {
        true => store.unprotect(&given.session)?,
        false => store.protect(&given.session)?,
    }
    Ok(Exit::Done)
}

/// A length of time: a number and `d`, `h`, `m` or `s`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let wanted = || "expected a length of time such as 30d, 12h, 90m or 45s".to_owned();
    let (number, unit) = text.split_at(text.len() - text.chars().next_back().map_or(0, char::len_utf8));
    let seconds = match unit {
        "d" => 24 * 60 * 60,
        "h" => 60 * 60,
        "m" => 60,
        "s" => 1,
        _ => return Err(wanted()),
    };
    let number: Option<u64> = number.parse().ok();
    number.and_then(|number| number.checked_mul(seconds)).map(Duration::from_secs).ok_or_else(wanted)
}

/// A number of bytes: a number, alone or with `K`, `M` or `G`.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let wanted = || "expected a number of bytes such as 1000000, 500K, 200M or 2G".to_owned();
    let (number, times) = match text.char_indices().next_back() {
        Some((at, 'K')) => (&text[..at], 1024),
        Some((at, 'M')) => (&text[..at], 1024 * 1024),
        Some((at, 'G')) => (&text[..at], 1024 * 1024 * 1024),
        _ => (text, 1),
    };
    let number: Option<u64> = number.parse().ok();
    number.and_then(|number| number.checked_mul(times)).ok_or_else(wanted)
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
