//! [`Toolbox`]: a set of tools by name. A runtime has one; which of its tools a session may call, the session's settings and rules
//! say.
//!
//! A toolbox asks each tool when it is put in, once, for its description, schema, aliases, effect, parallelism and permissions, so
//! that no session runs a tool's code for these. A toolbox never changes afterwards; [`Toolbox::with`] makes another one, which
//! asks only the tool that it adds.
//!
//! The tools are in the order of their names, and the same tools have the same [`Toolbox::hash`]. A change must keep the order,
//! and the text that a model gets: otherwise the providers' prompt caches are lost.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use crate::{
    model::ToolSpec,
    tool::{Effect, Tool},
    words::depth,
    words::sandbox::SandboxTerms,
};

/// A set of tools, which never changes. Cheap to clone.
#[derive(Clone, Default)]
pub struct Toolbox {
    tools: Arc<BTreeMap<String, Arc<Known>>>,
    /// The descriptions of all tools, made on first use.
    said: OnceLock<Said>,
    /// A name that two of the tools had.
    twice: Option<Arc<str>>,
}

/// Characters of a tool's name, at most: what providers take.
const NAME_MAX: usize = 64;

/// The descriptions of a toolbox's tools, in order of their names.
#[derive(Clone)]
struct Said {
    specs: Arc<[ToolSpec]>,
    permissions: Arc<BTreeMap<String, Vec<String>>>,
}

/// A tool, and what it said of itself when it was put in.
pub(super) struct Known {
    pub(super) tool: Arc<dyn Tool>,
    spec: ToolSpec,
    /// Whether the schema was too deep: the spec has `null` then.
    too_deep: bool,
    permissions: Vec<String>,
    choices: Vec<String>,
    aliases: Box<[String]>,
    pub(super) effect: Effect,
    pub(super) parallel: bool,
    at_once: bool,
}

impl Known {
    fn new(tool: Arc<dyn Tool>) -> Known {
        let aliases = tool.aliases().iter().map(|alias| (*alias).to_owned()).collect();
        let mut schema = tool.schema();
        let too_deep = depth::bound(&mut schema).is_err();
        let mut spec = ToolSpec::new(tool.name(), tool.description(), schema);
        spec.deferred = tool.deferred();
        let (effect, parallel, at_once) = (tool.effect(), tool.parallel(), tool.answers_at_once());
        Known {
            permissions: tool.permissions(),
            choices: tool.choices(),
            spec,
            too_deep,
            aliases,
            effect,
            parallel,
            at_once,
            tool,
        }
    }

    /// Why no model can be shown the arguments; `None` if one can.
    fn odd(&self) -> Option<String> {
        let schema = &self.spec.schema;
        // A schema without a type is made one of an object for the provider, and so is `true`, which allows all.
        let is_object =
            schema.get("type").is_none_or(|kind| kind == "object") && (schema.is_object() || schema.is_boolean());
        let why = match (self.too_deep, is_object) {
            (true, _) => format!("the schema of the tool {:?} is {}: make it flatter", self.spec.name, depth::TooDeep),
            (false, true) => return None,
            (false, false) if schema.is_object() => {
                let name = &self.spec.name;
                format!("the arguments of the tool {name:?} are not a JSON object: use a struct with named fields")
            }
            (false, false) => {
                let (name, found) = (&self.spec.name, kind_of(schema));
                format!(
                    "the schema of the tool {name:?} is {found}: a JSON schema is an object, such as {{\"type\":\"object\"}}"
                )
            }
        };
        Some(why)
    }
}

impl Toolbox {
    /// A set of these tools. A runtime does not start with a set in which two tools have the same name.
    #[must_use]
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Toolbox {
        Toolbox::default().with_all(tools)
    }

    /// Puts in one more tool, and asks it alone.
    pub(crate) fn add(&mut self, tool: Arc<dyn Tool>) {
        let known = Known::new(tool);
        let name = known.spec.name.clone();
        if let Some(other) = Arc::make_mut(&mut self.tools).insert(name, Arc::new(known)) {
            self.twice = Some(other.spec.name.as_str().into());
        }
        self.said = OnceLock::new();
    }

    fn said(&self) -> &Said {
        self.said.get_or_init(|| {
            let permissions = self.tools.iter().flat_map(|(name, known)| {
                let first = known.permissions.first().cloned().unwrap_or_default();
                let of_choice =
                    move |choice: &String| (format!("{name} {choice}"), vec![first.clone(), choice.clone()]);
                std::iter::once((name.clone(), known.permissions.clone())).chain(known.choices.iter().map(of_choice))
            });
            Said {
                specs: self.tools.values().map(|known| known.spec.clone()).collect(),
                permissions: Arc::new(permissions.collect()),
            }
        })
    }

    /// Why no model can be shown these tools, if so.
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
        bad.or_else(twice).or_else(|| self.tools.values().find_map(|known| known.odd()))
    }

    /// The same set with one more tool.
    #[must_use]
    pub fn with(&self, tool: impl Tool) -> Toolbox {
        self.with_all([Arc::new(tool) as Arc<dyn Tool>])
    }

    /// The same set without the tools whose names are picked.
    ///
    /// ```
    /// use tamtam::tool::{self, NoArguments, Toolbox};
    ///
    /// let tool = |name: &str| tool::typed(name, "Says hello.", |_: NoArguments, _| async { "Hello." });
    /// let toolbox = Toolbox::default().with(tool("greet")).with(tool("mcp_mail_send"));
    /// assert_eq!(toolbox.without(|name| name.starts_with("mcp_mail_")).names().collect::<Vec<_>>(), ["greet"]);
    /// ```
    #[must_use]
    pub fn without(&self, is_out: impl Fn(&str) -> bool) -> Toolbox {
        let left = self.tools.iter().filter(|(name, _)| !is_out(name));
        let tools = Arc::new(left.map(|(name, known)| (name.clone(), known.clone())).collect());
        let twice = self.twice.clone().filter(|name| !is_out(name));
        Toolbox { tools, said: OnceLock::new(), twice }
    }

    /// The same set without the tools that must be found first.
    pub(crate) fn without_deferred(&self) -> Toolbox {
        match self.tools.values().any(|known| known.spec.deferred) {
            true => self.without(|name| self.tools.get(name).is_some_and(|known| known.spec.deferred)),
            false => self.clone(),
        }
    }

    /// The same set with more tools.
    pub(crate) fn with_all(&self, more: impl IntoIterator<Item = Arc<dyn Tool>>) -> Toolbox {
        let mut all = self.clone();
        more.into_iter().for_each(|tool| all.add(tool));
        all
    }

    /// The same set with the tools of another one.
    pub(crate) fn and(&self, more: &Toolbox) -> Toolbox {
        let all = self.with_all(more.tools.values().map(|known| known.tool.clone()));
        Toolbox { twice: all.twice.or_else(|| more.twice.clone()), ..all }
    }

    /// The tools as a model sees them, in order of their names.
    #[must_use]
    pub fn specs(&self) -> Arc<[ToolSpec]> {
        self.said().specs.clone()
    }

    /// A hash of the tools as a model sees them: the same for the same tools.
    #[must_use]
    pub fn hash(&self) -> String {
        blake3::hash(&self.told()).to_hex()[..32].to_owned()
    }

    /// The tools as a model sees them, as JSON text.
    pub(crate) fn told(&self) -> Vec<u8> {
        // Names, descriptions and schemas can always be written.
        serde_json::to_vec(&*self.said().specs).unwrap_or_default()
    }

    /// A tool as a model sees it that may not make these choices.
    pub(crate) fn spec_without(&self, spec: &ToolSpec, denied: &[&str]) -> ToolSpec {
        let Some(known) = self.tools.get(&spec.name).filter(|_| !denied.is_empty()) else { return spec.clone() };
        let (description, schema) = known.tool.told_without(denied);
        ToolSpec { description, schema, ..spec.clone() }
    }

    /// Of each tool, by its name, the permissions by which the rules mask it ([`Tool::permissions`]). Of each choice of a tool, by the
    /// tool's name, a space and the choice, the permission and the pattern by which the rules judge it.
    pub(crate) fn permissions(&self) -> &BTreeMap<String, Vec<String>> {
        &self.said().permissions
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }

    /// Finds a tool: by its exact name, then by the name in lower case, then by an alias in lower case; a name with something of a
    /// model's own format around it by what is left without that.
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
            return Some(known.as_ref());
        }
        let lower = bare(name).to_lowercase();
        let alias = |known: &&Arc<Known>| known.aliases.contains(&lower);
        self.tools.get(&lower).or_else(|| self.tools.values().find(alias)).map(Arc::as_ref)
    }

    /// What the programs of its tools are confined to, by the first tool that says so.
    pub(crate) fn sandbox(&self) -> Option<SandboxTerms> {
        self.tools.values().find_map(|known| known.tool.sandbox())
    }

    /// The locks and contents that those tools share which change files on this machine; `None` if no tool does.
    #[cfg(all(unix, feature = "tools"))]
    pub(crate) fn files(&self) -> Option<crate::tool::Files> {
        // The writer comes first: in a toolbox of several setups, a restore must wait for the locks of `write` and `edit`.
        let named = |name: &str| self.tools.get(name).and_then(|known| known.tool.files());
        named("write").or_else(|| self.tools.values().find_map(|known| known.tool.files())).cloned()
    }

    /// Those of the names that no tool has, and the names of all tools; `None` if there are none. A pattern may match nothing.
    pub(crate) fn unknown_among<'n>(&self, names: impl Iterator<Item = &'n String>) -> Option<(String, String)> {
        let is_unknown = |name: &&str| !name.contains(['*', '?', '!']) && self.find(name).is_none();
        let unknown: Vec<_> = names.map(String::as_str).filter(is_unknown).collect();
        let known = || self.names().collect::<Vec<_>>().join(", ");
        (!unknown.is_empty()).then(|| (unknown.join(", "), known()))
    }

    /// The reply to a model that calls a tool that does not exist. It names no tool that must be found first.
    #[must_use]
    pub fn unknown_tool(&self, name: &str) -> String {
        let listed = self.tools.values().filter(|known| !known.spec.deferred);
        let names: Vec<_> = listed.map(|known| known.spec.name.as_str()).collect();
        format!("tool not found: {name}. Available tools: {}", names.join(", "))
    }
}

/// The kind of a JSON value, for a message.
fn kind_of(value: &serde_json::Value) -> &'static str {
    match value {
        serde_json::Value::Null => "null",
        serde_json::Value::Bool(_) => "a boolean",
        serde_json::Value::Number(_) => "a number",
        serde_json::Value::String(_) => "a text",
        serde_json::Value::Array(_) => "a list",
        serde_json::Value::Object(_) => "an object",
    }
}

/// A tool's name without what some servers leave on it of the model's own format: `functions.read`, `default_api:read`,
/// `read<|channel|>commentary`.
fn bare(name: &str) -> &str {
    let name = ["functions.", "default_api.", "default_api:"]
        .iter()
        .find_map(|start| name.strip_prefix(start))
        .unwrap_or(name);
    name.split_once("<|").map_or(name, |(name, _)| name)
}

impl std::fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::{Value, json};

    use super::*;
    use crate::{
        model::BoxFuture,
        tool::{ToolContext, ToolResult},
    };

    struct Counts(String, Arc<AtomicUsize>);

    impl Tool for Counts {
        fn name(&self) -> &str {
            &self.0
        }

        fn description(&self) -> &str {
            self.1.fetch_add(1, Ordering::Relaxed);
            "Counts."
        }

        fn schema(&self) -> Value {
            self.1.fetch_add(1, Ordering::Relaxed);
            json!({})
        }

        fn permissions(&self) -> Vec<String> {
            self.1.fetch_add(1, Ordering::Relaxed);
            vec!["counts".to_owned()]
        }

        fn run<'a>(&'a self, _: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
            Box::pin(async { ToolResult::ok("") })
        }
    }

    /// A service with a thousand tools waited five seconds: each added tool asked all those before it again.
    #[test]
    fn each_tool_is_asked_once_however_many_are_added() {
        let asked = Arc::new(AtomicUsize::new(0));
        let tool = |n: usize| Counts(format!("t{n:04}"), asked.clone());
        let mut toolbox = Toolbox::default();
        (0..1_000).for_each(|n| toolbox.add(Arc::new(tool(n))));
        assert_eq!(asked.load(Ordering::Relaxed), 3_000, "its description, schema and permissions");
        let more = toolbox.with(tool(1_000)).with(tool(1_001));
        assert_eq!((toolbox.specs().len(), more.specs().len(), more.permissions().len()), (1_000, 1_002, 1_002));
        assert_eq!((more.hash() == more.clone().hash(), more.hash() == toolbox.hash()), (true, false));
        assert_eq!(asked.load(Ordering::Relaxed), 3_006);
        assert_eq!(more.flaw(), None);
        assert!(more.with(tool(3)).flaw().unwrap().contains("two tools are called"));
    }

    /// Names as servers leave them that do not take the model's own format away.
    #[test]
    fn a_name_in_a_models_own_format_is_the_tools_name() {
        for name in ["read", "functions.read", "default_api:read", "default_api.read", "read<|channel|>commentary"] {
            assert_eq!(bare(name), "read");
        }
        assert_eq!(bare("mcp_functions.read"), "mcp_functions.read");
    }
}
