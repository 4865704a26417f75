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
    /// Words that must all stand in the title or the id, anywhere and in any case. At most 1,024 bytes. `Store::search` finds what
    /// was *said* in a conversation.
    pub text: String,
    /// Only sessions of this agent.
    pub agent: Option<String>,
    /// Only sessions that have all of these labels.
    pub labels: Labels,
    /// Only sessions with this status. Deleted sessions are listed only where this asks for them.
    pub status: Option<SessionStatus>,
    /// The most sessions of the page: 1 to 200; 20 by default.
    pub limit: usize,
    /// Where the page before ended, which is its [`SessionPage::next`](crate::ops::listing::SessionPage::next).
    pub after: Option<SessionCursor>,
    /// How long the list may spend on bringing the index up to date: a second by default.
    pub wait: Duration,
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
        }
    }
}

impl SessionQuery {
    pub(super) fn is_behind_cursor(&self, last: Millis, session: &SessionId) -> bool {
        self.after.as_ref().is_none_or(|after| (last, session) < (after.last, &after.session))
    }

    /// Refuses a text that is too long.
    pub(super) fn check(&self) -> Result<(), TapeError> {
        let bytes = self.text.len();
        let what = format!("{bytes} bytes are too many: the limit is {TEXT_BYTES_MAX}");
        if bytes > TEXT_BYTES_MAX { Err(TapeError::Query { what }) } else { Ok(()) }
    }

    /// Adds a session to a page if it passes the filters. Where the page is full already, gives the place of the next page instead.
    pub(super) fn add(&self, page: &mut Vec<ListedSession>, listed: ListedSession) -> Option<SessionCursor> {
        if !self.takes(&listed) {
            return None;
        }
        if page.len() == self.limit.clamp(1, PAGE_MAX) {
            return page.last().map(SessionCursor::behind);
        }
        page.push(listed);
        None
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
/// A session that is used between two pages moves to the first page. It is not shown twice, but the following pages may miss it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionCursor {
    pub(super) last: Millis,
    pub(super) session: SessionId,
}

impl SessionCursor {
    fn behind(listed: &ListedSession) -> SessionCursor {
        SessionCursor { last: listed.last.unwrap_or_default(), session: listed.session.clone() }
    }
}

impl fmt::Display for SessionCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.last.0, self.session)
    }
}

impl FromStr for SessionCursor {
    type Err = TapeError;

    /// A text that is no cursor is [`TapeError::Query`].
    fn from_str(text: &str) -> Result<SessionCursor, TapeError> {
        let read = || {
            let (last, session) = text.split_once('-')?;
            Some(SessionCursor { last: Millis(last.parse().ok()?), session: session.parse().ok()? })
        };
        let what = || format!("not a page cursor: {:?}", text.chars().take(40).collect::<String>());
        read().ok_or_else(|| TapeError::Query { what: what() })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_cursor_is_read_back_as_it_was_written() {
        let cursor = SessionCursor { last: Millis(1_732_000_000_003), session: "a-b-7".parse().unwrap() };
        assert_eq!(cursor.to_string().parse::<SessionCursor>().unwrap(), cursor);
        for bad in ["", "-", "7", "x-y", "7-", "7-../etc", "99999999999999999999-a"] {
            assert!(bad.parse::<SessionCursor>().is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_too_much_is_refused() {
        let query = SessionQuery { text: "x".repeat(TEXT_BYTES_MAX + 1), ..SessionQuery::default() };
        assert!(query.check().is_err());
    }
}
