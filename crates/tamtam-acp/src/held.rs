//! [`Held`]: a session that this client holds, and the task that shows the client what happens in it.
//!
//! The task pulls: while the client reads slowly, the events wait in the session's ring, which is bounded and counts what it drops;
//! then the durable ones are read again from the tape, behind the last one that was shown. Nothing durable is missing and nothing
//! comes twice.
//!
//! A change must keep that the updates of a turn are sent before its prompt is answered: [`Held::shown_to_the_end`].

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};
use tamtam::{
    Event, EventKind, EventStream, MessageId, Runtime, Seq, Session,
    session::{Next, State},
};
use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
};

use crate::{
    asks::{Answers, Asked},
    calls,
    options::AcpOptions,
    peer::Gone,
    rpc::Fault,
    settings,
    updates::Updates,
};

/// How many ids of its own messages a client is remembered by: more than may wait.
const OWN_MAX: usize = 1_024;
/// How many cancels may be under way before the client's next lines wait for one of them.
const CANCELS_MAX: usize = 256;
/// How long what is sent behind a cancel waits for it.
const CANCEL_WAIT: Duration = Duration::from_secs(10);
/// How often a stream that broke off is begun again, and how long in between.
const TRIES_MAX: u32 = 5;
const TRY_AGAIN: Duration = Duration::from_millis(200);

/// A session that a client holds. Dropping it ends the showing, and takes down its questions.
pub(crate) struct Held {
    pub(crate) session: Session,
    own: Arc<Own>,
    /// The newest turn whose end was shown.
    ended: watch::Receiver<Seq>,
    /// How many cancels of the client are under way.
    cancelling: watch::Sender<usize>,
    task: JoinHandle<()>,
}

/// The messages that the client has sent itself, and so shows already.
#[derive(Default)]
struct Own(Mutex<VecDeque<MessageId>>);

impl Own {
    fn has(&self, id: &MessageId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(id)
    }

    fn add(&self, id: MessageId) {
        let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        own.push_back(id);
        if own.len() > OWN_MAX {
            own.pop_front();
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.end();
    }
}

/// What the showing begins with.
pub(crate) struct Beginning {
    pub(crate) session: Session,
    pub(crate) events: EventStream,
    pub(crate) updates: Updates,
    /// The last entry that the client knows, and the state there.
    pub(crate) state: State,
    pub(crate) runtime: Runtime,
    pub(crate) options: Arc<AcpOptions>,
    pub(crate) answers: Arc<Answers>,
}

impl Held {
    /// Begins to show the session once `start` resolves: when the client knows of it.
    pub(crate) fn begin(beginning: Beginning, start: oneshot::Receiver<()>) -> Held {
        let own = Arc::<Own>::default();
        // A turn that ended before is shown with the past, or known.
        let before = beginning.state.ended.back().map(|end| end.turn);
        let (ending, ended) = watch::channel(before.unwrap_or_default());
        let session = beginning.session.clone();
        let last = (beginning.state.seq, u32::MAX);
        let showing = Showing { beginning, own: own.clone(), ending, last, asks: BTreeMap::new() };
        let task = tokio::spawn(async move {
            // Dropped where the client was refused, or is gone.
            if start.await.is_ok() {
                showing.run().await;
            }
        });
        Held { session, own, ended, cancelling: watch::Sender::new(0), task }
    }

    /// Ends the showing, whoever still has this: a request that is open may.
    pub(crate) fn end(&self) {
        self.task.abort();
    }

    /// A message of the client's own: it is not shown to it again.
    pub(crate) fn sends(&self, id: MessageId) {
        self.own.add(id);
    }

    /// A cancel begins, and is over when the value is dropped.
    pub(crate) fn cancels(&self) -> Cancelling {
        self.cancelling.send_modify(|count| *count += 1);
        Cancelling(self.cancelling.clone())
    }

    /// Waits until one more cancel may begin.
    pub(crate) async fn may_cancel(&self) {
        // The sender lives as long as this does.
        drop(self.cancelling.subscribe().wait_for(|count| *count < CANCELS_MAX).await);
    }

    /// Waits until no cancel is under way; an error if that takes too long, as on a full disk.
    pub(crate) async fn cancelled(&self) -> Result<(), Fault> {
        let mut cancelling = self.cancelling.subscribe();
        let over = cancelling.wait_for(|count| *count == 0);
        match tokio::time::timeout(CANCEL_WAIT, over).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Fault::failed("what was cancelled before has not ended yet: send it again").kind("retry")),
        }
    }

    /// Waits until all of a turn was sent to the client, or the showing is over.
    pub(crate) async fn shown_to_the_end(&self, turn: Seq) {
        let mut ended = self.ended.clone();
        drop(ended.wait_for(|ended| *ended >= turn).await);
    }
}

/// A cancel that is under way.
pub(crate) struct Cancelling(watch::Sender<usize>);

impl Drop for Cancelling {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// A question that is put to the client. Dropping it takes it down.
struct Put(JoinHandle<()>);

impl Drop for Put {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Showing {
    beginning: Beginning,
    own: Arc<Own>,
    ending: watch::Sender<Seq>,
    /// The last durable event that was shown: its entry, and its number there.
    last: (Seq, u32),
    asks: BTreeMap<Seq, Put>,
}

impl Showing {
    async fn run(mut self) {
        // A client that is gone ends the connection, and that drops this.
        let _ = self.show().await;
    }

    async fn show(&mut self) -> Result<(), Gone> {
        let open = asks_of(&self.beginning.state, &self.beginning.updates, self.workspace());
        open.into_iter().for_each(|asked| self.put(asked));
        loop {
            match self.beginning.events.next().await {
                Some(Next::Event(event)) if event.id.is_durable() && (event.id.seq, event.id.sub) <= self.last => {}
                Some(Next::Event(event)) => self.shown(&event).await?,
                Some(_) | None => {
                    if !self.again().await {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Listens again, behind the last durable event. `false` where the session is gone.
    async fn again(&mut self) -> bool {
        self.beginning.updates.lagged();
        let session = &self.beginning.session;
        for _ in 0..TRIES_MAX {
            // The entry of the last event may have further ones.
            match session.events_after(Seq(self.last.0.0.saturating_sub(1))).await {
                Ok(events) => {
                    self.beginning.events = events;
                    return true;
                }
                Err(_) if !self.beginning.runtime.exists(session.id()).await.unwrap_or(true) => return false,
                Err(_) => tokio::time::sleep(TRY_AGAIN).await,
            }
        }
        false
    }

    fn workspace(&self) -> std::path::PathBuf {
        self.beginning.state.settings.workspace.clone().into()
    }

    async fn shown(&mut self, event: &Event) -> Result<(), Gone> {
        for update in self.beginning.updates.next(event, |id| self.own.has(id)) {
            self.tell(update).await?;
        }
        let known = match &event.kind {
            EventKind::Ask { call, .. } => self.beginning.updates.call(call).map(str::to_owned),
            _ => None,
        };
        if let Some(asked) = Asked::of(&event.kind, &self.workspace(), known.as_deref()) {
            self.put(asked);
        }
        match &event.kind {
            EventKind::AskClosed { ask, .. } => drop(self.asks.remove(ask)),
            EventKind::StepFinished { .. } => self.tell_cost().await?,
            EventKind::TurnFinished { .. } => {
                self.tell_cost().await?;
                self.ending.send_replace(event.turn.unwrap_or_default());
            }
            EventKind::AgentSwitched { .. } => {
                if let Ok(state) = self.beginning.session.peek().await {
                    let options = settings::options(&state, &self.beginning.runtime, &self.beginning.options);
                    self.tell(json!({ "sessionUpdate": "config_option_update", "configOptions": options })).await?;
                }
            }
            _ => {}
        }
        if event.id.is_durable() {
            self.last = (event.id.seq, event.id.sub);
        }
        Ok(())
    }

    /// What the session and its tasks have used, and cost.
    async fn tell_cost(&self) -> Result<(), Gone> {
        let Ok(state) = self.beginning.session.peek().await else { return Ok(()) };
        match usage(&state, self.beginning.updates.context()) {
            Some(update) => self.tell(update).await,
            None => Ok(()),
        }
    }

    async fn tell(&self, update: Value) -> Result<(), Gone> {
        let told = json!({ "sessionId": self.beginning.session.id(), "update": update });
        self.beginning.answers.peer.tell("session/update", told).await
    }

    fn put(&mut self, asked: Asked) {
        let (answers, session) = (self.beginning.answers.clone(), self.beginning.session.clone());
        let ask = asked.ask;
        let put = tokio::spawn(async move { answers.put(&session, &asked).await });
        self.asks.insert(ask, Put(put));
    }
}

/// The usage of the whole tree, where the size of the context is known.
fn usage(state: &State, context: Option<(u64, u64)>) -> Option<Value> {
    let (used, size) = context?;
    let spent = state.spent_in_all();
    let mut update = json!({ "sessionUpdate": "usage_update", "used": used, "size": size });
    // An unknown cost is left out, because it is not zero.
    if let Some(cost) = spent.cost.exact() {
        let micro = cost.to_micro().0;
        // Exact up to nine billion dollars.
        #[allow(clippy::cast_precision_loss)]
        let amount = micro as f64 / 1e6;
        update["cost"] = json!({ "amount": amount, "currency": "USD" });
    }
    update["_meta"] = json!({ "tamtam": { "usage": spent.usage } });
    Some(update)
}

/// The asks that are open in a state.
fn asks_of(state: &State, updates: &Updates, workspace: std::path::PathBuf) -> Vec<Asked> {
    let of_calls = state.asks().filter_map(|(ask, open)| {
        let (_, call) = state.calls().find(|(ticket, _)| *ticket == open.call)?;
        let name = &call.facts.tool;
        let mut shown = calls::facts(name, &call.input, &workspace);
        shown["toolCallId"] = updates.call(&call.id).map_or_else(|| format!("ask-{ask}"), str::to_owned).into();
        let (question, digest) = (open.question.clone(), state.digest_of(ask));
        Some(Asked { ask, call: shown, offers: open.offers(), digest, question })
    });
    let of_tasks = state.task_asks().filter(|(_, open)| open.answer.is_none()).map(|(ask, open)| {
        let asked = &open.asked;
        let mut shown = calls::facts(&asked.name, &asked.input, &workspace);
        shown["toolCallId"] = format!("ask-{ask}").into();
        let (question, digest) = (asked.question.clone(), Some(asked.digest()));
        Asked { ask, call: shown, offers: asked.offers(), digest, question }
    });
    let of_budget = state.budget_ask().map(|(ask, open)| Asked::of_budget(ask, &open.breach.to_string()));
    of_calls.chain(of_tasks).chain(of_budget).collect()
}
