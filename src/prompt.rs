//! The system prompt of a session, assembled from sections of four layers.
//!
//! ```text
//! provider     for a family of models: nothing of ours, a provider of the host's may say something
//! agent        the agent's own prompt, or the default one
//! environment  the folder, the date, and what the providers of the environment find: git, the files
//! rules        AGENTS.md, CLAUDE.md and others, as far as they are trusted
//! ```
//!
//! (A fifth layer, `addition`, comes later: words that an agent adds which the session is switched to, `kernel/turn/switch.rs`.)
//!
//! The providers ([`EnvironmentProvider`]) are asked once, when a session is made. Their texts are in the session's settings, on
//! its tape. So a resumed or replayed session sends the same bytes, until its prompt or its agent is changed, which the tape also
//! records. Model servers cache requests by their beginning. A change must not put into this text what is read for each request,
//! such as the time or the present files. A reminder goes after the history (`model/request.rs`).
//!
//! A host without such providers gets one text, the default prompt or its own, without sections.

mod environment;
#[cfg(all(unix, feature = "tools"))]
mod files;
#[cfg(all(unix, feature = "tools"))]
mod git;
#[cfg(all(unix, feature = "tools"))]
mod rules;
mod template;
mod text;

use crate::kernel::{Layer, PromptSection, Settings};

pub use environment::{EnvironmentProvider, Place, Section};
pub(crate) use environment::{Named, ask};
#[cfg(all(unix, feature = "tools"))]
pub use files::FileTree;
#[cfg(all(unix, feature = "tools"))]
pub use git::GitState;
#[cfg(all(unix, feature = "tools"))]
pub use rules::{InstructionFiles, RuleFiles};
pub use template::Template;

const WHO: &str = "You are a general agent that works for the user through tools.";

const HOW: &str = "\
Read before you change. Make the smallest change that does the job, then check it.
When a call fails, read its error, and try another way or say what stands in the way.
When a result says that a call was skipped because of a message, read the message and follow it.
When a result says that an outcome is unknown, check what happened before you repeat the call.
When you are done, say in a few words what you did and what is left.";

/// The default system prompt of a workspace, in one text.
///
/// `date` is a day such as `2026-11-21`. The library reads no clock, so without a date the prompt names none. The platform is the
/// program's build target. The same workspace, date and platform produce the same bytes.
#[must_use]
pub(crate) fn system(workspace: &str, date: Option<&str>) -> String {
    format!("{WHO}\n{}\n\n{HOW}", place(workspace, date))
}

fn place(workspace: &str, date: Option<&str>) -> String {
    let platform = std::env::consts::OS;
    let date = date.map(|day| format!("\nToday is {day}.")).unwrap_or_default();
    format!(
        "The working directory is {workspace}; paths are relative to it, and nothing outside of it may be touched.\n\
         The platform is {platform}.{date}"
    )
}

/// Makes the system prompt of these settings from the default agent's prompt, the place, and the sections that the providers gave.
pub(crate) fn assemble(settings: &mut Settings, date: Option<&str>, given: &[Section]) {
    let persona = format!("{WHO}\n\n{HOW}");
    let place = format!("<env>\n{}\n</env>", place(&settings.workspace, date));
    let ours = [
        (PromptSection::new(Layer::Agent, settings.agent.clone()), persona.as_str()),
        (PromptSection::new(Layer::Environment, "place"), place.as_str()),
    ];
    let given = given.iter().map(|section| (section.sized(), section.text.as_str()));
    settings.assemble(ours.into_iter().chain(given));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// C-25, P-02, P-08, PROMPT-001, PROMPT-002: the same inputs produce the same bytes; folder, platform and day are named, and no
    /// time of day.
    #[test]
    fn the_prompt_is_stable_and_names_workspace_and_day() {
        let prompt = system("/srv/app", Some("2026-11-21"));
        assert_eq!(prompt, system("/srv/app", Some("2026-11-21")));
        assert!(prompt.contains("/srv/app") && prompt.contains("2026-11-21") && prompt.contains("tools"));
        assert!(
            prompt.contains(&format!("The platform is {}.\nToday is 2026-11-21.\n", std::env::consts::OS)),
            "{prompt}"
        );
        assert!(!prompt.replace("2026-11-21", "").contains(|c: char| c.is_ascii_digit()), "no time of day");
        assert!(!system("/srv/app", None).contains("Today"));
    }

    /// P-01, P-03, P-05: a section for the provider, agent, place, what the providers found, and the rules, in this order; all words of the default prompt are there.
    #[test]
    fn a_prompt_with_sections_says_what_the_default_one_says_and_more() {
        let mut settings = Settings::new("/srv/app", "p/m".parse().unwrap());
        let given = [
            Section::new(Layer::Rules, "AGENTS.md", "Obey."),
            Section::new(Layer::Environment, "git", "Branch main."),
            Section::new(Layer::Provider, "beast", "Go on until it is done."),
        ];
        assemble(&mut settings, Some("2026-11-21"), &given);
        let names: Vec<_> = settings.sections().into_iter().map(|(section, _)| section.name).collect();
        assert_eq!(names, ["beast", "build", "place", "git", "AGENTS.md"]);
        for line in system("/srv/app", Some("2026-11-21")).lines() {
            assert!(settings.system.contains(line), "{line}");
        }
        assert!(settings.system.ends_with("</env>\n\nBranch main.\n\nObey."), "{}", settings.system);
    }
}
