//! `tamtam demo`: it shows the machine, and it cannot be fooled.

use std::{io::BufRead as _, process::Stdio};

use super::lab::Lab;
use crate::support::taped::LeftOut;

#[test]
fn the_demo_steers_crashes_recovers_and_ends_0() {
    let lab = Lab::new();
    let ended = lab.run(&["demo"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{}", ended.stdout);
    for said in [
        "check failed: greet says Helo",
        "bash is done: check passed",
        "While bash runs, a message steers: Stop.",
        "write is skipped",
        "It was rebuilt from its tape and continues.",
        "crashed (panic: the glitch of the demo)",
        "restarts 1",
        "The crashes:\n#1 20",
        "session demo crashed in incarnation 2: panic: the glitch of the demo → restarted at once, crash 1 in the window",
        "each delivered once",
    ] {
        assert!(ended.stdout.contains(said), "{said:?} is missing in {}", ended.stdout);
    }
    assert_eq!(lab.processes("sleep 30"), 0);
    // The tape that it names is there.
    let store = ended.stdout.lines().find_map(|line| line.split("--store ").nth(1)).unwrap();
    assert_eq!(lab.run(&["tape", "verify", "--store", store]).code, 0);
}

/// With its tape gone half-way the demo does not say that all is well.
#[test]
fn the_demo_ends_1_when_its_tape_is_removed_half_way() {
    let lab = Lab::new();
    let mut child = lab.command(&["demo"]).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let folder = lines.next().unwrap().split("happens in ").nth(1).unwrap().to_owned();
    lines.find(|line| line.contains("sleep 1")).unwrap();
    let store = std::path::Path::new(&folder).join("store");
    lab.may_leave_out(LeftOut::NeverBegun);
    // In one step: a folder that is being written to cannot be emptied for certain.
    std::fs::rename(store.join("sessions"), store.join("gone")).unwrap();
    let rest: Vec<_> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{rest:#?}");
}
