//! Reads a `SKILL.md`. Pure. Fields that the standard does not know are noted, not refused: people publish skills for several
//! programs, each with fields of its own.

use std::{collections::BTreeMap, path::Path};

use super::{BadFile, Dialect, read, walk};
use crate::{
    agent::{
        BadSkill, Skill,
        skill::{COMPATIBILITY_CHARS_MAX, check_length},
    },
    permission::{
        Fault,
        document::{Node, Value},
    },
};

impl Skill {
    /// Reads one file `SKILL.md`, wherever links lead. Blocks on the disk.
    ///
    /// # Errors
    /// If the file cannot be read, and if it is no skill: with the line and the field.
    pub fn from_file(path: &Path) -> Result<Skill, BadFile> {
        let text = walk::text(path, None, &|_, _| true)?;
        let wrong = |fault| BadFile::of(path, &text, fault);
        let (front, body) = read::front_matter(&text, Dialect::AgentSkills).map_err(wrong)?;
        skill(&front, body, path).map_err(wrong)
    }
}

/// The file of a skill, in either spelling.
pub(super) fn is_skill(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "SKILL.md" || name == "skill.md")
}

/// The skill that a text says. `path` is that of its file: the folder's name is that of a skill without one.
pub(super) fn skill(node: &Node, body: &str, path: &Path) -> Result<Skill, Fault> {
    let fields = match &node.value {
        Value::Map(fields) if !fields.is_empty() => fields,
        _ => {
            return Err(Fault::new(node.at, "", "the front matter is missing: begin with ---, name: and description:"));
        }
    };
    let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
    let (mut name, mut description, mut compatibility) = (folder.to_owned(), String::new(), None);
    let (mut allowed_tools, mut metadata, mut notes) = (Vec::new(), BTreeMap::new(), Vec::new());
    for field in fields {
        let wrong = |wanted: &str| {
            Fault::new(field.node.at, field.name.clone(), format!("{wanted}, not {}", field.node.value.kind()))
        };
        match (field.name.as_str(), &field.node.value) {
            (_, Value::Null) => {}
            ("name", value) => name = text(value).ok_or_else(|| wrong("a name"))?,
            ("description", value) => description = text(value).ok_or_else(|| wrong("a text"))?,
            ("compatibility", value) => compatibility = Some(text(value).ok_or_else(|| wrong("a text"))?),
            ("license" | "version" | "author", value) => {
                metadata.insert(field.name.clone(), text(value).unwrap_or_default());
            }
            ("allowed-tools", value) => {
                allowed_tools = words(value).ok_or_else(|| wrong("names of tools with blanks between them"))?;
            }
            ("metadata", Value::Map(entries)) => {
                let entries =
                    entries.iter().map(|entry| (entry.name.clone(), text(&entry.node.value).unwrap_or_default()));
                metadata.extend(entries);
            }
            ("metadata", _) => return Err(wrong("a table")),
            (other, _) => notes.push(format!("the field {other:?} is not one of the standard: it is not used")),
        }
    }
    if name != folder {
        notes.push(format!("its folder is called {folder:?}: the standard wants the skill's name"));
    }
    let place = |bad: BadSkill| {
        let at = fields.iter().find(|field| field.name == bad.field).map_or(node.at, |field| field.node.at);
        Fault::new(at, bad.field, bad.why)
    };
    if let Some(text) = &compatibility {
        check_length("compatibility", text, COMPATIBILITY_CHARS_MAX).map_err(place)?;
    }
    let skill = Skill::new(name, description.trim(), body.trim()).map_err(place)?;
    Ok(Skill { compatibility, allowed_tools, metadata, notes, source: Some(path.to_path_buf()), ..skill })
}

/// A value as people write one in YAML: `1.0` is the text it looks like.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text.clone()),
        Value::Map(_) | Value::List(_) | Value::Null => None,
        other => Node { at: 0, value: other.clone() }.to_json().ok().map(|value| value.to_string()),
    }
}

/// Names with blanks or commas between them, or a list of names. A name may have a pattern in brackets: `Bash(git add:*)`.
fn words(value: &Value) -> Option<Vec<String>> {
    let text = match value {
        Value::List(items) => return items.iter().map(|item| text(&item.value)).collect(),
        value => text(value)?,
    };
    let (mut words, mut word, mut depth) = (Vec::new(), String::new(), 0_usize);
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && (c.is_whitespace() || c == ',') {
            words.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
        } else {
            word.push(c);
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    Some(words)
}
