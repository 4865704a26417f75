//! One tool of a server, as the runtime and the model see it.
//!
//! The rules judge a call by the tool's name, which is its permission (`mcp_<server>_<tool>`), and a pattern that names the
//! definition: `*` in a rule is any, but what a person allowed for longer than one call holds only while the tool says the same of
//! itself. Nothing that the server says decides what may be done about a call, unless the host believes it.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use tamtam::{
    model::BoxFuture,
    tool::{Access, Effect, Tool, ToolContext, ToolResult},
};

use crate::{content, offer::Offered, server::Server};

/// A tool of a server.
pub(crate) struct McpTool {
    server: Arc<Server>,
    offered: Offered,
    /// Whether it must be found first.
    deferred: bool,
}

impl McpTool {
    pub(crate) fn new(server: Arc<Server>, offered: Offered, deferred: bool) -> McpTool {
        McpTool { server, offered, deferred }
    }
}

impl Tool for McpTool {
    fn name(&self) -> &str {
        &self.offered.name
    }

    fn description(&self) -> &str {
        &self.offered.description
    }

    fn schema(&self) -> Value {
        self.offered.schema.clone()
    }

    fn effect(&self) -> Effect {
        match (self.offered.is_read, self.offered.is_idempotent) {
            (true, _) => Effect::Read,
            (_, true) => Effect::Idempotent,
            _ => Effect::Once,
        }
    }

    fn parallel(&self) -> bool {
        self.offered.is_read
    }

    fn deferred(&self) -> bool {
        self.deferred
    }

    fn limit(&self, _: &Value) -> Duration {
        // The limit of a call begins when the server is there, and its start has its own.
        self.server.config.call_limit + self.server.config.start_limit
    }

    fn access(&self, _: &Value) -> Vec<Access> {
        vec![Access::new(self.name(), format!("definition {}", self.offered.definition))]
    }

    fn run<'a>(&'a self, arguments: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let call = self.server.call(&self.offered.remote, arguments, context);
            let answer = tokio::select! {
                biased;
                () = context.cancelled() => {
                    return ToolResult::error("the call was stopped; the server was told, and may have done some of it");
                }
                answer = call => answer,
            };
            let title = format!("{} of {}", self.offered.remote, self.server.config.name);
            match answer {
                Ok(answer) => content::result(&answer),
                Err(error) => ToolResult::error(error.to_string()),
            }
            .with_title(crate::text::clean_line(&title, 128))
        })
    }
}
