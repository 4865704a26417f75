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
//! read; a search works (with less) while nothing can be read on. Blocks on the engine.

use std::{collections::BTreeSet, time::Instant};

use super::{
    labels::in_pieces,
    query::{Cursor, Order, PAGE_HITS_MAX, Query, Term, expression, terms},
    schema::{TIME_SHIFT, first_id_at, last_id_at, tag},
    search::{BLOCK_BYTES_MAX, BLOCK_HITS, Hit, Page},
    snippet::{snippet, stands_in, weight},
    text::text_of,
    tokens::{Searchable, tokens},
};
use crate::{
    tape::{Anchor, Behind, EntryWords, FoundEntry, TapeEntry, TapeError, TapeStore, UnreadTape, WantedWords},
    words::ids::{Millis, Seq, SessionId},
};

/// How many tapes are asked for at once.
const TAPES: usize = 500;
/// How many entries are read at once.
const ENTRIES: u64 = 256;
/// How many words are put in at once. One entry has fewer: its text is bounded.
const WORDS_MAX: usize = 50_000;
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

/// Reads tapes on until the time is over. Returns how many are behind, of those that were looked at: 0 only if none is.
fn catch_up(store: &dyn TapeStore, until: Instant) -> Result<u64, TapeError> {
    let (mut after, mut behind) = (None, 0);
    loop {
        let tapes = match store.unread_words(after.as_ref(), TAPES) {
            Err(error @ TapeError::NoIndex) => return Err(error),
            // What is in can be searched.
            Err(error) => {
                tracing::warn!(%error, "it is not known which sessions a search has not read");
                return Ok(behind + 1);
            }
            tapes => tapes?,
        };
        for tape in &tapes {
            // A tape that is damaged, or that somebody claims or deletes right now, is left to the next search.
            let is_read = read_on(store, tape, until).unwrap_or_else(|error| {
                tracing::warn!(session = %tape.session, %error, "a session cannot be read for the index");
                false
            });
            behind += u64::from(!is_read);
        }
        match tapes.last() {
            Some(last) if tapes.len() == TAPES => after = Some(last.session.clone()),
            _ => return Ok(behind),
        }
        if Instant::now() >= until {
            return Ok(behind.max(1));
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
        from = last.seq.next();
        let parts = match &mut parts {
            Some(parts) => parts,
            none => none.insert(store.parts(&tape.session)?),
        };
        let (mut rest, mut of_rest) =
            (&entries[..], entries.iter().map(|entry| words(&tape.session, parts, entry)).peekable());
        while !rest.is_empty() {
            let (mut piece, mut count) = (Vec::new(), 0);
            while let Some(one) = of_rest.next_if(|one| piece.is_empty() || count + one.words.len() <= WORDS_MAX) {
                count += one.words.len();
                piece.push(one);
            }
            let (these, behind) = rest.split_at(piece.len());
            // The labels of this piece alone: reading may stop behind it.
            store.put_words(tape, &piece, in_pieces(store, &tape.session, these)?.as_ref())?;
            rest = behind;
            if !rest.is_empty() && Instant::now() >= until {
                return Ok(false);
            }
        }
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
            let (mut block, mut rest) = gather(store, wanted.clone(), terms, BLOCK_HITS)?;
            let begins = block.first().map_or(0, |(found, _)| found.place);
            // The next page looks from where the block begins, and so comes further down. This page must see that block too.
            if rest.is_some() && block.len() < BLOCK_HITS && begins < wanted.through && is_looked_at(terms) {
                wanted.through = begins;
                (block, rest) = gather(store, wanted, terms, BLOCK_HITS)?;
            }
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

/// Whether the text decides too: many of those with the words may not have the phrase.
fn is_looked_at(terms: &[Term]) -> bool {
    terms.iter().any(|term| term.tokens.len() > 1)
}

/// At most so many entries, largest place first; more only if all of them are of one place.
fn gather(store: &dyn TapeStore, mut wanted: WantedWords, terms: &[Term], most: usize) -> Result<Gathered, TapeError> {
    let is_looked_at = is_looked_at(terms);
    let mut got: Vec<(FoundEntry, String)> = Vec::new();
    let mut bytes = 0;
    // Those that were found at the place `wanted.through`. An answer may end between two of one place, so that place is asked for again.
    let mut seen: Vec<(SessionId, Seq)> = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let room = if is_looked_at { BLOCK_HITS } else { (most + 1).saturating_sub(got.len()).max(1) };
        wanted.most = room + seen.len();
        let found = store.find_words(&wanted)?;
        let Some(last) = found.last() else { return Ok((got, None)) };
        wanted.through = last.place;
        let before = std::mem::take(&mut seen);
        let mut is_further = false;
        for one in found {
            let key = (one.session.clone(), one.entry.seq);
            let was_seen = before.contains(&key);
            if one.place == wanted.through {
                seen.push(key);
            }
            if was_seen {
                continue;
            }
            is_further = true;
            let text = text_of(one.entry.data.get());
            if is_looked_at && !stands_in(&tokens(&text), terms) {
                continue;
            }
            let is_full = got.len() >= most || bytes >= BLOCK_BYTES_MAX;
            if is_full && end_before(&mut got, one.place) {
                return Ok((got, Some(one.place)));
            }
            bytes += text.len();
            got.push((one, text));
        }
        if !is_further {
            wanted.through = wanted.through.saturating_sub(1);
            seen.clear();
        }
    }
    let is_whole = end_before(&mut got, wanted.through);
    Ok((got, Some(if is_whole { wanted.through } else { wanted.through.saturating_sub(1) })))
}

/// Takes the entries of this place off the end of a page, because the next page begins with it: those of one place are on one page.
/// `false` if the page has no others, and keeps them.
fn end_before(page: &mut Vec<(FoundEntry, String)>, place: i64) -> bool {
    let first = page.iter().position(|(one, _)| one.place == place);
    if let Some(first @ 1..) = first {
        page.truncate(first);
    }
    first != Some(0)
}
