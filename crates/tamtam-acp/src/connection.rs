//! [`Connection`]: one client, its requests and the sessions that it holds.
//!
//! Each request is a task of its own, so that no request waits for another; their number is bounded. A request that panics is
//! answered as failed and harms nothing else. `session/cancel` and `$/cancel_request` reach a request from the moment in which its
//! line was read, before anything else is done with it.

use std::{
    collections::{BTreeMap, HashMap},
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use tamtam::{Runtime, SessionId};
use tokio::{
    sync::{oneshot, watch},
    task::JoinSet,
};

use crate::{
    asks::Answers,
    extensions::{self, EXTENSIONS},
    held::{Cancelling, Held},
    options::AcpOptions,
    peer::{Gone, Peer},
    prompt,
    rpc::{Fault, Incoming, params},
    sessions, settings,
    updates::Shows,
};

/// The version of the protocol.
const VERSION: u64 = 1;

/// The requests that a cancel ends at once, beside prompts: they record nothing. Any other is carried out, and its answer says what
/// was done.
const ENDS_AT_CANCEL: [&str; 5] = ["session/load", "session/resume", "session/list", "_tamtam/queue", "_tamtam/tree"];

/// What a request is answered with, and what begins once the answer is on its way.
pub(crate) struct Done {
    pub(crate) result: Value,
    pub(crate) then: Option<oneshot::Sender<()>>,
}

impl From<Value> for Done {
    fn from(result: Value) -> Done {
        Done { result, then: None }
    }
}

impl From<Gone> for Fault {
    fn from(_: Gone) -> Fault {
        Fault::failed("the client is gone")
    }
}

/// What a client has said of itself.
#[derive(Debug, Default)]
struct Client {
    name: String,
    shows: Shows,
    has_forms: bool,
    /// Whether it gives the text of files.
    has_files: bool,
}

/// A request without an answer.
struct Open {
    /// The session of a prompt or a steering message; `None` for other requests.
    prompt_of: Option<String>,
    /// Whether a cancel of this request alone does nothing.
    is_carried_out: bool,
    stop: watch::Sender<bool>,
    /// Of a prompt that is stopped: what is sent behind it waits until it is answered.
    _stopping: Option<Cancelling>,
}

pub(crate) struct Connection {
    pub(crate) runtime: Runtime,
    pub(crate) options: Arc<AcpOptions>,
    pub(crate) peer: Peer,
    client: OnceLock<Client>,
    held: Mutex<BTreeMap<SessionId, Arc<Held>>>,
    /// By their ids, as JSON.
    open: Mutex<HashMap<String, Open>>,
}

impl Connection {
    pub(crate) fn new(runtime: Runtime, options: AcpOptions, peer: Peer) -> Connection {
        Connection {
            runtime,
            options: Arc::new(options),
            peer,
            client: OnceLock::new(),
            held: Mutex::default(),
            open: Mutex::default(),
        }
    }

    /// A session that the client holds.
    pub(crate) fn held(&self, id: &SessionId) -> Result<Arc<Held>, Fault> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
        held.ok_or_else(|| Fault::not_found(format!("the session {id} is not open here: load it first")))
    }

    /// Whether one more session may be held.
    pub(crate) fn has_room(&self) -> Result<(), Fault> {
        self.room_among(&self.held.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn room_among(&self, held: &BTreeMap<SessionId, Arc<Held>>) -> Result<(), Fault> {
        let max = self.options.sessions_max;
        if held.len() < max {
            return Ok(());
        }
        Err(Fault::failed(format!("{max} sessions are open here, which is the most: close one")).kind("limit"))
    }

    pub(crate) fn hold(&self, id: SessionId, workspace: &str, held: Held) -> Result<(), Fault> {
        let mut all = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        // Asked again, because others may have come in between.
        if !all.contains_key(&id) {
            self.room_among(&all)?;
        }
        if self.client.get().is_some_and(|client| client.has_files) {
            self.options.unsaved.add(&id, workspace, &self.peer);
        }
        if let Some(before) = all.insert(id, Arc::new(held)) {
            before.end();
        }
        Ok(())
    }

    pub(crate) fn let_go(&self, id: &SessionId) {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        held.iter().for_each(|held| held.end());
        self.options.unsaved.remove(id, &self.peer);
    }

    /// Lets all sessions go: the client is gone.
    pub(crate) fn end(&self) {
        let held = std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner));
        held.iter().for_each(|(id, held)| {
            held.end();
            self.options.unsaved.remove(id, &self.peer);
        });
    }

    pub(crate) fn shows(&self) -> Shows {
        self.client.get().map(|client| client.shows).unwrap_or_default()
    }

    pub(crate) fn client_name(&self) -> &str {
        self.client.get().map_or("the editor", |client| &client.name)
    }

    pub(crate) fn answers(&self) -> Answers {
        let has_forms = self.client.get().is_some_and(|client| client.has_forms);
        Answers { peer: self.peer.clone(), who: self.client_name().to_owned(), has_forms }
    }

    pub(crate) async fn tell_update(&self, session: &SessionId, update: Value) -> Result<(), Gone> {
        self.peer.tell("session/update", json!({ "sessionId": session, "update": update })).await
    }

    /// Takes one message of the client. What takes time is a task of `tasks`.
    pub(crate) async fn take(self: &Arc<Self>, message: Incoming, tasks: &mut JoinSet<()>) -> Result<(), Gone> {
        match message {
            Incoming::Request { id, method, params } => {
                let is_steering = method == "_session/steering";
                let prompt_of = prompt::session_of(&params).filter(|_| is_steering || method == "session/prompt");
                match self.opened(&id, prompt_of, is_steering) {
                    Ok(stop) => drop(tasks.spawn(self.clone().carry_out(id, method, params, stop))),
                    Err(fault) => self.peer.answer(id, Err(fault)).await?,
                }
            }
            Incoming::Notification { method, params } => match method.as_str() {
                "session/cancel" => {
                    if let Some(session) = prompt::session_of(&params) {
                        self.stop_prompts(&session);
                    }
                    if let Some(rest) = prompt::cancel(self, &params).await {
                        tasks.spawn(rest);
                    }
                }
                "$/cancel_request" => {
                    let meant = params["requestId"].to_string();
                    self.stop(|id, open| *id == meant && !open.is_carried_out);
                }
                // A client of another version may tell more.
                _ => {}
            },
            Incoming::Answer { id, result } => self.peer.answered(&id, result),
        }
        Ok(())
    }

    fn opened(
        &self,
        id: &Value,
        prompt_of: Option<String>,
        is_carried_out: bool,
    ) -> Result<watch::Receiver<bool>, Fault> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let max = self.options.requests_max;
        if open.len() >= max {
            let why = format!("{max} requests are open, which is the most: wait for an answer");
            return Err(Fault::failed(why).kind("limit"));
        }
        if open.contains_key(&id.to_string()) {
            return Err(Fault::no_request("a request of this id is open"));
        }
        let (stop, stopped) = watch::channel(false);
        open.insert(id.to_string(), Open { prompt_of, is_carried_out, stop, _stopping: None });
        Ok(stopped)
    }

    /// Stops the prompts of a session, also those that are on their way to it.
    pub(crate) fn stop_prompts(&self, session: &str) {
        self.stop(|_, open| open.prompt_of.as_deref() == Some(session));
    }

    fn stop(&self, is_meant: impl Fn(&String, &Open) -> bool) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, open) in open.iter_mut().filter(|(id, open)| is_meant(id, open)) {
            if !open.stop.send_replace(true) {
                let held = open.prompt_of.as_deref().and_then(|id| self.held(&sessions::id(id).ok()?).ok());
                open._stopping = held.map(|held| held.cancels());
            }
        }
    }

    async fn carry_out(self: Arc<Self>, id: Value, method: String, given: Value, stop: watch::Receiver<bool>) {
        let answer = AssertUnwindSafe(self.answer(&method, given, stop)).catch_unwind().await;
        let answer = answer.unwrap_or_else(|_| Err(Fault::failed(format!("{method} crashed; nothing else is harmed"))));
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&id.to_string());
        let (answer, then) = match answer {
            Ok(Done { result, then }) => (Ok(result), then),
            Err(fault) => (Err(fault), None),
        };
        // The end of a client is seen where its lines are read.
        if self.peer.answer(id, answer).await.is_ok()
            && let Some(then) = then
        {
            let _ = then.send(());
        }
    }

    async fn answer(
        self: &Arc<Self>,
        method: &str,
        given: Value,
        mut stop: watch::Receiver<bool>,
    ) -> Result<Done, Fault> {
        if self.client.get().is_some() && self.options.no_key.is_none() {
            // These end in a way of their own.
            match method {
                "session/prompt" => return prompt::prompt(self, given, stop).await,
                "_session/steering" => return prompt::steer(self, given, stop).await,
                _ => {}
            }
        }
        if !ENDS_AT_CANCEL.contains(&method) {
            return self.answer_at_once(method, given).await;
        }
        tokio::select! {
            answer = self.answer_at_once(method, given) => answer,
            () = prompt::stopped(&mut stop) => Err(Fault::cancelled()),
        }
    }

    async fn answer_at_once(self: &Arc<Self>, method: &str, given: Value) -> Result<Done, Fault> {
        if method == "initialize" {
            return self.initialize(given).map(Done::from);
        }
        if self.client.get().is_none() {
            return Err(Fault::no_request("the first request is `initialize`"));
        }
        if let Some(why) = &self.options.no_key {
            return Err(Fault::no_key(why));
        }
        match method {
            "authenticate" => authenticate(given),
            "session/new" => sessions::new(self, given).await,
            "session/load" => sessions::load(self, given).await,
            "session/resume" => sessions::resume(self, given).await,
            "session/list" => sessions::list(self, given).await,
            "session/close" => sessions::close(self, given).await,
            "session/delete" => sessions::delete(self, given).await,
            "session/set_mode" => self.set_mode(given).await,
            "session/set_config_option" => self.set_option(given).await,
            _ => extensions::answer(self, method, given).await.unwrap_or_else(|| Err(Fault::no_method(method))),
        }
    }

    fn initialize(&self, given: Value) -> Result<Value, Fault> {
        let hello: Hello = params(given)?;
        let capabilities = &hello.client_capabilities;
        let client = Client {
            name: hello.client_info.map_or("the editor".to_owned(), |info| info.name.chars().take(100).collect()),
            shows: Shows {
                notices: capabilities["session"]["notices"].is_object(),
                compactions: capabilities["session"]["compaction"].is_object(),
            },
            has_forms: capabilities["elicitation"]["form"].is_object(),
            has_files: capabilities["fs"]["readTextFile"] == true,
        };
        if self.client.set(client).is_err() {
            return Err(Fault::no_request("the connection is initialized already"));
        }
        let extensions: Vec<_> = EXTENSIONS.iter().map(|(name, _)| name).collect();
        Ok(json!({
            // The client goes on, or leaves, by this.
            "protocolVersion": VERSION,
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": { "image": true, "audio": false, "embeddedContext": true },
                "mcpCapabilities": { "http": false, "sse": false },
                "sessionCapabilities": { "list": {}, "delete": {}, "resume": {}, "close": {} },
            },
            "authMethods": [{
                "id": AUTH, "name": "Keys of the environment",
                "description": "Set OPENAI_API_KEY, ANTHROPIC_API_KEY or their like where the editor starts the agent.",
            }],
            "agentInfo": { "name": "tamtam", "title": "Tamtam", "version": env!("CARGO_PKG_VERSION") },
            "_meta": {
                "steering": { "supported": true, "idlePromptRequired": true },
                "tamtam": { "extensions": extensions, "steering": ["skip_remaining", "finish_batch", "abort_running"] },
            },
        }))
    }

    async fn set_mode(&self, given: Value) -> Result<Done, Fault> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Wanted {
            session_id: String,
            mode_id: String,
        }
        let wanted: Wanted = params(given)?;
        let held = self.held(&sessions::id(&wanted.session_id)?)?;
        settings::set_mode(&held.session, &wanted.mode_id).await?;
        Ok(json!({}).into())
    }

    async fn set_option(&self, given: Value) -> Result<Done, Fault> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Wanted {
            session_id: String,
            config_id: String,
            value: Value,
        }
        let wanted: Wanted = params(given)?;
        let held = self.held(&sessions::id(&wanted.session_id)?)?;
        let value = wanted.value.as_str().ok_or_else(|| Fault::bad_params("value: it is a text"))?;
        settings::set(&held.session, &self.options, &wanted.config_id, value).await?;
        let state = held.session.state().await?;
        Ok(json!({ "configOptions": settings::options(&state, &self.runtime, &self.options) }).into())
    }
}

/// The one way to authenticate.
const AUTH: &str = "environment";

fn authenticate(given: Value) -> Result<Done, Fault> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Wanted {
        method_id: String,
    }
    let wanted: Wanted = params(given)?;
    match wanted.method_id == AUTH {
        // The keys were read when the agent was started.
        true => Ok(json!({}).into()),
        false => Err(Fault::bad_params(format!("methodId: the one there is is {AUTH:?}"))),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Hello {
    #[serde(rename = "protocolVersion")]
    _protocol_version: u64,
    #[serde(default)]
    client_capabilities: Value,
    client_info: Option<Info>,
}

#[derive(Deserialize)]
struct Info {
    name: String,
}
