//! A model, as the runtime sees one: a request goes in, deltas come out as they arrive, and one answer at the end.
//!
//! The trait is all that a host needs to plug in a provider of its own. An implementation never retries, never waits between
//! tries and never keeps a conversation: the session decides about retries, and each request carries all that it needs.
//!
//! **Cancellation.** Dropping the future of [`Model::stream`] closes the connection. What had arrived by then is kept by the
//! worker that drives it, because every piece passed through [`Deltas`] first.
//!
//! **Failure.** A stream that ends without the provider's own end mark is [`ErrorKind::Truncated`], never an answer.

mod assembly;
mod error;
pub(crate) mod price;
mod request;
pub(crate) mod scripted;
mod secret;

#[cfg(feature = "http")]
mod anthropic;
#[cfg(feature = "http")]
mod body;
#[cfg(feature = "http")]
mod catalogue;
#[cfg(all(test, feature = "http"))]
mod crossing;
#[cfg(feature = "http")]
mod endpoint;
#[cfg(feature = "http")]
mod failure;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "http")]
mod openai;
#[cfg(feature = "http")]
mod pairs;
#[cfg(feature = "http")]
mod pieces;
#[cfg(feature = "http")]
mod redact;
#[cfg(feature = "http")]
mod router;
#[cfg(all(test, feature = "http"))]
pub(crate) mod samples;
#[cfg(feature = "http")]
mod schema;
#[cfg(feature = "http")]
pub(crate) mod sse;
#[cfg(feature = "http")]
mod wire;

use std::{future::Future, pin::Pin, sync::Arc};

use serde::Deserialize;

pub use error::{ErrorKind, ModelError, RetryClass};
pub use price::{KnownPrice, PRICES, Price, Prices, known_price};
pub use request::{Answer, AnswerPart, History, Item, Params, Request, ToolResultItem, ToolSpec, UserItem};
pub use scripted::{BadScript, Barrier, By, REQUESTS_MAX, Reply, Scripted, transcript};
pub use secret::Secret;

#[cfg(feature = "http")]
pub use {
    catalogue::{KnownProvider, PROVIDERS, known_limits},
    endpoint::{Api, Endpoint, HttpOptions, MaxTokensField, Quirks, ReasoningBack, SchemaDialect},
    http::{HttpClient, HttpModel},
    router::{Provider, Router},
};

pub use crate::words::usage::{BadUsd, Cost, MicroUsd, PicoUsd, ShownCost, Usage};

use crate::words::message::ModelRef;

/// A future on the heap that may be sent to another thread.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a model can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ModelLimits {
    /// Tokens of one request and its answer together.
    pub context: u64,
    /// Tokens of one answer.
    pub output: u64,
    /// Whether images may be sent. Where not, each is replaced by a line that names it.
    pub images: bool,
}

impl Default for ModelLimits {
    fn default() -> Self {
        // What the smallest of the current tool-capable models take.
        ModelLimits { context: 128_000, output: 8_192, images: true }
    }
}

/// Where a model request is answered.
pub trait Model: Send + Sync + 'static {
    /// Which provider and model.
    fn id(&self) -> &ModelRef;

    /// What it can take.
    fn limits(&self) -> ModelLimits {
        ModelLimits::default()
    }

    /// What its tokens cost; `None` where that is not known.
    fn price(&self) -> Option<Price> {
        None
    }

    /// Makes one request and reads its answer to the end.
    ///
    /// Each piece is handed to `deltas` as soon as it is there; the answer repeats them, complete.
    fn stream<'a>(
        &'a self,
        request: &'a Request,
        deltas: &'a mut dyn Deltas,
    ) -> BoxFuture<'a, Result<Answer, ModelError>>;
}

/// Finds a model by its name, for messages and settings that name one.
///
/// Called from a worker, never from the session's handler.
pub trait Models: Send + Sync + 'static {
    /// The model of that name, or why it cannot be had (unknown provider, missing key).
    fn find(&self, name: &ModelRef) -> Result<Arc<dyn Model>, ModelError>;

    /// What the model of that name can take. Answers at once, from what is known; the default where nothing is.
    ///
    /// Called from the session's handler before each step, so that a context is made smaller before it is refused.
    fn limits_of(&self, name: &ModelRef) -> ModelLimits {
        let _ = name;
        ModelLimits::default()
    }

    /// What the tokens of that model cost; `None` where that is not known. Answers at once, and the same for one runtime.
    ///
    /// Called from the session's handler before each request, whose entry keeps the answer.
    fn price_of(&self, name: &ModelRef) -> Option<Price> {
        let _ = name;
        None
    }
}

/// A piece of an answer, as it arrives. Provisional: what counts is the [`Answer`].
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
        /// Which tool.
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

/// Where the pieces of an answer go.
pub trait Deltas: Send {
    /// Takes one piece. Never waits.
    fn delta(&mut self, delta: Delta);
}

impl<F: FnMut(Delta) + Send> Deltas for F {
    fn delta(&mut self, delta: Delta) {
        self(delta);
    }
}
