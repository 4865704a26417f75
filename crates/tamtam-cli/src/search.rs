//! `tamtam tape search`: finds entries by their words, with the index.
//!
//! If the index (the database beside the tapes) is behind them, it is brought up to date first, for as long as that takes. Where
//! the store cannot be written, the update fails, or another process is writing the index, the index is searched as it is.
//!
//! A change must keep this: no tape is changed, and hits that may be missing are a warning on stderr.

use std::{fmt::Write as _, path::Path, time::Duration};

use serde_json::json;
use tamtam::{
    Millis,
    session::Record,
    tape::{Behind, CaughtUp, Hit, Order, Page, Query, Store, TapeAccess, TapeError},
};

use super::{
    arguments::{SearchArguments, labels},
    escape,
    failure::{Exit, Failure},
    print,
    progress::{Progress, lack},
    tapes,
};

/// Carries out the command.
pub(super) fn search(given: &SearchArguments, path: &Path) -> Result<Exit, Failure> {
    given.kind.iter().try_for_each(|kind| known_kind(kind))?;
    let mut query = Query::new(given.query.join(" "))
        .labels(labels(&given.label)?)
        .kinds(given.kind.clone())
        .order(if given.best { Order::Best } else { Order::Newest })
        .limit(given.limit.into())
        .whole(given.json)
        .wait(Duration::from_secs(2));
    (query.session, query.anchor) = (given.session.clone(), given.anchor.clone());
    (query.since, query.until, query.after) = (given.since, given.until, given.after);
    if !tapes::is_there(path)? {
        return print(if given.json { "" } else { "nothing found: there are no tapes\n" });
    }
    let page = searched(&tapes::open_with_index(path)?, &query)?;
    let done = print(&if given.json { page_json(&page) } else { page_text(&page) })?;
    if let Some(lack) = lack(page.behind) {
        Progress::warn(&format!("hits may be missing: {lack}; search again, or `tamtam tape rebuild`"));
    }
    Ok(done)
}

/// Refuses a kind that no entry has: nothing would be found, for another reason than the words.
fn known_kind(kind: &str) -> Result<(), Failure> {
    let error = serde_json::from_value::<Record>(json!({ kind: null })).err().map(|error| error.to_string());
    match error.and_then(|error| error.strip_prefix("unknown variant").map(str::to_owned)) {
        Some(rest) => Err(Failure::usage(format!("unknown kind of entry{}", rest.replace('`', "")))),
        None => Ok(()),
    }
}

/// A page of hits, after the index was brought up to date; of a store that is open to read only, the page that the index gives now.
fn searched(store: &Store, query: &Query) -> Result<Page, TapeError> {
    let page = store.search(query)?;
    if !matches!(page.behind, Behind::Sessions(_)) || store.access() == TapeAccess::Read {
        return Ok(page);
    }
    let mut progress = Progress::new();
    let mut show = |CaughtUp { added, .. }: &CaughtUp| progress.show(&format!("{added} entries read"));
    let caught_up = store.index().and_then(|mut index| index.catch_up_telling(&mut show));
    drop(progress);
    match caught_up {
        Ok(_) => store.search(query),
        Err(error) => {
            Progress::warn(&format!("the index is not up to date: {error}"));
            Ok(page)
        }
    }
}

fn page_json(page: &Page) -> String {
    let mut text = String::new();
    for hit in &page.hits {
        let Hit { session, seq, kind, anchor, time, snippet, entry, .. } = hit;
        let entry = entry.as_ref().map(tapes::entry_json);
        let hits: Vec<_> = snippet.hits.iter().map(|hit| [hit.start, hit.end]).collect();
        let line = json!({
            "session": session, "seq": seq, "kind": kind, "anchor": anchor, "time": time,
            "snippet": {"text": snippet.text, "hits": hits}, "entry": entry,
        });
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{line}");
    }
    if let Some(next) = page.next {
        let _ = writeln!(text, "{}", json!({"next": next.to_string()}));
    }
    text
}

fn page_text(page: &Page) -> String {
    if page.hits.is_empty() {
        return "nothing found\n".to_owned();
    }
    let mut text = String::new();
    for Hit { session, seq, kind, time, snippet, .. } in &page.hits {
        let _ = writeln!(text, "{session} {seq}  {}  {}", tapes::moment(*time), escape::line(kind));
        let _ = writeln!(text, "    {}", escape::prose_line(&snippet.marked("«", "»")));
    }
    if let Some(next) = page.next {
        let _ = writeln!(text, "more: the same search with --after {next}");
    }
    text
}

/// Reads a moment, or a day as its first millisecond, in UTC.
pub(super) fn moment(text: &str) -> Result<Millis, String> {
    of_text(text).map(|(from, _)| from)
}

/// Reads a moment, or a day as its last millisecond, in UTC.
pub(super) fn end_of_moment(text: &str) -> Result<Millis, String> {
    of_text(text).map(|(_, to)| to)
}

fn of_text(text: &str) -> Result<(Millis, Millis), String> {
    let wanted = || "expected a day (2026-01-31) or a time (2026-01-31T12:00:00Z)".to_owned();
    let millis = |stamp: jiff::Timestamp| u64::try_from(stamp.as_millisecond()).map_err(|_| wanted());
    if let Ok(stamp) = text.parse::<jiff::Timestamp>() {
        let at = millis(stamp)?;
        return Ok((Millis(at), Millis(at)));
    }
    let day: jiff::civil::Date = text.parse().map_err(|_| wanted())?;
    let start = format!("{day}T00:00:00Z").parse::<jiff::Timestamp>().map_err(|_| wanted())?;
    let from = millis(start)?;
    Ok((Millis(from), Millis(from + 24 * 60 * 60 * 1000 - 1)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_day_is_all_of_it_and_a_moment_is_one() {
        let day = 24 * 60 * 60 * 1000;
        assert_eq!(of_text("1970-01-02"), Ok((Millis(day), Millis(2 * day - 1))));
        assert_eq!(of_text("1970-01-01T00:00:05Z"), Ok((Millis(5000), Millis(5000))));
        for bad in ["", "yesterday", "1969-01-01", "2026-13-01"] {
            assert!(of_text(bad).is_err(), "{bad}");
        }
    }
}
