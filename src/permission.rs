//! Decides whether a call of a tool may be made: rules in layers, and the judgement that follows from them.
//!
//! A rule says what to do about one permission and the patterns that it is wanted for. Inside a layer the last matching rule
//! wins, or the first one if the layer says so ([`MatchOrder`]). Layers are ordered from the most to the least powerful: host,
//! then session, then grants of people ([`offers`] says what they may grant). The last layer with a matching rule decides, so it
//! may loosen an earlier `ask`; but no layer can undo a `deny` of a layer before it. The rules of a child's ancestors are
//! separate chains next to the child's, and the strictest answer wins. If no rule matches, the answer is `ask`, and a session
//! without rules runs under the profile `strict`.
//!
//! A pattern over the text of a shell command guards nothing, so a command is judged by its parts: [`with_parts`] replaces it by
//! one access for each part, and the strictest answer about them wins. Sessions do that when they ask a tool what a call wants.
//!
//! The core calls this code and replay calls it again, so it must stay pure: no disk, no clock, no wait. Rules and judgements are
//! stored on tapes. A change of how rules match makes old tapes replay to another decision.

mod chain;
#[cfg(feature = "rules-file")]
mod file;
mod mask;
mod offer;
mod path;
mod pattern;
mod profile;
mod shell;
mod verdict;

use serde::{Deserialize, Serialize};

pub use chain::Chain;
#[cfg(feature = "rules-file")]
pub use file::BadRules;
#[cfg(feature = "agent-files")]
pub(crate) use file::{Fault, document, ruleset};
pub use offer::{Offer, offers};
pub use path::seen_from;
pub use pattern::Globs;
#[cfg(test)]
pub(crate) use profile::ALL as PROFILES;
pub use profile::{Profile, UnknownProfile};
pub use shell::with_parts;
pub use verdict::{RuleVerdict, decide};

pub(crate) use mask::denies_all;
pub(crate) use offer::{allows, binds, bound_text, grants, stays_in};
pub(crate) use pattern::simple as matches_simply;
pub(crate) use shell::restricts_reads;

use crate::{
    tool::{Access, CallFacts},
    words::is_default,
};

/// What a rule says to do. Ordered by strictness: the greater action is the stricter one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(any(feature = "tools", feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Action {
    /// The call may be made.
    Allow,
    /// A person is asked.
    Ask,
    /// The call is never made.
    Deny,
}

/// One line of a ruleset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(feature = "tools", feature = "schema"), derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Rule {
    /// Which permission: `read`, `edit`, `bash`, `external_directory`, a tool's name, or `*`; `*` and `?` are wildcards.
    pub permission: String,
    /// The pattern of paths, commands or names that the rule is about. For `read` and `edit` it is a glob over the path, in which
    /// `*` stops at a slash and `**` does not. For every other permission it is a simple pattern, in which `*` matches anything.
    pub pattern: String,
    /// What to do.
    pub action: Action,
    /// Whether the pattern is a text that only equals itself, although it has characters that are wildcards otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exact: bool,
}

impl Rule {
    /// A rule.
    #[must_use]
    pub fn new(permission: impl Into<String>, pattern: impl Into<String>, action: Action) -> Rule {
        Rule { permission: permission.into(), pattern: pattern.into(), action, exact: false }
    }

    fn matches(&self, access: &Access, globs: &Globs) -> bool {
        pattern::simple(&self.permission, &access.permission)
            && match access.permission.as_str() {
                _ if self.exact => self.pattern == access.pattern,
                "read" | "edit" => globs.path(&self.pattern, &access.pattern),
                _ => pattern::simple(&self.pattern, &access.pattern),
            }
    }

    crate::words::setters::setters! {
        /// Sets whether the pattern [only equals itself](#structfield.exact).
        exact: bool;
    }
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let action = match self.action {
            Action::Allow => "allow",
            Action::Ask => "ask",
            Action::Deny => "deny",
        };
        let exactly = if self.exact { ", exactly" } else { "" };
        write!(f, "{action} {} {}{exactly}", self.permission, self.pattern)
    }
}

/// Which of the matching rules of a ruleset wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum MatchOrder {
    /// The last one: a ruleset goes from the general to the particular.
    #[default]
    Last,
    /// The first one: a ruleset goes from the particular to the general, as in a firewall.
    First,
}

/// An ordered set of rules with a name that says whose they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Ruleset {
    /// Whose rules these are: `host`, `profile ask`, `session`.
    pub name: String,
    /// The rules, in the order in which they were written.
    pub rules: Vec<Rule>,
    /// Which of the matching rules wins: by default the last one, also on tapes older than this field.
    #[serde(default, skip_serializing_if = "is_default")]
    pub order: MatchOrder,
}

/// How the name of an agent's rules begins.
const OF_AGENT: &str = "agent ";

impl Ruleset {
    /// Puts more rules after these. Rules that were written for the other order are turned round, which changes nothing between
    /// them.
    pub(crate) fn append(&mut self, mut more: Ruleset) {
        if self.order != more.order {
            more.rules.reverse();
        }
        self.rules.append(&mut more.rules);
    }

    /// The rules of an agent, under the name by which [`Ruleset::is_of_agent`] knows them.
    pub(crate) fn of_agent(agent: &str, rules: Vec<Rule>) -> Ruleset {
        Ruleset::new(format!("{OF_AGENT}{agent}"), rules)
    }

    /// Whether these are an agent's.
    pub(crate) fn is_of_agent(&self) -> bool {
        self.name.starts_with(OF_AGENT)
    }

    /// These rules as those of the host, with a name.
    pub(crate) fn of_host(mut self) -> Ruleset {
        if self.name.is_empty() {
            "host".clone_into(&mut self.name);
        }
        self
    }

    /// A ruleset whose last matching rule wins.
    ///
    /// ```
    /// use tamtam::permission::{judge, Action, Globs, MatchOrder, Rule, Ruleset};
    /// use tamtam::tool::Access;
    /// let rules = [Rule::new("bash", "git push", Action::Ask), Rule::new("bash", "git *", Action::Allow)];
    /// let last = Ruleset::new("session", rules);
    /// let first = last.clone().with_order(MatchOrder::First);
    /// let judged = |rules| judge([rules], &Access::new("bash", "git push"), &Globs::default()).action;
    /// assert_eq!((judged(&last), judged(&first)), (Action::Allow, Action::Ask));
    /// ```
    #[must_use]
    pub fn new(name: impl Into<String>, rules: impl IntoIterator<Item = Rule>) -> Ruleset {
        Ruleset { name: name.into(), rules: rules.into_iter().collect(), order: MatchOrder::Last }
    }

    /// The same rules, with another order of matching.
    #[must_use]
    pub fn with_order(self, order: MatchOrder) -> Ruleset {
        Ruleset { order, ..self }
    }

    /// The rules from the strongest to the weakest: of those that match, the first one here wins. Code that looks for the rule
    /// that decides must go through this, so that both orders hold everywhere.
    pub fn strongest_first(&self) -> impl Iterator<Item = &Rule> {
        let last = self.rules.len();
        (0..last).filter_map(move |at| match self.order {
            MatchOrder::Last => self.rules.get(last - 1 - at),
            MatchOrder::First => self.rules.get(at),
        })
    }
}

/// The decision about a call, and the rule that it follows from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Judgement {
    /// What to do.
    pub action: Action,
    /// The rule that decided; `None` if none matched.
    pub rule: Option<Rule>,
    /// The name of the layer that has the rule; `default` if no rule matched.
    pub layer: String,
}

/// Judges one access by layers, from the most to the least powerful.
///
/// An access that wants a shell command is matched as text: put [`with_parts`] before it.
///
/// ```
/// use tamtam::permission::{judge, Action, Globs, Rule, Ruleset};
/// use tamtam::tool::Access;
/// let host = Ruleset::new("host", [Rule::new("edit", "**/.git/**", Action::Deny)]);
/// let session = Ruleset::new("session", [Rule::new("edit", "**", Action::Allow)]);
/// let globs = Globs::default();
/// let judge = |path: &str| judge([&host, &session], &Access::new("edit", path), &globs).action;
/// assert_eq!(judge("src/lib.rs"), Action::Allow);
/// assert_eq!(judge(".git/config"), Action::Deny);
/// ```
pub fn judge<'a>(layers: impl IntoIterator<Item = &'a Ruleset>, access: &Access, globs: &Globs) -> Judgement {
    if let Some(part) = &access.part {
        return shell::judge(&layers.into_iter().collect::<Vec<_>>(), access, part, globs);
    }
    by_text(layers, access, globs)
}

/// Judges one access by its permission and its pattern alone.
fn by_text<'a>(layers: impl IntoIterator<Item = &'a Ruleset>, access: &Access, globs: &Globs) -> Judgement {
    let mut stands = None;
    for layer in layers {
        let Some(rule) = layer.strongest_first().find(|rule| rule.matches(access, globs)) else { continue };
        stands = Some((rule, layer));
        if rule.action == Action::Deny {
            break;
        }
    }
    let judgement = |(rule, layer): (&Rule, &Ruleset)| Judgement {
        action: rule.action,
        rule: Some(rule.clone()),
        layer: layer.name.clone(),
    };
    stands.map_or_else(unruled, judgement)
}

/// Judges all accesses of a call; the strictest decision wins. [`decide`] also says which access decided.
pub(crate) fn judge_all(layers: &[&Ruleset], accesses: &[Access], globs: &Globs) -> Judgement {
    decide(layers, accesses, globs).judgement
}

/// The facts of a call, with shell commands in parts.
pub(crate) fn judged_by_parts(mut facts: CallFacts) -> CallFacts {
    facts.access = with_parts(facts.access);
    facts
}

/// The judgement where no rule matches.
fn unruled() -> Judgement {
    Judgement { action: Action::Ask, rule: None, layer: "default".to_owned() }
}

#[cfg(test)]
mod tests {
    pub(super) mod orders;

    use super::*;

    fn judge<'a>(layers: impl IntoIterator<Item = &'a Ruleset>, access: &Access) -> Judgement {
        super::judge(layers, access, &Globs::default())
    }

    fn judge_all(layers: &[&Ruleset], accesses: &[Access]) -> Judgement {
        super::judge_all(layers, accesses, &Globs::default())
    }

    fn set(name: &str, rules: &[(&str, &str, Action)]) -> Ruleset {
        let rules = rules.iter().map(|(permission, pattern, action)| Rule::new(*permission, *pattern, *action));
        Ruleset::new(name, rules)
    }

    /// H-01, H-04, C-02: the last match wins inside a layer.
    #[test]
    fn the_last_matching_rule_of_a_layer_stands() {
        let rules = set("session", &[("bash", "*", Action::Allow), ("bash", "git push*", Action::Ask)]);
        assert_eq!(judge([&rules], &Access::new("bash", "git push origin")).action, Action::Ask);
        assert_eq!(judge([&rules], &Access::new("bash", "git log")).action, Action::Allow);
    }

    /// C-02: a deny of a higher layer can never be undone by a lower one; an ask can.
    #[test]
    fn a_later_layer_loosens_an_ask_and_never_a_deny() {
        let host = set("host", &[("edit", "**", Action::Ask), ("edit", "**/.git/**", Action::Deny)]);
        let below = set("granted", &[("edit", "**", Action::Allow)]);
        assert_eq!(judge([&host, &below], &Access::new("edit", "src/a.rs")).action, Action::Allow);
        let denied = judge([&host, &below], &Access::new("edit", "x/.git/config"));
        assert_eq!((denied.action, denied.layer.as_str()), (Action::Deny, "host"));
    }

    /// C-04, H-06: where nothing matches the answer is ask.
    #[test]
    fn without_a_matching_rule_a_person_is_asked() {
        assert_eq!(judge([&set("host", &[])], &Access::new("bash", "ls")).action, Action::Ask);
        assert_eq!(judge_all(&[], &[]).action, Action::Ask);
    }

    /// H-03, H-04: a ruleset can allow all, deny all, or say something of some; where it says nothing it asks.
    #[test]
    fn a_ruleset_allows_all_denies_all_or_asks() {
        let wishes = ["read", "edit", "bash", "external_directory", "my_tool"].map(|of| Access::new(of, "a/b"));
        for (rules, expected) in [
            (set("all", &[("*", "*", Action::Allow)]), Action::Allow),
            (set("none", &[("*", "*", Action::Deny)]), Action::Deny),
            (set("empty", &[]), Action::Ask),
        ] {
            assert!(wishes.iter().all(|wish| judge([&rules], wish).action == expected), "{}", rules.name);
        }
        let some = set("some", &[("*", "*", Action::Deny), ("bash", "*", Action::Ask), ("read", "**", Action::Allow)]);
        let decided = wishes.map(|wish| judge([&some], &wish).action);
        assert_eq!(decided, [Action::Allow, Action::Deny, Action::Ask, Action::Deny, Action::Deny]);
    }

    /// H-08, C-04: a host's rules allow only what they say: about the rest a person is asked.
    #[test]
    fn rules_about_some_things_allow_nothing_else() {
        let partial = set("user", &[("bash", "git *", Action::Allow), ("edit", "docs/**", Action::Allow)]);
        let asked = [("bash", "rm x"), ("edit", "src/a.rs"), ("read", "a"), ("webfetch", "http://x"), ("my_tool", "*")];
        for (permission, pattern) in asked {
            assert_eq!(judge([&partial], &Access::new(permission, pattern)).action, Action::Ask, "{permission}");
        }
        assert_eq!(judge([&partial], &Access::new("bash", "git log")).action, Action::Allow);
    }

    /// The strictest of several accesses of one call wins.
    #[test]
    fn a_call_is_as_restricted_as_its_strictest_access() {
        let rules = set("s", &[("read", "**", Action::Allow), ("external_directory", "*", Action::Deny)]);
        let accesses = [Access::new("read", "/etc/passwd"), Access::new("external_directory", "/etc")];
        assert_eq!(judge_all(&[&rules], &accesses).action, Action::Deny);
    }
}
