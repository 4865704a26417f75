//! [`Servers`]: the servers of one runtime, as a host holds them.
//!
//! A value: it starts nothing until [`Servers::start_in`], and even then a server's process waits for its first use. It does not own
//! the runtime, and the runtime ends the servers when it ends.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::future::join_all;
use serde_json::json;
use tamtam::{
    Message, Runtime,
    model::HttpOptions,
    runtime::StartError,
    supervisor::AdminError,
    tool::{TOOL_SEARCH, Tool},
};
use tokio::sync::watch;

use crate::{
    config::{BadConfig, ServerConfig},
    life::{self, Means},
    offer::{Offered, Refused},
    references::{self, BadReference},
    search::ToolSearch,
    server::{Server, ServerFigures},
    tool::McpTool,
};

/// The servers of one runtime. Cheap to clone: all clones are the same servers.
#[derive(Clone)]
pub struct Servers {
    servers: Arc<[Arc<Server>]>,
    changes: watch::Sender<u64>,
    http: HttpOptions,
    /// How many tools, and how many bytes of them, are listed in each request.
    listed_max: (usize, usize),
    /// Whether the tool that searches is among those of the runtime by us.
    searches: Arc<AtomicBool>,
}

/// How many tools, and how many bytes of them, are listed in each request where the host sets nothing.
const LISTED_MAX: (usize, usize) = (64, 128 * 1024);

/// What a server answered when it was asked for its tools.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Listed {
    /// The server's name in the configuration.
    pub server: String,
    /// The names of the tools that it offers, as models see them.
    pub tools: Vec<String>,
    /// Its tools that are not offered, and why.
    pub refused: Vec<Refused>,
    /// Why there is no list: the server did not start, or said nothing in time.
    pub error: Option<String>,
}

impl std::fmt::Debug for Servers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.servers.iter().map(|server| &server.config.name)).finish()
    }
}

impl Servers {
    /// Servers of these configurations. Starts nothing.
    ///
    /// # Errors
    /// A name that is none, a name that comes twice, a configuration without a program.
    pub fn new(configs: impl IntoIterator<Item = ServerConfig>) -> Result<Servers, BadConfig> {
        let (changes, mut names, mut servers) = (watch::Sender::new(0), BTreeSet::new(), Vec::new());
        for config in configs {
            config.check()?;
            if !names.insert(config.name.to_lowercase()) {
                return Err(BadConfig::Twice { name: config.name });
            }
            servers.push(Arc::new(Server::new(config, changes.clone())));
        }
        Ok(Servers {
            servers: servers.into(),
            changes,
            http: HttpOptions::default(),
            listed_max: LISTED_MAX,
            searches: Arc::default(),
        })
    }

    /// Sets how servers at an address are reached: proxies, certificates, and the limit of making a connection. The other limits are
    /// those of the server's configuration. Acts on a start that comes after it.
    #[must_use]
    pub fn http_options(self, http: HttpOptions) -> Servers {
        Servers { http, ..self }
    }

    /// Sets how many tools of all servers together are listed in each request, and how many bytes of names, descriptions and schemas:
    /// 64 and 128 KiB by default. Beyond either, none is listed: the model finds them with the tool `tool_search`, and what a session
    /// has found is listed in it from then on, behind its other tools. One `Servers` of a runtime can do so.
    #[must_use]
    pub fn listed_max(self, tools: usize, bytes: usize) -> Servers {
        Servers { listed_max: (tools, bytes), ..self }
    }

    /// Puts an actor for each server under the runtime's [`tool_servers`](Runtime::tool_servers). No process starts yet.
    ///
    /// Dropping the future leaves those that are there; a second call then says that they are.
    ///
    /// # Errors
    /// [`AdminError`] if a child of that name is there already, or the runtime has ended.
    pub async fn start_in(&self, runtime: &Runtime) -> Result<(), AdminError> {
        let supervisor = runtime.tool_servers();
        let means = Means { processes: runtime.processes(), http: self.http.clone() };
        for server in &*self.servers {
            supervisor.start_child(life::child(server, &means)).await?;
        }
        Ok(())
    }

    /// Asks each server for its tools, all at once: starts those that sleep. Waits for each no longer than its
    /// [`start_limit`](ServerConfig::start_limit), and one wait of its supervisor.
    ///
    /// Dropping the future ends the wait; the starts go on.
    pub async fn list(&self) -> Vec<Listed> {
        join_all(self.servers.iter().map(listed)).await
    }

    /// The tools that are offered, as far as the servers have listed them, for [`Toolbox::new`](tamtam::tool::Toolbox::new); with the
    /// tool that finds them, if there are [many](Servers::listed_max).
    #[must_use]
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let offers: Vec<_> = self.servers.iter().filter_map(|server| Some((server, server.offer()?))).collect();
        let offered = || offers.iter().flat_map(|(server, offer)| offer.tools.iter().map(move |tool| (*server, tool)));
        let (count, bytes) = (offered().count(), offered().map(|(_, tool)| tool.bytes()).sum::<usize>());
        let deferred = count > self.listed_max.0 || bytes > self.listed_max.1;
        let tool = |(server, tool): (&Arc<Server>, &Offered)| -> Arc<dyn Tool> {
            Arc::new(McpTool::new(server.clone(), tool.clone(), deferred))
        };
        let mut tools: Vec<_> = offered().map(tool).collect();
        if deferred {
            let names: Vec<_> = self.servers.iter().map(|server| server.config.name.as_str()).collect();
            tools.push(Arc::new(ToolSearch::new(&names, offered().map(|(_, tool)| tool))));
        }
        tools
    }

    /// Offers the tools, as far as the servers have listed them, to all sessions of the runtime, in place of those that it had of
    /// these servers. A session has them from its next model request on.
    ///
    /// # Errors
    /// [`StartError::Tools`] if a model cannot be shown the set; the runtime then keeps the one that it has.
    pub fn offer(&self, runtime: &Runtime) -> Result<(), StartError> {
        let prefixes: Vec<_> = self.servers.iter().map(|server| format!("mcp_{}_", server.config.name)).collect();
        let had_search = self.searches.load(Ordering::Relaxed);
        let is_ours =
            |name: &str| prefixes.iter().any(|prefix| name.starts_with(prefix)) || (had_search && name == TOOL_SEARCH);
        let tools = self.tools();
        runtime.change_tools(|now| tools.iter().cloned().fold(now.without(is_ours), |all, tool| all.with(tool)))?;
        self.searches.store(tools.iter().any(|tool| tool.name() == TOOL_SEARCH), Ordering::Relaxed);
        Ok(())
    }

    /// Offers the tools again whenever a server has others, for as long as the future is polled. A set that a model cannot be shown
    /// is passed over.
    ///
    /// It never resolves. It may be dropped at any moment. While it exists, a clone of the runtime does: end the runtime with
    /// [`Runtime::shutdown`].
    pub async fn keep_offered(&self, runtime: &Runtime) {
        let mut changes = self.changes.subscribe();
        drop(self.offer(runtime));
        while changes.changed().await.is_ok() {
            drop(self.offer(runtime));
        }
    }

    /// A person's message with what it takes from the servers. Each resource that it names as `@SERVER:URI` follows as a part of its own,
    /// fenced: 8 at most, of 64 KiB each. A text that begins with `/mcp_SERVER_PROMPT` and `name=value` for its arguments is replaced by
    /// that prompt. A name of no server is a word like any other. Starts a server that sleeps.
    ///
    /// For the words of people: no rule of a session is asked whether a resource may be read. Dropping the future withdraws the requests.
    ///
    /// # Errors
    /// [`BadReference`] names what the server did not give, and why; nothing of the message should be sent then.
    pub async fn expanded(&self, message: Message) -> Result<Message, BadReference> {
        let find = |name: &str| self.servers.iter().find(|server| server.config.name.eq_ignore_ascii_case(name));
        let text = message.text();
        if let Some(called) = references::called(&text) {
            let called = called?;
            let what = format!("/mcp_{}_{}", called.server, called.prompt);
            let server =
                find(&called.server).ok_or_else(|| BadReference::new(&what, "there is no MCP server of this name"))?;
            let params = json!({ "name": called.prompt, "arguments": called.arguments });
            let answer = server.fetch("prompts/get", &params).await.map_err(|why| BadReference::new(&what, why))?;
            return references::prompted(message, &called, &answer);
        }
        let mut message = message;
        for named in references::named(&text, |name| find(name).is_some())? {
            let what = format!("@{}:{}", named.server, named.uri);
            let Some(server) = find(&named.server) else { continue };
            let answer = server.fetch("resources/read", &json!({ "uri": named.uri })).await;
            let parts = references::resource(&named, &answer.map_err(|why| BadReference::new(&what, why))?)?;
            message = parts.into_iter().fold(message, Message::with_part);
        }
        Ok(message)
    }

    /// Counts the changes of what the servers offer: a receiver sees each one, or a later one.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The figures of a server, as its node in the tree shows them; `None` if there is none of this name.
    #[must_use]
    pub fn figures(&self, name: &str) -> Option<ServerFigures> {
        self.servers.iter().find(|server| server.config.name == name).map(|server| server.figures())
    }
}

async fn listed(server: &Arc<Server>) -> Listed {
    let user = server.user();
    let connection = server.connection(&user).await;
    let offer = server.offer().filter(|_| connection.is_ok());
    let (tools, refused) = offer
        .map(|offer| (offer.tools.iter().map(|tool| tool.name.clone()).collect(), offer.refused.clone()))
        .unwrap_or_default();
    Listed {
        server: server.config.name.clone(),
        tools,
        refused,
        error: connection.err().map(|error| error.to_string()),
    }
}
