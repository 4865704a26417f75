//! The contract of a model: a request goes in, deltas come out as they arrive, and one answer at the end.
//!
//! A host implements [`Model`] to plug in its own provider. An implementation must not retry, wait between tries or keep a
//! conversation: the session decides about retries, and each request carries all that it needs.
//!
//! **Cancellation.** Dropping the future of [`Model::stream`] must end the request; the HTTP clients here close the connection, or
//! its HTTP/2 stream. The worker keeps the pieces that had arrived, because every piece that is shown passes through [`Deltas`]
//! first.
//!
//! **Failure.** A stream that ends before the provider has said that the answer is complete is an error, such as
//! [`ErrorKind::Truncated`], and never an answer.
//!
//! A *wire* is the client code for one provider's format: it renders requests and reads streams. The wires are behind features:
//! `openai` (Chat Completions and Responses), `anthropic` and `gemini`, each with what they share; `http` is all of them.
//!
//! A change must keep this: no public signature names a type of the HTTP crate, and nothing in this room knows an actor or reads
//! the environment.

mod answer_schema;
mod arguments;
mod assembly;
mod error;
pub(crate) mod estimate;
pub(crate) mod governor;
mod halves;
pub(crate) mod price;
mod request;
pub(crate) mod scripted;
mod secret;
mod steers;

#[cfg(feature = "anthropic")]
mod anthropic;
#[cfg(any(feature = "openai", feature = "gemini"))]
mod attached;
#[cfg(feature = "_wire")]
mod body;
#[cfg(feature = "_wire")]
mod catalogue;
#[cfg(all(test, feature = "openai", feature = "anthropic", feature = "gemini"))]
mod costs;
#[cfg(any(feature = "openai", feature = "gemini"))]
mod counted;
#[cfg(all(test, feature = "http"))]
mod crossing;
#[cfg(feature = "_wire")]
mod endpoint;
#[cfg(feature = "_wire")]
mod failure;
#[cfg(feature = "gemini")]
mod gemini;
#[cfg(feature = "_wire")]
mod http;
#[cfg(feature = "_wire")]
mod image;
#[cfg(feature = "openai")]
mod openai;
#[cfg(feature = "_wire")]
mod pairs;
#[cfg(feature = "_wire")]
mod pieces;
#[cfg(feature = "_wire")]
mod redact;
#[cfg(feature = "openai")]
mod responses;
#[cfg(feature = "_wire")]
mod router;
#[cfg(all(test, feature = "_wire"))]
pub(crate) mod samples;
#[cfg(feature = "_wire")]
mod schema;
#[cfg(feature = "_wire")]
pub(crate) mod sse;
mod thinking;
#[cfg(feature = "_wire")]
mod wire;

use std::{future::Future, pin::Pin, sync::Arc};

use serde::Deserialize;

pub(crate) use answer_schema::json_of;
pub use answer_schema::{AnswerSchema, BadAnswerSchema};
pub(crate) use arguments::object;
pub(crate) use assembly::CALLS_MAX;
pub use error::{ErrorKind, ModelError, RetryClass};
pub use governor::{GovernedBy, RateLimits};
pub use price::{KnownPrice, PRICES, Price, Prices, known_price};
pub use request::{
    AnswerPart, Dropped, History, Item, ModelAnswer, Params, Request, ToolResultItem, ToolSpec, UserItem,
};
pub(crate) use request::{bound_parts, fault};
pub use scripted::{BadScript, Barrier, REQUESTS_MAX, Reply, ScriptBy, Scripted, transcript};
pub use secret::Secret;
pub use steers::{Steered, Steers};
pub use thinking::{BadThinking, Thinking, known_thinking};

#[cfg(feature = "_wire")]
pub use {
    catalogue::{KnownProvider, PROVIDERS, known_limits},
    endpoint::{
        AnswerField, Api, Endpoint, HttpOptions, MaxTokensField, Proxies, Quirks, ReasoningBack, SchemaDialect,
        ThinkingField,
    },
    http::{Addresses, Exchanges, HttpAnswer, HttpClient, HttpEvent, HttpModel, HttpRequest},
    router::{Provider, Router},
};

#[cfg(feature = "web-fetch")]
pub(crate) use http::PageUrl;
#[cfg(feature = "anthropic")]
pub use router::anthropic;
#[cfg(feature = "gemini")]
pub use router::gemini;
#[cfg(feature = "openai")]
pub use router::{compatible, ollama, openai};

pub use crate::words::usage::{BadUsd, Cost, MicroUsd, PicoUsd, ShownCost, Usage};

use crate::words::message::ModelRef;

/// A future on the heap that may be sent to another thread.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The bounds of a model's requests and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ModelLimits {
    /// Tokens of one request and its answer together.
    pub context: u64,
    /// Tokens of one answer.
    pub output: u64,
    /// Whether images may be sent. If not, a line that names the image replaces it.
    pub images: bool,
}

impl Default for ModelLimits {
    fn default() -> Self {
        // The limits of the smallest of the current models that can call tools.
        ModelLimits { context: 128_000, output: 8_192, images: true }
    }
}

/// A model that answers requests. Shared by all sessions that use it.
pub trait Model: Send + Sync + 'static {
    /// The name of the provider and the model.
    fn id(&self) -> &ModelRef;

    /// The bounds of its requests and answers. Must answer at once, without I/O.
    fn limits(&self) -> ModelLimits {
        ModelLimits::default()
    }

    /// The price of its tokens; `None` if it is not known. Must answer at once, without I/O.
    fn price(&self) -> Option<Price> {
        None
    }

    /// The governor that its requests go through, with those of all models that say the same; `None`, as by default, for a model whose
    /// provider limits nothing. Asked before each request; must answer at once, without I/O.
    ///
    /// A governed request waits for its turn before [`Model::stream`] is called.
    fn governed_by(&self) -> Option<GovernedBy> {
        None
    }

    /// Makes one request and reads its answer to the end.
    ///
    /// Hands each piece to `deltas` as soon as it arrives. The answer holds all pieces again, complete. Dropping the future must
    /// end the request. A panic counts as [`ErrorKind::Crashed`].
    fn stream<'a>(
        &'a self,
        request: &'a Request,
        deltas: &'a mut dyn Deltas,
    ) -> BoxFuture<'a, Result<ModelAnswer, ModelError>>;
}

/// Finds a model by its name, for messages and settings that name one.
///
/// [`Models::find_for`], [`Models::find`] and [`Models::renew_key`] are called from a worker, never from a session's handler. The other two
/// methods are called from the handler, so they must answer at once: one that hangs costs its session and a thread, and on a tokio runtime of one thread it blocks
/// everything. A runtime asks them once for each name and keeps the answers, but asks again after a panic.
pub trait Models: Send + Sync + 'static {
    /// The model of that name, or why there is none (unknown provider, missing key).
    fn find(&self, name: &ModelRef) -> Result<Arc<dyn Model>, ModelError>;

    /// The model of that name for this request: for one that depends on the session and its labels, such as a tenant's key. By default
    /// [`Models::find`]. Asked for each try of a request, so give the same client again: one made anew each time keeps no connection.
    ///
    /// ```
    /// # use std::{collections::HashMap, sync::Arc};
    /// use tamtam::{ModelRef, model::{ErrorKind, Model, ModelError, Models, Request}};
    ///
    /// /// A model with its own key for each tenant.
    /// struct Tenants(HashMap<String, Arc<dyn Models>>);
    ///
    /// impl Models for Tenants {
    ///     fn find(&self, name: &ModelRef) -> Result<Arc<dyn Model>, ModelError> {
    ///         Err(ModelError::new(ErrorKind::NotFound, format!("{name} is there for tenants alone")))
    ///     }
    ///
    ///     fn find_for(&self, name: &ModelRef, request: &Request) -> Result<Arc<dyn Model>, ModelError> {
    ///         let own = request.labels.get("tenant").and_then(|tenant| self.0.get(tenant));
    ///         own.map_or_else(|| self.find(name), |own| own.find(name))
    ///     }
    /// }
    /// # let _ = Tenants(HashMap::new());
    /// ```
    fn find_for(&self, name: &ModelRef, request: &Request) -> Result<Arc<dyn Model>, ModelError> {
        let _ = request;
        self.find(name)
    }

    /// Gets another key for a request whose key was refused ([`ErrorKind::Auth`]), and says whether there is one. By default there is
    /// none.
    ///
    /// For keys that expire, and asked after every failure of that kind: 401, 402 and 403, an account without money, and an error of
    /// [`Models::find_for`] itself. Where there is another key, [`Models::find_for`] is asked anew, and the session makes the request once more and
    /// without a wait; the tape has both. A step renews once for each model: if the new key is refused too, the request has failed.
    /// Called from a worker, which waits for 30 s at most, and drops the future when the request is cut off. A panic or a longer wait
    /// is no key. Several sessions may ask at once.
    fn renew_key<'a>(&'a self, name: &'a ModelRef, request: &'a Request) -> BoxFuture<'a, bool> {
        let _ = (name, request);
        Box::pin(std::future::ready(false))
    }

    /// The bounds of the model of that name. Must answer at once, without I/O; the default where nothing is known.
    ///
    /// A session needs it before each step, so that a context is compacted before a provider refuses it.
    fn limits_of(&self, name: &ModelRef) -> ModelLimits {
        let _ = name;
        ModelLimits::default()
    }

    /// The price of that model's tokens; `None` if it is not known. Must answer at once, without I/O.
    ///
    /// The entry of each request keeps it.
    fn price_of(&self, name: &ModelRef) -> Option<Price> {
        let _ = name;
        None
    }
}

/// A piece of an answer, as it arrives. Provisional: only the [`ModelAnswer`] counts.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Delta {
    /// More text.
    Text(String),
    /// The model begins to think.
    ReasoningStarted,
    /// More of the thought.
    Reasoning(String),
    /// The thought is complete.
    ReasoningEnded,
    /// The model begins to write a call; its arguments follow.
    CallPending {
        /// Position among the calls of this answer, from 0.
        index: u32,
        /// The id that the model gave to it.
        id: crate::words::ids::CallId,
        /// The name of the tool.
        name: String,
    },
    /// More of the arguments of a call. For display only: arguments are used when they are complete.
    CallInput {
        /// Position among the calls of this answer, from 0.
        index: u32,
        /// More of the JSON text.
        text: String,
    },
}

/// Takes the pieces of an answer.
pub trait Deltas: Send {
    /// Takes the status and the headers of the answer, which its model may say as soon as they are there: a governor reads from them
    /// what the provider lets go further. `header` finds one by its name in lower case. By default nothing is done with them.
    fn head(&mut self, status: u16, header: &dyn Fn(&str) -> Option<String>) {
        let _ = (status, header);
    }

    /// Takes one piece. Must not block: the model calls it while it reads the stream.
    fn delta(&mut self, delta: Delta);
}

impl<F: FnMut(Delta) + Send> Deltas for F {
    fn delta(&mut self, delta: Delta) {
        self(delta);
    }
}
