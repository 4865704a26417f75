//! Reads rules that a person wrote down: as TOML or as JSON, as a map or as a list.
//!
//! ```toml
//! match_order = "last"       # or "first": which of several matching rules wins
//! bash = "ask"               # the string form: the pattern is *
//! [edit]                     # the map form: pattern = action
//! "src/generated/**" = "deny"
//! [[rules]]                  # the list form
//! permission = "mcp_*"
//! pattern = "*"
//! action = "deny"
//! exact = true               # only there: the pattern is a text without wildcards
//! ```
//!
//! JSON has the same forms. A JSON file may also hold several values, such as one rule a line; then lines that begin with `#` are
//! skipped. The order of the rules is their order in the text, across all tables. Rules are read whole or not at all (except
//! [`Ruleset::from_toml_table`], which reads one table of a file). A rule that was left out might be a `deny`, so a change must
//! keep each of these an error: an unknown field of a rule, an unknown action, a pattern of paths that is not a glob, the same
//! field twice. The code is pure: the caller reads the file, and names it.

pub(crate) mod document;

use crate::permission::{Action, MatchOrder, Rule, Ruleset, pattern};
use document::{Field, Node, Value};

/// The most rules of one file. Each session keeps its rules on its tape.
const RULES_MAX: usize = 10_000;

/// A text that does not say rules: where, and what would be right there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {}{why}", if field.is_empty() { String::new() } else { format!("{field}: ") })]
#[non_exhaustive]
pub struct BadRules {
    /// The line, from 1.
    pub line: usize,
    /// The field, such as `edit."src/**"`; empty if the text is not readable as TOML or JSON.
    pub field: String,
    /// What is wrong, and what is allowed there.
    pub why: String,
}

/// Something wrong at a place in the text.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) field: String,
    pub(crate) why: String,
}

impl Fault {
    pub(crate) fn new(at: usize, field: impl Into<String>, why: impl Into<String>) -> Fault {
        Fault { at, field: field.into(), why: why.into() }
    }

    /// The same fault, as a person finds it.
    pub(crate) fn in_text(self, text: &str) -> BadRules {
        let before = text.as_bytes().get(..self.at).unwrap_or(text.as_bytes());
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        BadRules { line, field: self.field, why: self.why }
    }
}

impl Ruleset {
    /// Reads rules in TOML: a file of rules.
    ///
    /// ```
    /// use tamtam::permission::{Action, Rule, Ruleset};
    /// let text = "bash = \"ask\"\n[edit]\n\"src/**\" = \"allow\"\n";
    /// let rules = Ruleset::from_toml("mine", text)?;
    /// assert_eq!(rules.rules, [Rule::new("bash", "*", Action::Ask), Rule::new("edit", "src/**", Action::Allow)]);
    /// let wrong = Ruleset::from_toml("mine", "bash = \"ask\"\nedit = \"alow\"\n").unwrap_err();
    /// assert_eq!(wrong.to_string(), "line 2: edit: unknown action \"alow\": write allow, ask or deny; did you mean \"allow\"?");
    /// # Ok::<(), tamtam::permission::BadRules>(())
    /// ```
    ///
    /// # Errors
    /// [`BadRules`] where something in the text is not understood.
    pub fn from_toml(name: impl Into<String>, text: &str) -> Result<Ruleset, BadRules> {
        let read = document::toml(text).and_then(|node| ruleset(&[node]));
        read.map(|rules| Ruleset { name: name.into(), ..rules }).map_err(|fault| fault.in_text(text))
    }

    /// Reads rules in TOML: one table of a file that also says other things. A file without that table has no rules.
    ///
    /// # Errors
    /// [`BadRules`] if the text is not TOML, or something in the table is not understood.
    pub fn from_toml_table(name: impl Into<String>, text: &str, table: &str) -> Result<Ruleset, BadRules> {
        let read = document::toml(text).and_then(|node| {
            let Value::Map(fields) = node.value else { return Ok(Ruleset::default()) };
            let found: Vec<_> =
                fields.into_iter().filter(|field| field.name == table).map(|field| field.node).collect();
            ruleset(&found)
        });
        read.map(|rules| Ruleset { name: name.into(), ..rules }).map_err(|fault| fault.in_text(text))
    }

    /// Reads rules in JSON: maps, lists, single rules, and several of these one after the other.
    ///
    /// # Errors
    /// [`BadRules`] where something in the text is not understood.
    pub fn from_json(name: impl Into<String>, text: &str) -> Result<Ruleset, BadRules> {
        let read = document::json(text).and_then(|nodes| ruleset(&nodes));
        read.map(|rules| Ruleset { name: name.into(), ..rules }).map_err(|fault| fault.in_text(text))
    }
}

/// The rules that these values say, in the order of the text.
pub(crate) fn ruleset(nodes: &[Node]) -> Result<Ruleset, Fault> {
    let mut read = Read::default();
    for node in nodes {
        read.node(node)?;
    }
    // The parsers return the fields of a table by name or by table; the text has them in the intended order.
    read.rules.sort_by_key(|(at, _)| *at);
    if let Some((at, _)) = read.rules.get(RULES_MAX) {
        return Err(Fault::new(*at, "", format!("more than {RULES_MAX} rules: write patterns that say more")));
    }
    let rules = read.rules.into_iter().map(|(_, rule)| rule);
    Ok(Ruleset::new("", rules).with_order(read.order.unwrap_or_default()))
}

/// What was read so far: the rules, each with the place of its action.
#[derive(Default)]
struct Read {
    rules: Vec<(usize, Rule)>,
    order: Option<MatchOrder>,
}

impl Read {
    fn node(&mut self, node: &Node) -> Result<(), Fault> {
        match &node.value {
            Value::Map(fields) if is_rule(fields) => self.listed(node.at, fields),
            Value::Map(fields) => fields.iter().try_for_each(|field| self.field(field)),
            Value::List(items) => items.iter().try_for_each(|item| self.item(item)),
            other => Err(Fault::new(
                node.at,
                "",
                format!("rules are a map such as {{bash = \"ask\"}} or a list, not {}", other.kind()),
            )),
        }
    }

    /// A field of the map form.
    fn field(&mut self, field: &Field) -> Result<(), Fault> {
        let Field { name, node } = field;
        let shown = shown(name);
        match (name.as_str(), &node.value) {
            ("match_order", Value::Text(order)) => {
                let orders = [("last", MatchOrder::Last), ("first", MatchOrder::First)];
                let order = orders.into_iter().find(|(name, _)| name == order).ok_or_else(|| {
                    let why =
                        format!("unknown order {order:?}: write last or first{}", nearest(order, &["last", "first"]));
                    Fault::new(node.at, shown.clone(), why)
                })?;
                if self.order.replace(order.1).is_some() {
                    return Err(Fault::new(node.at, shown, "the order is set twice: set it once"));
                }
                Ok(())
            }
            ("match_order", other) => {
                Err(Fault::new(node.at, shown, format!("write last or first, not {}", other.kind())))
            }
            ("rules", Value::List(items)) => items.iter().try_for_each(|item| self.item(item)),
            (_, Value::Text(_)) => self.rule(name, "*", false, (&shown, node)),
            (_, Value::Map(patterns)) => patterns.iter().try_for_each(|field| {
                let place = format!("{shown}.{}", document::quoted(&field.name));
                self.rule(name, &field.name, false, (&place, &field.node))
            }),
            (_, other) => {
                let why = format!("write an action or a table of pattern = action, not {}", other.kind());
                Err(Fault::new(node.at, shown, why))
            }
        }
    }

    /// An item of a list.
    fn item(&mut self, item: &Node) -> Result<(), Fault> {
        match &item.value {
            Value::Map(fields) => self.listed(item.at, fields),
            other => Err(Fault::new(item.at, "", format!("a rule is a table with {LISTED}, not {}", other.kind()))),
        }
    }

    /// A rule of the list form.
    fn listed(&mut self, at: usize, fields: &[Field]) -> Result<(), Fault> {
        const NAMES: [&str; 4] = ["permission", "pattern", "action", "exact"];
        if let Some(field) = fields.iter().find(|field| !NAMES.contains(&field.name.as_str())) {
            let why = format!("unknown field: a rule has {LISTED}{}", nearest(&field.name, &NAMES));
            return Err(Fault::new(field.node.at, shown(&field.name), why));
        }
        let of = |name: &str| {
            let found = fields.iter().find(|field| field.name == name);
            found.map(|field| &field.node).ok_or_else(|| Fault::new(at, name, format!("missing: a rule has {LISTED}")))
        };
        let text = |name: &str| match of(name)? {
            Node { value: Value::Text(text), .. } => Ok(text.clone()),
            Node { value, at } => Err(Fault::new(*at, name, format!("write a text, not {}", value.kind()))),
        };
        let exact = match fields.iter().find(|field| field.name == "exact").map(|field| &field.node) {
            None => false,
            Some(Node { value: Value::Bool(exact), .. }) => *exact,
            Some(Node { value, at }) => {
                return Err(Fault::new(*at, "exact", format!("write true or false, not {}", value.kind())));
            }
        };
        self.rule(&text("permission")?, &text("pattern")?, exact, ("action", of("action")?))
    }

    /// A rule, whose action is in that field.
    fn rule(&mut self, permission: &str, pattern: &str, exact: bool, action: (&str, &Node)) -> Result<(), Fault> {
        let (field, node) = action;
        const ACTIONS: [(&str, Action); 3] = [("allow", Action::Allow), ("ask", Action::Ask), ("deny", Action::Deny)];
        let wrong = |why: String| Err(Fault::new(node.at, field, why));
        let Value::Text(action) = &node.value else {
            return wrong(format!("write allow, ask or deny, not {}", node.value.kind()));
        };
        let Some((_, action)) = ACTIONS.into_iter().find(|(name, _)| name == action) else {
            let hint = nearest(action, &ACTIONS.map(|(name, _)| name));
            return wrong(format!("unknown action {action:?}: write allow, ask or deny{hint}"));
        };
        if permission.trim().is_empty() {
            return wrong("the permission has no name: write a tool's name, or \"*\" for all".to_owned());
        }
        if matches!(permission, "read" | "edit") && !exact && !pattern::is_glob(pattern) {
            return wrong(format!(
                "{pattern:?} is not a pattern of paths: write one such as \"src/**\", with \\ before [ and {{"
            ));
        }
        self.rules.push((node.at, Rule { exact, ..Rule::new(permission, pattern, action) }));
        Ok(())
    }
}

/// The fields of a rule in the list form, for messages.
const LISTED: &str = "permission, pattern and action";

/// Whether an object is one rule in the list form, and no map of permissions.
fn is_rule(fields: &[Field]) -> bool {
    let has = |name: &str| fields.iter().any(|field| field.name == name);
    has("permission") || (has("pattern") && has("action"))
}

/// A name as it is written in a path of fields.
fn shown(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(is_bare) { name.to_owned() } else { document::quoted(name) }
}

/// A hint at the name that was perhaps meant; empty if none is near.
fn nearest(given: &str, names: &[&str]) -> String {
    let distance = |name: &&str| strsim::damerau_levenshtein(&given.to_lowercase(), name);
    let near = names.iter().map(|name| (distance(name), name)).filter(|(distance, _)| *distance <= 2).min();
    near.map(|(_, name)| format!("; did you mean {name:?}?")).unwrap_or_default()
}

#[cfg(test)]
mod tests;
