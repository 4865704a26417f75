//! The connections that sessions keep between the steps of a turn, with the answer that each gave last.
//!
//! A change must keep that a connection on which a provider may still have something of ours, other than the successor that
//! [`Came::is_continued_by`] recognizes, is never kept: what it has would reach the model a second time.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use super::line::Line;
use crate::{
    lock::Lock,
    model::{AnswerPart, History, Item, Params, Request, ToolSpec, UserItem, responses::is_reminded},
    words::ids::SessionId,
};

/// How long a connection waits for the next request of its session.
const KEPT_FOR: Duration = Duration::from_secs(30);

/// The most connections that are kept.
const KEPT_MAX: usize = 1024;

/// The connections by session. Each session has one at most.
#[derive(Default)]
pub(in crate::model::http) struct Lines(Arc<Lock<Open>>);

#[derive(Default)]
struct Open {
    lines: HashMap<SessionId, (u64, Kept)>,
    kept: u64,
}

/// A connection between two requests.
pub(super) struct Kept {
    pub(super) line: Line,
    /// Address, key and model that it is for.
    pub(super) to: String,
    /// The answer that runs on it already; `None` where nothing runs.
    pub(super) came: Option<Came>,
}

/// An answer that has begun before it was asked for, and what it answers.
pub(super) struct Came {
    /// The provider's name for it.
    pub(super) id: String,
    /// The request before.
    pub(super) asked: Asked,
    /// What was answered to that.
    pub(super) answer: Vec<AnswerPart>,
    /// The messages that came then.
    pub(super) read: Vec<Arc<UserItem>>,
}

/// What a provider was asked.
pub(super) struct Asked {
    system: Arc<str>,
    tools: Arc<[ToolSpec]>,
    history: History,
    /// Whether a text stood behind the history for that request alone.
    reminded: bool,
    params: Params,
}

impl Asked {
    pub(super) fn of(request: &Request) -> Asked {
        Asked {
            system: request.system.clone(),
            tools: request.tools.clone(),
            history: request.history.clone(),
            reminded: is_reminded(request),
            params: request.params.clone(),
        }
    }
}

impl Came {
    /// Whether the answer that runs is the answer to this request: it asks what the request before asked, and its history is that
    /// of the request before, the answer and the messages, and nothing else.
    pub(super) fn is_continued_by(&self, next: &Request) -> bool {
        let Asked { system, tools, history, reminded, params } = &self.asked;
        let is_same = system == &next.system && tools == &next.tools && !reminded && !is_reminded(next);
        if !is_same || params != &next.params {
            return false;
        }
        let before = history.len();
        if next.history.common(history) != before {
            return false;
        }
        let mut rest = next.history.iter().skip(before).map(Arc::as_ref).peekable();
        // An answer without a word stands in no history.
        match rest.peek() {
            Some(Item::Assistant(answer)) if answer.parts == self.answer => drop(rest.next()),
            Some(Item::Assistant(_)) => return false,
            _ if self.answer.is_empty() => {}
            _ => return false,
        }
        let mut read = self.read.iter();
        let is_next = |item: &Item| match (item, read.next()) {
            (Item::User(said), Some(read)) => said.id == read.id && said.parts == read.parts,
            _ => false,
        };
        rest.all(is_next) && read.next().is_none()
    }
}

impl Lines {
    /// Takes out the connection of a session.
    pub(super) fn take(&self, session: &SessionId) -> Option<Kept> {
        self.0.lock().lines.remove(session).map(|(_, kept)| kept)
    }

    /// Keeps a connection, for a while. One that the session has already is closed.
    pub(super) fn keep(&self, session: &SessionId, kept: Kept) {
        let mut open = self.0.lock();
        if open.lines.len() >= KEPT_MAX && !open.lines.contains_key(session) {
            return;
        }
        open.kept += 1;
        let number = open.kept;
        let before = open.lines.insert(session.clone(), (number, kept));
        drop(open);
        drop(before);
        let (lines, session) = (Arc::downgrade(&self.0), session.clone());
        tokio::spawn(async move {
            tokio::time::sleep(KEPT_FOR).await;
            close(&lines, &session, number);
        });
    }
}

/// Closes the connection of a session, unless it is a later one.
fn close(lines: &Weak<Lock<Open>>, session: &SessionId, number: u64) {
    let Some(lines) = lines.upgrade() else { return };
    let mut open = lines.lock();
    let is_it = open.lines.get(session).is_some_and(|(kept, _)| *kept == number);
    let gone = if is_it { open.lines.remove(session) } else { None };
    drop(open);
    drop(gone);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::ModelAnswer,
        words::message::{Finish, Part},
    };

    fn text(text: &str) -> AnswerPart {
        AnswerPart::Text { text: text.to_owned(), extra: None }
    }

    fn said(id: &str) -> UserItem {
        UserItem::new(id.into(), vec![Part::text(id)])
    }

    fn answer(parts: Vec<AnswerPart>) -> Item {
        Item::Assistant(ModelAnswer::new(parts, Finish::Steered))
    }

    fn first() -> Request {
        Request::new([Item::User(said("go"))].into_iter().collect())
    }

    fn came(parts: Vec<AnswerPart>, read: &[&str]) -> Came {
        let read = read.iter().map(|id| Arc::new(said(id))).collect();
        Came { id: "resp_2".to_owned(), asked: Asked::of(&first()), answer: parts, read }
    }

    fn next(items: Vec<Item>) -> Request {
        let mut next = first();
        items.into_iter().for_each(|item| next.history.push(item));
        next
    }

    #[test]
    fn the_request_that_adds_the_answer_and_the_messages_is_continued() {
        let came = came(vec![text("half")], &["one", "two"]);
        let whole = || vec![answer(vec![text("half")]), Item::User(said("one")), Item::User(said("two"))];
        assert!(came.is_continued_by(&next(whole())));
        assert!(super::tests::came(vec![], &["one"]).is_continued_by(&next(vec![Item::User(said("one"))])));

        let other = |change: fn(&mut Request)| {
            let mut next = next(whole());
            change(&mut next);
            came.is_continued_by(&next)
        };
        assert!(!other(|next| next.system = "another".into()), "the system prompt");
        assert!(!other(|next| next.reminder = Some("last step".into())), "a reminder");
        assert!(!other(|next| next.params.temperature = Some(0.5)), "the options");
        assert!(!other(|next| next.params.max_output = Some(10)), "another limit");
        assert!(!other(|next| next.history.push(Item::User(said("three")))), "a message more");
    }

    #[test]
    fn any_other_history_is_not() {
        let came = came(vec![text("half")], &["one"]);
        let (half, one) = (|| answer(vec![text("half")]), || Item::User(said("one")));
        assert!(came.is_continued_by(&next(vec![half(), one()])));
        assert!(!came.is_continued_by(&next(vec![half()])), "the message was withdrawn");
        assert!(!came.is_continued_by(&next(vec![answer(vec![text("a hook's words")]), one()])));
        let edited = UserItem::new("one".into(), vec![Part::text("other words")]);
        assert!(!came.is_continued_by(&next(vec![half(), Item::User(edited)])));
        assert!(!came.is_continued_by(&next(vec![one()])), "the answer is gone");
        assert!(!came.is_continued_by(&Request::new([half(), one()].into_iter().collect())), "a summary");
        assert!(!came.is_continued_by(&next(vec![half(), one(), half()])), "an answer more");
    }
}
