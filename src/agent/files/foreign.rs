//! Turns what OpenCode and Claude Code write about agents and commands into the fields of our own files, with our names of tools,
//! models and permissions. Pure.
//!
//! A file of another program grants no rights that one of ours could not grant: its permissions become rules as ours do. What a
//! file allows beyond its agent, such as `allowed-tools` of a command, is left out. What an agent denies becomes a rule that
//! denies, or a tool that is switched off: more than was written, where OpenCode denies a part of what a tool that searches may do.
//! Of Claude Code's `permissionMode` only `plan` is carried over, as a rule that denies edits.
//!
//! A change must not let a denial fall away, because people rely on what they wrote for the other program.

use std::collections::BTreeMap;

use super::Dialect;
use crate::{
    permission::{
        Fault,
        document::{Field, Node, Value},
    },
    words::message::ModelRef,
};

/// A name in small letters, digits, `-` and `_`: `Code Reviewer` is `code-reviewer`.
pub(super) fn name(given: &str) -> String {
    let plain = |part: &str| {
        let mut name = String::new();
        for c in part.to_lowercase().chars() {
            match c {
                c if c.is_ascii_alphanumeric() || c == '_' => name.push(c),
                _ if name.ends_with('-') => {}
                _ => name.push('-'),
            }
        }
        name.trim_matches('-').to_owned()
    };
    given.split('/').map(plain).collect::<Vec<_>>().join("/")
}

/// Our name of a tool; that of a tool that we do not have stays, for a host may have it.
fn tool(given: &str) -> String {
    let name = given.trim().to_lowercase();
    let ours = match name.as_str() {
        "multiedit" | "patch" => "edit",
        "glob" => "find",
        "list" => "ls",
        "agent" => "task",
        "todowrite" => "todo_write",
        "todoread" => "todo_read",
        "all" | "all tools" => "*",
        other => other,
    };
    // Claude Code's name of a tool of a server, and of all its tools.
    match ours.strip_prefix("mcp__").map(|rest| rest.split_once("__")) {
        Some(Some((server, tool))) => format!("mcp_{server}_{tool}"),
        Some(None) => format!("mcp_{}_*", ours.trim_start_matches("mcp__")),
        None => ours.to_owned(),
    }
}

fn field(name: &str, at: usize, value: Value) -> Field {
    Field { name: name.to_owned(), node: Node { at, value } }
}

fn text(at: usize, text: impl Into<String>) -> Node {
    Node { at, value: Value::Text(text.into()) }
}

/// The fields of an OpenCode agent, in our words. Fields that OpenCode does not know become options of a request, as there.
pub(super) fn opencode_agent(fields: Vec<Field>) -> Vec<Field> {
    const OURS: [&str; 13] = [
        "description",
        "mode",
        "model",
        "prompt",
        "steps",
        "maxSteps",
        "temperature",
        "top_p",
        "topP",
        "color",
        "hidden",
        "disable",
        "disabled",
    ];
    let (mut known, mut options, mut off) = (Vec::new(), Vec::new(), Vec::new());
    for Field { name, node } in fields {
        match (name.as_str(), node.value) {
            ("name", _) => {}
            ("tools", value) => known.push(field("tools", node.at, opencode_tools(value))),
            ("permission", value) => {
                // Our tools that search need the permission to read; so what may not be searched with is switched off.
                if let Value::Map(fields) = &value {
                    off.extend(["grep", "find", "ls"].into_iter().filter(|searcher| denies(fields, searcher)));
                }
                known.push(field("permission", node.at, permission(value)));
            }
            ("options", Value::Map(own)) => options.extend(own),
            (_, value) if OURS.contains(&name.as_str()) => known.push(field(&name, node.at, value)),
            (_, value) => options.push(field(&name, node.at, value)),
        }
    }
    if !off.is_empty() {
        take_out(&mut known, 0, off);
    }
    if let Some(first) = options.first() {
        known.push(field("options", first.node.at, Value::Map(options)));
    }
    known
}

/// Whether the last of these permissions that is about the tool denies something of it.
fn denies(fields: &[Field], searcher: &str) -> bool {
    let is_deny = |value: &Value| matches!(value, Value::Text(action) if action == "deny");
    let last = fields.iter().rfind(|field| field.name == "*" || tool(&field.name) == searcher);
    last.is_some_and(|field| match &field.node.value {
        Value::Map(patterns) => patterns.iter().any(|pattern| is_deny(&pattern.node.value)),
        value => is_deny(value),
    })
}

/// Switches tools off, overriding what the fields say about them.
fn take_out<T: AsRef<str>>(known: &mut Vec<Field>, at: usize, out: Vec<T>) {
    match known.iter_mut().find(|field| field.name == "tools").map(|field| &mut field.node.value) {
        Some(Value::List(tools)) => tools.extend(out.iter().map(|name| text(at, format!("!{}", name.as_ref())))),
        Some(Value::Map(switches)) => switches.extend(out.iter().map(|name| switch_off(at, name.as_ref()))),
        Some(_) => {}
        None => {
            known.push(field("tools", at, Value::Map(out.iter().map(|name| switch_off(at, name.as_ref())).collect())))
        }
    }
}

fn switch_off(at: usize, name: &str) -> Field {
    field(name, at, Value::Bool(false))
}

/// Switches with our names. A name that may be one of a server's tools is also written as we name those.
fn opencode_tools(value: Value) -> Value {
    let Value::Map(switches) = value else { return value };
    let mut ours: Vec<Field> = Vec::new();
    for Field { name, node } in switches {
        let own = tool(&name);
        let of_server = own.contains('_') && !own.starts_with("todo_") && !own.starts_with("mcp_");
        for name in of_server.then(|| format!("mcp_{own}")).into_iter().chain([own]) {
            ours.retain(|field| field.name != name);
            ours.push(Field { name, node: node.clone() });
        }
    }
    Value::Map(ours)
}

/// Rules with our names of permissions. Their `*` matches any text, also in a path.
fn permission(value: Value) -> Value {
    let Value::Map(fields) = value else { return value };
    let field = |Field { name, node }: Field| {
        let name = match tool(&name).as_str() {
            "write" => "edit".to_owned(),
            other => other.to_owned(),
        };
        let is_path = matches!(name.as_str(), "read" | "edit");
        let value = match node.value {
            Value::Map(patterns) if is_path => {
                let glob = |field: Field| Field { name: glob(&field.name), ..field };
                Value::Map(patterns.into_iter().map(glob).collect())
            }
            value => value,
        };
        Field { name, node: Node { at: node.at, value } }
    };
    Value::Map(fields.into_iter().map(field).collect())
}

/// A pattern whose `*` matches any text, as a glob, whose `*` ends at a slash. What else is special in a glob is plain text in such a
/// pattern; one with `**` is meant as a glob, and stays.
fn glob(pattern: &str) -> String {
    if pattern == "*" || pattern.contains("**") {
        return pattern.to_owned();
    }
    let pieces: Vec<&str> = pattern.split('*').collect();
    let mut glob = String::new();
    for (place, piece) in pieces.iter().enumerate() {
        glob.push_str(match place {
            0 => "",
            1 if glob.is_empty() => "**/*",
            _ if glob.ends_with('/') && piece.is_empty() => "**",
            _ => "{*,*/**/*}",
        });
        for c in piece.chars() {
            glob.extend(matches!(c, '[' | ']' | '{' | '}' | '\\').then_some('\\'));
            glob.push(c);
        }
    }
    glob
}

/// The fields of a Claude Code agent, in our words. What has no counterpart here is left out.
pub(super) fn claude_agent(fields: Vec<Field>, models: &BTreeMap<String, ModelRef>) -> Result<Vec<Field>, Fault> {
    let mut known = Vec::new();
    let (mut out, mut out_at, mut plans) = (Vec::new(), 0, None);
    for Field { name, node } in fields {
        let at = node.at;
        match (name.as_str(), node.value) {
            ("tools", value) => claude_tools(&names(value, at)?, at, &mut known),
            ("disallowedTools", value) => {
                (out, out_at) = (names(value, at)?.iter().map(|name| tool(bare(name))).collect(), at);
            }
            ("permissionMode", Value::Text(mode)) if mode == "plan" => {
                plans = Some(field("edit", at, Value::Text("deny".to_owned())))
            }
            ("model", Value::Text(word)) => {
                known.extend(model(&word, models).map(|m| field("model", at, Value::Text(m))))
            }
            ("maxTurns", value) => known.push(field("steps", at, value)),
            ("name" | "description" | "color", value) => known.push(field(&name, at, value)),
            _ => {}
        }
    }
    for wanted in ["name", "description"] {
        if !known.iter().any(|field| field.name == wanted) {
            return Err(Fault::new(0, wanted, "missing: an agent of Claude Code has a name and a description"));
        }
    }
    if !out.is_empty() {
        take_out(&mut known, out_at, out);
    }
    if let Some(no_edits) = plans {
        match known.iter_mut().find(|field| field.name == "permission").map(|field| &mut field.node.value) {
            Some(Value::Map(rules)) => rules.push(no_edits),
            _ => known.push(field("permission", no_edits.node.at, Value::Map(vec![no_edits]))),
        }
    }
    Ok(known)
}

/// The names of a list, or of a text with commas between them.
fn names(value: Value, at: usize) -> Result<Vec<String>, Fault> {
    match value {
        Value::Text(names) => Ok(split(&names)),
        Value::List(items) => {
            let name = |item: Node| match item.value {
                Value::Text(name) => Ok(name),
                other => {
                    Err(Fault::new(item.at, "tools", format!("the name of a tool is wanted, not {}", other.kind())))
                }
            };
            items.into_iter().map(name).collect()
        }
        other => Err(Fault::new(at, "tools", format!("names of tools are wanted, not {}", other.kind()))),
    }
}

/// The parts between commas, but for those in brackets.
fn split(names: &str) -> Vec<String> {
    let mut depth = 0_usize;
    let parts = names.split(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

/// `Bash` of `Bash(git:*)`.
fn bare(name: &str) -> &str {
    name.split('(').next().unwrap_or(name).trim()
}

/// The tools; and where commands are named, that no others may run.
fn claude_tools(names: &[String], at: usize, known: &mut Vec<Field>) {
    let tools = names.iter().map(|name| text(at, tool(bare(name)))).collect();
    known.push(field("tools", at, Value::List(tools)));
    let commands: Vec<&str> = names.iter().filter_map(|name| name.strip_prefix("Bash(")?.strip_suffix(')')).collect();
    if commands.is_empty() || names.iter().any(|name| name == "Bash") {
        return;
    }
    let mut rules = vec![Field { name: "*".to_owned(), node: text(at, "deny") }];
    for command in commands {
        match command.strip_suffix(":*") {
            Some(prefix) => {
                rules.extend(
                    [prefix.to_owned(), format!("{prefix} *")].map(|name| Field { name, node: text(at, "allow") }),
                );
            }
            None => rules.push(Field { name: command.to_owned(), node: text(at, "allow") }),
        }
    }
    known.push(field("permission", at, Value::Map(vec![field("bash", at, Value::Map(rules))])));
}

/// The model of a word such as `sonnet`, and of a name with or without its provider; `None` for that of the session.
fn model(word: &str, models: &BTreeMap<String, ModelRef>) -> Option<String> {
    let provider = || models.values().next().map(|model| model.provider.as_str());
    match models.get(word) {
        Some(model) => Some(model.to_string()),
        None if word.contains('/') => Some(word.to_owned()),
        None if word.starts_with("claude-") => Some(format!("{}/{word}", provider()?)),
        None => None,
    }
}

/// The fields of an OpenCode or Claude Code command, in our words. What has no counterpart here is left out.
pub(super) fn command(
    fields: Vec<Field>,
    dialect: Dialect,
    models: &BTreeMap<String, ModelRef>,
) -> Result<Vec<Field>, Fault> {
    let mut known = Vec::new();
    for Field { name, node } in fields {
        let at = node.at;
        match (name.as_str(), node.value) {
            ("model", Value::Text(word)) if dialect == Dialect::ClaudeCode => {
                known.extend(model(&word, models).map(|model| field("model", at, Value::Text(model))));
            }
            ("agent", Value::Text(agent)) => known.push(field("agent", at, Value::Text(self::name(&agent)))),
            ("description" | "model" | "subtask" | "template", value) => known.push(field(&name, at, value)),
            ("context", Value::Text(word)) if word == "fork" => known.push(field("subtask", at, Value::Bool(true))),
            // `[name]` without quotes is a list of YAML.
            ("argument-hint", Value::List(items)) => {
                let words = items.into_iter().map(|item| match item.value {
                    Value::Text(word) => format!("[{word}]"),
                    other => format!("[{}]", other.kind()),
                });
                known.push(field("arguments", at, Value::Text(words.collect::<Vec<_>>().join(" "))));
            }
            ("argument-hint", value) => known.push(field("arguments", at, value)),
            _ => {}
        }
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        permission::{Action, Globs, Rule, Ruleset, judge, matches_simply},
        tool::Access,
    };

    /// A pattern of OpenCode matches the same paths here, so that a denial is never narrower than its writer meant.
    #[test]
    fn a_star_in_a_path_matches_what_it_does_in_opencode() {
        let paths =
            ["a.ts", "src/a.ts", "src/x/a.ts", "src/x/y/a.ts", "src/.ts", "secret", "secret/k", "secrets/x/k", ".env"];
        let paths = paths.into_iter().chain([
            "x/.env",
            "x/prod.env",
            "app/[id]/p",
            "app/i/p",
            "lib/x-test/y",
            "lib/x/y-test/z",
        ]);
        let paths: Vec<&str> = paths.collect();
        let patterns =
            ["src/*.ts", "src/*", "secret*", "*.env", "*", "app/[id]/p", "lib/*-test/*", "*/x/*", "*s*.ts", "src/a.ts"];
        for pattern in patterns {
            let rules = Ruleset::new("r", [Rule::new("edit", glob(pattern), Action::Deny)]);
            for path in &paths {
                let judged = judge([&rules], &Access::new("edit", *path), &Globs::default());
                assert_eq!(judged.action == Action::Deny, matches_simply(pattern, path), "{pattern} {path}");
            }
        }
    }
}
