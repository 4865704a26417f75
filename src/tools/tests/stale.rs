//! Nothing is overwritten that the session has not seen (F07, F09, nasty case 13).

#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

use serde_json::{Value, json};

use crate::{tool::ToolResult, tools::lab::Lab, words::ids::SessionId};

/// One session in a lab.
struct Person<'l> {
    lab: &'l Lab,
    session: SessionId,
}

impl Person<'_> {
    fn new(lab: &Lab) -> Person<'_> {
        Person { lab, session: SessionId::new() }
    }

    fn call(&self, tool: &str, arguments: Value) -> ToolResult {
        let mut context = self.lab.context();
        context.session = self.session.clone();
        self.lab.call_in(tool, arguments, &context)
    }

    fn read(&self, path: &str) {
        let result = self.call("read", json!({ "path": path }));
        assert!(!result.is_error(), "{}", result.content);
    }

    fn edit(&self, path: &str, old: &str, new: &str) -> ToolResult {
        self.call("edit", json!({"path": path, "old_string": old, "new_string": new}))
    }

    fn write(&self, path: &str, content: &str) -> ToolResult {
        self.call("write", json!({"path": path, "content": content}))
    }
}

fn ok(result: &ToolResult) {
    assert!(!result.is_error(), "{}", result.content);
}

fn stale(result: &ToolResult) {
    assert!(result.is_error() && result.content.contains("was changed by someone else"), "{}", result.content);
    assert!(result.content.contains("Read it again"), "the model is told what to do: {}", result.content);
}

#[test]
fn f07_a_file_that_was_changed_since_it_was_read_is_not_touched() {
    let lab = Lab::new();
    lab.put("f", "one\ntwo\n");
    let ada = Person::new(&lab);
    ada.read("f");
    lab.put("f", "one\ntwo\nforeign\n");
    stale(&ada.edit("f", "one", "1"));
    stale(&ada.write("f", "mine\n"));
    assert_eq!(lab.content("f"), "one\ntwo\nforeign\n");
    ada.read("f");
    ok(&ada.edit("f", "one", "1"));
    assert_eq!(lab.content("f"), "1\ntwo\nforeign\n");
}

/// The same length, the same time stamp: only the content tells.
#[test]
fn f07_a_change_that_time_stamps_do_not_show_is_seen() {
    let lab = Lab::new();
    let time = SystemTime::now() - Duration::from_secs(60);
    let put = |content: &str| {
        lab.put("f", content);
        std::fs::OpenOptions::new().write(true).open(lab.path("f")).unwrap().set_modified(time).unwrap();
    };
    put("one\n");
    let ada = Person::new(&lab);
    ada.read("f");
    put("two\n");
    stale(&ada.write("f", "mine\n"));
}

/// The other side: what the session did itself, what only touched the file, and what it never read refuses nothing.
#[test]
fn f07_only_a_foreign_content_is_refused() {
    let lab = Lab::new();
    lab.put("f", "one\n");
    let ada = Person::new(&lab);
    ada.read("f");
    ok(&ada.edit("f", "one", "two"));
    ok(&ada.edit("f", "two", "three"));
    ok(&ada.write("f", "four\n"));
    ok(&ada.edit("f", "four", "five"));
    lab.age("f", 100);
    std::fs::set_permissions(lab.path("f"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    lab.put("f", "five\n");
    ok(&ada.edit("f", "five", "six"));
    lab.put("unseen", "old\n");
    ok(&ada.write("unseen", "new\n"));
    ada.read("f");
    std::fs::remove_file(lab.path("f")).unwrap();
    ok(&ada.write("f", "again\n"));
}

/// A page of a file is enough to notice that the rest of it was changed; another spelling of its name is the same file.
#[test]
fn f07_a_page_counts_as_seen_and_so_does_another_spelling() {
    let lab = Lab::new();
    lab.put("d/f", "one\ntwo\nthree\n");
    lab.link("d", "link");
    lab.link("f", "d/name");
    let ada = Person::new(&lab);
    ok(&ada.call("read", json!({"path": "link/name", "limit": 1})));
    lab.put("d/f", "one\ntwo\nTHREE\n");
    stale(&ada.edit("d/f", "one", "1"));
    // A path that is replaced by another file is the same path.
    ada.read("d/f");
    std::fs::remove_file(lab.path("d/f")).unwrap();
    lab.put("d/f", "one\nanother\n");
    stale(&ada.edit("d/../d/f", "one", "1"));
}

/// What is too large to be remembered by its content is remembered by its state.
#[test]
fn f07_a_large_file_is_known_by_its_state() {
    let lab = Lab::new();
    let large = |first: &str| format!("{first}\n{}", "x\n".repeat(6_000_000));
    lab.put("f", large("one"));
    let ada = Person::new(&lab);
    ok(&ada.call("read", json!({"path": "f", "limit": 1})));
    lab.put("f", large("two"));
    stale(&ada.write("f", "mine\n"));
    lab.put("f", "small\n");
    stale(&ada.write("f", "mine\n"));
    ada.read("f");
    ok(&ada.write("f", "mine\n"));
}

/// F09: two sessions in one folder; the second one gets an error.
#[test]
fn f09_of_two_sessions_the_second_is_told() {
    let lab = Lab::new();
    lab.put("f", "start\n");
    let (ada, bob) = (Person::new(&lab), Person::new(&lab));
    ada.read("f");
    bob.read("f");
    ok(&bob.write("f", "bob's\n"));
    stale(&ada.write("f", "ada's\n"));
    assert_eq!(lab.content("f"), "bob's\n");
}

/// F09: of a hundred sessions that read the same and write at once, one wins and the others get errors.
#[test]
fn f09_of_many_writers_at_once_exactly_one_wins() {
    const WRITERS: usize = 100;
    let lab = Lab::new();
    lab.put("f", "start\n");
    let (start, won) = (Barrier::new(WRITERS), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for n in 0..WRITERS {
            let (lab, start, won) = (&lab, &start, &won);
            scope.spawn(move || {
                let person = Person::new(lab);
                person.read("f");
                start.wait();
                let result = person.write("f", &format!("writer {n}\n"));
                if result.is_error() {
                    stale(&result);
                } else {
                    won.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(won.into_inner(), 1);
}

/// Nasty case 13: a stranger who writes all the time loses nothing to a session that reads, then writes.
#[test]
fn nasty_13_a_foreign_change_is_never_overwritten_unseen() {
    let lab = Lab::new();
    lab.put("f", "0\n");
    std::thread::scope(|scope| {
        let stranger = scope.spawn(|| {
            // Each change is made from what is there, so one that is lost leaves a gap in the numbers.
            for _ in 0..200 {
                let person = Person::new(&lab);
                loop {
                    person.read("f");
                    let next = lab.content("f").trim().parse::<u32>().unwrap() + 1;
                    if !person.write("f", &format!("{next}\n")).is_error() {
                        break;
                    }
                }
            }
        });
        let ada = Person::new(&lab);
        for _ in 0..200 {
            loop {
                let shown = ada.call("read", json!({"path": "f"})).content;
                let number: u32 = shown.trim().split('\t').next_back().unwrap().parse().unwrap();
                if !ada.write("f", &format!("{}\n", number + 1)).is_error() {
                    break;
                }
            }
        }
        stranger.join().unwrap();
    });
    assert_eq!(lab.content("f"), "400\n");
}

/// Nasty case 13: a file that turns into a folder, and one that grows while it is read.
#[test]
fn nasty_13_a_file_that_becomes_something_else() {
    let lab = Lab::new();
    lab.put("f", "one\n");
    let ada = Person::new(&lab);
    ada.read("f");
    std::fs::remove_file(lab.path("f")).unwrap();
    lab.put("f/inside", "x");
    assert!(ada.edit("f", "one", "two").content.contains("Is a directory"));
    assert!(ada.write("f", "two").content.contains("Is a directory"));
    lab.put("log", "line 1\n");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            use std::io::Write as _;
            let mut log = std::fs::OpenOptions::new().append(true).open(lab.path("log")).unwrap();
            for n in 2..2_000 {
                writeln!(log, "line {n}").unwrap();
            }
        });
        for _ in 0..20 {
            let result = ada.call("read", json!({"path": "log", "limit": 1}));
            assert!(result.content.starts_with("     1\tline 1"), "{}", result.content);
        }
    });
}
