//! The tools that a session may call, by name.

use std::{collections::BTreeMap, sync::Arc};

use crate::{model::ToolSpec, tool::Tool};

/// A set of tools. Cheap to clone; never changed once a session uses it.
#[derive(Clone, Default)]
pub struct Toolbox {
    tools: Arc<BTreeMap<String, Arc<dyn Tool>>>,
    specs: Arc<[ToolSpec]>,
}

impl Toolbox {
    /// A set of those tools. Of two tools with one name the later one stands.
    #[must_use]
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Toolbox {
        let tools: BTreeMap<_, _> = tools.into_iter().map(|tool| (tool.name().to_owned(), tool)).collect();
        let specs = tools.values().map(|tool| ToolSpec {
            name: tool.name().to_owned(),
            description: tool.description().to_owned(),
            schema: tool.schema(),
        });
        let specs = specs.collect();
        Toolbox { tools: Arc::new(tools), specs }
    }

    /// The same set with one more tool.
    #[must_use]
    pub fn with(&self, tool: impl Tool) -> Toolbox {
        let all = self.tools.values().cloned().chain([Arc::new(tool) as Arc<dyn Tool>]);
        Toolbox::new(all)
    }

    /// The tools as a model is told of them, in order of their names.
    #[must_use]
    pub fn specs(&self) -> Arc<[ToolSpec]> {
        self.specs.clone()
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }

    /// Finds a tool: by its exact name, then in lower case (TOOL-EDGE-002), then by an alias.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        let lower = name.to_lowercase();
        self.tools
            .get(name)
            .or_else(|| self.tools.get(&lower))
            .or_else(|| self.tools.values().find(|tool| tool.aliases().contains(&lower.as_str())))
    }

    /// What the model is told when it calls a tool that does not exist (TOOL-EDGE-006).
    #[must_use]
    pub fn unknown_tool(&self, name: &str) -> String {
        let names: Vec<_> = self.names().collect();
        format!("tool not found: {name}. Available tools: {}", names.join(", "))
    }
}

impl std::fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}
