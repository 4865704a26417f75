//! Decides about all accesses of a call (each says one thing that the call wants to do, such as read a path): the strictest
//! judgement wins, and the verdict names its access.
//!
//! The core writes the text of a denial from the verdict, and replay compares that text. So a change must keep which of several
//! equally strict accesses is named: of the parts of a shell command the first, of other accesses the last. A call without any
//! access is asked about, because no rule can match it.

use std::collections::BTreeSet;

use crate::{
    permission::{
        Action, Globs, Judgement, Ruleset, judge,
        shell::{is_by_confinement, judge_beside},
        unruled,
    },
    tool::{Access, ShellPart, one_line},
};

/// The decision about all accesses of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuleVerdict {
    /// The strictest judgement of an access.
    pub judgement: Judgement,
    /// The index of the access that it came from; `None` for a call that wants nothing.
    pub decided: Option<usize>,
    /// The indices of the accesses that a person must be asked about.
    pub asked: BTreeSet<usize>,
    /// Whether a part of a shell command is allowed only because it can run confined by the kernel.
    pub confined: bool,
}

/// Decides about all accesses of a call, by layers from the most to the least powerful: the strictest judgement wins.
///
/// ```
/// use tamtam::permission::{Action, Globs, Rule, Ruleset, decide, with_parts};
/// use tamtam::tool::Access;
/// let rules = vec![Rule::new("bash", "cargo *", Action::Allow), Rule::new("bash", "rm *", Action::Deny)];
/// let rules = Ruleset::new("session", rules);
/// let accesses = with_parts(vec![Access::new("bash", "cargo test; /bin/rm -r .")]);
/// let verdict = decide(&[&rules], &accesses, &Globs::default());
/// # if cfg!(feature = "shell-policy") {
/// assert_eq!(verdict.judgement.action, Action::Deny);
/// assert_eq!(verdict.why(&accesses), "`rm -r .`: denied by the rule `deny bash rm *`");
/// # }
/// ```
#[must_use]
pub fn decide(layers: &[&Ruleset], accesses: &[Access], globs: &Globs) -> RuleVerdict {
    let mut stands = RuleVerdict { judgement: unruled(), decided: None, asked: BTreeSet::new(), confined: false };
    let mut beside = false;
    let mut judged: Vec<_> = accesses.iter().map(|access| judge(layers.iter().copied(), access, globs)).collect();
    let is_command =
        |access: &Access| matches!(access.part, Some(ShellPart::Command { .. } | ShellPart::Unread { .. }));
    // A person may say yes to it, or a rule names it: either way the whole does not run confined.
    let by_name = |(access, judgement): (&Access, &Judgement)| {
        is_command(access) && !(judgement.action == Action::Allow && is_by_confinement(access, judgement))
    };
    if accesses.iter().zip(&judged).any(by_name) {
        for (access, judgement) in accesses.iter().zip(&mut judged) {
            if judgement.action == Action::Allow && is_by_confinement(access, judgement) {
                *judgement = judge_beside(layers, access, globs);
                beside = true;
            }
        }
    }
    for (at, (access, judgement)) in accesses.iter().zip(judged).enumerate() {
        if judgement.action == Action::Ask {
            stands.asked.insert(at);
        }
        stands.confined |= !beside && judgement.action == Action::Allow && is_by_confinement(access, &judgement);
        // Of equally strict parts of a command the first is named; of other accesses the last.
        let names_it = match judgement.action.cmp(&stands.judgement.action) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => access.part.is_none(),
            std::cmp::Ordering::Greater => true,
        };
        if names_it || stands.decided.is_none() {
            (stands.judgement, stands.decided) = (judgement, Some(at));
        }
    }
    stands
}

impl RuleVerdict {
    /// The stricter one of two decisions about the same accesses; of equally strict ones the later.
    pub(crate) fn and(self, mut later: RuleVerdict) -> RuleVerdict {
        later.asked.extend(&self.asked);
        later.confined |= self.confined;
        if self.judgement.action > later.judgement.action {
            (later.judgement, later.decided) = (self.judgement, self.decided);
        }
        later
    }

    /// The same decision about the accesses that these were made from: `places` has the place of each.
    pub(super) fn about(self, places: &[usize]) -> RuleVerdict {
        let place = |at: usize| places.get(at).copied();
        RuleVerdict {
            decided: self.decided.and_then(place),
            asked: self.asked.into_iter().filter_map(place).collect(),
            judgement: self.judgement,
            confined: self.confined,
        }
    }

    /// Which access decided, and by which rule, in one line for people. `accesses` are those that were decided about.
    #[must_use]
    pub fn why(&self, accesses: &[Access]) -> String {
        let by = match &self.judgement.rule {
            Some(rule) => format!("by the rule `{rule}`"),
            None => "because no rule is about it".to_owned(),
        };
        let verb = match self.judgement.action {
            Action::Allow => "allowed",
            Action::Ask => "asked about",
            Action::Deny => "denied",
        };
        match self.decided.and_then(|at| accesses.get(at)) {
            Some(access) => format!("{}: {verb} {by}", named(access)),
            None => "no rule can match a call that wants nothing, so a person is asked".to_owned(),
        }
    }
}

/// An access in words, for a sentence about its call.
fn named(access: &Access) -> String {
    let pattern = one_line(&access.pattern);
    match &access.part {
        None => format!("`{} {pattern}`", access.permission),
        Some(ShellPart::Line { .. } | ShellPart::Command { .. } | ShellPart::Also { .. } | ShellPart::Whole) => {
            format!("`{pattern}`")
        }
        Some(ShellPart::Read) => format!("it reads `{pattern}`"),
        Some(ShellPart::Write) => format!("it writes `{pattern}`"),
        Some(ShellPart::Unread { why, .. }) => {
            format!("the command cannot be judged by its parts: {}", one_line(why))
        }
    }
}
