//! The matrix of misuse: what a host may do wrong, and the test that shows what it costs. A row whose test is gone fails.

use std::{fs, path::Path};

/// The misuse, where it happens, and the test.
const MATRIX: [(&str, &str, &str); 24] = [
    ("a future is dropped", "at each await of each public future", "each_public_future_has_a_row_and_a_driver"),
    ("a future is dropped", "at each await of what a host gives", "each_future_that_a_host_gives_has_a_row"),
    (
        "a future is dropped",
        "a request that panics in its drop",
        "a_request_that_panics_when_it_is_dropped_does_not_hold_its_turn_open",
    ),
    (
        "a callback panics",
        "tools, hooks, a model's facts, environments",
        "a_panic_in_each_callback_costs_what_it_was_about_and_no_session",
    ),
    ("a callback panics", "a model's stream", "a_model_client_that_panics_is_called_twice_more_and_no_oftener"),
    (
        "a callback panics",
        "each method of an engine",
        "a_panic_of_an_engine_is_a_storage_failure_that_names_the_method",
    ),
    ("a callback panics", "an engine's append", "an_engine_that_panics_in_an_append_loses_no_report"),
    ("a callback panics", "on_resume", "a_listener_that_panics_keeps_no_session_from_going_on"),
    ("a callback panics", "a closure of a typed tool", "a_panic_of_a_closure_is_one_error_result"),
    ("a callback panics", "a swap of tools", "a_tool_that_panics_while_tools_are_swapped_costs_no_session"),
    ("a callback hangs", "an observer of events", "an_observer_that_hangs_holds_up_nobody"),
    ("a callback hangs", "an actor of the runtime", "a_drain_keeps_its_deadline_beside_an_actor_that_is_stuck"),
    ("tools are swapped", "under load, by several owners", "swaps_under_load_lose_no_change_and_show_no_half_of_a_set"),
    ("tools are swapped", "during a call", "a_call_that_waits_runs_what_was_judged_or_fails_where_its_tool_is_gone"),
    ("tools are swapped", "over a crash", "a_request_that_a_crash_cut_off_is_made_again_with_its_own_tools"),
    (
        "tools are swapped",
        "for such that no model can be shown",
        "a_set_that_no_model_can_be_shown_is_refused_and_the_present_one_stays",
    ),
    (
        "an id is used again",
        "of a message, with other words",
        "other_words_under_a_known_id_are_refused_and_the_first_message_is_named",
    ),
    ("an id is used again", "of a session, by a hundred callers", "a_hundred_callers_of_one_id_get_one_session"),
    ("an id is used again", "of a fork", "a_fork_under_an_id_is_one_fork_however_often_it_is_asked_for"),
    ("an id is used again", "the runtime's own", "a_host_cannot_speak_under_the_ids_of_the_runtime"),
    (
        "two runtimes over one store",
        "one session",
        "of_two_runtimes_one_makes_the_session_and_the_other_hears_that_it_is_claimed",
    ),
    (
        "two runtimes over one store",
        "other tools and rules in each",
        "two_runtimes_over_one_store_each_judge_by_their_own_tools_and_rules",
    ),
    (
        "tokio is wrong",
        "no timer, or none at all",
        "a_start_without_a_timer_is_an_error_and_no_panic_that_a_hook_hears",
    ),
    ("tokio is wrong", "handles on another one", "handles_work_on_another_tokio_and_answer_once_their_own_is_gone"),
];

fn sources(below: &Path, text: &mut String) {
    for entry in fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

/// Each row of the matrix names a test that there is.
#[test]
fn each_misuse_of_the_matrix_has_its_test() {
    let (root, mut text) = (Path::new(env!("CARGO_MANIFEST_DIR")), String::new());
    ["src", "tests/it"].iter().for_each(|folder| sources(&root.join(folder), &mut text));
    let is_there = |test: &str| text.contains(&format!("fn {test}()"));
    let gone: Vec<_> = MATRIX.iter().filter(|(_, _, test)| !is_there(test)).collect();
    assert!(gone.is_empty(), "{gone:#?}");
}
