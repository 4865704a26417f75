//! Promise 8 over random families: what is decided of a child is the strictest of what its own rules and those of each ancestor say.
//!
//! `TAMTAM_RULESETS=100000 cargo test --lib core::narrowing` tries that many (2,000 in a normal run), and
//! `TAMTAM_RULESETS_SEED=7` others. `permission::tests::orders` holds the judgement of one session's rules against a slow model.

use std::sync::Arc;

use tamtam::{
    kernel::Settings,
    permission::{Action, Globs, MatchOrder, Rule, Ruleset, judge_all, with_parts},
    tool::{Access, Network, SandboxTerms},
};

use crate::kernel::{children::tasks::narrow, tests::sim::rng::Rng};

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

fn ruleset(rng: &mut Rng, name: &str) -> Ruleset {
    const PATTERNS: [&str; 12] = ["*", "**", "a", "a/*", "a/**", "**/b", "?/b", "*b", "rm *", "rm", "sub/a", "sub/**"];
    let rule = |rng: &mut Rng| {
        let permission = rng.pick(&["*", "bash", "edit", "read", "task", "e*"]);
        Rule::new(permission, rng.pick(&PATTERNS), rng.pick(&[Action::Allow, Action::Ask, Action::Deny]))
    };
    let rules: Vec<_> = (0..1 + rng.below(6)).map(|_| rule(rng)).collect();
    Ruleset::new(name, rules).with_order(rng.pick(&[MatchOrder::Last, MatchOrder::First]))
}

/// A session in that folder, whose rules and tools are random.
fn settings(rng: &mut Rng, workspace: &str) -> Settings {
    const TOOLS: [&str; 4] = ["read", "edit", "bash", "task"];
    let mut settings = Settings::new(workspace, "fake/model".parse().unwrap());
    settings.rules = (0..rng.below(3)).map(|n| ruleset(rng, &n.to_string())).collect();
    settings.tools =
        rng.percent(50).then(|| TOOLS.iter().filter(|_| rng.percent(60)).map(ToString::to_string).collect());
    settings
}

/// What a call wants: paths are as the child names them.
fn accesses(rng: &mut Rng) -> Vec<Access> {
    let access = |rng: &mut Rng| match rng.pick(&["bash", "edit", "read", "task"]) {
        "bash" => Access::new("bash", rng.pick(&["a", "b", "rm a", "a; rm b", "true && /bin/rm x"])),
        permission => Access::new(permission, rng.pick(&["a", "b", "a/b", "a/c/b", "c/b", "x"])),
    };
    let wanted = (0..1 + rng.below(3)).map(|_| access(rng)).collect();
    // A command's parts may name files; where those are is another test's subject.
    with_parts(wanted)
}

/// The same call, as it is seen from the folder above the child's.
fn from_above(accesses: &[Access]) -> Vec<Access> {
    let seen = accesses.iter().cloned().map(|mut access| {
        if matches!(access.permission.as_str(), "read" | "edit") {
            access.pattern = format!("sub/{}", access.pattern);
        }
        access
    });
    seen.collect()
}

/// A run that was bounded to so many steps is bounded with its tasks: a child's turns take no more steps than its parent's may.
#[test]
fn a_childs_turns_take_no_more_steps_than_its_parents_may() {
    for (own, parent, expected) in
        [(Some(50), Some(4), Some(4)), (Some(2), Some(4), Some(2)), (None, Some(4), Some(4)), (Some(9), None, Some(9))]
    {
        let mut rng = Rng::new(1);
        let (mut child, mut above) = (settings(&mut rng, "/w"), settings(&mut rng, "/w"));
        (child.steps_max, above.steps_max) = (own, parent);
        narrow(&mut child, &above);
        assert_eq!(child.steps_max, expected);
    }
}

/// A child has at least the sandbox of its parent, and keeps a stricter one.
#[test]
fn a_child_has_at_least_the_sandbox_of_its_parent() {
    let terms = |required, network| Some(Arc::new(SandboxTerms { required, network, ..SandboxTerms::default() }));
    let (strict, wide) = (terms(true, Network::Off), terms(false, Network::All));
    for (own, parent, expected) in [
        (&None, &strict, &strict),
        (&wide, &strict, &strict),
        (&strict, &wide, &strict),
        (&wide, &None, &wide),
        (&None, &None, &None),
    ] {
        let mut rng = Rng::new(1);
        let (mut child, mut above) = (settings(&mut rng, "/w"), settings(&mut rng, "/w"));
        (child.sandbox, above.sandbox) = (own.clone(), parent.clone());
        narrow(&mut child, &above);
        assert_eq!(child.sandbox, *expected);
    }
}

/// Promise 8, H-20, P13: at depth 1 to 3, in both orders of matching, in the folder of the parent and in one below it.
#[test]
fn a_child_may_do_what_each_ancestor_may_do_and_nothing_else() {
    let mut rng = Rng::new(number("TAMTAM_RULESETS_SEED", 5) as u64);
    let globs = Globs::default();
    for _ in 0..number("TAMTAM_RULESETS", 2_000) {
        let host = rng.percent(30).then(|| ruleset(&mut rng, "host"));
        let below = if rng.percent(30) { "/w/sub" } else { "/w" };
        let depth = 1 + rng.below(3);
        let mut family = Vec::new();
        for level in 0..=depth {
            let mut settings = settings(&mut rng, if level == depth { below } else { "/w" });
            settings.host.clone_from(&host);
            if let Some(parent) = family.last() {
                narrow(&mut settings, parent);
            }
            family.push(settings);
        }
        let child = family.last().unwrap();
        for _ in 0..4 {
            let wanted = accesses(&mut rng);
            let strictest = family.iter().map(|settings| {
                let layers: Vec<_> = host.iter().chain(&settings.rules).collect();
                let seen = if settings.workspace == below { wanted.clone() } else { from_above(&wanted) };
                judge_all(&layers, &seen, &globs).action
            });
            assert_eq!(Some(child.judge(&wanted, &globs).action), strictest.max(), "{wanted:?} in {family:#?}");
        }
        for tool in ["read", "edit", "bash", "task"] {
            let all_have_it =
                family.iter().all(|settings| settings.tools.as_ref().is_none_or(|tools| tools.contains(tool)));
            assert_eq!(child.has_tool(tool), all_have_it, "{tool} in {family:#?}");
        }
    }
}
