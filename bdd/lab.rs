//! The world of one scenario: a runtime with a store, a workspace, tools and a scripted model of its own.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    fs::Permissions,
    future::Future,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use tamtam::{
    Answer, Event, EventKind, EventStream, ModelRef, Receipt, Runtime, SendError, Seq, Session, SessionId,
    SessionOptions,
    model::{ErrorKind, ModelError, Reply, Request, Scripted},
    permission::{Action, Profile, Rule, Ruleset},
    runtime::Agent,
    session::Next,
};
use tempfile::TempDir;
use tokio::{sync::watch, task::AbortHandle};

use crate::{copied, held::Holds, hooks::HostHook, tape};

/// How long anything may take that a scenario waits for. Nothing ever waits so long unless it is broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The world of one scenario. The runtime starts with the first thing that is said to it.
#[derive(cucumber::World)]
pub(crate) struct Lab {
    folder: TempDir,
    pub(crate) model: Scripted,
    replies: Arc<Mutex<VecDeque<Reply>>>,
    /// What the subagents say, by the first words of their tasks. Where there are some, the session may delegate.
    subagents: Arc<Mutex<BTreeMap<String, VecDeque<Reply>>>>,
    pub(crate) holds: Holds,
    pub(crate) hooks: Vec<HostHook>,
    pub(crate) rules: Ruleset,
    /// Where it is set, the host hands over a finder of models, and sessions use this one.
    pub(crate) model_name: Option<ModelRef>,
    /// Where it is set, the session has this id and the tools of plan mode, and begins as this agent.
    pub(crate) plans: Option<(SessionId, Agent)>,
    protected: Vec<PathBuf>,
    /// How often the process was killed: each life has a store of its own, the copy of the one before.
    kills: usize,
    runtime: Option<Runtime>,
    session: Option<Session>,
    listener: Option<AbortHandle>,
    /// Turns that began before this entry were not listened to.
    listens_from: Seq,
    shown: watch::Receiver<Vec<Arc<Event>>>,
    pub(crate) receipts: Vec<Receipt>,
    pub(crate) answer: Option<Answer>,
    pub(crate) refusal: Option<SendError>,
    /// What the newest command of the operator wrote: its exit code, stdout and stderr.
    pub(crate) ran: Option<(i32, String, String)>,
}

impl Default for Lab {
    fn default() -> Lab {
        let folder = TempDir::new().unwrap();
        std::fs::create_dir(folder.path().join("workspace")).unwrap();
        let replies = Arc::<Mutex<VecDeque<Reply>>>::default();
        let subagents = Arc::<Mutex<BTreeMap<String, VecDeque<Reply>>>>::default();
        let (next, next_of) = (replies.clone(), subagents.clone());
        let model = Scripted::from_fn(move |request| {
            let said = tamtam::model::transcript(request);
            let mut subagents = next_of.lock().unwrap();
            let subagent = subagents.iter_mut().find(|(task, _)| said.contains(&format!("user: {task}")));
            let reply = match subagent {
                Some((_, replies)) => replies.pop_front(),
                None => next.lock().unwrap().pop_front(),
            };
            reply.unwrap_or_else(no_more)
        });
        Lab {
            folder,
            model,
            replies,
            subagents,
            holds: Holds::default(),
            hooks: Vec::new(),
            rules: Ruleset::new("scenario", [Rule::new("*", "**", Action::Allow)]),
            model_name: None,
            plans: None,
            protected: Vec::new(),
            kills: 0,
            runtime: None,
            session: None,
            listener: None,
            listens_from: Seq::ZERO,
            shown: watch::Sender::default().subscribe(),
            receipts: Vec::new(),
            answer: None,
            refusal: None,
            ran: None,
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

    /// Runs the binary as an operator would, in the workspace, with a home of its own and nobody at the terminal.
    pub(crate) fn operate(&mut self, arguments: &[&str]) {
        let ran = self.command(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        self.ran = Some((ran.status.code().unwrap_or(-1), text(ran.stdout), text(ran.stderr)));
    }

    /// The same with `--json`, by an operator who answers the first ask with this line, and rejects where that is refused.
    pub(crate) fn operate_answering(&mut self, arguments: &[&str], answer: &Value) {
        let mut command = self.command(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (mut stdin, mut stdout, mut ask) = (child.stdin.take().unwrap(), String::new(), Value::Null);
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
            stdout += &format!("{line}\n");
            let mut said = match () {
                () if line["event"] == "ask" => {
                    ask = line["ask"].clone();
                    answer.clone()
                }
                () if !line["reply"]["error"].is_null() => json!({"grant": "reject", "message": "no"}),
                () => continue,
            };
            said["ask"] = ask.clone();
            writeln!(stdin, "{}", json!({ "answer": said })).unwrap();
        }
        let ended = child.wait_with_output().unwrap();
        self.ran = Some((ended.status.code().unwrap_or(-1), stdout, String::from_utf8(ended.stderr).unwrap()));
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tamtam"));
        command.args(arguments).current_dir(self.path("")).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", self.folder.path().join("home"));
        command
    }

    /// The model's next reply.
    pub(crate) fn reply(&self, reply: Reply) {
        self.replies.lock().unwrap().push_back(reply);
    }

    /// The next reply of the subagent whose task begins so.
    pub(crate) fn subagent_reply(&self, task: &str, reply: Reply) {
        self.subagents.lock().unwrap().entry(task.to_owned()).or_default().push_back(reply);
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
        let mut options = match &self.plans {
            Some((id, agent)) => SessionOptions::from_agent(agent, self.path("")).unwrap().id(id.clone()),
            None => SessionOptions::new(self.path("")),
        };
        options.rules = Some(self.rules.clone());
        let session = runtime.create(options).await.unwrap();
        let (events, from) = (session.events(), session.state().await.unwrap().seq);
        self.listen(session, events, from)
    }

    /// Ends the runtime in order and starts another one on the same store.
    pub(crate) async fn restart(&mut self) {
        let id = self.session().await.id().clone();
        self.shutdown().await;
        let session = self.start().await.open(&id).await.unwrap();
        let (events, from) = (session.events(), session.state().await.unwrap().seq);
        self.listen(session, events, from);
    }

    /// The same, but no session is opened: the host has its handle, and nothing more.
    pub(crate) async fn restart_unopened(&mut self) {
        let id = self.session().await.id().clone();
        self.stop_listening();
        self.shutdown().await;
        self.session = Some(self.start().await.session(&id));
    }

    /// Starts another runtime over the store as a `kill -9` at this moment leaves it. The host listens again from the last event
    /// that it was shown.
    pub(crate) async fn kill(&mut self) {
        let session = self.session().await;
        let (id, seen) = (session.id().clone(), session.state().await.unwrap().seq);
        let before = self.store();
        self.kills += 1;
        copied::copy(&before, &self.store());
        self.stop_listening();
        self.shutdown().await;
        let session = self.start().await.open(&id).await.unwrap();
        let events = session.events_after(seen).await.unwrap();
        self.listen(session, events, seen);
    }

    fn store(&self) -> PathBuf {
        match self.kills {
            0 => self.folder.path().join("store"),
            kills => self.folder.path().join(format!("store-{kills}")),
        }
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("nothing was said yet")
    }

    async fn start(&mut self) -> Runtime {
        let tools = tamtam::tools::full();
        let tools = if self.plans.is_some() { tamtam::tools::with_plan_mode(&tools) } else { tools };
        let tools = self.holds.over(&tools);
        let builder = Runtime::builder().store(self.store()).model(Arc::new(self.model.clone())).tools(tools);
        let builder = match &self.model_name {
            Some(name) => builder.models(Arc::new(self.model.clone()), name.clone()),
            None => builder,
        };
        let delegates = !self.subagents.lock().unwrap().is_empty();
        let builder = if delegates { builder.with_tasks() } else { builder };
        let builder = self.hooks.iter().cloned().fold(builder, |builder, hook| builder.hook(hook));
        let runtime = builder.start().await.unwrap();
        self.runtime = Some(runtime.clone());
        runtime
    }

    fn listen(&mut self, session: Session, mut events: EventStream, from: Seq) -> Session {
        self.listens_from = from;
        let (shown, watched) = watch::channel(Vec::new());
        self.shown = watched;
        let listener = tokio::spawn(async move {
            while let Some(next) = events.next().await {
                match next {
                    Next::Event(event) => shown.send_modify(|all: &mut Vec<_>| all.push(event)),
                    Next::Lagged(missed) => panic!("{missed} events were missed"),
                    other => panic!("neither an event nor missed ones: {other:?}"),
                }
            }
        });
        self.listener = Some(listener.abort_handle());
        self.session = Some(session.clone());
        session
    }

    /// Shows no more events.
    pub(crate) fn stop_listening(&mut self) {
        if let Some(listener) = self.listener.take() {
            listener.abort();
        }
    }

    /// Keeps a file of the workspace from being written, by root too.
    pub(crate) fn protect(&mut self, name: &str) {
        let path = self.path(name);
        std::fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
        if std::fs::OpenOptions::new().append(true).open(&path).is_ok() {
            let set = Command::new("chattr").arg("+i").arg(&path).status().unwrap();
            assert!(set.success(), "root writes where it likes here: run the scenarios as another user");
            self.protected.push(path);
        }
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

    /// Waits until the listener has been shown the end of every turn that has ended.
    pub(crate) async fn catch_up(&mut self) {
        if self.listener.is_none() {
            return;
        }
        let listens_from = self.listens_from;
        let state = self.session().await.state().await.unwrap();
        let ended: Vec<_> = state.ended.iter().map(|end| end.turn).filter(|turn| *turn > listens_from).collect();
        self.until("the end of the turns that have ended", |events| {
            let is_shown = |turn: &Seq| {
                let is_end = |event: &Event| matches!(event.kind, EventKind::TurnFinished { .. });
                events.iter().any(|event| event.turn == Some(*turn) && is_end(event))
            };
            ended.iter().all(is_shown)
        })
        .await;
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
        tape::lines(&self.store(), id.as_str())
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
        if passed {
            tape::replay(self.folder.path());
        }
        if passed && is_idle {
            tape::check_pairs(&lines.unwrap_or_default());
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for path in &self.protected {
            let _ = Command::new("chattr").arg("-i").arg(path).status();
        }
    }
}

/// Waits with patience until something is so that no event tells of: what a foreign process does, what a task let go of.
pub(crate) async fn seen(what: &str, is_so: impl Fn() -> bool) {
    let seen = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    within(what, seen).await;
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
