//! What an operator does with the binary, and reads from it.

use cucumber::{gherkin, then, when};

use crate::{lab::Lab, steps::text};

/// The cells of the table's one row are the arguments.
#[when("the operator runs tamtam:")]
fn runs(lab: &mut Lab, step: &gherkin::Step) {
    let row = &step.table.as_ref().expect("the arguments are a table").rows[0];
    let arguments: Vec<&str> = row.iter().map(String::as_str).collect();
    lab.operate(&arguments);
}

/// The same with `--json`; where the answer is refused, the call is rejected.
#[when("the operator runs tamtam, and answers the ask with always for the project:")]
fn runs_and_answers(lab: &mut Lab, step: &gherkin::Step) {
    let row = &step.table.as_ref().expect("the arguments are a table").rows[0];
    let arguments: Vec<&str> = row.iter().map(String::as_str).collect();
    lab.operate_answering(&arguments, &serde_json::json!({"grant": "always", "scope": "project", "offer": 2}));
}

#[then(expr = "the command asked {int} time(s)")]
fn asked(lab: &mut Lab, times: usize) {
    let (_, stdout, _) = lab.ran.as_ref().expect("no command was run");
    assert_eq!(stdout.matches("\"event\":\"ask\"").count(), times, "{stdout}");
}

#[then(expr = "the command ended with {int} and printed {string}")]
fn printed(lab: &mut Lab, code: i32, wanted: String) {
    let (ended, stdout, stderr) = lab.ran.as_ref().expect("no command was run");
    assert!(*ended == code && stdout.contains(&text(&wanted)), "{ended}: {stdout}{stderr}");
}

#[then(expr = "the command warned that {string}")]
fn warned(lab: &mut Lab, wanted: String) {
    let (.., stderr) = lab.ran.as_ref().expect("no command was run");
    let warnings: Vec<_> = stderr.lines().filter(|line| line.starts_with("warning: ")).collect();
    assert!(warnings.len() == 1 && warnings[0].contains(&wanted), "{stderr}");
}

#[then("the command warned of nothing")]
fn warned_of_nothing(lab: &mut Lab) {
    let (.., stderr) = lab.ran.as_ref().expect("no command was run");
    assert!(!stderr.contains("warning: "), "{stderr}");
}
