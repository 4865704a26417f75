//! The mask: whether the rules deny every call of a tool, so that a model does not see it at all.
//!
//! A pure function of a layer and of the permissions of the tool ([`Tool::permissions`](crate::tool::Tool::permissions)). It looks
//! at whole patterns only, and never at a path or a command. A tool that is not masked may still be denied call by call.
//!
//! A change must keep that every call of a masked tool would be denied: the model does not see the tool, so a tool masked by
//! mistake disappears silently. Requests on tapes hold the names of masked tools, so a change of the mask makes old tapes replay
//! to another request.

use crate::permission::{Action, Rule, Ruleset, matches_simply};

/// Whether a layer denies every call of a tool with these permissions. A layer never undoes the `deny` of another one, so a layer
/// that does decides for all.
pub(crate) fn denies_all(layer: &Ruleset, permissions: &[String]) -> bool {
    let Some(needed) = permissions.first() else { return false };
    for rule in layer.strongest_first() {
        let is_about = |permission: &String| matches_simply(&rule.permission, permission);
        match rule.action {
            Action::Allow | Action::Ask if permissions.iter().any(is_about) => return false,
            Action::Deny if is_about(needed) && takes_all(rule) => return true,
            _ => {}
        }
    }
    false
}

/// Whether a rule is about every path and every other text.
fn takes_all(rule: &Rule) -> bool {
    !rule.exact && matches!(rule.pattern.as_str(), "*" | "**")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{
        permission::{Globs, MatchOrder, judge_all, tests::orders::rng::Rng, with_parts},
        tool::Access,
    };

    fn layer(rules: &[(&str, &str, Action)]) -> Ruleset {
        let rules = rules.iter().map(|(permission, pattern, action)| Rule::new(*permission, *pattern, *action));
        Ruleset::new("test", rules)
    }

    fn masked(rules: &[(&str, &str, Action)], permissions: &[&str]) -> bool {
        let permissions: Vec<_> = permissions.iter().map(|permission| (*permission).to_owned()).collect();
        denies_all(&layer(rules), &permissions)
    }

    /// E-09, C-10: a deny about all patterns masks where nothing after it says otherwise.
    #[test]
    fn a_deny_about_everything_masks() {
        use Action::{Allow, Ask, Deny};
        let bash = ["bash", "confined_bash", "unclear_bash"];
        for (rules, permissions, expected) in [
            ([].as_slice(), ["edit"].as_slice(), false),
            (&[("edit", "*", Deny)], &["edit"], true),
            (&[("edit", "**", Deny)], &["edit"], true),
            (&[("edit", "src/**", Deny)], &["edit"], false),
            (&[("edit", "*", Deny)], &["read"], false),
            (&[("*", "*", Deny)], &["my_tool"], true),
            (&[("mcp_*", "*", Deny)], &["mcp_files_read"], true),
            (&[("*", "*", Deny), ("edit", "docs/**", Allow)], &["edit"], false),
            (&[("*", "*", Deny), ("edit", "docs/**", Ask)], &["edit"], false),
            (&[("*", "*", Deny), ("edit", "docs/**", Ask)], &["my_tool"], true),
            (&[("edit", "docs/**", Allow), ("edit", "*", Deny)], &["edit"], true),
            (&[("edit", "*", Deny), ("edit", "**/.git/**", Deny)], &["edit"], true),
            (&[("*", "*", Allow), ("edit", "*", Deny)], &["edit"], true),
            (&[("bash", "*", Deny)], &bash, true),
            (&[("bash", "*", Deny), ("confined_bash", "*", Allow)], &bash, false),
            (&[("confined_bash", "*", Allow), ("bash", "*", Deny)], &bash, true),
            (&[("confined_bash", "*", Deny)], &bash, false),
            (&[("bash", "*", Deny), ("unclear_bash", "eval *", Ask)], &bash, false),
            (&[("*", "*", Deny)], &bash, true),
            (&[("*", "*", Deny)], &[], false),
        ] {
            assert_eq!(masked(rules, permissions), expected, "{rules:?} {permissions:?}");
            // The other order, with the rules written the other way round.
            let turned: Vec<_> = rules.iter().rev().copied().collect();
            let permissions: Vec<_> = permissions.iter().map(|permission| (*permission).to_owned()).collect();
            assert_eq!(denies_all(&layer(&turned).with_order(MatchOrder::First), &permissions), expected, "{turned:?}");
        }
        let exactly = Rule { exact: true, ..Rule::new("my_tool", "*", Deny) };
        assert!(!denies_all(&Ruleset::new("test", [exactly]), &["my_tool".to_owned()]), "one text is not all texts");
    }

    /// A text that only opens a file is a command too: what rules say of all commands holds for it.
    #[cfg(feature = "shell-policy")]
    #[test]
    fn a_command_that_is_only_a_redirect_is_judged_as_a_command() {
        use Action::{Allow, Ask, Deny};
        for (rules, expected) in [
            ([("edit", "**", Allow), ("bash", "*", Deny)], Deny),
            ([("edit", "**", Allow), ("bash", "*", Ask)], Ask),
            ([("edit", "**", Allow), ("bash", "*", Allow)], Allow),
            ([("bash", "*", Allow), ("edit", "**", Deny)], Deny),
        ] {
            let accesses = with_parts(vec![Access::new("bash", "> f")]);
            let judged = judge_all(&[&layer(&rules)], &accesses, &Globs::default());
            assert_eq!(judged.action, expected, "{rules:?}");
        }
    }

    /// E-09, C-10: on 20,000 random stacks of layers, in both orders, of a masked tool no arguments are allowed or asked about,
    /// for any other layers. The tools are the real ones.
    #[test]
    fn of_a_masked_tool_nothing_is_allowed_or_asked() {
        let globs = Globs::default();
        let tools = crate::tools::full();
        let calls: Vec<(&str, Vec<Vec<Access>>)> = tools
            .names()
            .map(|name| {
                let inputs = [
                    "a",
                    "src/x/y",
                    "/etc/passwd",
                    "../up",
                    "*",
                    "ls",
                    "rm -rf x",
                    "eval $x",
                    "$(x) y",
                    "ls; rm x > f",
                ];
                let facts = |text: &&str| {
                    let input = serde_json::json!({
                        "path": text, "command": text, "pattern": text, "content": "x", "old_string": "a", "new_string": "b",
                    });
                    let facts = tools.facts(name, &input.to_string());
                    // A call that cannot run at all is not judged.
                    facts.unusable.is_none().then(|| with_parts(facts.access))
                };
                (name, inputs.iter().filter_map(facts).collect())
            })
            .collect();
        let patterns = ["*", "**", "a", "ls*", "src/**", "?", ""];
        let names = ["*", "edit", "read", "bash", "confined_bash", "unclear_bash", "external_directory", "e*", "*bash"];
        let mut masked_times = 0;
        for seed in 0..20_000 {
            let mut rng = Rng::new(seed);
            let mut rule = || {
                let action = rng.weighted(&[(3, Action::Deny), (1, Action::Ask), (1, Action::Allow)]);
                Rule { exact: rng.percent(5), ..Rule::new(rng.pick(&names), rng.pick(&patterns), action) }
            };
            let rules: Vec<Vec<Rule>> = (0..3).map(|n| (0..(seed + n) % 4).map(|_| rule()).collect()).collect();
            let orders = [MatchOrder::Last, MatchOrder::First];
            let layers: Vec<_> =
                rules.into_iter().map(|rules| Ruleset::new("l", rules).with_order(rng.pick(&orders))).collect();
            let layers: Vec<&Ruleset> = layers.iter().collect();
            for (name, calls) in &calls {
                if layers.iter().any(|layer| denies_all(layer, &tools.permissions()[*name])) {
                    masked_times += 1;
                    for access in calls {
                        let judged = judge_all(&layers, access, &globs).action;
                        assert_eq!(judged, Action::Deny, "seed {seed}: {name} {access:?} {layers:?}");
                    }
                }
            }
        }
        assert!(masked_times > 1_000, "{masked_times} were masked");
    }
}
