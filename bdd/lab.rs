//! The world of one scenario: a runtime with a store, a workspace, tools and a scripted model of its own.

use std::{
    collections::VecDeque,
    fmt,
    future::Future,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::Value;
use tamtam::{
    Answer, Receipt, Runtime, Session, SessionId, SessionOptions,
    error::SendError,
    event::{Event, EventKind, Next},
    model::{ErrorKind, ModelError, Reply, Request, Scripted},
    permission::{Action, Profile, Rule, Ruleset},
};
use tempfile::TempDir;
use tokio::sync::watch;

use crate::{held::Holds, hooks::HostHook, tape};

/// How long anything may take that a scenario waits for. Nothing ever waits so long unless it is broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The world of one scenario. The runtime starts with the first thing that is said to it.
#[derive(cucumber::World)]
pub(crate) struct Lab {
    folder: TempDir,
    pub(crate) model: Scripted,
    replies: Arc<Mutex<VecDeque<Reply>>>,
    pub(crate) holds: Holds,
    pub(crate) hooks: Vec<HostHook>,
    pub(crate) rules: Ruleset,
    runtime: Option<Runtime>,
    session: Option<Session>,
    shown: watch::Receiver<Vec<Arc<Event>>>,
    pub(crate) receipts: Vec<Receipt>,
    pub(crate) answer: Option<Answer>,
    pub(crate) refusal: Option<SendError>,
}

impl Default for Lab {
    fn default() -> Lab {
        let folder = TempDir::new().unwrap();
        std::fs::create_dir(folder.path().join("workspace")).unwrap();
        let replies = Arc::<Mutex<VecDeque<Reply>>>::default();
        let next = replies.clone();
        let model = Scripted::from_fn(move |_| next.lock().unwrap().pop_front().unwrap_or_else(no_more));
        Lab {
            folder,
            model,
            replies,
            holds: Holds::default(),
            hooks: Vec::new(),
            rules: Ruleset { name: "scenario".to_owned(), rules: vec![Rule::new("*", "**", Action::Allow)] },
            runtime: None,
            session: None,
            shown: watch::Sender::default().subscribe(),
            receipts: Vec::new(),
            answer: None,
            refusal: None,
        }
    }
}

fn no_more() -> Reply {
    Reply::error(ModelError::new(ErrorKind::InvalidRequest, "the scenario gives the model nothing more to say"))
}

impl fmt::Debug for Lab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lab").field("folder", &self.folder.path()).finish_non_exhaustive()
    }
}

impl Lab {
    /// A path in the workspace.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("workspace").join(name)
    }

    /// The model's next reply.
    pub(crate) fn reply(&self, reply: Reply) {
        self.replies.lock().unwrap().push_back(reply);
    }

    /// Judges calls by a profile from now on; without it all calls are allowed.
    pub(crate) fn profile(&mut self, profile: Profile) {
        self.rules = profile.ruleset();
    }

    /// The session; the runtime and the session begin here, where they were not begun before.
    pub(crate) async fn session(&mut self) -> Session {
        if let Some(session) = &self.session {
            return session.clone();
        }
        let runtime = self.start().await;
        let mut options = SessionOptions::new(self.path(""));
        options.rules = Some(self.rules.clone());
        let session = runtime.create(options).await.unwrap();
        self.listen(session).await
    }

    /// Ends the runtime in order and starts another one on the same store.
    pub(crate) async fn restart(&mut self) {
        let id = self.session().await.id().clone();
        self.shutdown().await;
        let session = self.start().await.resume(&id).await.unwrap();
        self.listen(session).await;
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("nothing was said yet")
    }

    async fn start(&mut self) -> Runtime {
        let tools = self.holds.over(&tools());
        let store = self.folder.path().join("store");
        let builder = Runtime::builder().store(store).model(Arc::new(self.model.clone())).tools(tools);
        let builder = self.hooks.iter().cloned().fold(builder, |builder, hook| builder.hook(hook));
        let runtime = builder.start().await.unwrap();
        self.runtime = Some(runtime.clone());
        runtime
    }

    async fn listen(&mut self, session: Session) -> Session {
        let mut events = session.events();
        let (shown, watched) = watch::channel(Vec::new());
        self.shown = watched;
        tokio::spawn(async move {
            while let Some(next) = events.next().await {
                match next {
                    Next::Event(event) => shown.send_modify(|all: &mut Vec<_>| all.push(event)),
                    Next::Lagged(missed) => panic!("{missed} events were missed"),
                }
            }
        });
        self.session = Some(session.clone());
        session
    }

    /// Waits until the events shown so far satisfy a condition.
    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(&[Arc<Event>]) -> bool) {
        let mut shown = self.shown.clone();
        let waited = shown.wait_for(|events| is_so(events));
        if let Ok(waited) = tokio::time::timeout(PATIENCE, waited).await {
            waited.expect("the events ended");
            return;
        }
        panic!("waited in vain for {what}; shown were:\n{}", self.events_text());
    }

    /// The events shown so far.
    pub(crate) fn events(&self) -> Vec<Arc<Event>> {
        self.shown.borrow().clone()
    }

    /// The events shown so far, one a line, as JSON.
    pub(crate) fn events_text(&self) -> String {
        self.events().iter().map(|event| serde_json::to_string(event).unwrap() + "\n").collect()
    }

    /// The requests that the model has seen.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.model.requests()
    }

    /// The lines of the session's tape, as they lie on the disk.
    pub(crate) fn tape(&self) -> Vec<Value> {
        let id: &SessionId = self.session.as_ref().expect("nothing was said yet").id();
        tape::lines(&self.folder.path().join("store"), id.as_str())
    }

    /// How the turn of the newest answer ended.
    pub(crate) fn answer(&self) -> &Answer {
        self.answer.as_ref().expect("no answer was waited for")
    }

    async fn shutdown(&mut self) {
        self.session = None;
        if let Some(runtime) = self.runtime.take() {
            let left = within("the shutdown", runtime.shutdown()).await;
            assert!(left.is_empty(), "the shutdown left something: {left:?}");
        }
    }

    /// Ends the scenario: what holds always is checked once more, and nothing is left running.
    pub(crate) async fn close(&mut self, passed: bool) {
        let is_idle = match &self.session {
            Some(session) => session.state().await.is_ok_and(|state| state.is_idle()),
            None => false,
        };
        let lines = self.session.is_some().then(|| self.tape());
        self.shutdown().await;
        if passed && is_idle {
            tape::check_pairs(&lines.unwrap_or_default());
        }
    }
}

/// Waits with patience.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(PATIENCE, future).await;
    waited.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

/// The kind of an event, as it is called in JSON.
pub(crate) fn kind(event: &EventKind) -> String {
    serde_json::to_value(event).unwrap()["event"].as_str().unwrap().to_owned()
}

/// The seven tools.
fn tools() -> tamtam::tool::Toolbox {
    tamtam::tool::Toolbox::default()
}
