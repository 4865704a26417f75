//! The query of a session list, as a value: filters, limit and page cursor (the place where the next page begins).
//!
//! A text to look for that is too long is refused before anything is read; a limit out of its bounds counts as the nearest bound. A
//! page holds only sessions that pass every filter. The text form of a [`SessionCursor`] is handed out to people, so a change must
//! still read the old form.

use std::{fmt, str::FromStr, time::Duration};

use crate::{
    ops::listing::ListedSession,
    tape::{SessionStatus, TapeError},
    words::ids::{Millis, SessionId},
    words::labels::Labels,
};

/// The most sessions of one page.
const PAGE_MAX: usize = 200;

/// The longest text that is looked for, in bytes.
const TEXT_BYTES_MAX: usize = 1024;

/// Which sessions are wanted. A session must pass every filter that is set.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionQuery {
    /// Words that must all occur in the title or the id, anywhere and in any case. At most 1,024 bytes. `Store::search` finds
    /// what was *said* in a conversation.
    pub text: String,
    /// Only sessions of this agent.
    pub agent: Option<String>,
    /// Only sessions that have all of these labels.
    pub labels: Labels,
    /// Only sessions with this status. Deleted sessions are listed only if this asks for them.
    pub status: Option<SessionStatus>,
    /// The most sessions of the page: 1 to 200; 20 by default.
    pub limit: usize,
    /// Where the page before ended, which is its [`SessionPage::next`](crate::ops::listing::SessionPage::next).
    pub after: Option<SessionCursor>,
    /// How long the list may spend on bringing the index up to date: a second by default.
    pub wait: Duration,
    /// Whether the page has all sessions, however many.
    pub(super) is_whole: bool,
}

impl Default for SessionQuery {
    fn default() -> SessionQuery {
        SessionQuery {
            text: String::new(),
            agent: None,
            labels: Labels::default(),
            status: None,
            limit: 20,
            after: None,
            wait: Duration::from_secs(1),
            is_whole: false,
        }
    }
}

impl SessionQuery {
    /// All sessions with these labels.
    pub(super) fn whole(labels: Labels, wait: Duration) -> SessionQuery {
        SessionQuery { labels, wait, is_whole: true, ..SessionQuery::default() }
    }

    /// Whether a page that does not come from the index may show the session. Once a part of the list was shown that the index
    /// had brought in late, what was shown before is unknown: then every session is shown again.
    pub(super) fn is_behind_cursor(&self, last: Millis, session: &SessionId) -> bool {
        let Some(SessionCursor { at: Some((at, named)), part }) = &self.after else { return true };
        (last, session) < (*at, named) || part.is_some_and(|part| part.after > 0)
    }

    /// Refuses a text that is too long.
    pub(super) fn check(&self) -> Result<(), TapeError> {
        let bytes = self.text.len();
        let what = format!("{bytes} bytes are too many: the limit is {TEXT_BYTES_MAX}");
        if bytes > TEXT_BYTES_MAX { Err(TapeError::Query { what }) } else { Ok(()) }
    }

    /// Adds a session to a page if it passes the filters. Returns whether the page was full already, and the session is for the
    /// next one.
    pub(super) fn is_full(&self, page: &mut Vec<ListedSession>, listed: ListedSession) -> bool {
        if !self.takes(&listed) {
            return false;
        }
        if page.len() == self.limit.clamp(1, PAGE_MAX) && !self.is_whole {
            return true;
        }
        page.push(listed);
        false
    }

    fn takes(&self, listed: &ListedSession) -> bool {
        let title = listed.title.as_deref().unwrap_or_default();
        let text = || format!("{title}\n{}", listed.session).to_lowercase();
        self.status.map_or(listed.status != SessionStatus::Hidden, |wanted| listed.status == wanted)
            && listed.labels.have(&self.labels)
            && (self.agent.is_none() || self.agent == listed.agent)
            && self.text.to_lowercase().split_whitespace().all(|word| text().contains(word))
    }
}

/// Where a page ended. Its text form (`Display`, `FromStr`) can be handed to a client and taken back.
///
/// The last page is reached when [`SessionPage::next`](crate::ops::listing::SessionPage::next) is `None`. If its `behind` is
/// [`Behind::No`](crate::tape::Behind::No), every session that there was at the first page was on one of the pages, also if the
/// index had not read all of them by then: what the index brings in during the walk comes after the rest, newest first again. Two
/// things may happen to a session that is used between two pages. It moves to the first page, so the following ones may miss it. Or
/// it is shown once more, as it is by then, if the index was behind when the walk began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionCursor {
    /// The session that the page ended with, and when it was last used; `None` before the first one of a part.
    pub(super) at: Option<(Millis, SessionId)>,
    /// The part of the rows that the page is of; `None` if the index was not behind at the first page.
    pub(super) part: Option<Part>,
}

crate::words::schema::schema!(SessionCursor, "SessionCursor", {
    "description": "The end of a page of sessions, from which the next one continues.",
    "type": "string",
});

/// A part of the rows of the index: those that were brought in after a moment and up to another. A walk through a list that the
/// index had not read to its end goes through one part after the other, until nothing more is brought in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) after: u64,
    pub(super) through: u64,
    /// Whether the index had read everything by `through`, so that the part is the last one.
    pub(super) is_last: bool,
}

impl SessionCursor {
    /// Behind a session, in a list that does not come from the index.
    pub(super) fn of(listed: &ListedSession) -> SessionCursor {
        SessionCursor { at: Some((listed.last.unwrap_or_default(), listed.session.clone())), part: None }
    }
}

impl fmt::Display for SessionCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Part { after, through, is_last }) = &self.part {
            write!(f, "{after}{}{through}:", if *is_last { '!' } else { '+' })?;
        }
        self.at.as_ref().map_or(Ok(()), |(last, session)| write!(f, "{}-{session}", last.0))
    }
}

impl serde::Serialize for SessionCursor {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for SessionCursor {
    type Err = TapeError;

    /// A text that is not a cursor is [`TapeError::Query`].
    fn from_str(text: &str) -> Result<SessionCursor, TapeError> {
        let read = || {
            let (part, at) = match text.split_once(':') {
                Some((part, at)) => (Some(read_part(part)?), at),
                None => (None, text),
            };
            if at.is_empty() && part.is_some() {
                return Some(SessionCursor { at: None, part });
            }
            let (last, session) = at.split_once('-')?;
            Some(SessionCursor { at: Some((Millis(last.parse().ok()?), session.parse().ok()?)), part })
        };
        let what = || format!("not a page cursor: {:?}", text.chars().take(40).collect::<String>());
        read().ok_or_else(|| TapeError::Query { what: what() })
    }
}

fn read_part(text: &str) -> Option<Part> {
    let (after, through) = text.split_once(['+', '!'])?;
    Some(Part { after: after.parse().ok()?, through: through.parse().ok()?, is_last: text.contains('!') })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_cursor_is_read_back_as_it_was_written() {
        let at = Some((Millis(1_732_000_000_003), "a-b-7".parse().unwrap()));
        let part = |is_last| Some(Part { after: 0, through: 17, is_last });
        for (at, part) in [(at.clone(), None), (at.clone(), part(false)), (at, part(true)), (None, part(false))] {
            let cursor = SessionCursor { at, part };
            assert_eq!(cursor.to_string().parse::<SessionCursor>().unwrap(), cursor);
        }
        assert_eq!("1732-a".parse::<SessionCursor>().unwrap().to_string(), "1732-a");
        for bad in ["", "-", "7", "x-y", "7-", "7-../etc", "99999999999999999999-a", ":", "1+:", "+2:", "1+2:7", "1+2"]
        {
            assert!(bad.parse::<SessionCursor>().is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_too_much_is_refused() {
        let query = SessionQuery { text: "x".repeat(TEXT_BYTES_MAX + 1), ..SessionQuery::default() };
        assert!(query.check().is_err());
    }
}
