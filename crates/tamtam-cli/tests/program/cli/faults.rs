//! Outside changes to a store: each is found, reported, and repaired or set aside as docs/TAPE.md says.

use serde_json::{Value, json};

use super::lab::Lab;
use crate::support::taped::LeftOut;

const STORE: &str = "home/.local/share/tamtam";

/// A session of two turns.
fn two_turns(lab: &Lab) -> String {
    let model = lab.script(json!(["The disk is fine.", "Still fine."]));
    for prompt in ["look at the disk", "and again"] {
        let ended = lab.run(&["run", "--session", "s", "--model", &model, prompt]);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
    }
    model
}

fn entries_file(lab: &Lab) -> std::path::PathBuf {
    lab.path(&format!("{STORE}/sessions/s/anchors/001_session-start/entries.jsonl"))
}

fn found(lab: &Lab, words: &str) -> Vec<Value> {
    let ended = lab.run(&["tape", "search", "--json", words]);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    ended.lines().iter().map(|hit| hit["seq"].clone()).collect()
}

/// Promise 6, S-11: without its index a store finds the same, and one that says something else is found out.
#[test]
fn a_deleted_garbled_or_lying_index_is_found_and_made_anew() {
    let lab = Lab::new();
    two_turns(&lab);
    let hits = found(&lab, "fine");
    assert!(hits.len() >= 2, "{hits:?}");
    let index = lab.path(&format!("{STORE}/index.db"));
    std::fs::remove_file(&index).unwrap();
    assert_eq!(found(&lab, "fine"), hits);
    let rebuilt = || lab.run(&["tape", "rebuild"]).stdout;
    assert!(rebuilt().ends_with("the index was right before\n"));
    std::fs::write(&index, "no database").unwrap();
    assert_eq!(found(&lab, "fine"), hits);
    assert!(rebuilt().ends_with("the index was right before\n"));
    // A tape that was cut: what the index has of it goes, and comes back with the tape.
    let file = entries_file(&lab);
    let bytes = std::fs::read(&file).unwrap();
    let lines: Vec<_> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    std::fs::write(&file, lines[..2].concat()).unwrap();
    assert_eq!(found(&lab, "fine"), Vec::<Value>::new());
    std::fs::write(&file, bytes).unwrap();
    assert_eq!(found(&lab, "fine"), hits);
}

/// Seen on the release binary: of sixty damaged indexes, eleven made a search fail. Whatever is damaged, the search finds the same.
#[test]
fn an_index_that_is_damaged_anywhere_is_made_anew_by_a_search() {
    let lab = Lab::new();
    two_turns(&lab);
    let hits = found(&lab, "fine");
    let index = lab.path(&format!("{STORE}/index.db"));
    let whole = std::fs::read(&index).unwrap();
    // A fixed row of numbers, so that each run tries the same.
    let mut seed = 7_u64;
    let mut number = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap() % below
    };
    for n in 0..48 {
        let mut bytes = whole.clone();
        let at = match n % 4 {
            // Somewhere; in the header; a whole page; cut off.
            0 => number(whole.len() - 64)..usize::MAX,
            1 => number(96)..usize::MAX,
            _ => number(whole.len() / 4096) * 4096..usize::MAX,
        };
        match n % 4 {
            3 => bytes.truncate(at.start),
            kind => {
                let length = [64, 4, 4096][kind];
                bytes[at.start..at.start + length]
                    .iter_mut()
                    .for_each(|byte| *byte = u8::try_from(number(256)).unwrap());
            }
        }
        for beside in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{beside}", index.display()));
        }
        std::fs::write(&index, bytes).unwrap();
        assert_eq!(found(&lab, "fine"), hits, "damage {n} at {}", at.start);
    }
}

/// Seen on the release binary: a FIFO in the place of a tape hung every command that reads tapes, a device filled the memory, and a
/// stray file kept `verify` from checking anything. Each is named, and the other sessions are read.
#[test]
fn a_special_file_in_the_place_of_a_tape_hangs_nobody() {
    let lab = Lab::new();
    two_turns(&lab);
    let model = lab.script(json!(["Nobody reads this."]));
    assert_eq!(lab.run(&["run", "--session", "t", "--model", &model, "hi"]).code, 0);
    lab.may_leave_out(LeftOut::Damaged);
    let tape = lab.path(&format!("{STORE}/sessions/t/anchors/001_session-start/entries.jsonl"));
    let hits = found(&lab, "fine");
    std::fs::write(lab.path(&format!("{STORE}/sessions/stray")), "a file").unwrap();
    let verified = lab.run(&["tape", "verify"]);
    assert_eq!((verified.code, verified.stdout.contains("sessions/stray")), (1, true), "{}", verified.stdout);
    for special in ["mkfifo", "ln -s /dev/zero", "mkdir"] {
        let _ = std::fs::remove_file(&tape);
        let made = std::process::Command::new("sh").arg("-c").arg(format!("{special} \"$0\"")).arg(&tape).status();
        assert!(made.unwrap().success(), "{special}");
        let verified = lab.run(&["tape", "verify"]);
        let named = format!("{}: ", tape.display());
        assert_eq!((verified.code, verified.stdout.contains(&named)), (1, true), "{special}: {}", verified.stdout);
        assert!(!verified.stdout.contains("sessions/s/"), "{special}: {}", verified.stdout);
        assert_eq!(lab.run(&["tape", "search", "--json", "fine"]).lines().len(), hits.len(), "{special}");
        assert!(lab.run(&["sessions"]).stdout.contains("look at the disk"), "{special}");
        for arguments in
            [&["tape", "sweep", "--keep", "0", "--dry-run"][..], &["tape", "rebuild"], &["tape", "show", "t"]]
        {
            let code = lab.run(arguments).code;
            assert!((0..=1).contains(&code), "{special} {arguments:?}: {code}");
        }
    }
    // No tape is left there that could be replayed.
    std::fs::remove_dir_all(lab.path(&format!("{STORE}/sessions/t"))).unwrap();
}

/// The same where a person names it: a FIFO as a file of rules, and as the file of an import.
#[test]
fn a_fifo_in_the_place_of_a_named_file_is_refused() {
    let lab = Lab::new();
    let fifo = lab.path("fifo").display().to_string();
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let model = lab.script(json!(["Nobody reads this."]));
    for (arguments, code) in [
        (&["run", "--rules", &fifo, "--model", &model, "hi"][..], 2),
        (&["tape", "import", &fifo], 2),
        (&["replay", "--test", &fifo], 2),
    ] {
        let ended = lab.run(arguments);
        assert_eq!(ended.code, code, "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("fifo"), "{arguments:?}: {}", ended.stderr);
    }
}

/// Seen on the release binary: of two that made one session at the same moment, one was told that it already exists.
#[test]
fn of_two_runs_that_make_one_session_each_ends_with_its_answer_or_with_who_has_it() {
    let lab = Lab::new();
    let model = lab.script(json!(["One.", "Two.", "Three.", "Four."]));
    let arguments = ["run", "--session", "new", "--model", &model, "hi"];
    let ended = [(); 4].map(|()| lab.start(&arguments)).map(super::lab::Live::end);
    assert!(ended.iter().any(|ended| ended.code == 0));
    for ended in &ended {
        assert!((0..=1).contains(&ended.code), "{}", ended.stderr);
        assert!(!ended.stderr.contains("already exists"), "{}", ended.stderr);
        assert!(ended.code == 0 || ended.stderr.contains("is in use by"), "{}", ended.stderr);
    }
}

/// Seen on the release binary: of an empty or a damaged tape `tape show` said nothing.
#[test]
fn a_tape_that_is_empty_or_damaged_is_shown_as_far_as_it_goes() {
    let lab = Lab::new();
    two_turns(&lab);
    lab.may_leave_out(LeftOut::Damaged);
    let entries = lab.tape("s").len();
    let file = entries_file(&lab);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replacen("\"kind\":\"turn_finished\"", "\"kind\":\"xturn_finished\"", 1)).unwrap();
    let shown = lab.run(&["tape", "show", "s"]);
    let lines = shown.stdout.lines().count();
    assert!(shown.code == 1 && lines > 1 && lines < entries, "{lines} of {entries}: {}", shown.stdout);
    assert!(shown.error().contains("entries.jsonl line ") && shown.error().contains("tape fork s"), "{}", shown.stderr);
    lab.may_leave_out(LeftOut::NeverBegun);
    std::fs::write(&file, "").unwrap();
    let empty = lab.run(&["tape", "show", "s"]);
    assert_eq!((empty.code, empty.error().contains("has no entry")), (1, true), "{}", empty.stderr);
}

/// A line that was being written when the writer died: named, cut off and set aside; the session goes on.
#[test]
fn a_cut_last_line_is_named_and_set_aside() {
    let lab = Lab::new();
    let model = two_turns(&lab);
    let file = entries_file(&lab);
    let bytes = std::fs::read(&file).unwrap();
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
    std::fs::write(&file, &bytes[..bytes.len() - 20]).unwrap();
    let verified = lab.run(&["tape", "verify"]);
    assert_eq!(verified.code, 1);
    // The first line of the append that was cut: it goes as a whole.
    let named = (lines - 2..=lines).any(|line| verified.stdout.contains(&format!("entries.jsonl line {line}: ")));
    assert!(named, "{}", verified.stdout);
    let third = lab.script(json!(["The disk is fine.", "Still fine.", "For the third time."]));
    let ended = lab.run(&["run", "--session", "s", "--model", &third, "once more"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let torn = std::fs::read(file.with_file_name("entries.torn-001")).unwrap();
    assert!(bytes[..bytes.len() - 20].ends_with(&torn) && !torn.is_empty());
    assert_eq!(lab.run(&["tape", "verify"]).code, 0, "{}", lab.run(&["tape", "verify"]).stdout);
    assert!(found(&lab, "fine").len() >= 2);
    drop(model);
}

/// A byte that is another one: named with its line; nothing folds past it, nothing is changed, and it does not go out.
#[test]
fn a_flipped_byte_is_named_and_nothing_goes_on_from_it() {
    let lab = Lab::new();
    let model = two_turns(&lab);
    let file = entries_file(&lab);
    let mut bytes = std::fs::read(&file).unwrap();
    let fourth: usize = bytes.split_inclusive(|byte| *byte == b'\n').take(3).map(<[u8]>::len).sum();
    lab.may_leave_out(LeftOut::Damaged);
    bytes[fourth + 60] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    let verified = lab.run(&["tape", "verify"]);
    assert_eq!(verified.code, 1);
    assert!(verified.stdout.contains("entries.jsonl line 4: the checksum does not fit"), "{}", verified.stdout);
    for refused in [
        lab.run(&["run", "--session", "s", "--model", &model, "more"]),
        lab.run(&["resume", "s", "--model", &model]),
        lab.run(&["tape", "export", "s", "--to", "out.jsonl"]),
    ] {
        assert_eq!(refused.code, 1, "{}", refused.stderr);
        assert!(refused.error().contains("tape verify"), "{}", refused.stderr);
    }
    assert!(!lab.work("out.jsonl").exists());
    assert_eq!(std::fs::read(&file).unwrap(), bytes, "and it is left as it is");
}

/// With no room left, what is there can be searched and verified; with room again the index reads on.
#[test]
fn on_a_full_disk_what_is_there_is_still_found() {
    let lab = Lab::new();
    let at = lab.path("disk");
    let Some(_disk) = super::errors::SmallDisk::mount(&at) else {
        eprintln!("skipped: mounting a small disk needs root");
        return;
    };
    let store = at.join("store");
    let store = store.to_str().unwrap();
    let model = lab.script(json!(["The disk is fine.", "Still fine."]));
    let run = |prompt: &str| lab.run(&["run", "--session", "s", "--model", &model, "--store", store, prompt]);
    let search = || lab.run(&["tape", "search", "--json", "--store", store, "fine", "--kind", "answer"]);
    assert_eq!(run("look").code, 0);
    assert_eq!(search().lines().len(), 1);
    assert_eq!(run("again").code, 0);
    let filler = at.join("filler");
    let fill = format!("cat /dev/zero > '{}'", filler.display());
    drop(std::process::Command::new("sh").args(["-c", &fill]).stderr(std::process::Stdio::null()).status());
    let full = search();
    assert!(full.code == 0 || full.error().contains("free some space"), "{full:?}");
    assert_eq!(lab.run(&["tape", "verify", "--store", store]).code, 0);
    let refused = run("more");
    assert_eq!(refused.code, 1);
    refused.error();
    std::fs::remove_file(filler).unwrap();
    assert_eq!(search().lines().len(), 2);
    assert_eq!(lab.run(&["tape", "verify", "--store", store]).stdout, "1 tape checked, no damage\n");
}

/// A session goes out as one file and comes in elsewhere, whole or not at all.
#[test]
fn a_session_is_carried_to_another_store() {
    let lab = Lab::new();
    let model = two_turns(&lab);
    let exported = lab.run(&["tape", "export", "s", "--to", "s.jsonl"]);
    assert_eq!(exported.code, 0, "{}", exported.stderr);
    assert_eq!(lab.run(&["tape", "export", "s"]).stdout, std::fs::read_to_string(lab.work("s.jsonl")).unwrap());
    assert_eq!(lab.run(&["tape", "export", "s", "--to", "s.jsonl"]).code, 2, "nothing is written over");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(lab.work("s.jsonl")).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600, "the conversation in it is its owner's alone");
    let other = ["--store", "other"];
    let import = |more: &[&str]| lab.run(&[&["tape", "import", "s.jsonl"][..], more, &other].concat());
    let imported = import(&["--as-it-was"]);
    assert_eq!(imported.code, 0, "{}", imported.stderr);
    assert!(import(&["--as-it-was"]).error().contains("--as ID"));
    let narrowed = import(&["--as", "t"]);
    assert_eq!(narrowed.code, 0, "{}", narrowed.stderr);
    let work = std::fs::canonicalize(lab.work(".")).unwrap();
    assert!(
        narrowed.stdout.contains(&format!("It works in {}, has no unfinished work, and asks", work.display())),
        "{}",
        narrowed.stdout
    );
    assert_eq!(import(&["--as", "u", "--workspace", "nowhere"]).code, 2, "the folder must be there");
    assert_eq!(import(&["--as", "u", "--workspace", ".", "--as-it-was"]).code, 2);
    assert_eq!(lab.run(&[&["tape", "verify"][..], &other].concat()).code, 0);
    let show = |more: &[&str]| lab.run(&[&["tape", "show"][..], more, &["--json"]].concat()).stdout;
    assert_eq!(show(&["s"]), show(&["s", "--store", "other"]));
    let third = lab.script(json!(["The disk is fine.", "Still fine.", "Elsewhere."]));
    for session in ["s", "t"] {
        let went_on = lab.run(&["run", "--session", session, "--model", &third, "--store", "other", "go on"]);
        assert_eq!((went_on.code, went_on.stdout.as_str()), (0, "Elsewhere.\n"), "{}", went_on.stderr);
    }
    drop(model);
    // What is no export is refused in one line, and nothing is left.
    std::fs::write(lab.work("bad.jsonl"), "{\"tamtam\":\"tape\",\"v\":1}\n").unwrap();
    let refused = lab.run(&["tape", "import", "bad.jsonl", "--as", "u", "--store", "other"]);
    assert_eq!(refused.code, 1);
    assert!(refused.error().contains("line 1"), "{}", refused.stderr);
    assert!(!lab.work("other/sessions/u").exists());
}
