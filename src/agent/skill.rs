//! Skills: instructions for one kind of work, which a model reads when it needs them.
//!
//! The form is that of agentskills.io: a folder with a file `SKILL.md`, whose front matter has a name and a description. The
//! description of the tool `skill` lists both for every skill ([`Skills::tool`]); the text itself comes as the result of a call, under
//! the permission `skill` with the skill's name as pattern. Pruning keeps such a result.
//!
//! A skill gives no rights. `allowed-tools` is repeated to the model as what the skill says that it needs, and each call is judged
//! as any other. `files.rs` finds and reads the files, and decides whether those of a workspace may be used.
//!
//! A change must keep this code pure: it reads no file. The bounds are those of the standard, except for the text (256 KiB, as of
//! any file of an agent) and for what all descriptions may take in each request ([`SHOWN_BYTES_MAX`]).

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    model::BoxFuture,
    tool::{Access, Effect, Tool, ToolContext, ToolResult, parse_arguments},
};

/// The name of the tool, and of its permission.
const SKILL: &str = "skill";
/// Bytes of a name, of a description and of `compatibility`, at most: as agentskills.io says.
const NAME_BYTES_MAX: usize = 64;
const DESCRIPTION_CHARS_MAX: usize = 1_024;
#[cfg(feature = "agent-files")]
pub(super) const COMPATIBILITY_CHARS_MAX: usize = 500;
/// Bytes of names and descriptions that each request carries, at most. Of further skills only the number is said.
const SHOWN_BYTES_MAX: usize = 32 * 1_024;
/// Names of skills in the answer to an unknown name, at most.
const NAMED_MAX: usize = 50;

/// Instructions for one kind of work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Skill {
    /// 1 to 64 of `a-z 0-9 -`; no `-` at an end or twice in a row.
    pub name: String,
    /// What it does and when to use it: up to 1,024 characters.
    pub description: String,
    /// What it needs of its surroundings, in the author's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compatibility: Option<String>,
    /// The tools that it says it needs. Gives no rights.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    /// What else its author says of it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// The instructions, in Markdown.
    pub text: String,
    /// The file that it is from. Files that its text names are beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<PathBuf>,
    /// What a reader of the standard would object to, although the skill works.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Skill {
    /// A skill of a host's own.
    ///
    /// # Errors
    /// If the name or the description breaks the bounds of the standard, or if there is no text.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        text: impl Into<String>,
    ) -> Result<Skill, BadSkill> {
        let (name, description, text) = (name.into(), description.into(), text.into());
        check_name(&name)?;
        check_length("description", &description, DESCRIPTION_CHARS_MAX)?;
        if text.trim().is_empty() {
            return Err(BadSkill { field: "", why: "the skill has no text".to_owned() });
        }
        let (compatibility, source, notes) = (None, None, Vec::new());
        let (allowed_tools, metadata) = (Vec::new(), BTreeMap::new());
        Ok(Skill { name, description, compatibility, allowed_tools, metadata, text, source, notes })
    }

    /// What the model reads.
    fn shown(&self) -> String {
        let mut shown = format!("# Skill {}\n", self.name);
        if let Some(folder) = self.source.as_deref().and_then(std::path::Path::parent) {
            shown += &format!("Files that it names are in {}.\n", folder.display());
        }
        if !self.allowed_tools.is_empty() {
            let tools = self.allowed_tools.join(", ");
            shown += &format!("It says that it needs: {tools}. What you may do is unchanged.\n");
        }
        shown + "\n" + self.text.trim()
    }
}

/// Why a skill cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{why}", if field.is_empty() { String::new() } else { format!("{field}: ") })]
#[non_exhaustive]
pub struct BadSkill {
    /// The field, such as `description`; empty if none is meant.
    pub field: &'static str,
    /// What is wrong.
    pub why: String,
}

fn check_name(name: &str) -> Result<(), BadSkill> {
    let is_known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_name = (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.chars().all(is_known)
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--");
    if is_name {
        return Ok(());
    }
    let why = format!("{name:?} is not a name: write 1 to 64 small letters, digits and single - between them");
    Err(BadSkill { field: "name", why })
}

pub(super) fn check_length(field: &'static str, text: &str, max: usize) -> Result<(), BadSkill> {
    match text.trim().chars().count() {
        0 => Err(BadSkill { field, why: "it is missing: say what the skill does and when to use it".to_owned() }),
        chars if chars > max => {
            Err(BadSkill { field, why: format!("it has {chars} characters: at most {max} are allowed") })
        }
        _ => Ok(()),
    }
}

/// The skills of a runtime, by name.
///
/// ```
/// use tamtam::{Runtime, runtime::{Skill, Skills}};
///
/// let own = Skill::new("refund", "How to pay money back. Use it when a customer asks for a refund.", "1. Look up the order.\n")?;
/// let skills = Skills::built_in().with([own]);
/// let builder = Runtime::builder().tool(skills.tool());
/// # drop(builder);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Skills(Arc<BTreeMap<String, Skill>>);

impl Skills {
    /// The skills that the library has: `review`, `commit`, `test` and `debug`.
    #[must_use]
    pub fn built_in() -> Skills {
        let own = |name: &str, description: &str, text: &str| Skill::new(name, description, text).ok();
        let skills = [
            own(
                "review",
                "Reviews a change: what it breaks, what it leaves out, and what a reader will not understand. Use it when asked to \
                 review, check or judge code, a diff or a pull request.",
                include_str!("skill/review.md"),
            ),
            own(
                "commit",
                "Makes commits that can be read and reverted alone, with messages that say why. Use it when asked to commit.",
                include_str!("skill/commit.md"),
            ),
            own(
                "test",
                "Writes tests that fail when the code is wrong. Use it when asked for tests, or when a fault is mended.",
                include_str!("skill/test.md"),
            ),
            own(
                "debug",
                "Finds the cause of a fault before anything is changed. Use it when something fails and the reason is not plain.",
                include_str!("skill/debug.md"),
            ),
        ];
        Skills::default().with(skills.into_iter().flatten())
    }

    /// The same, with these added. A skill of the same name is replaced.
    #[must_use]
    pub fn with(self, skills: impl IntoIterator<Item = Skill>) -> Skills {
        let mut all = Arc::unwrap_or_clone(self.0);
        all.extend(skills.into_iter().map(|skill| (skill.name.clone(), skill)));
        Skills(Arc::new(all))
    }

    /// All skills, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Skill> {
        self.0.values()
    }

    /// The skill of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Skill> {
        self.0.get(name)
    }

    /// The tool `skill`, for [`Builder::tool`](crate::runtime::Builder::tool): it lists these skills, and a call of it returns the
    /// text of one.
    #[must_use]
    pub fn tool(&self) -> impl Tool + use<> {
        let mut description =
            "Loads the instructions of a skill. Call it before you begin work that a skill is for. Skills:".to_owned();
        let mut left = self.0.len();
        for skill in self.0.values() {
            // A line each, so that no description looks like a skill of its own.
            let line = format!("\n- {}: {}", skill.name, on_one_line(&skill.description));
            if description.len() + line.len() > SHOWN_BYTES_MAX {
                break;
            }
            description += &line;
            left -= 1;
        }
        if left > 0 {
            description += &format!("\n({left} more are not listed here.)");
        }
        SkillTool { skills: self.clone(), description }
    }
}

/// Without control characters, and with single blanks.
fn on_one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

/// The tool that hands out skills.
struct SkillTool {
    skills: Skills,
    description: String,
}

#[derive(Deserialize)]
struct Arguments {
    name: String,
}

impl Tool for SkillTool {
    fn name(&self) -> &'static str {
        SKILL
    }

    fn aliases(&self) -> &[&str] {
        &["Skill", "load_skill"]
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn schema(&self) -> Value {
        let name = json!({ "type": "string", "description": "The name of the skill." });
        json!({ "type": "object", "properties": { "name": name }, "required": ["name"] })
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    fn parallel(&self) -> bool {
        true
    }

    fn answers_at_once(&self) -> bool {
        true
    }

    fn access(&self, arguments: &Value) -> Vec<Access> {
        vec![Access::new(SKILL, arguments["name"].as_str().unwrap_or("*"))]
    }

    fn permissions(&self) -> Vec<String> {
        vec![SKILL.to_owned()]
    }

    fn check(&self, arguments: &Value) -> Result<(), String> {
        parse_arguments::<Arguments>(arguments.clone()).map(drop).map_err(|error| error.to_string())
    }

    fn run<'a>(&'a self, arguments: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let name = match parse_arguments::<Arguments>(arguments) {
                Ok(Arguments { name }) => name,
                Err(error) => return ToolResult::error(error.to_string()),
            };
            let Some(skill) = self.skills.get(&name) else {
                let names: Vec<_> = self.skills.iter().map(|skill| skill.name.as_str()).take(NAMED_MAX).collect();
                return ToolResult::error(format!("no skill is called {name:?}. There are: {}", names.join(", ")));
            };
            let details = json!({ "name": skill.name, "source": skill.source, "allowed_tools": skill.allowed_tools });
            ToolResult::ok(skill.shown()).with_details(details).with_title(skill.name.clone())
        })
    }
}
