//! Which of the runtime's tools a turn has, by names and patterns. Pure functions.
//!
//! A pattern is a name in which `*` stands for any text and `?` for one character: `mcp_*` is every tool of every MCP server,
//! `mcp_files_*` those of one. An agent names the tools that it has; `!PATTERN` takes tools out of these, so `*` and `!write` are
//! all but `write`. A message may switch some of them off for its turn. Last of all the rules of permission take out what they
//! deny in full.
//!
//! A change must keep two rules. A switch never adds a tool that the agent does not have: callers ask [`has`] as well as
//! [`is_off`]. [`both`] never returns more than both sets have, because it bounds a child by its ancestors; where two patterns
//! cannot be compared, it leaves out the tools that they may share.

use std::collections::{BTreeMap, BTreeSet};

use crate::permission::matches_simply;

/// Whether an agent with these tools has the named tool. `None` is an agent that has all tools.
pub(crate) fn has(tools: Option<&BTreeSet<String>>, name: &str) -> bool {
    let Some(tools) = tools else { return true };
    let mut has = false;
    for tool in tools {
        match tool.strip_prefix('!') {
            Some(out) if matches_simply(out, name) => return false,
            Some(_) => {}
            None => has = has || matches_simply(tool, name),
        }
    }
    has
}

/// Stands between the name of a tool and one of its choices ([`Tool::choices`](crate::tool::Tool::choices)) among the masked names.
pub(crate) const CHOICE: char = ' ';

/// The tools that `own` and `bound` both have. What two different patterns have in common cannot be told, so a pattern is kept only
/// if both sets name it, or one has `*`. What one of them takes out stays out.
pub(crate) fn both(own: Option<&BTreeSet<String>>, bound: &BTreeSet<String>) -> BTreeSet<String> {
    let is_name = |tool: &str| !tool.contains(['*', '?', '!']);
    let takes_out = |tool: &str| tool.starts_with('!');
    let Some(own) = own else { return bound.clone() };
    let both = |one: &BTreeSet<String>, other: &BTreeSet<String>| -> Vec<String> {
        let all = other.contains("*");
        let keeps = |tool: &&String| {
            all || takes_out(tool) || other.contains(*tool) || (is_name(tool) && has(Some(other), tool))
        };
        one.iter().filter(keeps).cloned().collect()
    };
    both(own, bound).into_iter().chain(both(bound, own)).collect()
}

/// Whether a message switches the named tool off. Of several patterns that match, the longest decides, and of equally long ones the
/// last by the alphabet: `{"*": false, "read": true}` leaves only `read`.
pub(crate) fn is_off(switches: &BTreeMap<String, bool>, name: &str) -> bool {
    let meant = switches.iter().filter(|(pattern, _)| matches_simply(pattern, name));
    meant.max_by_key(|(pattern, _)| pattern.len()).is_some_and(|(_, on)| !on)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E-08: names and patterns, with those of whole servers among them.
    #[test]
    fn tools_are_named_one_by_one_or_by_patterns() {
        let named = |patterns: &[&str], tool: &str| {
            has(Some(&patterns.iter().map(|pattern| (*pattern).to_owned()).collect()), tool)
        };
        for (patterns, tool, expected) in [
            (["mcp_*"].as_slice(), "mcp_files_read", true),
            (&["mcp_*"], "read", false),
            (&["mcp_files_*", "read"], "mcp_files_read", true),
            (&["mcp_files_*", "read"], "mcp_mail_send", false),
            (&["mcp_files_*", "read"], "read", true),
            (&["read"], "read_file", false),
            (&["*"], "anything", true),
            (&[], "read", false),
            (&["*", "!write"], "write", false),
            (&["*", "!write"], "read", true),
            (&["*", "!mcp_*", "mcp_files_read"], "mcp_files_read", false),
            (&["!write"], "read", false),
        ] {
            assert_eq!(named(patterns, tool), expected, "{patterns:?} {tool}");
        }
        assert!(has(None, "read"));
    }

    /// A name that the other one has by a pattern stays, whichever of the two has it by name.
    #[test]
    fn what_two_have_is_what_both_have() {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let (wide, narrow) = (set(&["mcp_*", "read"]), set(&["mcp_files_read", "read", "bash"]));
        for (own, bound) in [(&wide, &narrow), (&narrow, &wide)] {
            assert_eq!(both(Some(own), bound), set(&["mcp_files_read", "read"]));
        }
        assert_eq!(both(Some(&set(&["mcp_*"])), &set(&["mcp_files_*"])), set(&[]));
        // What one of them takes out is out of both, and what is left of a name that is out is nothing.
        let (all_but, read) = (set(&["*", "!bash"]), set(&["read", "bash"]));
        for (own, bound) in [(&all_but, &read), (&read, &all_but)] {
            let both = both(Some(own), bound);
            assert_eq!(["read", "bash", "write"].map(|tool| has(Some(&both), tool)), [true, false, false], "{both:?}");
        }
        let neither = both(Some(&set(&["bash"])), &all_but);
        assert!(!has(Some(&neither), "bash") && !has(Some(&neither), "read"), "{neither:?}");
        let patterns = both(Some(&set(&["mcp_*"])), &set(&["*", "!mcp_mail_*"]));
        assert_eq!(["mcp_files_read", "mcp_mail_send"].map(|tool| has(Some(&patterns), tool)), [true, false]);
        assert_eq!((both(None, &wide), both(Some(&wide), &wide)), (wide.clone(), wide));
    }

    /// E-08, C-p15: the longest pattern decides.
    #[test]
    fn the_longest_pattern_switches() {
        let off = |switches: &[(&str, bool)], tool: &str| {
            is_off(&switches.iter().map(|(pattern, on)| ((*pattern).to_owned(), *on)).collect(), tool)
        };
        for (switches, tool, expected) in [
            ([].as_slice(), "read", false),
            (&[("read", false)], "read", true),
            (&[("*", false), ("read", true)], "read", false),
            (&[("*", false), ("read", true)], "bash", true),
            (&[("mcp_*", false), ("mcp_files_*", true), ("mcp_files_delete", false)], "mcp_files_read", false),
            (&[("mcp_*", false), ("mcp_files_*", true), ("mcp_files_delete", false)], "mcp_files_delete", true),
            (&[("mcp_*", false), ("mcp_files_*", true)], "mcp_mail_send", true),
        ] {
            assert_eq!(off(switches, tool), expected, "{switches:?} {tool}");
        }
    }
}
