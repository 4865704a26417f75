//! A model that plays a script: for tests, demonstrations and hosts that try things out.
//!
//! A [`Scripted`] model answers each request with a [`Reply`] of a list, or with the reply that a function makes of the request.
//! It does what a real model may do: it streams, waits (on tokio's clock, so virtual time works), fails, hangs and panics. It keeps
//! the newest 10,000 requests, and a test can hold it at a [`Barrier`] and let it go.
//!
//! **Which reply.** [`ScriptBy::Order`]: the next one of the list. [`ScriptBy::Answers`]: the reply that follows as many answers as the
//! request's history holds, so that a process that resumes a session finds its place. Replies without an answer (errors, panics,
//! hangs without text) come in the list before the answer that follows them, and are used one after the other, for any session of
//! the script; if no answer follows them, the last one is repeated. Replies with a condition ([`Reply::when`],
//! [`Reply::when_answers`]) are outside of the sequence and win over it, the first that fits.
//!
//! A change must keep this: a request whose `key` was seen before (and is not empty, nor older than the newest 10,000 requests)
//! gets the same reply again, because a recovered session sends the same key; and the host's function is not called under the
//! script's lock.

mod barrier;
mod file;
mod reply;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    fmt,
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use super::{
    AnswerPart, BoxFuture, Deltas, ErrorKind, Item, Model, ModelAnswer, ModelError, ModelLimits, Models, Price, Prices,
    Request, assembly::Assembly,
};
use crate::{
    lock::Lock,
    words::message::{Finish, ModelRef, Part, Span},
};

pub use barrier::Barrier;
pub use file::BadScript;
pub use reply::Reply;

use reply::{Beat, End};

/// The most requests that are kept; the oldest are dropped first.
pub const REQUESTS_MAX: usize = 10_000;

/// How a script chooses the next reply of its list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ScriptBy {
    /// One after the other, for any request.
    Order,
    /// By the number of answers in the history of the request. The default of files.
    #[default]
    Answers,
}

/// A model that plays a script. Clones share the script, its position and the requests it has seen.
///
/// ```
/// use tamtam::model::{Reply, Scripted};
/// use serde_json::json;
///
/// let script = Scripted::new([
///     Reply::call("read", json!({"path": "README.md"})),
///     Reply::text("It is about gongs.").expecting("README.md"),
/// ]);
/// assert_eq!(script.requests().len(), 0);
/// ```
#[derive(Clone)]
pub struct Scripted {
    id: ModelRef,
    limits: ModelLimits,
    prices: Arc<Prices>,
    shared: Arc<Shared>,
}

struct Shared {
    choice: Choice,
    state: Lock<State>,
    /// Counts the running requests: each holds a clone as long as its future lives.
    streaming: Arc<()>,
}

enum Choice {
    List { replies: Vec<Arc<Reply>>, by: ScriptBy },
    Function(Box<dyn Fn(&Request) -> Reply + Send + Sync>),
}

#[derive(Default)]
struct State {
    requests: VecDeque<Request>,
    /// The reply that each request got, by the request's key.
    given: HashMap<String, Arc<Reply>>,
    /// Under [`ScriptBy::Order`]: the index of the next reply.
    next: usize,
    /// Under [`ScriptBy::Answers`]: how many requests came, by the number of answers in their history.
    attempts: BTreeMap<usize, usize>,
    barriers: BTreeMap<String, Barrier>,
}

impl Scripted {
    /// Plays the replies in order.
    #[must_use]
    pub fn new(replies: impl IntoIterator<Item = Reply>) -> Scripted {
        Scripted::from_list(replies, ScriptBy::Order)
    }

    /// Plays a list of replies, in the way that `by` says.
    #[must_use]
    pub fn from_list(replies: impl IntoIterator<Item = Reply>, by: ScriptBy) -> Scripted {
        Scripted::of(Choice::List { replies: replies.into_iter().map(Arc::new).collect(), by })
    }

    /// Asks a function for each reply.
    #[must_use]
    pub fn from_fn(reply: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Scripted {
        Scripted::of(Choice::Function(Box::new(reply)))
    }

    /// Plays a script file, whose format is described in `docs/FORMATS.md`. The error names the reply and the field.
    pub fn from_json(text: &str) -> Result<Scripted, BadScript> {
        file::parse(text)
    }

    fn of(choice: Choice) -> Scripted {
        Scripted {
            id: ModelRef { provider: "scripted".to_owned(), model: "script".to_owned() },
            limits: ModelLimits::default(),
            prices: Arc::default(),
            shared: Arc::new(Shared { choice, state: Lock::default(), streaming: Arc::default() }),
        }
    }

    /// The same script under another name.
    #[must_use]
    pub fn named(mut self, id: ModelRef) -> Scripted {
        self.id = id;
        self
    }

    /// The same script with other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: ModelLimits) -> Scripted {
        self.limits = limits;
        self
    }

    /// The same script with a price for the model of that name. The name may be any, because a script answers to all names.
    #[must_use]
    pub fn with_price(mut self, model: ModelRef, price: Price) -> Scripted {
        Arc::make_mut(&mut self.prices).set(model, price);
        self
    }

    /// The requests seen so far, oldest first; at most [`REQUESTS_MAX`]. Repeated ones are listed each time.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.shared.state.lock().requests.iter().cloned().collect()
    }

    /// How many requests are being answered now. A request whose future was dropped no longer counts.
    #[must_use]
    pub fn streaming(&self) -> usize {
        Arc::strong_count(&self.shared.streaming) - 1
    }

    /// The barrier of that name, whether or not a reply has come to it yet.
    #[must_use]
    pub fn barrier(&self, name: &str) -> Barrier {
        self.shared.state.lock().barriers.entry(name.to_owned()).or_default().clone()
    }

    /// Notes the request and chooses its reply.
    fn choose(&self, request: &Request) -> Result<Arc<Reply>, ModelError> {
        let mut state = self.shared.state.lock();
        state.requests.push_back(request.clone());
        if state.requests.len() > REQUESTS_MAX
            && let Some(oldest) = state.requests.pop_front()
            && !state.requests.iter().any(|kept| kept.key == oldest.key)
        {
            state.given.remove(&oldest.key);
        }
        if let Some(reply) = state.given.get(&request.key) {
            return Ok(reply.clone());
        }
        let reply = match &self.shared.choice {
            Choice::Function(function) => {
                // Without the lock: the function belongs to the host and may look at the script.
                drop(state);
                let reply = Arc::new(function(request));
                state = self.shared.state.lock();
                reply
            }
            Choice::List { replies, by } => from_list(replies, *by, request, &mut state)?,
        };
        if !request.key.is_empty() {
            state.given.insert(request.key.clone(), reply.clone());
        }
        Ok(reply)
    }

    async fn play(&self, request: &Request, deltas: &mut dyn Deltas) -> Result<ModelAnswer, ModelError> {
        let reply = self.choose(request)?;
        let _counted = Arc::clone(&self.shared.streaming);
        reply.check(request)?;
        let mut assembly = Assembly::new(&request.history, deltas);
        for beat in &reply.beats {
            match beat {
                Beat::Text(text) => assembly.text(text),
                Beat::Reasoning(text) => assembly.reasoning(text),
                Beat::Call(call) => {
                    let place = assembly.start_call(&call.id, &call.name)?;
                    assembly.call_input(place, &call.arguments());
                }
                Beat::Wait(time) => tokio::time::sleep(*time).await,
                Beat::Barrier(name) => self.barrier(name).pass().await,
            }
        }
        match &reply.end {
            End::Answer => {}
            End::Error(error) => return Err(error.clone()),
            End::Hang => std::future::pending().await,
            #[allow(clippy::panic, reason = "the script asks for it: this is how a crash of a model client is tested")]
            End::Panic(message) => std::panic::panic_any(message.clone()),
        }
        let mut parts = assembly.finish();
        for part in &mut parts {
            // A script returns the same answer each time, so its thoughts have no times.
            if let AnswerPart::Reasoning { time, .. } = part {
                *time = Span::default();
            }
        }
        let has_calls = parts.iter().any(|part| matches!(part, AnswerPart::Call { .. }));
        let usual = if has_calls { Finish::ToolCalls } else { Finish::Stop };
        let mut answer = ModelAnswer::new(parts, reply.finish.unwrap_or(usual));
        answer.usage = reply.usage;
        answer.model.clone_from(&self.id.model);
        Ok(answer)
    }
}

/// The reply to a request out of a list.
fn from_list(
    replies: &[Arc<Reply>],
    by: ScriptBy,
    request: &Request,
    state: &mut State,
) -> Result<Arc<Reply>, ModelError> {
    let answers = request.history.answers().count();
    if let Some(reply) = replies.iter().find(|reply| reply.is_conditional() && reply.applies(request, answers)) {
        return Ok(reply.clone());
    }
    let sequence = || replies.iter().filter(|reply| !reply.is_conditional());
    let reply = match by {
        ScriptBy::Order => {
            state.next += 1;
            sequence().nth(state.next - 1)
        }
        ScriptBy::Answers => {
            let attempt = state.attempts.entry(answers).or_default();
            *attempt += 1;
            // The replies for this number of answers: those after the answer before, up to and including the next answer.
            let replies: Vec<&Arc<Reply>> = sequence().collect();
            let turn = replies.split_inclusive(|reply| reply.leaves_an_answer()).nth(answers).unwrap_or_default();
            turn.get(*attempt - 1).or(turn.last()).copied()
        }
    };
    reply.cloned().ok_or_else(|| {
        let message = format!("script exhausted after {} replies", sequence().count());
        ModelError::new(ErrorKind::InvalidRequest, message)
    })
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scripted").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Model for Scripted {
    fn id(&self) -> &ModelRef {
        &self.id
    }

    fn limits(&self) -> ModelLimits {
        self.limits
    }

    fn price(&self) -> Option<Price> {
        self.prices.get(&self.id)
    }

    fn stream<'a>(
        &'a self,
        request: &'a Request,
        deltas: &'a mut dyn Deltas,
    ) -> BoxFuture<'a, Result<ModelAnswer, ModelError>> {
        Box::pin(self.play(request, deltas))
    }
}

/// Every name leads to this script.
impl Models for Scripted {
    fn find(&self, name: &ModelRef) -> Result<Arc<dyn Model>, ModelError> {
        Ok(Arc::new(self.clone().named(name.clone())))
    }

    fn limits_of(&self, _: &ModelRef) -> ModelLimits {
        Model::limits(self)
    }

    fn price_of(&self, name: &ModelRef) -> Option<Price> {
        self.prices.get(name)
    }
}

/// A request as one text, which the conditions of replies are matched against: a line for the system prompt, then a line for each
/// part of the conversation (`user: …`, `assistant: …`, `call NAME INPUT`, `result NAME: …`), then the reminder.
#[must_use]
pub fn transcript(request: &Request) -> String {
    let mut lines = vec![format!("system: {}", request.system)];
    for item in request.history.iter() {
        match item.as_ref() {
            Item::User(user) => lines.extend(user.parts.iter().map(|part| match part {
                Part::Text(text) => format!("user: {}", text.text),
                Part::File(file) => format!("file {} {}", file.mime, file.filename.as_deref().unwrap_or_default()),
                _ => String::new(),
            })),
            Item::Assistant(answer) => lines.extend(answer.parts.iter().map(|part| match part {
                AnswerPart::Text { text, .. } => format!("assistant: {text}"),
                AnswerPart::Reasoning { text, .. } => format!("reasoning: {text}"),
                AnswerPart::Call { name, input, .. } => format!("call {name} {input}"),
            })),
            Item::Result(result) => lines.push(format!("result {}: {}", result.name, result.content)),
        }
    }
    lines.extend(request.reminder.as_deref().map(|reminder| format!("reminder: {reminder}")));
    lines.join("\n")
}

#[cfg(test)]
mod tests;
