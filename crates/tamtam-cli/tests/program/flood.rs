//! Issue 4 "must show" 6: a flood of output, against a time limit and a steering message, in a whole `tamtam`.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::support::{
    marked::Mark,
    tamtam::{Tamtam, event, is_event},
    taped,
};

/// What the flood may cost in memory: buffers of a few hundred KiB, and room for what an allocator keeps.
const GROWTH_KB_MAX: u64 = 32 * 1024;

/// The most memory that a process ever had, in KiB.
fn peak_kb(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// A run that floods with numbered lines for so many seconds at most, and is sent a message after half a second.
fn flooded(steering: &str, limit: u64, check: impl FnOnce(&Path, &[Value], u64)) {
    let folder = taped::folder();
    let home = folder.path();
    fs::create_dir(home.join("work")).unwrap();
    let script = json!({"replies": [
        {"calls": [
            {"name": "bash", "input": {"command": "seq 1 inf", "timeout": limit}},
            {"name": "write", "input": {"path": "late.txt", "content": "late"}},
        ]},
        {"expect": ["user: stop"], "text": "Stopped."},
    ]});
    fs::write(home.join("script.json"), script.to_string()).unwrap();
    let mark = Mark::new();
    let run = ["run", "--json", "--permission", "auto", "--workspace", "work", "--store", "store"];
    let mut host = Tamtam::start(&[&run[..], &["--model", "scripted:script.json", "go"]].concat(), home, &mark, &[]);
    host.until("the call", is_event("call_started"));
    let before = peak_kb(host.pid());
    std::thread::sleep(std::time::Duration::from_millis(500));
    host.say(&json!({"send": "stop", "delivery": "steer", "steering": steering}));
    // It is answered while the flood goes on; the call that waited behind it may be skipped by now.
    host.until("the answer", |line| {
        assert!(!is_flood(line), "the flood has ended: {line}");
        line["reply"]["command"] == "send"
    });
    host.until("the result", is_flood);
    let grown = peak_kb(host.pid()).saturating_sub(before);
    assert!(grown < GROWTH_KB_MAX, "it grew by {grown} KiB");
    let ended = host.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(!home.join("work/late.txt").exists());
    assert!(mark.processes(0).is_empty());
    check(home, &ended.lines, grown);
}

/// Whether a line is the end of the flooding call, and not of the one behind it.
fn is_flood(line: &Value) -> bool {
    event(line) == "call_finished" && line["content"].as_str().is_some_and(|content| content.contains("Command "))
}

/// The result of the flood, as the tape and the model have it.
fn result(lines: &[Value]) -> String {
    let finished = lines.iter().find(|line| is_flood(line)).unwrap();
    finished["content"].as_str().unwrap().to_owned()
}

/// Every line of the end that was kept follows the one before; the last may be cut by the end of its writer.
fn true_tail(content: &str) -> Vec<u64> {
    let shown = content.split_once('\n').unwrap().1;
    let numbers: Vec<u64> =
        shown.lines().take_while(|line| !line.is_empty()).map(|line| line.parse().unwrap()).collect();
    // The first is a part of itself, and so may be the last.
    let whole = &numbers[1..numbers.len() - 1];
    assert!(whole.len() > 1_000, "{}", whole.len());
    assert!(whole.windows(2).all(|pair| pair[0] + 1 == pair[1]));
    whole.to_vec()
}

/// Issue 4 "must show" 6, nasty case 8, R14: the call runs to its limit, and the message waits for it as it should.
#[test]
fn nasty_08_a_flood_until_its_limit_is_bounded_and_steered() {
    // Long enough for a busy machine to take the message before it is over.
    flooded("skip_remaining", 4, |home, lines, _| {
        let content = result(lines);
        assert!(content.ends_with("Command timed out after 4 seconds"), "{}", &content[content.len() - 200..]);
        assert!(content.len() < 53_000);
        let tail = true_tail(&content);
        let sessions = fs::read_dir(home.join("store/sessions")).unwrap();
        let spill = sessions.flatten().next().unwrap().path().join("spill");
        let files: Vec<_> = fs::read_dir(spill).unwrap().map(|file| file.unwrap()).collect();
        assert_eq!(files.len(), 1);
        let kept = files[0].metadata().unwrap().len();
        match content.contains("the file is full") {
            true => assert_eq!(kept, 64 * 1024 * 1024, "capped"),
            // A busy machine may write less than the cap in that time; then all of it is there.
            false => {
                assert!(kept < 64 * 1024 * 1024, "it is full, and nobody is told");
                let end = fs::read(files[0].path()).unwrap();
                assert!(String::from_utf8_lossy(&end[end.len() - 32..]).contains(&tail.last().unwrap().to_string()));
            }
        }
        let mut beginning = [0; 10];
        std::io::Read::read_exact(&mut fs::File::open(files[0].path()).unwrap(), &mut beginning).unwrap();
        assert_eq!(&beginning, b"1\n2\n3\n4\n5\n");
    });
}

/// Issue 4 "must show" 6: a message that aborts ends the flood long before its limit, and the end is kept all the same.
#[test]
fn nasty_08_a_flood_is_ended_by_a_message_that_aborts() {
    flooded("abort_running", 60, |_, lines, _| {
        let content = result(lines);
        assert!(content.ends_with("Command aborted"), "{}", &content[content.len() - 200..]);
        true_tail(&content);
    });
}
