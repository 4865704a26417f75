//! The cancel matrix. Each public future of the crate is polled exactly 0, 1, 2, … times, until it completes or waits
//! for another task, and is then dropped: at once, or after everything it began has come to rest. Then the promise of
//! `docs/CANCELLATION.md` is checked, the session works on, and the runtime ends with nothing left.
//!
//! To add a function: a row in `docs/CANCELLATION.md`, and a driver (`matrix::Driver`, three to ten lines) in the file of its room.
//! The test `each_public_future_has_a_row_and_a_driver` names what lacks.

mod http;
mod matrix;
mod processes;
mod runtime;
mod session;
mod sessions;
mod table;
mod tree;
mod world;

use matrix::Driver;

/// The drivers of all rooms.
fn all() -> Vec<Driver> {
    [
        session::drivers(),
        sessions::drivers(),
        runtime::drivers(),
        tree::drivers(),
        processes::drivers(),
        http::drivers(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[test]
fn each_public_future_has_a_row_and_a_driver() {
    let rows: Vec<String> = table::rows().into_iter().map(|row| row.function).collect();
    let drivers: Vec<String> = all().iter().map(|driver| driver.function().to_owned()).collect();
    let functions = table::functions();
    let without = |these: &[String], of: &[String]| -> Vec<String> {
        these.iter().filter(|function| !of.contains(function)).cloned().collect()
    };
    let page = "docs/CANCELLATION.md";
    assert_eq!(without(&functions, &rows), [""; 0], "these public functions have no row in {page}");
    assert_eq!(without(&rows, &functions), [""; 0], "these rows of {page} name no public function");
    assert_eq!(without(&functions, &drivers), [""; 0], "these public functions have no driver in tests/it/cancel/");
    assert_eq!(without(&drivers, &functions), [""; 0], "these drivers call no public function");
    assert!(functions.len() > 90, "the sources are read: {functions:?}");
}

#[test]
fn each_future_that_a_host_gives_has_a_row() {
    assert_eq!(table::of_hosts(), table::rows_of_hosts());
}

#[test]
fn commands_to_a_session_keep_their_word() {
    matrix::run(session::drivers());
}

#[test]
fn what_reads_forks_and_goes_back_keeps_its_word() {
    matrix::run(sessions::drivers());
}

#[test]
fn a_runtime_and_its_levers_keep_their_word() {
    matrix::run(runtime::drivers());
}

#[test]
fn supervisors_and_listeners_keep_their_word() {
    matrix::run(tree::drivers());
}

#[test]
fn requests_to_servers_keep_their_word() {
    matrix::run(http::drivers());
}

#[test]
fn processes_and_tools_keep_their_word() {
    matrix::run(processes::drivers());
}
