//! What is outside of the runtime and outlives its crashes: the model's server, what calls did, what the host wants to say.
//!
//! The model's answers follow from how many it gave before, and a message is wanted by what the model or a tool waits
//! for, so that the same messages come at the same place of the story after any number of cuts.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use serde_json::json;
use tamtam::{
    Delivery, MessageId, ModelRef, Seq, Steering,
    model::{AnswerPart, BoxFuture, Deltas, ErrorKind, Item, Model, ModelAnswer, ModelError, Request},
    session::Finish,
};

/// The first message, and those that the story wants, in the order in which the model is to read them.
pub(crate) const MESSAGES: [&str; 5] = ["m0", "m1", "m2", "m3", "m4"];

/// What is outside.
#[derive(Default)]
pub(crate) struct Outside {
    /// How often each call that counts has run.
    pub(crate) ran: BTreeMap<String, u32>,
    /// The ticket under which each of them ran first.
    pub(crate) ran_as: BTreeMap<String, Seq>,
    /// The requests that the server refused or broke off, by what it did.
    pub(crate) failed: BTreeMap<&'static str, Seq>,
    /// Messages that somebody waits for.
    pub(crate) wanted: Vec<(&'static str, Delivery)>,
    /// Messages with a receipt.
    pub(crate) acked: BTreeSet<&'static str>,
    /// All that each request said, by its key.
    pub(crate) requests: BTreeMap<String, String>,
    /// Requests that came again under their key and were not what they had been.
    pub(crate) changed: Vec<String>,
}

/// What is outside, shared.
#[derive(Clone, Default)]
pub(crate) struct World(Arc<Mutex<Outside>>);

impl World {
    /// Goes on where another was.
    pub(crate) fn of(outside: Outside) -> World {
        World(Arc::new(Mutex::new(outside)))
    }

    pub(crate) fn look(&self) -> MutexGuard<'_, Outside> {
        // A crash on purpose may strike while it is held; every change is whole.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// A call ran, under that ticket.
    pub(crate) fn ran(&self, what: &str, ticket: Seq) {
        let mut outside = self.look();
        *outside.ran.entry(what.to_owned()).or_default() += 1;
        outside.ran_as.entry(what.to_owned()).or_insert(ticket);
    }

    /// Somebody waits for that message.
    pub(crate) fn want(&self, message: &'static str, delivery: Delivery) {
        let mut outside = self.look();
        if !outside.wanted.iter().any(|(wanted, _)| *wanted == message) {
            outside.wanted.push((message, delivery));
        }
    }

    /// The next message that is wanted and has no receipt.
    pub(crate) fn next_wanted(&self) -> Option<(&'static str, Delivery)> {
        let outside = self.look();
        outside.wanted.iter().find(|(wanted, _)| !outside.acked.contains(wanted)).copied()
    }

    async fn acked(&self, message: &'static str) {
        while !self.look().acked.contains(message) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Notes a request; one that comes again must be what it was.
    fn asked(&self, request: &Request) {
        let history: Vec<&Item> = request.history.iter().map(AsRef::as_ref).collect();
        let said = json!({
            "system": request.system,
            "tools": request.tools.iter().map(|tool| json!([tool.name, tool.description, tool.schema])).collect::<Vec<_>>(),
            "history": history,
            "reminder": request.reminder,
            "params": request.params,
        });
        let said = said.to_string();
        let mut outside = self.look();
        if let Some(before) = outside.requests.get(&request.key)
            && *before != said
        {
            let changed = format!("request {} came again as\n{said}\nand was\n{before}", request.key);
            outside.changed.push(changed);
        }
        outside.requests.insert(request.key.clone(), said);
    }

    /// Whether the server misbehaves in that way now: it does so once.
    fn fails(&self, how: &'static str, request: &Request) -> bool {
        let mut outside = self.look();
        let first = !outside.failed.contains_key(how);
        if first {
            outside.failed.insert(how, ticket_of(&request.key));
        }
        first
    }
}

/// The ticket in a key.
pub(crate) fn ticket_of(key: &str) -> Seq {
    Seq(key.rsplit('/').next().unwrap().parse().unwrap())
}

/// The server of the story.
///
/// | answers so far | what it says |
/// |---|---|
/// | 0 | three reads that run together |
/// | 1 | token 1, which must never be added twice |
/// | 2 | tokens 2 and 3, skipped because m1 steers while it is streaming |
/// | 3 | a count, which may run again, and token 4: both run although m2 steers |
/// | 4 | refused once with a wait; then a call that is asked for, and token 5 behind it |
/// | 5 | a call that waits until m3 aborts it, and token 6, which is skipped then |
/// | 6 | the end of the turn, while m4 is queued for a turn of its own |
/// | 7 | the client crashes once; then a tool that panics |
/// | 8 | the end |
pub(crate) struct Server {
    id: ModelRef,
    world: World,
}

impl Server {
    pub(crate) fn new(world: &World) -> Server {
        Server { id: "story/teller".parse().unwrap(), world: world.clone() }
    }

    async fn answer(&self, request: &Request) -> Result<ModelAnswer, ModelError> {
        self.world.asked(request);
        let answers = request.history.iter().filter(|item| matches!(item.as_ref(), Item::Assistant(_))).count();
        let token = |n: u32| ("token", json!({ "n": n }));
        let steer = |message, steering| async move {
            self.world.want(message, Delivery::Steer(steering));
            self.world.acked(message).await;
        };
        let calls = match answers {
            0 => vec![("look", json!({"at": "a"})), ("look", json!({"at": "b"})), ("look", json!({"at": "c"}))],
            1 => vec![token(1)],
            2 => {
                steer("m1", Steering::SkipRemaining).await;
                vec![token(2), token(3)]
            }
            3 => {
                steer("m2", Steering::FinishBatch).await;
                vec![("count", json!({})), token(4)]
            }
            4 if self.world.fails("refused", request) => {
                let error = ModelError::new(ErrorKind::Overloaded, "no room");
                return Err(error.with_retry_after(Some(Duration::from_millis(5))));
            }
            4 => vec![("careful", json!({})), token(5)],
            5 => vec![("linger", json!({})), token(6)],
            6 => {
                self.world.want("m4", Delivery::Queue);
                self.world.acked("m4").await;
                vec![]
            }
            7 if self.world.fails("crashed", request) => std::panic::resume_unwind(Box::new("the client crashed")),
            7 => vec![("broken", json!({}))],
            _ => vec![],
        };
        let finish = if calls.is_empty() { Finish::Stop } else { Finish::ToolCalls };
        let text = AnswerPart::Text { text: format!("answer {answers}"), extra: None };
        let calls = calls.into_iter().enumerate().map(|(n, (name, input))| AnswerPart::Call {
            id: format!("c{answers}-{n}").as_str().into(),
            name: name.to_owned(),
            input: input.to_string(),
            extra: None,
        });
        Ok(ModelAnswer::new([text].into_iter().chain(calls).collect(), finish))
    }
}

impl Model for Server {
    fn id(&self) -> &ModelRef {
        &self.id
    }

    fn stream<'a>(
        &'a self,
        request: &'a Request,
        _: &'a mut dyn Deltas,
    ) -> BoxFuture<'a, Result<ModelAnswer, ModelError>> {
        Box::pin(self.answer(request))
    }
}

/// The message of that id: it says its id.
pub(crate) fn message(id: &str) -> tamtam::Message {
    tamtam::Message::user(id).with_id(MessageId::from(id))
}
