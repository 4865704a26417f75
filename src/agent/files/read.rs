//! Reads one text of a file or one entry of a configuration: its fields (for Markdown the front matter, the YAML between two lines
//! `---`) and its body, and makes an agent or a command of them. Pure, but for [`with_files`], which reads files.
//!
//! Each file is checked alone, and an error names its field and its place in the text. A missing description is reported later,
//! when all files are together ([`Agents::build`]).
//!
//! A change must keep the order of rules (the last rule that matches counts), and that no file is included in a workspace: a person
//! trusts its files by name, and an included one would not be among them.

use std::{
    collections::BTreeMap,
    path::{Component, Path},
};

use serde::{Deserialize, de::DeserializeOwned};

use super::{Dialect, foreign, walk};
use crate::{
    agent::{Agent, AgentSpec, Agents, AgentsConfig, Command, Does, ToolChoice, is_name, spec},
    permission::{
        Fault,
        document::{self, Field, Node, Value},
        ruleset,
    },
    words::message::ModelRef,
};

/// What a part of a folder holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Agents,
    Commands,
    Skills,
}

impl Section {
    /// The folders of each kind, below the folder of that program.
    pub(super) fn folders(dialect: Dialect) -> &'static [(&'static str, Section)] {
        match dialect {
            Dialect::OpenCode => &[
                ("agent", Section::Agents),
                ("agents", Section::Agents),
                ("command", Section::Commands),
                ("commands", Section::Commands),
                ("skill", Section::Skills),
                ("skills", Section::Skills),
            ],
            Dialect::AgentSkills => &[("skills", Section::Skills)],
            _ => &[("agents", Section::Agents), ("commands", Section::Commands), ("skills", Section::Skills)],
        }
    }

    pub(super) fn endings(self, dialect: Dialect) -> &'static [&'static str] {
        match (self, dialect) {
            (Section::Agents, Dialect::Tamtam) => &["md", "json", "toml"],
            _ => &["md"],
        }
    }
}

/// The name of a text, from its path.
pub(super) struct Names(String);

impl Names {
    /// Of a file: its path below the folder, without its ending.
    pub(super) fn of_path(path: &Path) -> Names {
        let parts: Vec<_> = path.components().map(|part| part.as_os_str().to_string_lossy()).collect();
        Names(parts.join("/"))
    }

    /// The name as we write names.
    pub(super) fn as_ours(&self) -> String {
        foreign::name(&self.0)
    }

    /// Of an entry of a table: its key.
    pub(super) fn of_text(name: &str) -> Names {
        Names(name.to_owned())
    }
}

/// The front matter of a Markdown text and the body after it. A text that does not begin with `---` is all body.
///
/// People write `description: Use this when: …` without quotes, and other programs take it; so for their files a value with a
/// colon in it, or one that begins like a YAML form and is not one (`argument-hint: [a] [b]`), is read as a text if the YAML
/// cannot be read otherwise.
pub(super) fn front_matter(text: &str, dialect: Dialect) -> Result<(Node, &str), Fault> {
    let nothing = Node { at: 0, value: Value::Map(Vec::new()) };
    let Some(rest) = text.strip_prefix("---").filter(|rest| rest.trim_start_matches([' ', '\t']).starts_with('\n'))
    else {
        return Ok((nothing, text));
    };
    let start = text.len() - rest.len();
    let mut end = start;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" && end > start {
            // Blanks replace the first mark, so that places are those of the whole text.
            let front = format!("   {}", &text[start..end]);
            let node = match document::yaml(&front, &front) {
                Err(fault) if dialect != Dialect::Tamtam => {
                    document::yaml(&with_quotes(&front), &front).map_err(|_| fault)?
                }
                read => read?,
            };
            let node = if matches!(node.value, Value::Null) { nothing } else { node };
            return Ok((node, &text[end + line.len()..]));
        }
        end += line.len();
    }
    Err(Fault::new(0, "", "the front matter has no end: write --- on a separate line after it"))
}

/// The lines of YAML with quotes around the values that have a colon in them or cannot be read alone.
fn with_quotes(front: &str) -> String {
    let quoted = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let value = value.trim();
        let is_key = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
        let has_colon = || value.contains(": ") || value.ends_with(':') || value.contains(" #");
        let wants = is_key
            && match value.chars().next() {
                // A list or table without an end continues on the next line.
                Some('[') => value.contains(']') && !is_yaml(value),
                Some('{') => value.contains('}') && !is_yaml(value),
                Some('*' | '&' | '!' | '%' | '@' | '`') => !is_yaml(value),
                Some('"' | '\'' | '|' | '>' | '#') => false,
                _ => has_colon(),
            };
        wants.then(|| format!("{name}: '{}'", value.replace('\'', "''")))
    };
    let lines = front.split('\n').map(|line| quoted(line).unwrap_or_else(|| line.to_owned()));
    lines.collect::<Vec<_>>().join("\n")
}

fn is_yaml(value: &str) -> bool {
    document::yaml(value, value).is_ok()
}

/// The agent that a text says, and its name.
pub(super) fn agent(
    node: Node,
    body: Option<&str>,
    name: &Names,
    dialect: Dialect,
    models: &BTreeMap<String, ModelRef>,
) -> Result<(String, AgentSpec), Fault> {
    let fields = fields_of(node)?;
    let fields = match dialect {
        Dialect::Tamtam | Dialect::AgentSkills => fields,
        Dialect::OpenCode => foreign::opencode_agent(fields),
        Dialect::ClaudeCode => foreign::claude_agent(fields, models)?,
    };
    let node = Node { at: 0, value: Value::Map(fields) };
    let mut spec = spec_of(&node)?;
    let at = |field: &str| node.at_path([field].into_iter()).at;
    let name = name_of(spec.name.take().as_deref().unwrap_or(&name.0), dialect, at("name"))?;
    let body = body.map(str::trim).filter(|body| !body.is_empty());
    spec.prompt = body.map(str::to_owned).or(spec.prompt);
    let own = Agents::built_in().get(&name).cloned();
    if dialect == Dialect::OpenCode && spec.description.is_none() && own.is_none() {
        spec.description = Some(format!("The agent {name}, which says nothing of itself."));
    }
    // A missing description shows only when all files are together: another file may have it.
    let mut whole = own.map_or_else(|| Agent::new(name.clone(), "of another file"), |own| (*own).clone());
    whole.change(&spec);
    whole.check().map_err(|bad| {
        let place = match bad.field().unwrap_or_default() {
            "limits.steps_max" => at("steps").max(at("maxSteps")),
            "limits.output_max" => at("output_max"),
            field => at(field),
        };
        Fault::new(place, "", bad.to_string())
    })?;
    Ok((name, spec))
}

/// The command that a text says.
pub(super) fn command(
    node: Node,
    body: Option<&str>,
    name: &Names,
    dialect: Dialect,
    models: &BTreeMap<String, ModelRef>,
) -> Result<Command, Fault> {
    let fields = fields_of(node)?;
    let fields = match dialect {
        Dialect::Tamtam => fields,
        _ => foreign::command(fields, dialect, models)?,
    };
    let spec: CommandSpec = typed(&Node { at: 0, value: Value::Map(fields) })?;
    let name = name_of(&name.0, dialect, 0)?;
    let says = body.map(str::to_owned).or(spec.template).unwrap_or_default();
    let says = says.trim();
    if says.is_empty() {
        return Err(Fault::new(0, "", "the command is empty: write its prompt"));
    }
    let mut command = Command::new(name, spec.description.unwrap_or_default(), Does::Say(says.to_owned()));
    (command.arguments, command.agent) = (spec.arguments, spec.agent);
    (command.model, command.subtask) = (spec.model, spec.subtask);
    Ok(command)
}

/// What is written about a command.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct CommandSpec {
    description: Option<String>,
    arguments: Option<String>,
    agent: Option<String>,
    #[serde(deserialize_with = "spec::model")]
    model: Option<ModelRef>,
    subtask: bool,
    template: Option<String>,
}

/// What a table of configuration says of all agents.
pub(super) fn for_all(name: &str, node: Node, config: &mut AgentsConfig) -> Result<(), Fault> {
    let field = Field { name: name.to_owned(), node };
    let spec = spec_of(&Node { at: 0, value: Value::Map(foreign::opencode_agent(vec![field])) })?;
    if let Some(ToolChoice::Map(tools)) = spec.tools {
        config.tools.extend(tools);
    }
    config.permission.extend(spec.permission.unwrap_or_default());
    Ok(())
}

fn fields_of(node: Node) -> Result<Vec<Field>, Fault> {
    match node.value {
        // A field without a value is as if it were not there.
        Value::Map(fields) => Ok(fields.into_iter().filter(|field| !matches!(field.node.value, Value::Null)).collect()),
        other => {
            Err(Fault::new(node.at, "", format!("fields such as `description: …` are wanted, not {}", other.kind())))
        }
    }
}

/// The form in which all that is said of an agent is read. Rules are read from the nodes, for their order counts.
fn spec_of(node: &Node) -> Result<AgentSpec, Fault> {
    let Value::Map(fields) = &node.value else { return typed(node) };
    let (rules, fields): (Vec<_>, Vec<_>) = fields.iter().cloned().partition(|field| field.name == "permission");
    let mut spec: AgentSpec = typed(&Node { at: node.at, value: Value::Map(fields) })?;
    for field in rules {
        let of_all =
            |action| Value::Map(vec![Field { name: "*".to_owned(), node: Node { at: field.node.at, value: action } }]);
        let node = match field.node.value {
            action @ Value::Text(_) => Node { at: field.node.at, value: of_all(action) },
            value => Node { at: field.node.at, value },
        };
        let read = ruleset(&[node]).map_err(|fault| below("permission", fault))?;
        spec.permission = Some(read.rules);
    }
    Ok(spec)
}

/// Reads a node as a type; an error has its field and its place.
fn typed<T: DeserializeOwned>(node: &Node) -> Result<T, Fault> {
    serde_path_to_error::deserialize(node.to_json()?).map_err(|error| {
        let path = error.path().to_string();
        let path = if path == "." { String::new() } else { path };
        let steps: Vec<_> = path.split(['.', '[']).map(|step| step.trim_end_matches(']')).collect();
        Fault::new(node.at_path(steps.into_iter()).at, path, error.inner().to_string())
    })
}

/// The same fault of a field below another one.
pub(super) fn below(place: &str, fault: Fault) -> Fault {
    let field = if fault.field.is_empty() { place.to_owned() } else { format!("{place}.{}", fault.field) };
    Fault { field, ..fault }
}

/// The name as we write names: a name of ours must be one, one of another program is made one.
fn name_of(given: &str, dialect: Dialect, at: usize) -> Result<String, Fault> {
    let name = match dialect {
        Dialect::Tamtam => given.to_owned(),
        _ => foreign::name(given),
    };
    if is_name(&name) {
        return Ok(name);
    }
    let why =
        format!("{given:?} is not a name: write 1 to 64 small letters, digits, - and _, with / between two parts");
    Err(Fault::new(at, "name", why))
}

/// The table with the contents of files in place of `{file:PATH}`, as in OpenCode, in the fields `prompt` and `template`. The
/// path counts from the folder of the configuration, and must not lead up from it. In a workspace such a text is an error.
pub(super) fn with_files(node: Node, config: &Path, inside: Option<&Path>) -> Result<Node, Fault> {
    let Value::Map(mut fields) = node.value else { return Ok(node) };
    for field in fields.iter_mut().filter(|field| matches!(field.name.as_str(), "prompt" | "template")) {
        if let Value::Text(text) = &mut field.node.value {
            *text =
                with_file(text, config, inside).map_err(|why| Fault::new(field.node.at, field.name.clone(), why))?;
        }
    }
    Ok(Node { at: node.at, value: Value::Map(fields) })
}

fn with_file(text: &str, config: &Path, inside: Option<&Path>) -> Result<String, String> {
    let Some((before, rest)) = text.split_once("{file:") else { return Ok(text.to_owned()) };
    let (path, after) = rest.split_once('}').ok_or("{file: has no }")?;
    // A person trusts the files of a workspace by name, and this one would not be among them.
    if inside.is_some() {
        return Err("another file is not read in a workspace: write its text here".to_owned());
    }
    let path = Path::new(path.trim());
    if path.components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(format!("{} is not below the folder of this file: it is not read", path.display()));
    }
    let path = config.parent().unwrap_or(Path::new("")).join(path);
    let read = walk::text(&path, inside, &|_, _| true).map_err(|bad| bad.to_string())?;
    Ok(format!("{before}{}{}", read.trim(), with_file(after, config, inside)?))
}
