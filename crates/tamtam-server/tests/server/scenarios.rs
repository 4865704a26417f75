//! `examples/scenarios`: the four jobs of the host that the design was made for, over HTTP; and that a difference is found.

use crate::taped;

#[path = "../../examples/scenarios/main.rs"]
#[allow(dead_code, unreachable_pub, clippy::module_inception, reason = "an example is a program")]
mod scenarios;

const ALL: [(&str, &str); 4] = [
    ("kb-triage", include_str!("../../examples/scenarios/kb-triage.json")),
    ("kb-answer", include_str!("../../examples/scenarios/kb-answer.json")),
    ("rlm-planner", include_str!("../../examples/scenarios/rlm-planner.json")),
    ("build", include_str!("../../examples/scenarios/build.json")),
];

/// kb-triage, kb-answer, rlm-planner and build, by create, stream, steer and abort over HTTP, the agent named by each call:
/// every call, answer, outcome and file is the expected one.
#[test]
fn the_four_jobs_of_the_host_are_done_over_http() {
    for (name, scenario) in ALL {
        let folder = taped::folder();
        assert_eq!(scenarios::play(scenario, folder.path()).unwrap(), Vec::<String>::new(), "{name}");
    }
}

/// Each kind of expectation, if it is wrong, is a difference.
#[test]
fn what_a_scenario_did_not_expect_is_told() {
    let [_, (_, answer), _, (_, build)] = ALL;
    for (scenario, from, to, wanted) in [
        (answer, "\"answer\": \"Pay the invoice anew (", "\"answer\": \"Pay nothing (", "answer: expected"),
        (answer, "\"error\": \"skipped\", \"result\": \"Skipped", "\"result\": \"Skipped", "calls: expected"),
        (answer, "\"result\": \"pay the", "\"result\": \"pay no", "result of read: expected"),
        (answer, "\"answer.md\": null", "\"answer.md\": \"x\"", "answer.md: expected"),
        (build, "\"outcome\": \"aborted\",", "", "outcome: expected"),
        (build, "\"echo built", "\"echo lost", "run.sh: expected"),
    ] {
        assert!(scenario.contains(from), "{from}");
        let folder = taped::folder();
        let differences = scenarios::play(&scenario.replacen(from, to, 1), folder.path()).unwrap();
        assert!(differences.iter().any(|difference| difference.contains(wanted)), "{wanted}: {differences:?}");
    }
}
