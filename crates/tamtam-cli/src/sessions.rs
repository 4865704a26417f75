//! `tamtam sessions`: lists the sessions of the store, newest first; for people those that wait for a person come before the others.
//!
//! The command first brings the index (the database beside the tapes) up to date, for which it may read tapes. It stops doing so
//! where the index makes no progress, such as in a store that cannot be written.
//!
//! A change must keep this: no tape is changed; a list that may be incomplete says so in a warning on stderr, never in the list
//! itself, which programs read; and in the list for people titles, which come from messages, are escaped.

mod work;

use std::{fmt::Write as _, time::Duration};

use serde_json::{Value, json};
use tamtam::{
    Millis,
    ops::{self, ListedSession, Parent, SessionPage, SessionQuery},
    tape::{Behind, SessionStatus, Store},
};

use super::{
    arguments::{SessionsArguments, labels},
    environment::Environment,
    escape,
    failure::{Exit, Failure},
    note, print,
    progress::{Progress, lack},
    tapes,
};

/// How many sessions are shown to a person without `--limit`.
const SHOWN: usize = 50;

/// Longest title, in characters.
const TITLE_MAX: usize = 60;

/// How long one query brings the index up to date. It is repeated while the index makes progress, because a person waits.
const WAIT: Duration = Duration::from_secs(2);

/// Carries out the command.
pub(super) fn sessions(given: &SessionsArguments, environment: &Environment) -> Result<Exit, Failure> {
    let path = environment.store(given.store.store.as_deref())?;
    if !tapes::is_there(&path)? {
        if !given.json {
            note("no sessions found");
        }
        return Ok(Exit::Done);
    }
    let store = tapes::open_with_index(&path)?;
    let mut query = SessionQuery::default();
    query.text = given.text.join(" ");
    query.agent.clone_from(&given.agent);
    query.labels = labels(&given.label)?;
    query.status = given.state.map(SessionStatus::from);
    query.after.clone_from(&given.after);
    query.wait = WAIT;
    let wanted = given.limit.map_or(if given.json { usize::MAX } else { SHOWN }, usize::from);
    let (mut shown, mut rows, mut left, mut progress) = (0, Vec::new(), u64::MAX, Progress::new());
    let mut is_unindexed = false;
    let (next, behind) = loop {
        query.limit = (wanted - shown).min(200);
        let SessionPage { sessions, next, behind, indexed, .. } = ops::sessions(&store, &query)?;
        if let Behind::Sessions(count) = behind
            && count < left
        {
            left = count;
            progress.show(&format!("{count} sessions are not read yet"));
            continue;
        }
        let first = shown == 0;
        shown += sessions.len();
        let is_empty = sessions.is_empty();
        let sessions = sessions.into_iter().filter(|listed| given.json || !is_writer(listed));
        rows.extend(sessions.map(|listed| Row::of(&store, listed)));
        is_unindexed |= !indexed && first && !is_empty;
        match next {
            Some(next) if shown < wanted => query.after = Some(next),
            next => break (next, behind),
        }
    };
    drop(progress);
    if is_unindexed {
        Progress::warn(
            "the index is missing and cannot be made here, so every tape was read and tasks are not counted",
        );
    }
    let mut text = String::new();
    match given.json {
        true => lines_json(&rows, &mut text),
        false => lines(rows, &mut text),
    }
    // Writing to a String cannot fail.
    let _ = match next {
        Some(next) if given.json => writeln!(text, "{}", json!({"next": next.to_string()})),
        Some(next) => writeln!(text, "more: --after {next}"),
        None => Ok(()),
    };
    if text.is_empty() && !given.json {
        note("no sessions found");
    }
    print(&text)?;
    if let Some(lack) = lack(behind) {
        Progress::warn(&format!("the newest activity may be missing: {lack}"));
    }
    Ok(Exit::Done)
}

/// Whether a session is one that wrote a title or a summary for another, and so nothing that a person looks for.
fn is_writer(listed: &ListedSession) -> bool {
    let is_task = matches!(listed.parent, Some(Parent::TaskOf { .. }));
    is_task && matches!(listed.agent.as_deref(), Some("title" | "summary" | "compaction"))
}

/// A session on the list, and what it does.
struct Row {
    listed: ListedSession,
    work: Option<work::Work>,
}

impl Row {
    fn of(store: &Store, listed: ListedSession) -> Row {
        let work = listed.open.then(|| work::of(store, &listed.session)).flatten();
        Row { listed, work }
    }

    fn waits_for_a_person(&self) -> bool {
        self.work.as_ref().is_some_and(work::Work::waits_for_a_person)
    }
}

fn lines_json(rows: &[Row], text: &mut String) {
    for Row { listed, work } in rows {
        let mut line = json!(listed);
        if let Value::Object(line) = &mut line {
            line.insert("work".into(), json!(work));
        }
        let _ = writeln!(text, "{line}");
    }
}

/// Two lines for each session, none wider than 80 columns: its figures, then what it is about.
fn lines(mut rows: Vec<Row>, text: &mut String) {
    if rows.is_empty() {
        return;
    }
    let head = |text: &mut String, [id, used, state, tokens, cost]: [String; 5]| {
        let line = format!("{id:36}  {used:>6}  {state:11}  {tokens:>10}  {cost:>9}");
        let _ = writeln!(text, "{}", line.trim_end());
    };
    head(text, ["id", "used", "state", "tokens", "cost"].map(str::to_owned));
    rows.sort_by_key(|row| !row.waits_for_a_person());
    let now = Millis::now();
    for row in &rows {
        let listed = &row.listed;
        let unknown = || "-".to_owned();
        let cost = listed.cost.map_or_else(unknown, |cost| match (cost.exact(), cost.known.0) {
            (Some(exact), _) => exact.to_string(),
            (None, 0) => "unknown".to_owned(),
            (None, _) => format!(">={}", cost.known),
        });
        let columns = [
            escape::line(listed.session.as_str()),
            listed.last.map_or_else(unknown, |last| age(now, last)),
            state(row).to_owned(),
            listed.usage.map_or_else(unknown, |usage| usage.total().to_string()),
            cost,
        ];
        head(text, columns);
        let doing = row.work.as_ref().map(|work| {
            let since = work.since.map(|since| format!(", {}", age(now, since))).unwrap_or_default();
            format!("    {}: {}{since}\n", work.phase, work.what)
        });
        let _ = write!(text, "    {}\n{}", title(listed), doing.unwrap_or_default());
    }
}

/// The state of a session as one word: the most important one if several hold.
fn state(row: &Row) -> &'static str {
    let listed = &row.listed;
    match listed.status {
        SessionStatus::Hidden => "deleted",
        SessionStatus::Parked => "parked",
        _ if listed.seq.0 == 0 => "no entry",
        SessionStatus::Live if listed.open => row.work.as_ref().map_or("in a turn", |work| work.phase),
        // No process has it: its process died, and `resume` finishes the turn.
        SessionStatus::Passive if listed.open => "interrupted",
        SessionStatus::Live => "awake",
        SessionStatus::Passive if listed.ended => "ended",
        SessionStatus::Passive => "idle",
        _ => "unknown",
    }
}

/// The title, and in brackets the session that it belongs to and how many belong to it.
fn title(listed: &ListedSession) -> String {
    let of = listed.parent.as_ref().map(|parent| {
        let what = if matches!(parent, Parent::ForkOf { .. }) { "fork" } else { "task" };
        format!("{what} of {}", escape::line(parent.session().as_str()))
    });
    let counted = [(listed.forks, "fork"), (listed.children, "task")].into_iter().filter(|(n, _)| *n > 0);
    let belongs: Vec<String> = of.into_iter().chain(counted.map(|(n, what)| count(n, what))).collect();
    let belongs = if belongs.is_empty() { String::new() } else { format!(" [{}]", belongs.join(", ")) };
    let protected = if listed.protected { " (protected)" } else { "" };
    let title = escape::short(listed.title.as_deref().unwrap_or("(no message)"), TITLE_MAX);
    format!("{title}{protected}{belongs}")
}

/// A number of things: `1 fork`, `2 forks`.
pub(super) fn count(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// How long ago `then` was, in one coarse unit.
fn age(now: Millis, then: Millis) -> String {
    let seconds = now.0.saturating_sub(then.0) / 1000;
    match seconds {
        0..60 => "now".to_owned(),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_coarse_and_a_clock_that_went_back_is_now() {
        let hour = 3_600_000;
        for (ago, words) in [(0, "now"), (59_999, "now"), (60_000, "1 min"), (hour, "1 h"), (49 * hour, "2 d")] {
            assert_eq!(age(Millis(100 * hour), Millis(100 * hour - ago)), words);
        }
        assert_eq!(age(Millis(5), Millis(hour)), "now");
    }
}
