//! What a host decides about its server: who may see what, how new sessions are made, and the limits.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use axum::http::{Extensions, HeaderMap, Method};
use schemars::JsonSchema;
use serde::Deserialize;
use tamtam::{
    SessionOptions,
    session::{Fallback, Labels},
};

use crate::wire::{NewBudget, NewMessage, NewParams, object};

/// What a request may see and make.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scope {
    /// All sessions, and the levers of the whole runtime: an operator.
    All,
    /// Sessions that have all of these labels: a tenant. Every session that such a request makes gets them. A session without them
    /// does not exist for it, on no route. Empty labels show every session, and still neither drain the runtime nor raise budgets.
    Labels(Labels),
}

/// Why a request is refused by [`ServerOptions::authorize`] or [`ServerOptions::new_session`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Denied {
    /// It does not say who asks, or says it wrongly: 401.
    Unauthorized,
    /// Who asks may not: 403, with this sentence.
    Forbidden(String),
    /// What is asked for cannot be, whoever asks: 422, with this sentence.
    Invalid(String),
}

/// What is known of a request before it is read.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RequestInfo<'a> {
    /// Its method.
    pub method: &'a Method,
    /// Its path, without what the router is nested under.
    pub path: &'a str,
    /// Its headers.
    pub headers: &'a HeaderMap,
    /// What the host's own layers put there, such as a verified user.
    pub extensions: &'a Extensions,
}

/// A session that a client wants to make: the body of `POST /v1/sessions`. [`ServerOptions::new_session`] decides what of it counts.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct NewSession {
    /// Its id; a new one if none is given. The same id again means the same session.
    pub id: Option<String>,
    /// Its title.
    pub title: Option<String>,
    /// Its labels, besides those of the client's scope.
    pub labels: BTreeMap<String, String>,
    /// The name of its agent.
    pub agent: Option<String>,
    /// Its model, as `provider/model`.
    pub model: Option<String>,
    /// The models that go on with a turn where its model fails, each with the failures that it stands in for. Left out, those of its
    /// agent or of the host; none where it names a model.
    pub fallback: Vec<Fallback>,
    /// What is asked of its model.
    #[serde(deserialize_with = "object")]
    pub params: Option<NewParams>,
    /// Its system prompt.
    pub system: Option<String>,
    /// The only tools that it has.
    pub tools: Option<Vec<String>>,
    /// The most steps of a turn.
    pub steps_max: Option<u32>,
    /// Whether its asks wait where nobody listens.
    pub asks_wait: Option<bool>,
    /// The folder that it works in.
    pub workspace: Option<PathBuf>,
    /// The name of its permission profile.
    pub profile: Option<String>,
    /// What it may use.
    #[serde(deserialize_with = "object")]
    pub budget: Option<NewBudget>,
    /// The first message.
    #[serde(deserialize_with = "object")]
    pub prompt: Option<NewMessage>,
}

pub(crate) type Authorize = dyn Fn(&RequestInfo<'_>) -> Result<Scope, Denied> + Send + Sync;
pub(crate) type ShowsAgent = dyn Fn(&Scope, &str) -> bool + Send + Sync;
pub(crate) type MakeOptions = dyn Fn(&NewSession, &Scope) -> Result<SessionOptions, Denied> + Send + Sync;

/// The options of a server. The defaults refuse what they do not know: names of the loopback only, no foreign origin, no folder of
/// a client's choice.
#[derive(Clone)]
#[non_exhaustive]
pub struct ServerOptions {
    pub(crate) token: Option<Secret>,
    pub(crate) hosts: Vec<String>,
    pub(crate) origins: Vec<String>,
    pub(crate) authorize: Option<Arc<Authorize>>,
    pub(crate) new_session: Arc<MakeOptions>,
    pub(crate) shows_agent: Arc<ShowsAgent>,
    pub(crate) models: Vec<String>,
    /// Whether clients may crash a session's actor on purpose (`POST /v1/actors/{id}/crash`): not by default.
    pub drills: bool,
    /// The most bytes of a request's body: 1 MiB.
    pub body_bytes_max: usize,
    /// How long a body may take to come: 30 s.
    pub body_time_max: Duration,
    /// How long the header of a request may take to come: 10 s. For [`serve`](crate::serve).
    pub header_time_max: Duration,
    /// How long a client may read nothing while something waits for it: 30 s. For [`serve`](crate::serve).
    pub stall_time_max: Duration,
    /// The most connections at a time: 2,048. For [`serve`](crate::serve).
    pub connections_max: usize,
    /// The most event streams at a time: 1,024.
    pub subscribers_max: usize,
    /// How often an event stream says that it lives: every 15 s.
    pub beat: Duration,
    /// The shortest time between two frames of the tree's stream: 500 ms.
    pub tree_interval: Duration,
    /// How long a drain lets running turns go on: 10 s.
    pub drain_time_max: Duration,
}

/// A token's hash: the token itself is not kept.
#[derive(Clone, Copy)]
pub(crate) struct Secret(pub(crate) blake3::Hash);

impl Default for ServerOptions {
    fn default() -> ServerOptions {
        ServerOptions {
            token: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            authorize: None,
            new_session: Arc::new(|_, _| Err(Denied::Forbidden("this server makes no sessions".into()))),
            shows_agent: Arc::new(|_, _| true),
            models: Vec::new(),
            drills: false,
            body_bytes_max: 1 << 20,
            body_time_max: Duration::from_secs(30),
            header_time_max: Duration::from_secs(10),
            stall_time_max: Duration::from_secs(30),
            connections_max: 2_048,
            subscribers_max: 1_024,
            beat: Duration::from_secs(15),
            tree_interval: Duration::from_millis(500),
            drain_time_max: Duration::from_secs(10),
        }
    }
}

impl ServerOptions {
    /// Options of a server whose new sessions work in this folder. A client chooses title, labels, agent, model, fallback, params and prompt
    /// of them; what could widen rights or spending (`workspace`, `profile`, `system`, `tools`, `steps_max`, `asks_wait`, `budget`)
    /// is refused. [`ServerOptions::new_session`] decides otherwise.
    #[must_use]
    pub fn new(workspace: impl Into<PathBuf>) -> ServerOptions {
        let workspace = workspace.into();
        ServerOptions::default().new_session(move |new, _| {
            new.only_words()?;
            let mut options = SessionOptions::new(&workspace);
            // A client may come back later than the question.
            options.asks_wait = true;
            Ok(options)
        })
    }

    /// A token that every request but those for the page and for health must have. `docs/HTTP.md` says how it is sent.
    #[must_use]
    pub fn token(mut self, token: impl AsRef<str>) -> ServerOptions {
        self.token = Some(Secret::of(token.as_ref()));
        self
    }

    /// A further name under which clients reach the server, without a port. Names of the loopback and addresses are always taken; any
    /// other is refused, because a page could make its own name mean this machine.
    #[must_use]
    pub fn host(mut self, name: impl Into<String>) -> ServerOptions {
        self.hosts.push(name.into().to_ascii_lowercase());
        self
    }

    /// A further origin whose pages may send requests, such as `https://app.example`. The server's own is always taken. The server
    /// sends no CORS headers: a host that wants them adds its layer.
    #[must_use]
    pub fn origin(mut self, origin: impl Into<String>) -> ServerOptions {
        self.origins.push(origin.into().to_ascii_lowercase());
        self
    }

    /// Decides for each request what it may see. It runs after the checks of host, origin and token, on the thread of the request:
    /// it must not block. Without it, a request may see all.
    ///
    /// ```
    /// use tamtam::session::Labels;
    /// use tamtam_server::{Denied, Scope, ServerOptions};
    ///
    /// let options = ServerOptions::new("/srv/work").authorize(|request| {
    ///     let tenant = request.headers.get("x-tenant").and_then(|name| name.to_str().ok()).ok_or(Denied::Unauthorized)?;
    ///     let labels = Labels::new([("tenant", tenant)]).map_err(|bad| Denied::Forbidden(bad.to_string()))?;
    ///     Ok(Scope::Labels(labels))
    /// });
    /// ```
    #[must_use]
    pub fn authorize(
        mut self,
        decide: impl Fn(&RequestInfo<'_>) -> Result<Scope, Denied> + Send + Sync + 'static,
    ) -> ServerOptions {
        self.authorize = Some(Arc::new(decide));
        self
    }

    /// Makes the options of a new session. The server then sets what the client chose of `id`, `title`, `labels`, `agent`, `model`,
    /// `fallback` and `params`, and the labels of the scope; everything else of [`NewSession`] counts only where this function uses it.
    #[must_use]
    pub fn new_session(
        mut self,
        make: impl Fn(&NewSession, &Scope) -> Result<SessionOptions, Denied> + Send + Sync + 'static,
    ) -> ServerOptions {
        self.new_session = Arc::new(make);
        self
    }

    /// Decides which agents a request may see and choose for a session or a message, by their names; all of them by default. Any other
    /// agent does not exist for its scope. A line of the client's ([commands](tamtam::Session::command)) may name any agent. What a model may give tasks to, the rules of its session decide (`task`).
    #[must_use]
    pub fn shows_agent(mut self, shows: impl Fn(&Scope, &str) -> bool + Send + Sync + 'static) -> ServerOptions {
        self.shows_agent = Arc::new(shows);
        self
    }

    /// The models that `GET /v1/models` lists, as `provider/model`.
    #[must_use]
    pub fn models(mut self, models: impl IntoIterator<Item = impl Into<String>>) -> ServerOptions {
        self.models = models.into_iter().map(Into::into).collect();
        self
    }
}

impl std::fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerOptions")
            .field("needs_token", &self.token.is_some())
            .field("hosts", &self.hosts)
            .finish_non_exhaustive()
    }
}

impl NewSession {
    /// Refuses what could widen rights or spending.
    ///
    /// # Errors
    /// [`Denied::Forbidden`] names the first field.
    pub fn only_words(&self) -> Result<(), Denied> {
        let refused = [
            ("workspace", self.workspace.is_some()),
            ("profile", self.profile.is_some()),
            ("system", self.system.is_some()),
            ("tools", self.tools.is_some()),
            ("steps_max", self.steps_max.is_some()),
            ("asks_wait", self.asks_wait.is_some()),
            ("budget", self.budget.is_some()),
        ];
        match refused.into_iter().find(|(_, is_given)| *is_given) {
            Some((field, _)) => Err(Denied::Forbidden(format!("a client may not choose `{field}` here"))),
            None => Ok(()),
        }
    }
}

impl Secret {
    pub(crate) fn of(token: &str) -> Secret {
        Secret(blake3::hash(token.as_bytes()))
    }

    /// Whether this is the token. Takes the same time wherever the two differ.
    pub(crate) fn is(&self, token: &str) -> bool {
        blake3::hash(token.as_bytes()) == self.0
    }

    /// What a cookie holds in the place of the token: of no use without it elsewhere, and not turned back into it.
    pub(crate) fn cookie(&self) -> String {
        blake3::derive_key("tamtam-server cookie v1", self.0.as_bytes())
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}
