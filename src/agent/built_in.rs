//! The agents that the runtime brings along: `build` and `plan` for sessions, `general` and `explore` for tasks, and the hidden
//! `compaction`, `title` and `summary`.
//!
//! They are data, as a host's own agents are. Some have two things that no text can give an agent: words after the session's
//! prompt (`addition`), and rules after the session's rules (`last_rules`). `plan` needs such rules, because it must be able to
//! write its plan where the session asks about edits, and must ask about commands where the session allows them. A change of
//! `plan` by a file sets what files may set, and leaves both.
//!
//! A change must keep `last_rules` out of what is read from texts: they may allow what the session asks about. The names stay,
//! because files of people and tapes mention them, and the runtime looks some of them up by name, such as `build` and `plan`.

use std::collections::BTreeSet;

use crate::{
    agent::{Agent, AgentLimits, AgentMode},
    kernel::context::{SUMMARY_MAX, SUMMARY_SYSTEM},
    permission::{Action, Rule},
    words::ids::SessionId,
};

/// Placeholder for the file of the plan in the rules and the prompt of `plan`.
const PLAN_FILE: &str = "{plan_file}";

/// The prompt of plan mode, after the session's own prompt.
const PLAN_PROMPT: &str = "\
You are in plan mode. Look, think and plan; change nothing yet.
No file may be edited but the plan: {plan_file}. Write it with write or edit, as Markdown: what is wanted, what you found, and the \
steps as items (- [ ] one step), each small enough to be checked.
Commands that only report run; every other command is asked about.
The user may change the plan file at any time: read it again before you rely on it.
When the plan is ready, call plan_exit: the user reads the plan, and you go on when it is approved. Until then, ask and improve.";

const GENERAL_PROMPT: &str = "\
You work on one task that another agent gave to you. Nobody talks to you while you work, and your last message is all that comes \
back: say in it what you did, what you found, and what is left.";

const EXPLORE_PROMPT: &str = "\
You look things up for another agent, and change nothing.
Search wide first, then read what matters. Answer with what was asked, and name the files and lines that show it. Say so where you \
did not find it. Your last message is all that comes back.";

const TITLE_PROMPT: &str = "\
You give a conversation its title. Answer with the title alone: one line, at most 50 characters, in the language of the user, with \
what the conversation is about. No quotes, no full stop, no explanation.";

const TITLE_MAX: u64 = 100;

const SHORT_SUMMARY_PROMPT: &str = "\
You say what a conversation did, in two sentences at most and in the language of the user: what was wanted, and what was done. No \
greeting, no heading, no explanation.";

const SHORT_SUMMARY_MAX: u64 = 400;

impl Agent {
    /// The agent that works: the default. It sets nothing, so a session under it is as its options say.
    #[must_use]
    pub fn build() -> Agent {
        Agent {
            native: true,
            mode: AgentMode::Primary,
            ..Agent::new("build", "Does the work: reads, changes and checks.")
        }
    }

    /// The agent that plans: no edits but of its plan file, commands that report are allowed, all others are asked about, and it
    /// may ask to leave the mode (`plan_exit`). Everything else is left to the session's own rules.
    ///
    /// ```
    /// use tamtam::{SessionOptions, runtime::Agent};
    ///
    /// let options = SessionOptions::from_agent(&Agent::plan(), "/srv/app")?;
    /// # drop(options);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn plan() -> Agent {
        Agent {
            native: true,
            mode: AgentMode::Primary,
            addition: Some(PLAN_PROMPT),
            last_rules: vec![
                Rule::new("edit", "**", Action::Deny),
                Rule::new("edit", PLAN_FILE, Action::Allow),
                Rule::new("bash", "*", Action::Ask),
                Rule::new("confined_bash", "*", Action::Allow),
                // Leaving plan mode always asks a person.
                Rule::new("plan_exit", "*", Action::Allow),
            ],
            ..Agent::new(
                "plan",
                "Plans: looks at everything, changes nothing but its plan, and asks when the plan is ready.",
            )
        }
    }

    /// The agent for any task: with the tools and rules of the session that assigns the task.
    #[must_use]
    pub(crate) fn general() -> Agent {
        Agent {
            native: true,
            mode: AgentMode::Subagent,
            addition: Some(GENERAL_PROMPT),
            ..Agent::new(
                "general",
                "Does a task of several steps by itself: research, or a change that is described whole.",
            )
        }
    }

    /// The agent that looks things up: it has the tools that read and search, and its rules deny edits, commands and tasks.
    #[must_use]
    pub(crate) fn explore() -> Agent {
        Agent {
            native: true,
            mode: AgentMode::Subagent,
            addition: Some(EXPLORE_PROMPT),
            tools: Some(["read", "grep", "find", "ls"].map(str::to_owned).into()),
            permission: ["edit", "bash", "task"].map(|kind| Rule::new(kind, "*", Action::Deny)).into(),
            ..Agent::new("explore", "Finds things in files and answers questions about them; changes nothing.")
        }
    }

    /// The agent that writes summaries of conversations: hidden, with its own prompt, no tools, and every permission denied.
    #[must_use]
    pub fn compaction() -> Agent {
        Agent::writer("compaction", "Sums a conversation up.", SUMMARY_SYSTEM, SUMMARY_MAX)
    }

    /// The agent that gives a conversation its title; otherwise as [`Agent::compaction`].
    #[must_use]
    pub(crate) fn title() -> Agent {
        Agent::writer("title", "Gives a conversation its title.", TITLE_PROMPT, TITLE_MAX)
    }

    /// The agent that says in a few words what a conversation did; otherwise as [`Agent::compaction`].
    #[must_use]
    pub(crate) fn summary() -> Agent {
        Agent::writer("summary", "Says what a conversation did.", SHORT_SUMMARY_PROMPT, SHORT_SUMMARY_MAX)
    }

    /// A hidden agent that answers once, and may do nothing else.
    fn writer(name: &str, description: &str, prompt: &str, output_max: u64) -> Agent {
        Agent {
            mode: AgentMode::Primary,
            prompt: Some(prompt.to_owned()),
            tools: Some(BTreeSet::new()),
            permission: vec![Rule::new("*", "*", Action::Deny)],
            limits: AgentLimits { steps_max: Some(1), output_max: Some(output_max) },
            hidden: true,
            native: true,
            ..Agent::new(name, description)
        }
    }

    /// All agents that the runtime brings along.
    pub(super) fn built_in() -> [Agent; 7] {
        [
            Agent::build(),
            Agent::plan(),
            Agent::general(),
            Agent::explore(),
            Agent::compaction(),
            Agent::title(),
            Agent::summary(),
        ]
    }
}

/// The file of a session's plan, from the workspace on. The id has letters, digits, `.`, `_` and `-` only, so the path is also a
/// pattern that means this one file.
pub(super) fn plan_file(session: &SessionId) -> String {
    format!(".tamtam/plans/{session}.md")
}

/// The same text for a plan in that file.
pub(super) fn filled(text: &str, plan_file: &str) -> String {
    text.replace(PLAN_FILE, plan_file)
}
