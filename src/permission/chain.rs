//! A chain: the rules and tools of a parent, which limit the rights of its children, and the folder that the rules' paths start
//! from. A child has one chain for each of its ancestors, and a call must pass all of them.
//!
//! A rule about a path keeps the meaning that it has in its author's folder. A child may work in a folder below that of its
//! parent; then `secrets/**` of the parent is another place than `secrets/**` of the child. So a chain keeps the folder, and an
//! access is first seen from that folder and then judged.
//!
//! A [`Chain`] is stored on tapes, as rows of which the first one says the folder and the tools. A change must
//! not let a child do more than its parent may. The code is pure.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{
    permission::{
        Globs, RuleVerdict, Ruleset, decide,
        path::{absolute, seen},
    },
    tool::Access,
};

/// Layers of rules, from the most to the least powerful, and the folder that the paths in them are relative to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Row>", into = "Vec<Row>")]
pub struct Chain {
    layers: Vec<Ruleset>,
    /// The folder that the rules' paths start from.
    workspace: String,
    /// The tools that the parent has, by names and patterns; `None` for all.
    tools: Option<BTreeSet<String>>,
}

/// A layer as it is stored on a tape.
#[derive(Serialize, Deserialize)]
struct Row {
    #[serde(flatten)]
    layer: Ruleset,
    workspace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tools: Option<BTreeSet<String>>,
}

impl From<Vec<Row>> for Chain {
    fn from(rows: Vec<Row>) -> Chain {
        let (workspace, tools) = rows.first().map(|row| (row.workspace.clone(), row.tools.clone())).unwrap_or_default();
        Chain { layers: rows.into_iter().map(|row| row.layer).collect(), workspace, tools }
    }
}

impl From<Chain> for Vec<Row> {
    fn from(Chain { layers, workspace, mut tools }: Chain) -> Vec<Row> {
        // The first row says the tools for all rows.
        layers.into_iter().map(|layer| Row { layer, workspace: workspace.clone(), tools: tools.take() }).collect()
    }
}

impl Chain {
    /// The rules of a session that works in the folder `workspace`.
    #[must_use]
    pub fn new(workspace: &str, mut layers: Vec<Ruleset>) -> Chain {
        if layers.is_empty() {
            // A chain is stored as rows. A layer without a rule decides nothing, and provides a row for folder and tools: the
            // host's rules apply from the folder also if the session has no rules.
            layers.push(Ruleset::new("session", []));
        }
        Chain { layers, workspace: workspace.to_owned(), tools: None }
    }

    /// The same chain that also limits the tools: no descendant may have a tool that is not among these. `None` for all tools.
    #[must_use]
    pub(crate) fn with_tools(mut self, tools: Option<BTreeSet<String>>) -> Chain {
        self.tools = tools;
        self
    }

    /// The tools that the parent has, by names and patterns; `None` for all.
    #[must_use]
    pub fn tools(&self) -> Option<&BTreeSet<String>> {
        self.tools.as_ref()
    }

    /// The layers, from the most to the least powerful.
    #[must_use]
    pub fn layers(&self) -> &[Ruleset] {
        &self.layers
    }

    /// Decides about the accesses of a call, with the host's rules above those of the chain. The paths of the accesses start at
    /// the folder `from`.
    pub(crate) fn decide(
        &self,
        host: Option<&Ruleset>,
        (from, read_roots): (&str, &[String]),
        accesses: &[Access],
        globs: &Globs,
    ) -> RuleVerdict {
        let layers: Vec<_> = host.into_iter().chain(&self.layers).collect();
        if self.workspace == from {
            return decide(&layers, accesses, globs);
        }
        let whole = absolute(from, accesses.iter().cloned().enumerate().collect());
        let (places, seen): (Vec<_>, Vec<_>) = seen(&self.workspace, read_roots, whole).into_iter().unzip();
        decide(&layers, &seen, globs).about(&places)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::permission::{Action, Rule};

    fn chain(workspace: &str, lines: &[(&str, &str, Action)]) -> Chain {
        let rules = lines.iter().map(|(permission, pattern, action)| Rule::new(*permission, *pattern, *action));
        Chain::new(workspace, vec![Ruleset::new("parent", rules)])
    }

    fn judged(chain: &Chain, from: &str, accesses: &[(&str, &str)]) -> Action {
        let accesses: Vec<_> =
            accesses.iter().map(|(permission, pattern)| Access::new(*permission, *pattern)).collect();
        chain.decide(None, (from, &["/tapes/spill".to_owned()]), &accesses, &Globs::default()).judgement.action
    }

    /// Promise 8: a path means the same to the one who wrote the rule, from wherever below it is named.
    #[test]
    fn a_rule_about_a_path_is_about_that_path() {
        let lines = [("*", "*", Action::Ask), ("read", "**", Action::Allow), ("read", "secrets/**", Action::Deny)];
        let parent = chain("/w", &lines);
        assert_eq!(judged(&parent, "/w", &[("read", "secrets/key")]), Action::Deny);
        assert_eq!(judged(&parent, "/w/secrets", &[("read", "key")]), Action::Deny);
        assert_eq!(judged(&parent, "/w/docs", &[("read", "secrets/key")]), Action::Allow);
        assert_eq!(judged(&parent, "/w/docs", &[("read", ".")]), Action::Allow);
        // Beside the child's folder, and inside of the parent's.
        let beside = [("external_directory", "/w/secrets/key"), ("read", "/w/secrets/key")];
        assert_eq!(judged(&parent, "/w/docs", &beside), Action::Deny);
        let beside = [("external_directory", "/w/src/x"), ("read", "/w/src/x")];
        assert_eq!(judged(&parent, "/w/docs", &beside), Action::Allow);
        // Outside of both.
        let outside = [("external_directory", "/etc/x"), ("read", "/etc/x")];
        assert_eq!(judged(&parent, "/w/docs", &outside), Action::Ask);
        assert_eq!(judged(&parent, "/w/docs", &[("read", "/tapes/spill/1.log")]), Action::Allow);
        // A folder that is not below it: what is inside of it is outside there.
        assert_eq!(judged(&parent, "/other", &[("read", "x")]), Action::Ask);
        // Other text stays as it is.
        assert_eq!(judged(&chain("/w", &[("bash", "ls", Action::Allow)]), "/w/docs", &[("bash", "ls")]), Action::Allow);
    }

    /// Promise 8: a parent without rules may do what the host's rules say in its folder; a child that works below it may not do
    /// more. Found by random families (`kernel/tests/core/narrowing.rs`).
    #[test]
    fn the_hosts_rules_are_seen_from_the_parents_folder_also_where_it_has_none_of_its_own() {
        let host = Ruleset::new("host", [Rule::new("*", "*", Action::Ask), Rule::new("edit", "a", Action::Allow)]);
        let parent: Chain =
            serde_json::from_str(&serde_json::to_string(&Chain::new("/w", Vec::new())).unwrap()).unwrap();
        let judged = |from: &str| {
            let decided = parent.decide(Some(&host), (from, &[]), &[Access::new("edit", "a")], &Globs::default());
            decided.judgement.action
        };
        assert_eq!((judged("/w"), judged("/w/sub")), (Action::Allow, Action::Ask));
    }

    /// Its folder is read back, also without rules.
    #[test]
    fn a_stored_chain_has_its_folder() {
        let new = chain("/w", &[("read", "a/**", Action::Deny)]);
        let text = serde_json::to_string(&new).unwrap();
        assert_eq!(serde_json::from_str::<Chain>(&text).unwrap(), new);
        let none = Chain::new("/w", Vec::new());
        assert_eq!(serde_json::from_str::<Chain>(&serde_json::to_string(&none).unwrap()).unwrap(), none);
    }
}
