//! [`Query`]: a search as a value, and how its words become a search expression of the database. Pure functions, no I/O.
//!
//! No typed text becomes part of the expression: words are cut into the same tokens as the texts
//! ([`tokens`](super::tokens)), and a token has neither quotes nor spaces; session, kinds and anchor become hashes (`schema::tag`).
//! So no input is a syntax error of the database, and none changes the meaning of the expression.
//!
//! A change must keep that, because it is the guard against injection. It must keep the bounds on words, kinds and bytes: a query
//! beyond them is refused. A [`Cursor`]'s text is handed out to hosts: read older texts, or refuse them as [`BadCursor`].

use std::{fmt, str::FromStr, time::Duration};

use super::{
    schema::tag,
    tokens::{Token, tokens},
};
use crate::{
    tape::TapeError,
    words::{
        ids::{Millis, SessionId},
        labels::Labels,
    },
};

/// The longest text that is searched for, in bytes.
pub(super) const WORDS_BYTES_MAX: usize = 1024;
/// The most words, phrases and prefixes of one search.
const TERMS_MAX: usize = 32;
/// The most hits of one page.
pub(super) const PAGE_HITS_MAX: usize = 200;
/// The fewest characters of a prefix: what begins with one letter is a large part of everything.
const PREFIX_CHARS_MIN: usize = 2;
/// The most kinds of one search.
const KINDS_MAX: usize = 32;

/// In which order hits are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// Newest first, by the time of the entries.
    #[default]
    Newest,
    /// Best first: the newest 200 hits, ordered by how large a part of the text the words are, then the next 200, and so on. Of
    /// long texts, fewer than 200 at a time.
    Best,
}

/// A search. A hit must meet every condition that is given.
///
/// Words are in any order: `disk full` finds entries with both. `"disk full"` finds the words one after the other, and `dis*`
/// what begins so (at least two letters). Case and accents do not matter. In scripts without spaces between words each run of
/// characters is found anywhere, also a single one. All other signs (`-`, `:`, …) mean nothing, and `AND` is an ordinary word.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Query {
    /// Words, "phrases" and prefixes*; may be empty if a session, a kind or an anchor narrows the search. At most 1,024 bytes and
    /// 32 terms.
    pub words: String,
    /// Entries of this session only. Entries that a fork has from its parent are found in the parent.
    pub session: Option<SessionId>,
    /// Entries of sessions that have all of these labels now. Words, a session, a kind or an anchor must narrow the search too.
    /// Every entry that meets those is checked until the page is full, so labels of few sessions make a wide search slower.
    pub labels: Labels,
    /// Entries of these kinds only; of all kinds where empty. At most 32 kinds.
    pub kinds: Vec<String>,
    /// In this anchor only, as it was named or by its folder.
    pub anchor: Option<String>,
    /// Not earlier than this.
    pub since: Option<Millis>,
    /// Not later than this.
    pub until: Option<Millis>,
    /// In which order.
    pub order: Order,
    /// The most hits of the page: 1 to 200; a number outside counts as the nearest of these.
    pub limit: usize,
    /// The end of the page before: its [`Page::next`](super::Page::next).
    pub after: Option<Cursor>,
    /// Whether the entries come with the hits, whole.
    pub whole: bool,
    /// The time to bring the index up to date before the search; a session that must be read again may take longer. After a
    /// quarter of it, a search that has a full page of hits returns them; [`Page::behind`](super::Page::behind) says what is
    /// missing.
    pub wait: Duration,
}

impl Query {
    /// The newest 20 hits, after the index was brought up to date for at most a second.
    #[must_use]
    pub fn new(words: impl Into<String>) -> Query {
        Query {
            words: words.into(),
            session: None,
            labels: Labels::default(),
            kinds: Vec::new(),
            anchor: None,
            since: None,
            until: None,
            order: Order::Newest,
            limit: 20,
            after: None,
            whole: false,
            wait: Duration::from_secs(1),
        }
    }

    crate::words::setters::setters! {
        /// Searches [this session](#structfield.session) only.
        session: SessionId = Some(session);
        /// Searches sessions [with these labels](#structfield.labels) only.
        labels: Labels;
        /// Searches entries of [these kinds](#structfield.kinds) only.
        kinds: impl IntoIterator<Item = impl Into<String>> = kinds.into_iter().map(Into::into).collect();
        /// Searches [this anchor](#structfield.anchor) only.
        anchor: impl Into<String> = Some(anchor.into());
        /// Searches entries [from that time on](#structfield.since).
        since: Millis = Some(since);
        /// Searches entries [up to that time](#structfield.until).
        until: Millis = Some(until);
        /// Sets the [order](#structfield.order).
        order: Order;
        /// Sets the [most hits of a page](#structfield.limit).
        limit: usize;
        /// Continues [after that page](#structfield.after).
        after: Cursor = Some(after);
        /// Sets whether the [whole entries](#structfield.whole) come along.
        whole: bool;
        /// Sets the [time to bring the index up to date](#structfield.wait).
        wait: Duration;
    }
}

/// The end of a page, from which the next one continues. It can be sent as a text and read back; it is valid for the same query
/// alone.
///
/// Entries that are added meanwhile do not move the pages that follow, as long as these entries are newer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Hits up to here; not this one itself, unless `ranked` says how many of its block were given.
    pub(super) id: i64,
    /// [`Order::Best`]: how many of the block that begins here were given.
    pub(super) ranked: Option<usize>,
}

crate::words::schema::schema!(Cursor, "SearchCursor", {
    "description": "The end of a page of hits, from which the next one continues.",
    "type": "string",
});

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ranked {
            Some(ranked) => write!(f, "{}-{ranked}", self.id),
            None => write!(f, "{}", self.id),
        }
    }
}

/// A text that no [`Cursor`] wrote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a page cursor: {0:?}")]
pub struct BadCursor(String);

impl serde::Serialize for Cursor {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Cursor {
    type Err = BadCursor;

    fn from_str(text: &str) -> Result<Cursor, BadCursor> {
        let bad = || BadCursor(text.chars().take(40).collect());
        let (id, ranked) = match text.split_once('-') {
            Some((id, ranked)) => (id, Some(ranked.parse().map_err(|_| bad())?)),
            None => (text, None),
        };
        let id: u64 = id.parse().map_err(|_| bad())?;
        Ok(Cursor { id: i64::try_from(id).map_err(|_| bad())?, ranked })
    }
}

/// One term that a text must contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Term {
    /// Tokens that follow each other.
    pub(super) tokens: Vec<String>,
    /// Whether the last token is only a beginning.
    pub(super) is_prefix: bool,
    /// Whether all tokens are characters of a script without spaces, without anything between them.
    pub(super) is_run: bool,
}

impl Term {
    fn new(tokens: &[Token], starred: bool) -> Option<Term> {
        let last = tokens.last()?;
        let adjacent = tokens.windows(2).all(|pair| pair[0].range.end == pair[1].range.start);
        Some(Term {
            // Characters are found in the middle of a run anyway.
            is_prefix: starred && !last.is_character,
            is_run: adjacent && tokens.iter().all(|token| token.is_character),
            tokens: tokens.iter().map(|token| token.folded.clone()).collect(),
        })
    }

    fn expression(&self) -> String {
        if self.is_run && self.tokens.len() > 1 {
            let pairs: Vec<String> = self.tokens.windows(2).map(|pair| pair.concat()).collect();
            return format!("pairs : \"{}\"", pairs.join(" "));
        }
        format!("words : \"{}\"{}", self.tokens.join(" "), if self.is_prefix { " *" } else { "" })
    }
}

/// Cuts the words of a query into terms.
pub(super) fn terms(words: &str) -> Result<Vec<Term>, TapeError> {
    let refused = |what: String| Err(TapeError::Query { what });
    if words.len() > WORDS_BYTES_MAX {
        return refused(format!("{} bytes are too many: the limit is {WORDS_BYTES_MAX}", words.len()));
    }
    let mut terms = Vec::new();
    let mut rest = words;
    while let Some(from) = rest.find(|c: char| !c.is_whitespace()) {
        rest = &rest[from..];
        let (given, behind) = match rest.strip_prefix('"') {
            // A quote that is not closed goes to the end.
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => rest.split_at(rest.find(|c: char| c.is_whitespace() || c == '"').unwrap_or(rest.len())),
        };
        rest = behind;
        let starred = given.ends_with('*');
        let Some(term) = Term::new(&tokens(given), starred) else { continue };
        let letters = term.tokens.last().map_or(0, |last| last.chars().count());
        if term.is_prefix && letters < PREFIX_CHARS_MIN {
            return refused(format!("{given:?} is too short: at least {PREFIX_CHARS_MIN} letters before the *"));
        }
        if !terms.contains(&term) {
            terms.push(term);
        }
    }
    if terms.len() > TERMS_MAX {
        return refused(format!("{} words are too many: the limit is {TERMS_MAX}", terms.len()));
    }
    Ok(terms)
}

/// The search expression for the database.
pub(super) fn expression(query: &Query, terms: &[Term]) -> Result<String, TapeError> {
    if query.kinds.len() > KINDS_MAX {
        let what = format!("{} kinds are too many: the limit is {KINDS_MAX}", query.kinds.len());
        return Err(TapeError::Query { what });
    }
    let any_of = |tags: Vec<String>| format!("tags : (\"{}\")", tags.join("\" OR \""));
    let session = query.session.as_ref().map(|session| any_of(vec![tag('s', session.as_str())]));
    let anchor = query.anchor.as_ref().map(|anchor| any_of(vec![tag('a', anchor), tag('n', anchor)]));
    let kinds = query.kinds.iter().map(|kind| tag('k', kind)).collect::<Vec<_>>();
    let kinds = (!kinds.is_empty()).then(|| any_of(kinds));
    let narrowed = session.into_iter().chain(anchor).chain(kinds);
    let all: Vec<String> = terms.iter().map(Term::expression).chain(narrowed).collect();
    if all.is_empty() {
        let what = "there is no word in it: letters, digits, or a session, kind or anchor to look in".to_owned();
        return Err(TapeError::Query { what });
    }
    Ok(all.join(" AND "))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn expression_of(words: &str) -> String {
        let query = Query::new(words);
        terms(words).and_then(|terms| expression(&query, &terms)).unwrap_or_else(|error| error.to_string())
    }

    #[test]
    fn words_phrases_and_prefixes_become_an_expression() {
        for (words, expected) in [
            ("disk full", "words : \"disk\" AND words : \"full\""),
            ("\"Disk full\" x", "words : \"disk full\" AND words : \"x\""),
            ("call_sta*", "words : \"call sta\" *"),
            ("错", "words : \"错\""),
            ("错误信*", "pairs : \"错误 误信\""),
            ("\"错误 信\"", "words : \"错 误 信\""),
            ("API错误", "words : \"api 错 误\""),
            ("a\"b c", "words : \"a\" AND words : \"b c\""),
            ("twice twice", "words : \"twice\""),
        ] {
            assert_eq!(expression_of(words), expected, "{words}");
        }
    }

    #[test]
    fn what_means_something_to_the_database_means_nothing_here() {
        assert_eq!(
            expression_of("a AND NOT (b OR c) NEAR/2 tags:x ^d {e}"),
            "words : \"a\" AND words : \"and\" AND words : \"not\" AND words : \"b\" AND words : \"or\" AND words : \"c\" \
             AND words : \"near 2\" AND words : \"tags x\" AND words : \"d\" AND words : \"e\""
        );
        for empty in ["", "  ", "\"", "\"\"", "* - ( ) ; --", "'"] {
            assert!(expression_of(empty).contains("there is no word in it"), "{empty}");
        }
    }

    #[test]
    fn what_is_too_much_is_refused() {
        assert!(expression_of("a*").contains("at least 2 letters"));
        assert!(expression_of(&"x".repeat(WORDS_BYTES_MAX + 1)).contains("the limit is 1024"));
        let many: Vec<String> = (0..40).map(|n| n.to_string()).collect();
        assert!(expression_of(&many.join(" ")).contains("the limit is 32"));
        let query = Query { kinds: vec!["x".into(); 40], ..Query::new("") };
        assert!(expression(&query, &[]).is_err());
    }

    #[test]
    fn a_cursor_is_read_back_as_it_was_written() {
        for cursor in [Cursor { id: 7, ranked: None }, Cursor { id: i64::MAX, ranked: Some(20) }] {
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
        for bad in ["", "x", "-1", "1-", "99999999999999999999", "1-x", "1;drop table entries"] {
            assert!(bad.parse::<Cursor>().is_err(), "{bad}");
        }
    }
}
