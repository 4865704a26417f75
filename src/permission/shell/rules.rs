//! Matches the rules of a session against the parts of a shell command.
//!
//! A pattern about `bash` is matched against each simple command: its name (without folder if that is a usual one), its words
//! without quotes, one blank between them. A word that is not known before the command runs matches a pattern for certain if a
//! `*` takes it, and perhaps if some value of it would; a stricter rule that perhaps matches leads to a question.
//!
//! A command that its tool can run confined by the kernel has two permissions, `bash` and `confined_bash`: a rule about either of
//! them is about it. If a rule about `confined_bash` alone allows it, it runs confined, and what it reads by name is judged as
//! reads; what it reads without a name is the kernel's to refuse. A command that cannot be read has the permissions `bash`,
//! `unclear_bash` and, where it can run confined, `confined_bash`; only a rule that names one of the last two allows it by a
//! pattern. A rule with exactly its text allows it if the text has plain characters only.
//!
//! A change must not let a rule allow a part that it would not allow for every value.

use crate::{
    permission::{
        Action, Globs, Judgement, Rule, Ruleset, by_text, judge_all,
        path::read_accesses,
        pattern::simple,
        shell::{ANY, GLOB, HISTORY, joined},
        unruled,
    },
    tool::{Access, ReadPath, ShellPart, UnknownWords},
};

/// Judges one part of a shell command by layers, from the most to the least powerful.
pub(in crate::permission) fn judge(layers: &[&Ruleset], access: &Access, part: &ShellPart, globs: &Globs) -> Judgement {
    let judges = Judges { layers, globs };
    let text = |unknown: &'_ Option<UnknownWords>| match unknown {
        Some(unknown) => unknown.text.clone(),
        None => access.pattern.clone(),
    };
    match part {
        // A line was split into parts before; an unsplit one is a command that cannot be read.
        ShellPart::Line { confined, .. } | ShellPart::Unread { confined, .. } => {
            judges.unread(&access.pattern, *confined)
        }
        ShellPart::Read | ShellPart::Write => by_text(layers.iter().copied(), access, globs),
        ShellPart::Command { unknown, reads, confined } => {
            judges.command(&text(unknown), reads.as_deref().unwrap_or_default(), *confined)
        }
        ShellPart::Also { unknown } => only_about_it(judges.text(&text(unknown), &[]), Action::Ask),
        ShellPart::Whole => only_about_it(judges.text(&access.pattern, &[]), Action::Deny),
    }
}

/// Whether a part of a command is allowed only because it can run confined: by a rule that is not about `bash`.
pub(in crate::permission) fn is_by_confinement(access: &Access, judgement: &Judgement) -> bool {
    let can = matches!(
        access.part,
        Some(
            ShellPart::Line { confined: true, .. }
                | ShellPart::Command { confined: true, .. }
                | ShellPart::Unread { confined: true, .. }
        )
    );
    can && judgement.rule.as_ref().is_some_and(|rule| rule.permission == CONFINED)
}

/// Judges a part that is allowed only because it can run confined, next to a part that a rule allows by name: the whole then runs
/// as that rule says. A report needs no separate rule there; every other part does.
pub(in crate::permission) fn judge_beside(layers: &[&Ruleset], access: &Access, globs: &Globs) -> Judgement {
    let judges = Judges { layers, globs };
    match &access.part {
        Some(ShellPart::Command { unknown: None, reads: Some(reads), .. }) if !runs_settings(access) => {
            let judged = judges.text(&access.pattern, &[CONFINED]);
            judges.as_report(&access.pattern, reads, judged, |_| true)
        }
        Some(ShellPart::Command { unknown, .. }) => {
            judges.text(unknown.as_ref().map_or(&access.pattern, |unknown| &unknown.text), &[])
        }
        _ => judges.unread(&access.pattern, false),
    }
}

/// Whether a rule in force denies reading some path, or asks about it.
pub(crate) fn restricts_reads(layers: &[&Ruleset], globs: &Globs) -> bool {
    Judges { layers, globs }.stricter_about(HISTORY).is_some()
}

/// Whether a report runs what files of the folder tell it to run: git, by the settings of a repository.
fn runs_settings(access: &Access) -> bool {
    access.pattern.split(' ').next() == Some("git")
}

/// The rules of a session, by layers.
struct Judges<'a> {
    layers: &'a [&'a Ruleset],
    globs: &'a Globs,
}

impl Judges<'_> {
    fn command(&self, text: &str, reads: &[ReadPath], confined: bool) -> Judgement {
        let also: &[&str] = if confined { &[CONFINED] } else { &[] };
        let judged = self.text(text, also);
        if judged.action != Action::Allow {
            return judged;
        }
        let by_confinement = judged.rule.as_ref().is_some_and(|rule| rule.permission == CONFINED);
        // A rule about all commands names none: what the command reads is judged as under a confined run.
        let names_it = judged.rule.as_ref().is_some_and(|rule| rule.exact || !rule.pattern.chars().all(|c| c == '*'));
        if names_it && !by_confinement {
            return judged;
        }
        // Of a confined command the kernel holds each file that has a path; the history of a repository has none.
        self.as_report(text, reads, judged, |read| !by_confinement || read.path == HISTORY)
    }

    /// The judgement about a command that is allowed, with what it reads: the files that it names, and of the others those that
    /// the kernel does not hold.
    fn as_report(
        &self,
        text: &str,
        reads: &[ReadPath],
        judged: Judgement,
        counts: impl Fn(&ReadPath) -> bool,
    ) -> Judgement {
        let is_known = |read: &&ReadPath| !read.path.contains([ANY, GLOB]);
        let known = reads.iter().filter(is_known);
        let known = known.map(|read| judge_all(self.layers, &read_accesses(read), self.globs));
        if let Some(stricter) = known.filter(|read| read.action > Action::Allow).max_by_key(|read| read.action) {
            return stricter;
        }
        match reads
            .iter()
            .filter(|read| !is_known(read) && counts(read))
            .find_map(|read| self.stricter_about(&read.path))
        {
            None => judged,
            // It is a command like any other then, and a person is asked at least.
            Some(rule) => Judgement { action: self.text(text, &[]).action.max(Action::Ask), ..rule },
        }
    }

    /// The rule in force that denies reading some path that this one may be, or asks about it.
    fn stricter_about(&self, path: &str) -> Option<Judgement> {
        let mut asks = None;
        for layer in self.layers {
            for rule in layer.strongest_first().filter(|rule| simple(&rule.permission, "read")) {
                if rule.action == Action::Allow && matches!(rule.pattern.as_str(), "*" | "**") {
                    // No weaker rule of this layer counts, and no ask of the layers before it.
                    asks = None;
                    break;
                }
                if rule.action > Action::Allow && may_be(rule, path) {
                    let found = Judgement { action: rule.action, rule: Some(rule.clone()), layer: layer.name.clone() };
                    match rule.action {
                        Action::Deny => return Some(found),
                        _ => asks = asks.or(Some(found)),
                    }
                }
            }
        }
        asks
    }

    /// Judges a command that cannot be read: a rule that allows commands of `bash` by a pattern says nothing about it.
    fn unread(&self, text: &str, confined: bool) -> Judgement {
        let exact = |rule: &Rule| rule.pattern == text && text.chars().all(is_plain);
        let allows =
            |rule: &Rule| rule.permission == UNCLEAR || (confined && rule.permission == CONFINED) || exact(rule);
        let counts = |rule: &Rule| rule.action != Action::Allow || allows(rule);
        let also: &[&str] = if confined { &[UNCLEAR, CONFINED] } else { &[UNCLEAR] };
        let judged = self.text_by(text, also, counts);
        let by_confinement = judged.rule.as_ref().is_some_and(|rule| rule.permission == CONFINED);
        match self.denies_a_name().filter(|_| by_confinement && judged.action == Action::Allow) {
            Some(denied) => denied,
            None => judged,
        }
    }

    /// An ask because of a rule that denies some commands by name: what cannot be read may be one of them.
    fn denies_a_name(&self) -> Option<Judgement> {
        let by_name = |rule: &&Rule| {
            rule.action == Action::Deny && simple(&rule.permission, "bash") && !rule.pattern.chars().all(|c| c == '*')
        };
        self.layers.iter().find_map(|layer| {
            let rule = layer.strongest_first().find(by_name)?;
            Some(Judgement { action: Action::Ask, rule: Some(rule.clone()), layer: layer.name.clone() })
        })
    }

    /// Judges the text of a command, in which some parts may be unknown. Rules about the permissions `also` are about it too.
    fn text(&self, text: &str, also: &[&str]) -> Judgement {
        self.text_by(text, also, |_| true)
    }

    /// The same by those rules alone that count.
    fn text_by(&self, text: &str, also: &[&str], counts: impl Fn(&Rule) -> bool) -> Judgement {
        let mut stands = unruled();
        // A deny that matches for some values: no later layer can undo it.
        let mut perhaps_denied: Option<Judgement> = None;
        for layer in self.layers {
            let judgement =
                |rule: &Rule, action| Judgement { action, rule: Some(rule.clone()), layer: layer.name.clone() };
            let mut perhaps_asked = None;
            for rule in layer.strongest_first().filter(|rule| counts(rule)) {
                match matches(rule, text, also) {
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

/// The permission of commands that run confined by the kernel.
const CONFINED: &str = "confined_bash";

/// The permission of commands that cannot be judged by their parts.
const UNCLEAR: &str = "unclear_bash";

/// The judgement, where a rule that is not about every command is at least as strict as `least`; else an allow.
fn only_about_it(judged: Judgement, least: Action) -> Judgement {
    let about_it = judged.rule.as_ref().is_some_and(|rule| !rule.pattern.chars().all(|c| c == '*'));
    if about_it && judged.action >= least { judged } else { Judgement { action: Action::Allow, ..unruled() } }
}

/// A character that means itself everywhere in a command.
pub(in crate::permission) fn is_plain(c: char) -> bool {
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

/// Whether a rule is about a command. A rule that denies or asks is not got round by quotes: it is matched against the words without
/// them too.
fn matches(rule: &Rule, text: &str, also: &[&str]) -> Match {
    let found = matches_text(rule, text, also);
    let plain = joined(text);
    if found == Match::Yes || rule.action == Action::Allow || plain == text {
        return found;
    }
    match matches_text(rule, &plain, also) {
        Match::No => found,
        stricter => stricter,
    }
}

fn matches_text(rule: &Rule, text: &str, also: &[&str]) -> Match {
    let about = simple(&rule.permission, "bash") || also.contains(&rule.permission.as_str());
    if !about {
        return Match::No;
    }
    if rule.exact {
        // What is not known may turn out to be this text.
        let unknown = if text.contains([ANY, GLOB]) { Match::Perhaps } else { Match::No };
        return if rule.pattern == text { Match::Yes } else { unknown };
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

/// Whether a path with unknown parts may be one that a rule about reading matches. Brackets of a glob count as any text. A
/// wildcard at the beginning of a name takes no name that begins with a dot.
fn may_be(rule: &Rule, path: &str) -> bool {
    let pattern = rule.pattern.as_str();
    let bracket = |c: char| matches!(c, '[' | ']' | '{' | '}' | '\\');
    let simple = match (pattern.find(bracket), pattern.rfind(bracket)) {
        (Some(first), Some(last)) => format!("{}*{}", &pattern[..first], &pattern[last + 1..]),
        _ => pattern.to_owned(),
    };
    let is_hidden = simple == pattern && pattern.rsplit('/').next().is_some_and(|name| name.starts_with('.'));
    if is_hidden && path.rsplit('/').next().is_some_and(|name| name.starts_with(GLOB)) {
        return false;
    }
    // `**/` matches no folder too.
    path.len() > MEET_BYTES_MAX || meet(&simple.replace("**/", "*"), path)
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
    use crate::permission::judge;

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
            let part = ShellPart::Unread { why: "it is a test".into(), confined: false };
            judge([rules], &Access::new("bash", text).into_part(part), &Globs::default()).action
        };
        let exact = set(&[("cargo test --lib", Action::Allow), ("ls; rm x", Action::Allow), ("a *", Action::Allow)]);
        assert_eq!(judged(&exact, "cargo test --lib"), Action::Allow);
        assert_eq!(judged(&exact, "cargo test"), Action::Ask);
        assert_eq!(judged(&exact, "ls; rm x"), Action::Ask);
        assert_eq!(judged(&exact, "a b"), Action::Ask);
        assert_eq!(judged(&exact, "a *"), Action::Ask);
        assert_eq!(judged(&set(&[("*", Action::Allow)]), "ls"), Action::Ask);
        let denied = set(&[("*", Action::Allow), ("*rm *", Action::Deny)]);
        assert_eq!(judged(&denied, "ls; rm x"), Action::Deny);
        // Who names such commands allows them, as far as nothing denies them.
        let named = |permission: &str, denied: &str| {
            Ruleset::new("s", [Rule::new(permission, "*", Action::Allow), Rule::new("bash", denied, Action::Deny)])
        };
        assert_eq!(judged(&named("unclear_bash", "curl *"), "eval rm x"), Action::Allow);
        assert_eq!(judged(&named("unclear_bash", "eval *"), "eval rm x"), Action::Deny);
        assert_eq!(judged(&named("unclear*", "curl *"), "eval rm x"), Action::Ask);
    }
}
