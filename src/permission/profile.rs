//! Ready-made rulesets: what each profile allows, asks and denies.
//!
//! A test reads the table in the documentation of [`Profile`] and judges one call of each kind, so the table is what the profiles
//! do. A session stores the rules of its profile on its tape, so a change here is for new sessions only. The names are part of
//! the command line, and stand on tapes as names of rulesets (`profile ask`). A change must not give a read-only command a
//! wildcard: `git log *` would let a second command through.

use serde::{Deserialize, Serialize};

use crate::permission::{Action, Rule, Ruleset};

/// A ready-made ruleset.
///
/// | profile | read | edit | command | harmless command | outside | doom loop | protected | others |
/// |---|---|---|---|---|---|---|---|---|
/// | strict | ask | ask | ask | ask | ask | ask | ask | ask |
/// | ask | allow | ask | ask | ask | ask | ask | ask | ask |
/// | edits | allow | allow | ask | allow | ask | ask | ask | ask |
/// | auto | allow | allow | allow | allow | ask | ask | ask | allow |
/// | readonly | allow | deny | deny | allow | deny | deny | deny | deny |
/// | headless | allow | deny | deny | deny | deny | deny | deny | deny |
/// | opencode | allow | allow | allow | allow | ask | ask | allow | allow |
///
/// A *harmless command* is one of which is known that it only reports: the permission `harmless_bash`, see
/// [`ShellCommand`](crate::permission::ShellCommand). No session asks for it yet. *Outside* is a path that leaves the workspace.
/// *Doom loop* is the permission `doom_loop`: to make the same call again and again. Nothing asks for it yet. *Protected* is an
/// edit of a file that decides what runs later (`.git`, `.tamtam`, `.envrc`, `.vscode`, agent and tool configuration). Under
/// `readonly` the listed read-only commands are allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Profile {
    /// Every call is asked about.
    #[default]
    Strict,
    /// Reads are allowed, the rest is asked about.
    Ask,
    /// Reads and edits inside the workspace are allowed, the rest is asked about.
    Edits,
    /// Every call is allowed but one that leaves the workspace, loops, or edits a protected file.
    Auto,
    /// Reads and the listed read-only commands are allowed; the rest is denied.
    Readonly,
    /// As `ask` where no person is there to ask: the rest is denied.
    Headless,
    /// The table of OpenCode's own defaults.
    Opencode,
}

/// Every profile.
pub(crate) const ALL: [Profile; 7] = [
    Profile::Strict,
    Profile::Ask,
    Profile::Edits,
    Profile::Auto,
    Profile::Readonly,
    Profile::Headless,
    Profile::Opencode,
];

/// Files that decide what runs later: `edits` and `auto` ask before editing them although they allow other edits. The rules for
/// these files come last, because the last matching rule wins.
const PROTECTED: [&str; 10] = [
    "**/.git/**",
    "**/.tamtam/**",
    "**/.envrc",
    "**/.vscode/**",
    "**/.idea/**",
    "**/.claude/**",
    "**/.opencode/**",
    "**/.mcp.json",
    "**/.bashrc",
    "**/.ssh/**",
];

/// Commands that only report, unless the repository's git configuration makes git run a program. Each is matched whole, because a
/// wildcard would let a second command in.
const READONLY_COMMANDS: [&str; 8] =
    ["ls", "ls -l", "ls -la", "pwd", "git status", "git diff", "git log", "git log --oneline"];

impl Profile {
    /// The name of the profile, as on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Profile::Strict => "strict",
            Profile::Ask => "ask",
            Profile::Edits => "edits",
            Profile::Auto => "auto",
            Profile::Readonly => "readonly",
            Profile::Headless => "headless",
            Profile::Opencode => "opencode",
        }
    }

    /// The rules of the profile.
    #[must_use]
    pub fn ruleset(self) -> Ruleset {
        use Action::{Allow, Ask, Deny};
        // read, edit, command, harmless command, outside, doom loop, protected, others
        let [read, edit, command, harmless, outside, doom_loop, protected, others] = match self {
            Profile::Strict => [Ask, Ask, Ask, Ask, Ask, Ask, Ask, Ask],
            Profile::Ask => [Allow, Ask, Ask, Ask, Ask, Ask, Ask, Ask],
            Profile::Edits => [Allow, Allow, Ask, Allow, Ask, Ask, Ask, Ask],
            Profile::Auto => [Allow, Allow, Allow, Allow, Ask, Ask, Ask, Allow],
            Profile::Readonly => [Allow, Deny, Deny, Allow, Deny, Deny, Deny, Deny],
            Profile::Headless => [Allow, Deny, Deny, Deny, Deny, Deny, Deny, Deny],
            Profile::Opencode => [Allow, Allow, Allow, Allow, Ask, Ask, Allow, Allow],
        };
        let mut rules = vec![
            Rule::new("*", "*", others),
            Rule::new("read", "**", read),
            Rule::new("edit", "**", edit),
            Rule::new("bash", "*", command),
            Rule::new("harmless_bash", "*", harmless),
            Rule::new("external_directory", "*", outside),
            Rule::new("doom_loop", "*", doom_loop),
        ];
        rules.extend(PROTECTED.iter().map(|pattern| Rule::new("edit", *pattern, protected)));
        if self == Profile::Readonly {
            rules.extend(READONLY_COMMANDS.iter().map(|command| Rule::new("bash", *command, Allow)));
        }
        Ruleset { name: format!("profile {}", self.name()), rules }
    }
}

/// A text that names no profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown permission profile {given:?}: choose strict, ask, edits, auto, readonly, headless or opencode")]
pub struct UnknownProfile {
    /// The text that was given.
    pub given: String,
}

impl std::str::FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        let found = ALL.into_iter().find(|profile| profile.name() == given);
        found.ok_or_else(|| UnknownProfile { given: given.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{
        permission::{Globs, judge},
        tool::Access,
    };

    /// H-19: Reads the table in the documentation and judges one call of each kind under each profile.
    #[test]
    fn the_documented_table_is_what_the_profiles_do() {
        let source = include_str!("profile.rs");
        let mut rows = 0;
        for line in source.lines().filter(|line| line.starts_with("/// | ")) {
            let cells: Vec<_> = line.trim_start_matches("/// ").split('|').map(str::trim).collect();
            let Ok(profile) = cells[1].parse::<Profile>() else { continue };
            let kinds = [
                ("read", "src/lib.rs"),
                ("edit", "src/lib.rs"),
                ("bash", "cargo test"),
                ("harmless_bash", "cat a"),
                ("external_directory", "/etc"),
                ("doom_loop", "bash"),
                ("edit", "a/.git/config"),
                ("my_tool", "*"),
            ];
            for ((permission, pattern), expected) in kinds.iter().zip(&cells[2..]) {
                let judged = judge([&profile.ruleset()], &Access::new(*permission, *pattern), &Globs::default()).action;
                assert_eq!(format!("{judged:?}").to_lowercase(), *expected, "{profile:?} {permission} {pattern}");
            }
            rows += 1;
        }
        assert_eq!(rows, ALL.len());
    }

    /// Reliability P01: a listed command with something chained behind it is not the listed command.
    #[test]
    fn readonly_commands_match_whole() {
        let rules = Profile::Readonly.ruleset();
        assert_eq!(judge([&rules], &Access::new("bash", "git status"), &Globs::default()).action, Action::Allow);
        assert_eq!(
            judge([&rules], &Access::new("bash", "git status; rm -rf ."), &Globs::default()).action,
            Action::Deny
        );
    }
}
