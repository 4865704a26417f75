//! Ready-made rulesets: what each profile allows, asks and denies.
//!
//! A test reads the tables of `docs/SECURITY.md` and judges one call of each kind, so the tables match the profiles. A session
//! stores the rules of its profile on its tape, so a change here is for new sessions only. A change must not rename a profile:
//! the names are part of the command line, and are on tapes as names of rulesets (`profile ask`). A command that its tool can run
//! confined by the kernel has the permission `confined_bash` too.
//!
//! `unclear_bash` is the permission of a command that the parser cannot take apart. No profile may have a rule that names it,
//! because such a rule would allow the command by a pattern over its text. Without one the command runs confined or is asked about
//! even where `bash` is allowed, as in `auto`, and denied where `bash` is denied; a rule about `*` allows it no more than one about `bash`.

use serde::{Deserialize, Serialize};

use crate::permission::{Action, Rule, Ruleset};

/// A ready-made ruleset.
///
/// `docs/SECURITY.md` has the table of what each profile allows, asks about and denies, for one call of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Profile {
    /// Every call is asked about.
    #[default]
    Strict,
    /// Reads, and commands that run confined by the kernel, are allowed; the rest is asked about.
    Ask,
    /// Reads, edits inside the workspace (except of protected files) and commands that run confined are allowed, the rest is asked
    /// about.
    Edits,
    /// Every call is allowed, except what leaves the workspace, loops or edits a protected file: those are asked about. A command
    /// that cannot be read runs confined.
    Auto,
    /// Reads, and commands that run confined, are allowed; the rest is denied.
    Readonly,
    /// As `ask` without a person to ask: the rest is denied.
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

/// Folders whose files decide what runs later: `edits` and `auto` ask before editing these files although they allow other edits.
/// A file of that name is protected too: a file `.git` says where the repository is.
const PROTECTED_FOLDERS: [&str; 9] =
    [".git", ".tamtam", ".vscode", ".idea", ".cursor", ".claude", ".opencode", ".agents", ".ssh"];

/// Files of that kind: run by a shell, starting servers of tools, or read by agents as instructions.
const PROTECTED_FILES: [&str; 11] = [
    ".envrc",
    ".mcp.json",
    "mcp.json",
    ".gitmodules",
    ".bashrc",
    ".bash_profile",
    ".profile",
    ".zshrc",
    "AGENTS.md",
    "AGENTS.override.md",
    "CLAUDE.md",
];

/// The patterns of protected files, the plain ones last: people see those.
fn protected() -> Vec<String> {
    // Some file systems make no difference between upper and lower case. One glob for all names, because each edit meets each glob.
    let any_case = |names: &[&str]| {
        let letter = |c: char| match c.is_ascii_alphabetic() {
            true => format!("[{}{}]", c.to_ascii_lowercase(), c.to_ascii_uppercase()),
            false => c.to_string(),
        };
        names.iter().map(|name| name.chars().map(letter).collect()).collect::<Vec<String>>().join(",")
    };
    let folders = any_case(&PROTECTED_FOLDERS);
    let mut patterns = vec![format!("**/{{{folders}}}/**"), format!("**/{{{folders},{}}}", any_case(&PROTECTED_FILES))];
    patterns.extend(PROTECTED_FILES.iter().map(|name| format!("**/{name}")));
    patterns.extend(PROTECTED_FOLDERS.iter().map(|name| format!("**/{name}/**")));
    patterns
}

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
        // read with to-do list, skill and tool search, edit, command, confined command, outside, doom loop, protected, others
        let [read, edit, command, confined, outside, doom_loop, protected, others] = match self {
            Profile::Strict => [Ask, Ask, Ask, Ask, Ask, Ask, Ask, Ask],
            Profile::Ask => [Allow, Ask, Ask, Allow, Ask, Ask, Ask, Ask],
            Profile::Edits => [Allow, Allow, Ask, Allow, Ask, Ask, Ask, Ask],
            Profile::Auto => [Allow, Allow, Allow, Allow, Ask, Ask, Ask, Allow],
            Profile::Readonly => [Allow, Deny, Deny, Allow, Deny, Deny, Deny, Deny],
            Profile::Headless => [Allow, Deny, Deny, Allow, Deny, Deny, Deny, Deny],
            Profile::Opencode => [Allow, Allow, Allow, Allow, Ask, Ask, Allow, Allow],
        };
        let patterns = self::protected();
        let mut rules = vec![
            Rule::new("*", "*", others),
            Rule::new("read", "**", read),
            // A session's own list: to note something there reaches nothing else.
            Rule::new("todo", "*", read),
            Rule::new("skill", "*", read),
            // What a search finds is judged when it is called.
            Rule::new("tool_search", "*", read),
            Rule::new("edit", "**", edit),
            Rule::new("external_directory", "*", outside),
            Rule::new("doom_loop", "*", doom_loop),
        ];
        // If every command is allowed, a confined run is for those that cannot be read; if one is asked about or denied, it
        // comes first.
        let commands = [Rule::new("confined_bash", "*", confined), Rule::new("bash", "*", command)];
        match confined == Allow && command != Allow {
            true => rules.extend(commands.into_iter().rev()),
            false => rules.extend(commands),
        }
        // They come last, because the last matching rule wins.
        rules.extend(patterns.into_iter().map(|pattern| Rule::new("edit", pattern, protected)));
        Ruleset::new(format!("profile {}", self.name()), rules)
    }
}

/// A text that names no profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown permission profile {given:?}: choose strict, ask, edits, auto, readonly, headless or opencode")]
#[non_exhaustive]
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

// Without the parser every command is asked about or denied.
#[cfg(all(test, feature = "shell-policy"))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{
        permission::{Globs, decide, judge_all, with_parts},
        tool::Access,
    };

    /// The rows of the table of a page that begins with these cells, without its head.
    fn table<'a>(page: &'a str, begins: &str) -> (Vec<&'a str>, Vec<Vec<&'a str>>) {
        let cells =
            |line: &'a str| line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        let mut lines = page.lines().skip_while(|line| !line.starts_with(begins));
        let head = cells(lines.next().unwrap());
        (head, lines.skip(1).take_while(|line| line.starts_with('|')).map(cells).collect())
    }

    /// H-07, H-19: reads the tables of `docs/SECURITY.md`, and judges one call of each kind under each profile.
    #[test]
    fn the_documented_table_is_what_the_profiles_do() {
        let page = include_str!("../../docs/SECURITY.md");
        let (_, kinds) = table(page, "| kind | permission |");
        let (head, rows) = table(page, "| profile | read |");
        let names: Vec<_> = kinds.iter().map(|kind| kind[0]).collect();
        assert_eq!(head[1..], names, "each kind has a column");
        for kind in ["network", "task", "MCP", "command", "confined command", "doom_loop", "external_directory"] {
            assert!(names.contains(&kind), "{kind}");
        }
        for row in &rows {
            let rules = row[0].parse::<Profile>().unwrap().ruleset();
            for (kind, expected) in kinds.iter().zip(&row[1..]) {
                let wanted = match kind[1] {
                    "confined_bash" => Access::command(kind[2], "", true),
                    permission => Access::new(permission, kind[2]),
                };
                let wanted = with_parts(vec![wanted]);
                let judged = judge_all(&[&rules], &wanted, &Globs::default()).action;
                assert_eq!(format!("{judged:?}").to_lowercase(), **expected, "{row:?} {kind:?}");
            }
        }
        let profiles: Vec<_> = rows.iter().map(|row| row[0]).collect();
        assert_eq!(profiles, ALL.map(Profile::name));
    }

    /// Reliability F05: whether the file exists or not, and in upper case too; a name that only begins alike is another file.
    #[test]
    fn an_edit_of_what_decides_what_runs_later_is_asked_about() {
        for profile in [Profile::Edits, Profile::Auto] {
            let rules = profile.ruleset();
            let judged = |path: &str| {
                let tool = judge_all(&[&rules], &[Access::new("edit", path)], &Globs::default()).action;
                let command = with_parts(vec![Access::command(format!("echo > '{path}'"), "", true)]);
                assert_eq!(judge_all(&[&rules], &command, &Globs::default()).action, tool, "a redirect to {path}");
                tool
            };
            for path in [
                ".git/hooks/pre-commit",
                ".git/config",
                ".git",
                "vendor/lib/.git",
                ".GIT/hooks/pre-commit",
                "a/.Git/config",
                ".gitmodules",
                ".tamtam/config.toml",
                ".claude/settings.json",
                ".agents/skills/x/SKILL.md",
                ".cursor/mcp.json",
                "mcp.json",
                ".mcp.json",
                "sub/.MCP.json",
                ".envrc",
                ".EnvRC",
                ".vscode/tasks.json",
                ".VSCode/tasks.json",
                ".idea/workspace.xml",
                ".ssh/authorized_keys",
                ".bashrc",
                ".zshrc",
                ".profile",
                "AGENTS.md",
                "docs/agents.md",
                "CLAUDE.md",
            ] {
                assert_eq!(judged(path), Action::Ask, "{path} under {}", profile.name());
            }
            for path in
                ["git/config", ".github/x.yml", ".gitignore", "a.git/x", "src/.envrc.rs", "MY_AGENTS.md", "profile"]
            {
                assert_eq!(judged(path), Action::Allow, "{path} under {}", profile.name());
            }
        }
    }

    /// Reliability P01: a command that may run without a yes runs confined, with anything chained after it; if the kernel cannot
    /// confine it, it does not run. The paths that it names are still judged.
    #[test]
    fn what_nobody_was_asked_about_runs_confined_or_not_at_all() {
        let rules = Profile::Readonly.ruleset();
        let judged = |command: &str, confined: bool| {
            let verdict =
                decide(&[&rules], &with_parts(vec![Access::command(command, "", confined)]), &Globs::default());
            (verdict.judgement.action, verdict.confined)
        };
        for command in ["ls", "git status", "git log -p", "git status; rm -rf .", "eval rm x", "python3 -c 'print(1)'"]
        {
            assert_eq!(judged(command, true), (Action::Allow, true), "{command}");
            assert_eq!(judged(command, false), (Action::Deny, false), "{command}");
        }
        assert_eq!(judged("git status > f", true).0, Action::Deny);
        assert_eq!(judged("cat /etc/passwd", true).0, Action::Deny);
    }
}
