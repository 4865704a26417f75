//! Searching over an engine that keeps the index of words itself, such as a database: what a search over files does, by the three
//! methods of [`TapeStore`] for words.
//!
//! The words, the refusals, the snippets and the ranks are those of files. A phrase, and a run of characters without spaces, are two
//! steps: the engine finds the entries that have all of its words, and here the text is looked at. [`ROUNDS_MAX`] bounds that, so a
//! phrase of common words may give a short page with a next one.
//!
//! | file engine | here |
//! |---|---|
//! | reads the tapes on before a search, for [`Query::wait`] | the same, by [`TapeStore::unread_words`] and [`put_words`](TapeStore::put_words) |
//! | looks each hit up in its file | the engine gives the entry from the tape |
//! | the ids of entries are times, and drawn one after the other | times, and a hash of the session with the number of the entry |
//!
//! A change must keep: an append writes nothing here and waits for nothing; one tape that cannot be read keeps no other from being
//! read. Blocks on the engine.

use std::{collections::BTreeSet, time::Instant};

use super::{
    labels::of_fork_in,
    query::{Cursor, Order, PAGE_HITS_MAX, Query, Term, expression, terms},
    schema::{TIME_SHIFT, first_id_at, last_id_at, tag},
    search::{BLOCK_BYTES_MAX, BLOCK_HITS, Hit, Page},
    snippet::{snippet, stands_in, weight},
    text::text_of,
    tokens::{Searchable, tokens},
};
use crate::{
    tape::{
        Anchor, Behind, EntryWords, FoundEntry, TapeEntry, TapeError, TapeStore, UnreadTape, WantedWords,
        labels::newest_labels,
    },
    words::ids::{Millis, Seq, SessionId},
};

/// How many tapes are asked for at once.
const TAPES: usize = 500;
/// How many entries are read and put in at once.
const ENTRIES: u64 = 256;
/// How often one page asks the engine for more, where what it has found has the words but not the phrase.
const ROUNDS_MAX: usize = 50;

/// Finds entries by their words, as [`Store::search`](crate::tape::Store::search) does.
///
/// # Errors
/// [`TapeError::Query`]; [`TapeError::NoIndex`] if the engine keeps no index; errors of the engine.
pub(crate) fn search_in(store: &dyn TapeStore, query: &Query) -> Result<Page, TapeError> {
    let terms = terms(&query.words)?;
    expression(query, &terms)?;
    let first = query.wait / 4;
    let mut behind = catch_up(store, Instant::now() + first)?;
    let mut page = find(store, query, &terms)?;
    // A page that is not full yet is worth the rest of the wait.
    if page.hits.len() < query.limit && behind > 0 && query.wait > first {
        behind = catch_up(store, Instant::now() + (query.wait - first))?;
        page = find(store, query, &terms)?;
    }
    page.behind = Behind::of(Some(behind));
    Ok(page)
}

/// Reads tapes on until the time is over. Returns how many are behind.
fn catch_up(store: &dyn TapeStore, until: Instant) -> Result<u64, TapeError> {
    let (mut after, mut behind) = (None, 0);
    loop {
        let tapes = store.unread_words(after.as_ref(), TAPES)?;
        for tape in &tapes {
            // A tape that is damaged, or that somebody claims or deletes right now, is left to the next search.
            behind += u64::from(!read_on(store, tape, until).unwrap_or(false));
        }
        match tapes.last() {
            Some(last) if tapes.len() == TAPES => after = Some(last.session.clone()),
            _ => return Ok(behind),
        }
    }
}

/// Puts the words of a tape's unread entries in. Returns whether it came to their end.
fn read_on(store: &dyn TapeStore, tape: &UnreadTape, until: Instant) -> Result<bool, TapeError> {
    let (mut from, mut parts) = (tape.from, None);
    while from <= tape.last {
        if Instant::now() >= until {
            return Ok(false);
        }
        let through = Seq(from.0.saturating_add(ENTRIES - 1)).min(tape.last);
        let entries = store.range(&tape.session, from, through)?;
        let Some(last) = entries.last() else { return Ok(false) };
        let labels = match newest_labels(&entries) {
            None => of_fork_in(store, &tape.session, &entries)?,
            said => said,
        };
        let parts = match &mut parts {
            Some(parts) => parts,
            none => none.insert(store.parts(&tape.session)?),
        };
        let words: Vec<EntryWords> = entries.iter().map(|entry| words(&tape.session, parts, entry)).collect();
        store.put_words(tape, &words, labels.as_ref())?;
        from = last.seq.next();
    }
    Ok(true)
}

/// The words of an entry. The first letter says what each is: `w` a word, `p` a pair of characters, else a tag.
fn words(session: &SessionId, parts: &[Anchor], entry: &TapeEntry) -> EntryWords {
    let Searchable { words, pairs } = Searchable::of(&text_of(entry.data.get()));
    let mut all: BTreeSet<String> = words.split_whitespace().map(|word| format!("w{word}")).collect();
    all.extend(pairs.split_whitespace().filter(|pair| *pair != "0").map(|pair| format!("p{pair}")));
    all.extend([tag('s', session.as_str()), tag('k', &entry.kind)]);
    if let Some(part) = parts.iter().rfind(|part| part.first <= entry.seq) {
        all.extend([tag('a', &format!("{:03}_{}", part.number, part.name)), tag('n', &part.name)]);
    }
    EntryWords { seq: entry.seq, place: place(session, entry.seq, entry.time), words: all.into_iter().collect() }
}

/// Two entries of different sessions and the same millisecond have the same place about once in a million.
fn place(session: &SessionId, seq: Seq, time: Millis) -> i64 {
    let hash = blake3::hash(session.as_str().as_bytes());
    let start = hash.as_bytes().first_chunk().map_or(0, |bytes| u64::from(u32::from_le_bytes(*bytes)));
    let slot = start.wrapping_add(seq.0) & ((1 << TIME_SHIFT) - 1);
    first_id_at(time) | i64::try_from(slot).unwrap_or(0)
}

/// What is asked of the engine for a query; the places and how many come later.
fn wanted(query: &Query, terms: &[Term]) -> WantedWords {
    let (mut groups, mut prefixes) = (Vec::new(), Vec::new());
    for term in terms {
        if term.is_run && term.tokens.len() > 1 {
            groups.extend(term.tokens.windows(2).map(|pair| vec![format!("p{}", pair.concat())]));
            continue;
        }
        let whole = term.tokens.len() - usize::from(term.is_prefix);
        groups.extend(term.tokens[..whole].iter().map(|token| vec![format!("w{token}")]));
        prefixes.extend(term.tokens[whole..].iter().map(|token| format!("w{token}")));
    }
    groups.extend(query.session.iter().map(|session| vec![tag('s', session.as_str())]));
    groups.extend(query.anchor.iter().map(|anchor| vec![tag('a', anchor), tag('n', anchor)]));
    if !query.kinds.is_empty() {
        groups.push(query.kinds.iter().map(|kind| tag('k', kind)).collect());
    }
    let from = query.since.map_or(0, first_id_at);
    let through = query.until.map_or(i64::MAX, last_id_at);
    WantedWords { groups, prefixes, labels: query.labels.clone(), from, through, most: 0 }
}

fn find(store: &dyn TapeStore, query: &Query, terms: &[Term]) -> Result<Page, TapeError> {
    let limit = query.limit.clamp(1, PAGE_HITS_MAX);
    let mut wanted = wanted(query, terms);
    let (found, next) = match query.order {
        Order::Newest => {
            let last = query.after.map_or(i64::MAX, |after| after.id.saturating_sub(1));
            wanted.through = wanted.through.min(last);
            let (found, rest) = gather(store, wanted, terms, limit)?;
            (found, rest.map(|place| Cursor { id: place.saturating_add(1), ranked: None }))
        }
        Order::Best => {
            let given = query.after.and_then(|after| after.ranked).unwrap_or(0);
            wanted.through = wanted.through.min(query.after.map_or(i64::MAX, |after| after.id));
            let (mut block, rest) = gather(store, wanted, terms, BLOCK_HITS)?;
            let begins = block.first().map_or(0, |(found, _)| found.place);
            block.sort_by_cached_key(|(found, text)| std::cmp::Reverse((weight(text, terms), found.place)));
            let to = given.saturating_add(limit).min(block.len());
            let next = match to < block.len() {
                true => Some(Cursor { id: begins, ranked: Some(to) }),
                false => rest.map(|place| Cursor { id: place, ranked: Some(0) }),
            };
            (block.into_iter().skip(given).take(limit).collect(), next)
        }
    };
    let hits = found.into_iter().map(|(found, text)| hit(found, &text, query, terms)).collect();
    Ok(Page { hits, next, behind: Behind::No })
}

fn hit(found: FoundEntry, text: &str, query: &Query, terms: &[Term]) -> Hit {
    let FoundEntry { session, part: anchor, entry, .. } = found;
    let (seq, time, kind) = (entry.seq, entry.time, entry.kind.clone());
    let entry = query.whole.then_some(entry);
    Hit { session, seq, kind, anchor, time, snippet: snippet(text, terms), entry }
}

/// Entries with their texts, and the place to go on from, if there may be more.
type Gathered = (Vec<(FoundEntry, String)>, Option<i64>);

/// At most so many entries, largest place first.
fn gather(store: &dyn TapeStore, mut wanted: WantedWords, terms: &[Term], most: usize) -> Result<Gathered, TapeError> {
    // Where the text decides, many of those with the words may not have the phrase.
    let is_looked_at = terms.iter().any(|term| term.tokens.len() > 1);
    let mut got: Vec<(FoundEntry, String)> = Vec::new();
    let mut bytes = 0;
    for _ in 0..ROUNDS_MAX {
        wanted.most = if is_looked_at { BLOCK_HITS } else { most + 1 - got.len() };
        let found = store.find_words(&wanted)?;
        let Some(last) = found.last() else { return Ok((got, None)) };
        wanted.through = last.place.saturating_sub(1);
        for one in found {
            let text = text_of(one.entry.data.get());
            if is_looked_at && !stands_in(&tokens(&text), terms) {
                continue;
            }
            if got.len() == most || bytes >= BLOCK_BYTES_MAX {
                let place = one.place;
                // Those of one place are on one page.
                while got.len() > 1 && got.last().is_some_and(|(last, _)| last.place == place) {
                    got.pop();
                }
                return Ok((got, Some(place)));
            }
            bytes += text.len();
            got.push((one, text));
        }
    }
    Ok((got, Some(wanted.through)))
}
