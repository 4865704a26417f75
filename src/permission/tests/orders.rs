//! Both orders of matching, against a slow and obvious model of them, over random rulesets.
//!
//! `TAMTAM_RULESETS=100000 cargo test --lib permission::tests::orders` tries that many (2,000 in a normal run), and
//! `TAMTAM_RULESETS_SEED=7` others.
#![allow(clippy::unwrap_used)]

#[allow(clippy::duplicate_mod)]
#[path = "../../../tests/it/support/rng.rs"]
#[allow(dead_code, reason = "others need more of it")]
pub(in crate::permission) mod rng;

use super::super::*;
use rng::Rng;

const RULESETS: usize = 2_000;

fn setting(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}

/// Whether a text matches a pattern of `*` and `?`, by trying everything.
fn slow_simple(pattern: &str, text: &str) -> bool {
    match pattern.chars().next() {
        None => text.is_empty(),
        Some('*') => (0..=text.len()).any(|at| text.is_char_boundary(at) && slow_simple(&pattern[1..], &text[at..])),
        Some(p) => {
            let t = text.chars().next();
            t.is_some_and(|t| (p == '?' || p == t) && slow_simple(&pattern[p.len_utf8()..], &text[t.len_utf8()..]))
        }
    }
}

/// Whether a path matches a pattern, folder by folder: `**` is any number of folders, and at the end at least one name.
fn slow_path(pattern: &[&str], path: &[&str]) -> bool {
    match pattern {
        [] => path.is_empty(),
        ["**"] => !path.is_empty(),
        ["**", rest @ ..] => (0..=path.len()).any(|at| slow_path(rest, &path[at..])),
        [first, rest @ ..] => path.first().is_some_and(|name| slow_simple(first, name) && slow_path(rest, &path[1..])),
    }
}

fn slow_matches(rule: &Rule, access: &Access) -> bool {
    let is_path = access.permission == "read" || access.permission == "edit";
    let about = slow_simple(&rule.permission, &access.permission);
    about
        && match is_path {
            true if rule.pattern == "*" => true,
            true => {
                slow_path(&rule.pattern.split('/').collect::<Vec<_>>(), &access.pattern.split('/').collect::<Vec<_>>())
            }
            false => slow_simple(&rule.pattern, &access.pattern),
        }
}

/// What C-02 says, word for word: of a layer the last (or the first) matching rule; of the layers the last one that says anything;
/// but the first that denies, if there is one.
fn slow_judge(layers: &[Ruleset], access: &Access) -> (Action, Option<Rule>, String) {
    let mut said = Vec::new();
    for layer in layers {
        let matching: Vec<_> = layer.rules.iter().filter(|rule| slow_matches(rule, access)).collect();
        let stands = if layer.order == MatchOrder::First { matching.first() } else { matching.last() };
        said.extend(stands.map(|rule| (rule.action, Some((*rule).clone()), layer.name.clone())));
    }
    let denied = said.iter().find(|(action, ..)| *action == Action::Deny);
    denied.or(said.last()).cloned().unwrap_or((Action::Ask, None, "default".to_owned()))
}

fn ruleset(rng: &mut Rng, name: &str) -> Ruleset {
    const PATTERNS: [&str; 14] =
        ["*", "**", "a", "a/*", "a/**", "**/b", "a/**/b", "?/b", "*b", "a?", "a*b*", "ab", "*/b", "a/b"];
    let rule = |rng: &mut Rng| {
        let permission = rng.pick(&["*", "bash", "edit", "read", "mcp_*", "e*", "????"]);
        Rule::new(permission, rng.pick(&PATTERNS), rng.pick(&[Action::Allow, Action::Ask, Action::Deny]))
    };
    let rules: Vec<_> = (0..rng.below(8)).map(|_| rule(rng)).collect();
    Ruleset::new(name, rules).with_order(rng.pick(&[MatchOrder::Last, MatchOrder::First]))
}

fn access(rng: &mut Rng) -> Access {
    let permission = rng.pick(&["bash", "edit", "read", "mcp_x", "task"]);
    Access::new(permission, rng.pick(&["a", "b", "ab", "a/b", "a/c/b", "a/c/d/b", "c/b", "abb", "c"]))
}

/// C-02, H-04: a judgement is that of the model, and so is the rule that it names.
#[test]
fn both_orders_decide_as_the_slow_model_does() {
    let mut rng = Rng::new(setting("TAMTAM_RULESETS_SEED").unwrap_or(3) as u64);
    let globs = Globs::default();
    for _ in 0..setting("TAMTAM_RULESETS").unwrap_or(RULESETS) {
        let layers: Vec<_> = (0..1 + rng.below(3)).map(|n| ruleset(&mut rng, &n.to_string())).collect();
        for _ in 0..4 {
            let access = access(&mut rng);
            let judged = judge(&layers, &access, &globs);
            let decided = (judged.action, judged.rule, judged.layer);
            assert_eq!(decided, slow_judge(&layers, &access), "{access:?} by {layers:?}");
        }
    }
}

/// C-02, promise 8: a ruleset is what it is backwards in the other order.
#[test]
fn the_first_order_is_the_last_one_of_the_rules_backwards() {
    let mut rng = Rng::new(11);
    let globs = Globs::default();
    for _ in 0..500 {
        let first = ruleset(&mut rng, "r").with_order(MatchOrder::First);
        let backwards = Ruleset::new("r", first.rules.iter().rev().cloned());
        let access = access(&mut rng);
        assert_eq!(judge([&first], &access, &globs), judge([&backwards], &access, &globs), "{access:?} by {first:?}");
    }
}

/// A ruleset in the usual order is written without it.
#[test]
fn a_ruleset_in_the_last_order_names_none() {
    let old = r#"{"name":"s","rules":[{"permission":"bash","pattern":"*","action":"ask"}]}"#;
    let read: Ruleset = serde_json::from_str(old).unwrap();
    assert_eq!((read.order, serde_json::to_string(&read).unwrap().as_str()), (MatchOrder::Last, old));
    let first = read.with_order(MatchOrder::First);
    let text = serde_json::to_string(&first).unwrap();
    assert!(text.ends_with(r#","order":"first"}"#), "{text}");
    assert_eq!(serde_json::from_str::<Ruleset>(&text).unwrap(), first);
    // A layer of a chain, which is stored as a row with further fields.
    let chain = Chain::new("/w", vec![first]);
    assert_eq!(serde_json::from_str::<Chain>(&serde_json::to_string(&chain).unwrap()).unwrap(), chain);
}
