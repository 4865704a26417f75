//! [`Toolbox`]: a set of tools by name. A runtime has one; which of its tools a session may call, the session's settings and rules
//! say.
//!
//! A toolbox asks each tool when it is made for its description, schema, aliases, effect, parallelism and permissions, so that no
//! session runs a tool's code for these. A toolbox never changes afterwards; [`Toolbox::with`] makes another one.
//!
//! The tools stand in the order of their names, and the same tools give the same [`Toolbox::hash`]. A change must keep the order,
//! and the text that a model is told: otherwise the providers' prompt caches are lost.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    model::ToolSpec,
    tool::{Effect, Tool},
};

/// A set of tools, which never changes. Cheap to clone.
#[derive(Clone, Default)]
pub struct Toolbox {
    tools: Arc<BTreeMap<String, Known>>,
    specs: Arc<[ToolSpec]>,
    permissions: Arc<BTreeMap<String, Vec<String>>>,
    /// A name that two of the tools had.
    twice: Option<Arc<str>>,
}

/// Characters of a tool's name, at most: what providers take.
const NAME_MAX: usize = 64;

/// A tool, and what it said of itself when the toolbox was made.
pub(super) struct Known {
    pub(super) tool: Arc<dyn Tool>,
    aliases: Box<[String]>,
    pub(super) effect: Effect,
    pub(super) parallel: bool,
    at_once: bool,
}

impl Known {
    fn new(tool: Arc<dyn Tool>) -> Known {
        let aliases = tool.aliases().iter().map(|alias| (*alias).to_owned()).collect();
        Known { aliases, effect: tool.effect(), parallel: tool.parallel(), at_once: tool.answers_at_once(), tool }
    }
}

impl Toolbox {
    /// A set of these tools. A runtime does not start with a set in which two tools have the same name.
    #[must_use]
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Toolbox {
        Toolbox::of(tools, None)
    }

    fn of(all: impl IntoIterator<Item = Arc<dyn Tool>>, mut twice: Option<Arc<str>>) -> Toolbox {
        let mut tools = BTreeMap::new();
        for tool in all {
            let name = tool.name().to_owned();
            if let Some(other) = tools.insert(name, Known::new(tool)) {
                twice = Some(other.tool.name().into());
            }
        }
        let specs = tools.values().map(|Known { tool, .. }| ToolSpec {
            name: tool.name().to_owned(),
            description: tool.description().to_owned(),
            schema: tool.schema(),
        });
        let specs = specs.collect();
        let permissions = tools.iter().map(|(name, known)| (name.clone(), known.tool.permissions())).collect();
        Toolbox { tools: Arc::new(tools), specs, permissions: Arc::new(permissions), twice }
    }

    /// Why no model can be told of these tools, where that is so.
    pub(crate) fn flaw(&self) -> Option<String> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let is_bad = |name: &&String| !(1..=NAME_MAX).contains(&name.len()) || !name.chars().all(allowed);
        let bad = self
            .tools
            .keys()
            .find(is_bad)
            .map(|name| format!("a tool is called {name:?}: a name is 1 to {NAME_MAX} letters of a-z A-Z 0-9 _ -"));
        let twice =
            || Some(format!("two tools are called {:?}: give one of them another name", self.twice.as_deref()?));
        // A schema without a type is made one of an object for the provider.
        let is_odd = |spec: &&ToolSpec| spec.schema.get("type").is_some_and(|kind| kind != "object");
        let odd = || {
            let ToolSpec { name, .. } = self.specs.iter().find(is_odd)?;
            Some(format!("the arguments of the tool {name:?} are no JSON object: a struct with named fields is one"))
        };
        bad.or_else(twice).or_else(odd)
    }

    /// The same set with one more tool.
    #[must_use]
    pub fn with(&self, tool: impl Tool) -> Toolbox {
        self.with_all([Arc::new(tool) as Arc<dyn Tool>])
    }

    /// The same set with more tools.
    pub(crate) fn with_all(&self, more: impl IntoIterator<Item = Arc<dyn Tool>>) -> Toolbox {
        Toolbox::of(self.tools.values().map(|known| known.tool.clone()).chain(more), self.twice.clone())
    }

    /// The same set with the tools of another one.
    pub(crate) fn and(&self, more: &Toolbox) -> Toolbox {
        let all = self.with_all(more.tools.values().map(|known| known.tool.clone()));
        Toolbox { twice: all.twice.or_else(|| more.twice.clone()), ..all }
    }

    /// The tools as a model is told of them, in order of their names.
    #[must_use]
    pub fn specs(&self) -> Arc<[ToolSpec]> {
        self.specs.clone()
    }

    /// A hash of the tools as a model is told of them: the same for the same tools.
    #[must_use]
    pub fn hash(&self) -> String {
        blake3::hash(&self.told()).to_hex()[..32].to_owned()
    }

    /// The tools as a model is told of them, as JSON text.
    pub(crate) fn told(&self) -> Vec<u8> {
        // Names, descriptions and schemas can always be written.
        serde_json::to_vec(&*self.specs).unwrap_or_default()
    }

    /// Of each tool, by its name, the permissions by which the rules mask it ([`Tool::permissions`]).
    pub(crate) fn permissions(&self) -> &BTreeMap<String, Vec<String>> {
        &self.permissions
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }

    /// Finds a tool: by its exact name, then by the name in lower case, then by an alias in lower case.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.known(name).map(|known| &known.tool)
    }

    /// Whether the tool of this name answers at once, as it says.
    pub(crate) fn answers_at_once(&self, name: &str) -> bool {
        self.known(name).is_some_and(|known| known.at_once)
    }

    pub(super) fn known(&self, name: &str) -> Option<&Known> {
        if let Some(known) = self.tools.get(name) {
            return Some(known);
        }
        let lower = name.to_lowercase();
        let alias = |known: &&Known| known.aliases.contains(&lower);
        self.tools.get(&lower).or_else(|| self.tools.values().find(alias))
    }

    /// The locks and contents that those tools share which change files on this machine; `None` where no tool does.
    #[cfg(all(unix, feature = "tools"))]
    pub(crate) fn files(&self) -> Option<crate::tool::Files> {
        // The writer comes first: in a toolbox of several setups, a restore must wait for the locks of `write` and `edit`.
        let named = |name: &str| self.tools.get(name).and_then(|known| known.tool.files());
        named("write").or_else(|| self.tools.values().find_map(|known| known.tool.files())).cloned()
    }

    /// Those of the names that no tool has, and the names of all tools; `None` where there are none. A pattern may match nothing.
    pub(crate) fn unknown_among<'n>(&self, names: impl Iterator<Item = &'n String>) -> Option<(String, String)> {
        let is_unknown = |name: &&str| !name.contains(['*', '?', '!']) && self.find(name).is_none();
        let unknown: Vec<_> = names.map(String::as_str).filter(is_unknown).collect();
        let known = || self.names().collect::<Vec<_>>().join(", ");
        (!unknown.is_empty()).then(|| (unknown.join(", "), known()))
    }

    /// What the model is told when it calls a tool that does not exist.
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
