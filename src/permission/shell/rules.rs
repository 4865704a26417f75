//! Matches the rules of a session against the parts of a shell command.
//!
//! A pattern about `bash` is matched against each simple command: its name without folder, its words without quotes, one blank
//! between them. A word that is not known before the command runs matches a pattern for certain where a `*` takes it, and perhaps
//! where some value of it would; a stricter rule that perhaps matches makes a person be asked.
//!
//! A command that only reports has two permissions, `bash` and `harmless_bash`: a rule about either of them is about it. Where a
//! rule about `harmless_bash` allows it, the paths that it reads are judged as reads.
//!
//! A change must not let a rule allow a part that it would not allow for every value.

use crate::{
    permission::{
        Action, Globs, Judgement, Rule, Ruleset, judge_all,
        pattern::simple,
        seen_from,
        shell::{ANY, Analysis, GLOB, Part, analyse, judge},
        unruled,
    },
    tool::Access,
};

/// A shell command that was read, to be judged by rules.
///
/// ```
/// use tamtam::permission::{Action, Globs, Rule, Ruleset, ShellCommand};
/// let rules = Ruleset::new("session", [Rule::new("bash", "cargo test*", Action::Allow)]);
/// let judged = |command: &str| ShellCommand::read(command).judge(&[&rules], "/work", &[], &Globs::default());
/// assert_eq!(judged("cargo test").judgement.action, if cfg!(feature = "shell-policy") { Action::Allow } else { Action::Ask });
/// // The rule is about `cargo test`, and not about what stands behind it.
/// assert_eq!(judged("cargo test; rm -rf /").judgement.action, Action::Ask);
/// ```
#[derive(Clone, Debug)]
pub struct ShellCommand {
    text: String,
    analysis: Analysis,
}

/// The decision about a shell command, and the part of it that decided.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShellJudgement {
    /// What to do, and the rule that it follows from.
    pub judgement: Judgement,
    /// The part of the command that decided, in one line for people.
    pub why: String,
}

impl ShellCommand {
    /// Reads a command. Never fails and never panics: a command that is not understood is judged as a whole. Takes up to some
    /// hundred microseconds for each KiB, so it is not for the core. Without the feature `shell-policy` no command is understood.
    #[must_use]
    pub fn read(command: &str) -> ShellCommand {
        ShellCommand { text: command.to_owned(), analysis: analyse(command) }
    }

    /// Judges the command by layers of rules, from the most to the least powerful. Relative paths start at `workspace`; paths
    /// below one of the `read_roots` may be read as well.
    ///
    /// The strictest verdict about its parts stands: each simple command, each file that a redirect reads or writes, and the
    /// whole text, where a rule denies that. A command that cannot be read is allowed only by a rule that has exactly its text,
    /// of plain characters.
    #[must_use]
    pub fn judge(&self, layers: &[&Ruleset], workspace: &str, read_roots: &[String], globs: &Globs) -> ShellJudgement {
        let judges = Judges { layers, workspace, read_roots, globs };
        let mut decided: Option<Judgement> = None;
        let (action, part) = judge(&self.text, &self.analysis, |part| {
            let judgement = judges.of(part);
            let action = judgement.action;
            if decided.as_ref().is_none_or(|decided| action > decided.action) {
                decided = Some(judgement);
            }
            action
        });
        let judgement = Judgement { action, ..decided.unwrap_or_else(unruled) };
        let by = match &judgement.rule {
            Some(rule) => format!("by the rule `{rule}`"),
            None => "because no rule is about it".to_owned(),
        };
        let verb = match judgement.action {
            Action::Allow => "allowed",
            Action::Ask => "asked about",
            Action::Deny => "denied",
        };
        ShellJudgement { why: format!("{part}: {verb} {by}"), judgement }
    }
}

/// The rules, and the folder that paths start from.
struct Judges<'a> {
    layers: &'a [&'a Ruleset],
    workspace: &'a str,
    read_roots: &'a [String],
    globs: &'a Globs,
}

impl Judges<'_> {
    fn of(&self, part: Part<'_>) -> Judgement {
        match part {
            Part::Read(path) => self.path("read", path),
            Part::Write(path) => self.path("edit", path),
            Part::Command { text, reads } => {
                let judged = self.text(text, reads.is_some());
                let as_report = judged.rule.as_ref().is_some_and(|rule| rule.permission == HARMLESS);
                match reads {
                    Some(paths) if as_report && judged.action == Action::Allow => {
                        let read = paths.iter().map(|path| self.path("read", path));
                        read.filter(|read| read.action > Action::Allow).max_by_key(|read| read.action).unwrap_or(judged)
                    }
                    _ => judged,
                }
            }
            Part::Also(text) => only_about_it(self.text(text, false), Action::Ask),
            Part::Whole(text) => only_about_it(self.text(text, false), Action::Deny),
            Part::Unread(text) => {
                let judged = self.text(text, false);
                let exact = judged.rule.as_ref().is_some_and(|rule| rule.pattern == text) && text.chars().all(is_plain);
                match judged.action {
                    Action::Allow if !exact => Judgement { action: Action::Ask, ..unruled() },
                    _ => judged,
                }
            }
        }
    }

    fn path(&self, permission: &str, path: &str) -> Judgement {
        let mut accesses = vec![Access::new(permission, path)];
        if path.starts_with('/') || path == ".." || path.starts_with("../") {
            accesses.insert(0, Access::new("external_directory", path));
        }
        judge_all(self.layers, &seen_from(self.workspace, self.read_roots, accesses), self.globs)
    }

    /// Judges the text of a command, in which some parts may be unknown.
    fn text(&self, text: &str, harmless: bool) -> Judgement {
        let mut stands = unruled();
        // A deny that matches for some values: no later layer can undo it.
        let mut perhaps_denied: Option<Judgement> = None;
        for layer in self.layers {
            let judgement =
                |rule: &Rule, action| Judgement { action, rule: Some(rule.clone()), layer: layer.name.clone() };
            let mut perhaps_asked = None;
            for rule in layer.strongest_first() {
                match matches(rule, text, harmless) {
                    Match::Yes => {
                        stands = judgement(rule, rule.action);
                        break;
                    }
                    Match::Perhaps if rule.action == Action::Deny => {
                        perhaps_denied = Some(judgement(rule, Action::Ask))
                    }
                    Match::Perhaps if rule.action == Action::Ask => perhaps_asked = Some(judgement(rule, Action::Ask)),
                    _ => {}
                }
            }
            if stands.action == Action::Deny {
                return stands;
            }
            if let Some(asked) = perhaps_asked.filter(|_| stands.action == Action::Allow) {
                stands = asked;
            }
        }
        match perhaps_denied {
            Some(denied) if stands.action == Action::Allow => denied,
            _ => stands,
        }
    }
}

/// The permission of commands that only report.
const HARMLESS: &str = "harmless_bash";

/// The judgement, where a rule that is not about every command is at least as strict as `least`; else an allow.
fn only_about_it(judged: Judgement, least: Action) -> Judgement {
    let about_it = judged.rule.as_ref().is_some_and(|rule| !rule.pattern.chars().all(|c| c == '*'));
    if about_it && judged.action >= least { judged } else { Judgement { action: Action::Allow, ..unruled() } }
}

/// A character that means itself wherever it stands in a command.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || " _./:=@%+,-".contains(c)
}

/// Whether a rule is about a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Match {
    Yes,
    /// For some values of what is not known, and not for others.
    Perhaps,
    No,
}

fn matches(rule: &Rule, text: &str, harmless: bool) -> Match {
    let about = simple(&rule.permission, "bash") || (harmless && rule.permission == HARMLESS);
    if !about {
        return Match::No;
    }
    if !text.contains([ANY, GLOB]) {
        return if simple(&rule.pattern, text) { Match::Yes } else { Match::No };
    }
    // Nothing, one character and three that no pattern has: what matches all of them has a star there.
    let always =
        ["", "\u{1}", "\u{1}\u{1}\u{1}"].iter().all(|value| simple(&rule.pattern, &text.replace([ANY, GLOB], value)));
    match always {
        true => Match::Yes,
        false if text.len() > MEET_BYTES_MAX || meet(&rule.pattern, text) => Match::Perhaps,
        false => Match::No,
    }
}

/// A longer text with unknown parts perhaps matches every pattern.
const MEET_BYTES_MAX: usize = 4 * 1024;

/// Whether some text matches both a pattern and a text with unknown parts. Takes time in proportion to the product of the lengths.
pub(super) fn meet(pattern: &str, text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    // For each place in the text: whether what is behind it can meet what is left of the pattern.
    let mut left = vec![false; text.len() + 1];
    left[text.len()] = true;
    for at in (0..text.len()).rev() {
        left[at] = left[at + 1] && matches!(text[at], ANY | GLOB);
    }
    for c in pattern.chars().rev() {
        let mut now = vec![false; text.len() + 1];
        now[text.len()] = c == '*' && left[text.len()];
        for at in (0..text.len()).rev() {
            now[at] = match (c, text[at]) {
                // A star takes nothing or one character more; an unknown part too.
                ('*', _) => left[at] || now[at + 1],
                (_, ANY | GLOB) => left[at] || now[at + 1],
                (c, t) => (c == '?' || c == t) && left[at + 1],
            };
        }
        left = now;
    }
    left[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_meets_a_text_where_some_value_would_match() {
        for (pattern, text, expected) in [
            ("rm *", "rm \u{1}", true),
            ("rm -rf *", "rm \u{1}", true),
            ("rm -rf *", "rm \u{1} x", true),
            ("rm -rf *", "ls \u{1}", false),
            ("git push*", "git \u{1}", true),
            ("git push", "git p\u{1}h", true),
            ("git push", "git \u{1}x", false),
            ("a?c", "a\u{1}c", true),
            ("", "\u{1}", true),
            ("ab", "\u{1}\u{1}", true),
            ("*b", "a\u{1}c", false),
        ] {
            assert_eq!(meet(pattern, text), expected, "{pattern} and {text:?}");
        }
    }

    /// Without a parser, and for commands that a parser does not understand.
    #[test]
    fn a_command_that_is_not_read_is_allowed_by_its_own_text_only() {
        let set = |rules: &[(&str, Action)]| {
            Ruleset::new("s", rules.iter().map(|(pattern, action)| Rule::new("bash", *pattern, *action)))
        };
        let judged = |rules: &Ruleset, text: &str| {
            let analysis = Analysis::Unclear { why: "it is a test".into() };
            let command = ShellCommand { text: text.into(), analysis };
            command.judge(&[rules], "/w", &[], &Globs::default()).judgement.action
        };
        let exact = set(&[("cargo test --lib", Action::Allow), ("ls; rm x", Action::Allow), ("a *", Action::Allow)]);
        assert_eq!(judged(&exact, " cargo test --lib\n"), Action::Allow);
        assert_eq!(judged(&exact, "cargo test"), Action::Ask);
        assert_eq!(judged(&exact, "ls; rm x"), Action::Ask);
        assert_eq!(judged(&exact, "a b"), Action::Ask);
        assert_eq!(judged(&exact, "a *"), Action::Ask);
        assert_eq!(judged(&set(&[("*", Action::Allow)]), "ls"), Action::Ask);
        let denied = set(&[("*", Action::Allow), ("*rm *", Action::Deny)]);
        assert_eq!(judged(&denied, "ls; rm x"), Action::Deny);
    }
}
