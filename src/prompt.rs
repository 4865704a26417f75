//! The default system prompt, for sessions whose host gives no prompt.
//!
//! The same workspace, date and platform give the same bytes. A change must keep the prompt stable over a session: no clock, no
//! file list, nothing that changes between two requests. Providers cache requests by their beginning, and the prompt stands
//! there.

mod template;

pub use template::Template;

/// The system prompt for a workspace.
///
/// `date` is a day such as `2026-11-21`. The library reads no clock, so without a date the prompt names none. The platform is the
/// one that this program was built for.
#[must_use]
pub(crate) fn system(workspace: &str, date: Option<&str>) -> String {
    let platform = std::env::consts::OS;
    let date = date.map(|day| format!("\nToday is {day}.")).unwrap_or_default();
    format!(
        "You are a general agent that works for the user through tools.\n\
         The working directory is {workspace}; paths are relative to it, and nothing outside of it may be touched.\n\
         The platform is {platform}.{date}\n\
         \n\
         Read before you change. Make the smallest change that does the job, then check it.\n\
         When a call fails, read its error, and try another way or say what stands in the way.\n\
         When a result says that a call was skipped because of a message, read the message and follow it.\n\
         When a result says that an outcome is unknown, check what happened before you repeat the call.\n\
         When you are done, say in a few words what you did and what is left."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C-25, P-02, P-08, PROMPT-002: the same inputs give the same bytes; folder, platform and day are named, and no time of day.
    #[test]
    fn the_prompt_is_stable_and_names_workspace_and_day() {
        let prompt = system("/srv/app", Some("2026-11-21"));
        assert_eq!(prompt, system("/srv/app", Some("2026-11-21")));
        assert!(prompt.contains("/srv/app") && prompt.contains("2026-11-21"));
        assert!(
            prompt.contains(&format!("The platform is {}.\nToday is 2026-11-21.\n", std::env::consts::OS)),
            "{prompt}"
        );
        assert!(!prompt.replace("2026-11-21", "").contains(|c: char| c.is_ascii_digit()), "no time of day");
        assert!(!system("/srv/app", None).contains("Today"));
    }
}
