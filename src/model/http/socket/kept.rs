//! The connections that sessions keep between the steps of a turn, with the answer that each gave last.
//!
//! A change must keep that a connection on which a provider may still have something of ours, other than the successor that
//! [`Came::is_continued_by`] recognizes, is never kept: what it has would reach the model a second time.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::FutureExt as _;
use serde_json::Value;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::line::Line;
use crate::{
    lock::Lock,
    model::{
        AnswerPart, Dropped, History, Item, Params, Request, ToolSpec, UserItem,
        estimate::of_text,
        responses::{is_reminded, said_usage},
    },
    words::{ids::SessionId, message::ModelRef, usage::Usage},
};

/// How long a connection waits for the next request of its session.
const KEPT_FOR: Duration = Duration::from_secs(30);

/// The most connections that are kept.
const KEPT_MAX: usize = 1024;

/// The most answers that were dropped and are not charged yet. Beyond it the oldest is forgotten: its session may be long gone.
const OWED_MAX: usize = 1024;

/// The connections by session. Each session has one at most.
#[derive(Default)]
pub(in crate::model::http) struct Lines(Arc<Lock<Open>>);

#[derive(Default)]
struct Open {
    lines: HashMap<SessionId, (u64, Kept)>,
    kept: u64,
    /// What was used by answers that were dropped, until an answer of the same session and model is charged with it; oldest first.
    owed: VecDeque<(SessionId, ModelRef, Dropped)>,
}

/// A connection between two requests.
pub(super) struct Kept {
    pub(super) line: Line,
    /// Address, key and model that it is for.
    pub(super) to: String,
    /// The model.
    pub(super) of: ModelRef,
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
    /// How many tokens it reads, by our estimate.
    pub(super) reads: u64,
}

impl Kept {
    /// Closes the connection. What runs on it has used something: as the provider says, where it was whole, else by our estimate.
    fn used(mut self) -> Option<Dropped> {
        let reads = self.came?.reads;
        let mut written = 0;
        // Only what has come: nobody waits for the rest.
        while let Some(Ok(text)) = self.line.next().now_or_never() {
            let event: Value = serde_json::from_str(&text).unwrap_or_default();
            if let Some(usage) = said_usage(&event) {
                return Some(Dropped { usage, estimated: false });
            }
            written += event["delta"].as_str().map_or(0, of_text);
        }
        Some(Dropped { usage: Usage::new(reads, written), estimated: true })
    }
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

    /// Closes a connection for which its session's request has no use.
    pub(super) fn close(&self, request: &Request, kept: Kept) {
        if let Some(session) = &request.session {
            owe(&self.0, session, kept);
        }
    }

    /// Notes that the provider has read this many tokens for an answer that came to nothing.
    pub(super) fn owe(&self, request: &Request, of: &ModelRef, reads: u64) {
        if let Some(session) = &request.session {
            let dropped = Dropped { usage: Usage::new(reads, 0), estimated: true };
            note(&self.0, (session.clone(), of.clone(), dropped));
        }
    }

    /// Takes what dropped answers of the session and model have used.
    pub(in crate::model::http) fn owed(&self, session: &SessionId, model: &ModelRef) -> Vec<Dropped> {
        let mut open = self.0.lock();
        let (its, others): (VecDeque<_>, VecDeque<_>) =
            open.owed.drain(..).partition(|(owes, of, _)| owes == session && of == model);
        open.owed = others;
        its.into_iter().map(|(_, _, dropped)| dropped).collect()
    }

    /// Keeps a connection until the turn is over, at most for a while. One that the session has already is closed.
    pub(super) fn keep(&self, session: &SessionId, kept: Kept, turn: Option<&CancellationToken>) {
        let mut open = self.0.lock();
        if open.lines.len() >= KEPT_MAX && !open.lines.contains_key(session) {
            drop(open);
            return owe(&self.0, session, kept);
        }
        open.kept += 1;
        let number = open.kept;
        let before = open.lines.insert(session.clone(), (number, kept));
        drop(open);
        if let Some((_, before)) = before {
            owe(&self.0, session, before);
        }
        let (lines, session, turn) = (Arc::downgrade(&self.0), session.clone(), turn.cloned().unwrap_or_default());
        tokio::spawn(async move {
            let _ = timeout(KEPT_FOR, turn.cancelled()).await;
            close(&lines, &session, number);
        });
    }
}

/// Closes a connection, and notes what was used on it in vain.
fn owe(lines: &Lock<Open>, session: &SessionId, kept: Kept) {
    let of = kept.of.clone();
    if let Some(used) = kept.used() {
        note(lines, (session.clone(), of, used));
    }
}

fn note(lines: &Lock<Open>, owed: (SessionId, ModelRef, Dropped)) {
    let mut open = lines.lock();
    if open.owed.len() >= OWED_MAX {
        open.owed.pop_front();
    }
    open.owed.push_back(owed);
}

/// Closes the connection of a session, unless it is a later one.
fn close(lines: &Weak<Lock<Open>>, session: &SessionId, number: u64) {
    let Some(lines) = lines.upgrade() else { return };
    let mut open = lines.lock();
    let is_it = open.lines.get(session).is_some_and(|(kept, _)| *kept == number);
    let gone = if is_it { open.lines.remove(session) } else { None };
    drop(open);
    if let Some((_, kept)) = gone {
        owe(&lines, session, kept);
    }
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
        Came { id: "resp_2".to_owned(), asked: Asked::of(&first()), answer: parts, read, reads: 0 }
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

    /// What nobody is charged with gives way to what is newer, and each is charged once.
    #[test]
    fn of_what_is_owed_the_oldest_is_forgotten() {
        let lines = Lines::default();
        let model = ModelRef::new("p", "m");
        let mut request = first();
        let session = |n: usize| -> SessionId { format!("s{n}").as_str().parse().expect("it is an id") };
        for n in 0..=OWED_MAX {
            request.session = Some(session(n));
            lines.owe(&request, &model, 7);
            lines.owe(&request, &ModelRef::new("p", "other"), 9);
        }
        let owed = |n: usize| lines.owed(&session(n), &model).iter().map(|dropped| dropped.usage.input).collect();
        let all: Vec<Vec<u64>> = [0, OWED_MAX, OWED_MAX].into_iter().map(owed).collect();
        assert_eq!(all, [vec![], vec![7], vec![]]);
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
