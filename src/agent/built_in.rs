//! The agents that the runtime brings along: `build`, `plan`, and the hidden `compaction`.
//!
//! They are data, as a host's own agents are. The rules of `plan` stand behind those of the session, because it must be able to
//! write its plan where the session asks about edits, and must ask about commands where the session allows them. No agent that is
//! read from a text can do that ([`Agent::native`]).

use std::collections::BTreeSet;

use crate::{
    agent::{Agent, AgentLimits, BadAgent},
    kernel::context::{SUMMARY_MAX, SUMMARY_SYSTEM},
    permission::{Action, Rule},
    words::ids::SessionId,
};

/// Stands for the file of the plan in the rules and the prompt of `plan`.
const PLAN_FILE: &str = "{plan_file}";

/// What the model is told in plan mode, behind the session's own prompt.
const PLAN_PROMPT: &str = "\
You are in plan mode. Look, think and plan; change nothing yet.
No file may be edited but the plan: {plan_file}. Write it with write or edit, as Markdown: what is wanted, what you found, and the \
steps as items (- [ ] one step), each small enough to be checked.
Commands that only report run; every other command is asked about.
The user may change the plan file at any time: read it again before you rely on it.
When the plan is ready, call plan_exit: the user reads the plan, and you go on when it is approved. Until then, ask and improve.";

impl Agent {
    /// The agent that works: the default. It sets nothing, so a session under it is as its options say.
    #[must_use]
    pub fn build() -> Agent {
        Agent { native: true, ..Agent::new("build", "Does the work: reads, changes and checks.") }
    }

    /// The agent that plans: no edits but of its plan file, commands that report are allowed, all others are asked about. What is
    /// neither an edit nor a command is left to the session's own rules.
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
            prompt: Some(PLAN_PROMPT.to_owned()),
            permission: vec![
                Rule::new("edit", "**", Action::Deny),
                Rule::new("edit", PLAN_FILE, Action::Allow),
                Rule::new("bash", "*", Action::Ask),
                Rule::new("harmless_bash", "*", Action::Allow),
                // Leaving plan mode always asks a person, by itself.
                Rule::new("plan_exit", "*", Action::Allow),
            ],
            ..Agent::new(
                "plan",
                "Plans: looks at everything, changes nothing but its plan, and asks when the plan is ready.",
            )
        }
    }

    /// The agent that writes summaries of conversations: hidden, with a prompt of its own, no tools, and every permission denied.
    #[must_use]
    pub fn compaction() -> Agent {
        Agent {
            prompt: Some(SUMMARY_SYSTEM.to_owned()),
            tools: Some(BTreeSet::new()),
            permission: vec![Rule::new("*", "*", Action::Deny)],
            limits: AgentLimits { steps_max: Some(1), output_max: Some(SUMMARY_MAX) },
            hidden: true,
            ..Agent::new("compaction", "Sums a conversation up.")
        }
    }

    /// The agents that the runtime brings along, the default one first. Those that are [hidden](Agent::hidden) are not among them.
    #[must_use]
    pub fn built_in() -> Vec<Agent> {
        vec![Agent::build(), Agent::plan()]
    }

    /// The built-in agent of this name.
    ///
    /// # Errors
    /// [`BadAgent::Unknown`] lists those that there are.
    ///
    /// ```
    /// use tamtam::runtime::Agent;
    /// assert_eq!(Agent::named("plan")?.name, "plan");
    /// assert_eq!(Agent::named("plam").unwrap_err().to_string(), "there is no agent \"plam\": choose build or plan");
    /// # Ok::<(), tamtam::runtime::BadAgent>(())
    /// ```
    pub fn named(name: &str) -> Result<Agent, BadAgent> {
        let all = Agent::built_in();
        let names: Vec<_> = all.iter().map(|agent| agent.name.clone()).collect();
        let found = all.into_iter().find(|agent| agent.name == name);
        found.ok_or_else(|| BadAgent::Unknown { given: name.to_owned(), known: names.join(" or ") })
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
