//! [`AcpOptions`]: what a host says about its editors: how sessions are made, what a client may choose, and the bounds.
//!
//! Values and functions of the host. Without [`AcpOptions::new_session`] no client makes a session.

use std::{
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
};

use tamtam::{
    ModelRef, SessionOptions,
    permission::{Profile, Ruleset},
};

use crate::unsaved::UnsavedFiles;

type NewSession = dyn Fn(&Path) -> Result<SessionOptions, String> + Send + Sync;
type Rights = dyn Fn(&Path, Profile) -> Result<Vec<Ruleset>, String> + Send + Sync;
type Offered = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;
type ToolServers = dyn Fn(Vec<HandedServer>) -> Offered + Send + Sync;

/// What a host says about its editors.
#[derive(Clone)]
#[non_exhaustive]
pub struct AcpOptions {
    /// The longest line that a client may send, in bytes: 24 MiB by default, which holds the largest message with its files. A
    /// longer one is refused, and the next line is read.
    pub line_bytes_max: usize,
    /// How many requests of a client may be open: 64 by default. Further ones are refused.
    pub requests_max: usize,
    /// How many sessions a client may hold: 32 by default. Further ones are refused until one is closed.
    pub sessions_max: usize,
    /// The models that a client may choose, beside that of its session.
    pub models: Vec<ModelRef>,
    pub(crate) new_session: Option<Arc<NewSession>>,
    pub(crate) rights: Option<Arc<Rights>>,
    pub(crate) tool_servers: Option<Arc<ToolServers>>,
    pub(crate) unsaved: UnsavedFiles,
    pub(crate) no_key: Option<String>,
}

/// A program that a client names as a server of tools (MCP, over its standard input and output).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandedServer {
    /// Its name, as the client says.
    pub name: String,
    /// The program.
    pub command: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables that it gets beside those that the host gives it.
    pub environment: Vec<(String, String)>,
    /// The folder of the session.
    pub folder: PathBuf,
}

impl Default for AcpOptions {
    fn default() -> AcpOptions {
        AcpOptions {
            line_bytes_max: 24 << 20,
            requests_max: 64,
            sessions_max: 32,
            models: Vec::new(),
            new_session: None,
            rights: None,
            tool_servers: None,
            unsaved: UnsavedFiles::new(),
            no_key: None,
        }
    }
}

impl std::fmt::Debug for AcpOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AcpOptions").field("models", &self.models).finish_non_exhaustive()
    }
}

impl AcpOptions {
    /// How a session in a folder is made; the text of an error is what the client is told. It is called on a thread for blocking
    /// work. Set [`SessionOptions::asks_wait`] where a client may come back later than its question.
    #[must_use]
    pub fn new_session(self, make: impl Fn(&Path) -> Result<SessionOptions, String> + Send + Sync + 'static) -> Self {
        AcpOptions { new_session: Some(Arc::new(make)), ..self }
    }

    /// The rules of a session in a folder under a profile, for a client that chooses one; without it, a client chooses none.
    #[must_use]
    pub fn rights(
        self,
        rights: impl Fn(&Path, Profile) -> Result<Vec<Ruleset>, String> + Send + Sync + 'static,
    ) -> Self {
        AcpOptions { rights: Some(Arc::new(rights)), ..self }
    }

    /// Nothing can be done before a person has set a key: every request about a session is answered with this text, under the code by
    /// which an editor asks its user to authenticate.
    #[must_use]
    pub fn no_key(self, why: impl Into<String>) -> Self {
        AcpOptions { no_key: Some(why.into()), ..self }
    }

    /// Asks clients that show their files for what is not saved; the same hook is the runtime's.
    #[must_use]
    pub fn unsaved(self, unsaved: UnsavedFiles) -> Self {
        AcpOptions { unsaved, ..self }
    }

    /// Starts the servers of tools that a client names with a session, and offers their tools; without it, naming one is an error.
    /// The session is made, or opened, when the future is done.
    #[must_use]
    pub fn tool_servers<F>(self, offer: impl Fn(Vec<HandedServer>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        AcpOptions { tool_servers: Some(Arc::new(move |servers| Box::pin(offer(servers)))), ..self }
    }
}
