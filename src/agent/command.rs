//! Commands: lines that begin with `/` and a name. [`Commands`] is an immutable set of them, the same for a terminal, for programs
//! and for hosts.
//!
//! A command acts ([`CommandAct`]: it changes its session or shows something), or says a prepared text to its session (a template).
//! The runtime brings some of both along; people add templates as files (`agent/files.rs`), and hosts add either. Reading a line
//! and filling a template are pure functions; `runtime/command.rs` carries a command out.
//!
//! A change must keep two things. A line with an unknown name is an error: a mistyped command must not reach the model as a
//! message. No command replaces one that acts: a file must not change what `/undo` does.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

use crate::words::message::ModelRef;

const INIT: &str = "\
Write AGENTS.md for this project, or improve the one that is there: what an agent must know that it cannot see at once.
Look first: the files that say how the project is built and tested, the folders, the code, and rules that are there already \
(AGENTS.md, CLAUDE.md, .cursor/rules, .github/copilot-instructions.md, CONTRIBUTING).
Say, in at most 60 lines: the commands to build, to check and to run one test; what stands where; how code is written here, where \
that is not what everybody does; and what goes wrong easily. Write only what you have seen in the files. No advice that holds for \
every project. Keep what people have written, unless it is wrong.
$ARGUMENTS";

const REVIEW: &str = "\
Review changes, and change nothing.
What to review: $ARGUMENTS
Where nothing is named: what is not committed (git status, git diff, and new files whole). A hash is a commit, a name may be a \
branch or a path, a number a pull request (gh pr diff, where gh is there).
Read each changed file far enough to understand the change. Look for what is wrong: behaviour that differs from what is meant, a \
case that is forgotten, an error that is swallowed, a race, a hole in what is guarded, a test that cannot fail. Say no word about \
style that a formatter would mend, and nothing that you have not checked in the code.
Report the findings, the worst first, each with file and line, when it happens, and what to do. Where you found nothing, say so in \
one sentence.";

/// What a command without a template does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CommandAct {
    /// Goes back to before the newest message.
    Undo,
    /// Takes the newest undo back.
    Redo,
    /// Lists the commands.
    Help,
    /// Summarizes the older part of the conversation.
    Compact,
    /// Lists the agents.
    Agents,
    /// Has the session work as another agent.
    Agent,
    /// Lists models whose price is known.
    Models,
    /// Has another model answer.
    Model,
    /// Has the model think more or less.
    Thinking,
    /// Has a title written.
    Title,
    /// Says in a few words what the conversation did.
    Summary,
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Does {
    /// It changes its session or shows something, and sends it no message.
    Act(CommandAct),
    /// Sends this text to the session, with its arguments in place of `$ARGUMENTS`, `$1`, `$2` and `{{name}}`.
    Say(String),
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Command {
    /// Its name, without the `/`.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// What it takes, in words for people.
    pub arguments: Option<String>,
    /// What it is.
    pub does: Does,
    /// The agent that answers; that of the session by default.
    pub agent: Option<String>,
    /// The model that answers; that of the session or of the agent by default.
    pub model: Option<ModelRef>,
    /// Whether it runs as a separate task, of which the session gets only the result.
    pub subtask: bool,
    /// The file that it was read from.
    #[serde(serialize_with = "crate::words::maybe_path_text")]
    pub source: Option<PathBuf>,
}

impl Command {
    /// A command of that name, with everything else left to defaults.
    #[must_use]
    pub fn new(name: impl Into<String>, description: impl Into<String>, does: Does) -> Command {
        let (name, description) = (name.into(), description.into());
        Command { name, description, arguments: None, does, agent: None, model: None, subtask: false, source: None }
    }

    fn taking(self, arguments: &str) -> Command {
        Command { arguments: Some(arguments.to_owned()), ..self }
    }

    fn into_task(self) -> Command {
        Command { subtask: true, ..self }
    }

    /// Whether its text has a gap without arguments: a numbered mark, or arguments that its hint does not put in brackets.
    fn needs_arguments(&self) -> bool {
        let Does::Say(template) = &self.does else { return false };
        let is_required = self.arguments.as_deref().is_some_and(|hint| !hint.starts_with('['));
        pieces(template).any(|piece| match piece {
            Piece::Numbered(_) => true,
            Piece::All => is_required,
            _ => false,
        })
    }

    /// The names in double braces of its template: `{{name}}`. An argument `name=value` fills one; an unfilled one stays.
    #[must_use]
    pub fn variables(&self) -> BTreeSet<&str> {
        let Does::Say(template) = &self.does else { return BTreeSet::new() };
        let names = pieces(template).filter_map(|piece| match piece {
            Piece::Variable(name, _) => Some(name),
            _ => None,
        });
        names.collect()
    }
}

/// Why a line is not a usable command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadCommand {
    /// No command has that name.
    #[error(
        "unknown command /{given}{unused}: use one of {known}; to send text that starts with /, put a space before it"
    )]
    Unknown {
        /// The name that was given.
        given: String,
        /// The names that there are.
        known: String,
        /// In brackets, the file of such a command that is not used, and why; empty if there is none.
        unused: String,
    },
    /// A quote has no end.
    #[error("/{name}: the quote {quote} is not closed")]
    Quote {
        /// The command.
        name: String,
        /// The quote.
        quote: char,
    },
    /// The command wants other arguments.
    #[error("/{name} takes {wants}")]
    Arguments {
        /// The command.
        name: String,
        /// What it takes.
        wants: String,
    },
}

/// A command that was called, with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Called {
    /// The command.
    pub command: Arc<Command>,
    /// Its arguments as they were written.
    pub arguments: String,
    /// The arguments one by one; an argument in quotes is one.
    pub words: Vec<String>,
}

/// The commands that there are. A clone is the same snapshot.
///
/// ```
/// use tamtam::runtime::{Command, Commands, Does};
///
/// let hello = Command::new("hello", "Greets.", Does::Say("Greet $1 in $2.".to_owned()));
/// let commands = Commands::built_in().with([hello]);
/// let called = commands.read(r#"/hello "Ada Lovelace" Latin"#).unwrap()?;
/// assert_eq!(called.text().as_deref(), Some("Greet Ada Lovelace in Latin."));
/// assert!(commands.read("hello").is_none(), "no command");
/// assert!(commands.read("/helo").unwrap().unwrap_err().to_string().contains("/hello"));
/// # Ok::<(), tamtam::runtime::BadCommand>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commands {
    by_name: Arc<BTreeMap<String, Arc<Command>>>,
    /// Why no command has these names.
    unused: Arc<BTreeMap<String, String>>,
}

impl Default for Commands {
    fn default() -> Commands {
        Commands::built_in()
    }
}

impl Commands {
    /// The commands that the runtime brings along.
    #[must_use]
    pub fn built_in() -> Commands {
        let act = |name, description, act| Command::new(name, description, Does::Act(act));
        let say = |name, description, text: &str| Command::new(name, description, Does::Say(text.to_owned()));
        let none = Commands { by_name: Arc::default(), unused: Arc::default() };
        none.with([
            act("undo", "Takes the newest message back, with all that followed from it.", CommandAct::Undo),
            act("redo", "Takes the newest undo back.", CommandAct::Redo),
            act("help", "Lists the commands.", CommandAct::Help),
            act("compact", "Summarizes the older part of the conversation.", CommandAct::Compact),
            act("agents", "Lists the agents.", CommandAct::Agents),
            act("agent", "Switches to another agent.", CommandAct::Agent).taking("NAME"),
            act("models", "Lists models whose price is known.", CommandAct::Models).taking("[PART]"),
            act("model", "Has another model answer.", CommandAct::Model).taking("PROVIDER/MODEL"),
            act("thinking", "Has the model think more or less from its next request on.", CommandAct::Thinking)
                .taking("off, minimal, low, medium, high or xhigh"),
            act("title", "Has a title written for the conversation.", CommandAct::Title),
            act("summary", "Says in two sentences what the conversation did.", CommandAct::Summary),
            say("init", "Writes AGENTS.md, or improves it.", INIT).taking("[what matters to you]"),
            say("review", "Reviews changes, as a task of its own.", REVIEW)
                .taking("[commit, branch, pull request or path]")
                .into_task(),
        ])
    }

    /// These and more; a later one replaces one with the same name, but not one that acts ([`Does::Act`]).
    #[must_use]
    pub fn with(&self, commands: impl IntoIterator<Item = Command>) -> Commands {
        let mut by_name = (*self.by_name).clone();
        for command in commands {
            let is_act = by_name.get(&command.name).is_some_and(|own| matches!(own.does, Does::Act(_)));
            if !is_act {
                by_name.insert(command.name.clone(), Arc::new(command));
            }
        }
        Commands { by_name: Arc::new(by_name), unused: self.unused.clone() }
    }

    /// The same commands, with the reasons why no others have these names.
    #[cfg(feature = "agent-files")]
    pub(crate) fn without(self, unused: BTreeMap<String, String>) -> Commands {
        Commands { unused: Arc::new(unused), ..self }
    }

    /// The command of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<Command>> {
        self.by_name.get(name)
    }

    /// All commands, by name.
    pub fn list(&self) -> impl Iterator<Item = &Arc<Command>> {
        self.by_name.values()
    }

    /// The command that a line calls; `None` if the line does not begin with `/` and so is a message.
    ///
    /// # Errors
    /// [`BadCommand`] if no command has that name, or its arguments cannot be read.
    #[must_use]
    pub fn read(&self, line: &str) -> Option<Result<Called, BadCommand>> {
        let line = line.strip_prefix('/')?;
        let (name, arguments) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        Some(self.called(name, arguments.trim()))
    }

    fn called(&self, name: &str, arguments: &str) -> Result<Called, BadCommand> {
        let Some(command) = self.get(name) else {
            let known = self.by_name.keys().map(|name| format!("/{name}")).collect::<Vec<_>>().join(", ");
            let unused = self.unused.get(name).map(|why| format!(" (not used: {why})")).unwrap_or_default();
            return Err(BadCommand::Unknown { given: name.chars().take(64).collect(), known, unused });
        };
        let words = words(arguments).map_err(|quote| BadCommand::Quote { name: name.to_owned(), quote });
        let words = match &command.does {
            // A text may hold anything, such as an apostrophe.
            Does::Say(_) => words.unwrap_or_else(|_| arguments.split_whitespace().map(str::to_owned).collect()),
            Does::Act(_) => words?,
        };
        if words.is_empty() && command.needs_arguments() {
            let wants = command.arguments.clone().unwrap_or_else(|| "arguments".to_owned());
            return Err(BadCommand::Arguments { name: name.to_owned(), wants });
        }
        Ok(Called { command: command.clone(), arguments: arguments.to_owned(), words })
    }
}

impl Called {
    /// What the command says to its session; `None` if it does something instead.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        match &self.command.does {
            Does::Say(template) => Some(filled(template, &self.arguments, &self.words)),
            Does::Act(_) => None,
        }
    }

    /// The only argument of a command that takes one.
    pub(crate) fn only_word(&self) -> Result<&str, BadCommand> {
        match &self.words[..] {
            [word] => Ok(word),
            _ => Err(self.wants(self.command.arguments.as_deref().unwrap_or("one argument"))),
        }
    }

    /// An empty list of arguments.
    pub(crate) fn no_word(&self) -> Result<(), BadCommand> {
        if self.words.is_empty() { Ok(()) } else { Err(self.wants("no arguments")) }
    }

    fn wants(&self, wants: &str) -> BadCommand {
        BadCommand::Arguments { name: self.command.name.clone(), wants: wants.to_owned() }
    }
}

/// The words of a line. Quotes of either kind hold one word together; inside of double quotes, and outside of quotes, a backslash
/// takes the next character as it is. The error is the quote that has no end.
fn words(line: &str) -> Result<Vec<String>, char> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().push(chars.next().unwrap_or('\\')),
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.map_or(Ok(words), Err)
}

/// A piece of a template.
enum Piece<'a> {
    Text(&'a str),
    /// `$ARGUMENTS`
    All,
    /// `$1`
    Numbered(usize),
    /// `{{name}}`, and how it is written.
    Variable(&'a str, &'a str),
}

fn pieces(template: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = template;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, length) = match mark(rest) {
            Some(found) => found,
            None => {
                let starts = rest.char_indices().skip(1).map(|(at, _)| at);
                let next =
                    starts.filter(|at| rest[*at..].starts_with(['$', '{'])).find(|at| mark(&rest[*at..]).is_some());
                let length = next.unwrap_or(rest.len());
                (Piece::Text(&rest[..length]), length)
            }
        };
        rest = &rest[length..];
        Some(piece)
    })
}

/// The mark that a text begins with, and its length.
fn mark(text: &str) -> Option<(Piece<'_>, usize)> {
    if text.starts_with("$ARGUMENTS") {
        return Some((Piece::All, "$ARGUMENTS".len()));
    }
    if let Some(digits) = text.strip_prefix('$') {
        let length = digits.bytes().take_while(u8::is_ascii_digit).take(2).count();
        let number = digits[..length].parse().ok().filter(|number| *number > 0)?;
        return Some((Piece::Numbered(number), length + 1));
    }
    let (name, _) = text.strip_prefix("{{")?.split_once("}}")?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then(|| (Piece::Variable(name, &text[..name.len() + 4]), name.len() + 4))
}

/// The template with the arguments in place of its marks, as OpenCode fills it: the highest number takes its word and all later
/// ones, and arguments without a mark are appended to the text. Marks inside an argument are not filled.
fn filled(template: &str, arguments: &str, words: &[String]) -> String {
    let last = pieces(template)
        .filter_map(|piece| if let Piece::Numbered(number) = piece { Some(number) } else { None })
        .max();
    let (mut text, mut is_used) = (String::new(), arguments.is_empty());
    for piece in pieces(template) {
        is_used = is_used || matches!(piece, Piece::All | Piece::Numbered(_));
        match piece {
            Piece::Text(plain) => text.push_str(plain),
            Piece::All => text.push_str(arguments),
            Piece::Numbered(number) if Some(number) == last => {
                text.push_str(&words.get(number - 1..).unwrap_or_default().join(" "));
            }
            Piece::Numbered(number) => text.push_str(words.get(number - 1).map_or("", String::as_str)),
            Piece::Variable(name, written) => {
                let value = words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
                is_used = is_used || value.is_some();
                text.push_str(value.unwrap_or(written));
            }
        }
    }
    if !is_used {
        text.push_str("\n\n");
        text.push_str(arguments);
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests;
