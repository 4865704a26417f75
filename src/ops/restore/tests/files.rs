//! What is put back, what is refused, and what is said of it.

use std::os::unix::{
    ffi::OsStrExt as _,
    fs::{MetadataExt as _, PermissionsExt as _, symlink},
};

use super::*;
use crate::{kernel::RefusedFile, tool::KeepLimits};

fn mode(scene: &Scene, name: &str) -> u32 {
    std::fs::metadata(scene.path(name)).unwrap().permissions().mode() & 0o777
}

fn set_mode(scene: &Scene, name: &str, mode: u32) {
    std::fs::set_permissions(scene.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
}

fn conflict(why: &str) -> FileStep {
    FileStep::Conflict { why: why.into() }
}

fn not_restorable(why: &str) -> FileStep {
    FileStep::NotRestorable { why: why.into() }
}

/// Z-03: edits, writes, new files and diffs are taken back to the byte: line ends, marks, encodings, empty files, modes.
#[test]
fn files_go_back_to_the_byte() {
    let mut scene = Scene::new();
    let utf16: Vec<u8> = "\u{feff}eins\r\nzwei\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let contents: [(&str, Vec<u8>); 5] = [
        ("crlf", b"\xef\xbb\xbfeins\r\nzwei\n".to_vec()),
        ("utf16", utf16),
        ("latin", b"stra\xdfe eins\n".to_vec()),
        ("empty", Vec::new()),
        ("program", b"#!/bin/sh\necho eins\n".to_vec()),
    ];
    for (name, content) in &contents {
        scene.put(name, content);
    }
    set_mode(&scene, "program", 0o755);
    let before = scene.seq();
    for name in ["crlf", "utf16", "latin", "program"] {
        scene.edit(name, "eins", "EINS");
    }
    let diff = "@@ -1,1 +1,1 @@\n-EINS\n+drei\n";
    assert!(!scene.call("edit", json!({"path": "crlf", "diff": diff})).is_error());
    scene.write("empty", "full\n");
    scene.write("deep/new", "made\n");
    assert_eq!(scene.plan(before).to_change().count(), 6);
    scene.back(before);
    for (name, content) in &contents {
        assert_eq!(scene.bytes(name).as_ref(), Some(content), "{name}");
    }
    assert_eq!((mode(&scene, "program"), scene.bytes("deep/new")), (0o755, None));
    assert!(scene.plan(before).files.iter().all(|file| file.step == FileStep::Nothing));
}

/// Each point of the tape is one to go back to, and going back can be undone.
#[test]
fn a_restore_goes_to_any_point_and_is_itself_undone() {
    let mut scene = Scene::new();
    scene.put("f", "0\n");
    let points: Vec<(Seq, String)> = (1..=4)
        .map(|n| {
            let point = (scene.seq(), scene.text("f"));
            scene.edit("f", &(n - 1).to_string(), &n.to_string());
            point
        })
        .collect();
    let (newest, text) = (scene.seq(), scene.text("f"));
    for (point, then) in &points {
        scene.back(*point);
        assert_eq!(scene.text("f"), *then);
        let undo = Seq(scene.seq().0 - 1);
        scene.back(undo);
        assert_eq!(scene.text("f"), text, "undone");
        assert_eq!(scene.steps(newest), [("f".to_owned(), FileStep::Nothing)]);
    }
    scene.write("made", "x");
    let after_made = scene.seq();
    scene.back(newest);
    assert_eq!(scene.bytes("made"), None);
    scene.back(after_made);
    assert_eq!(scene.text("made"), "x", "what was deleted is back");
}

/// A file that others changed since is refused by name and left as it is; all or nothing does nothing; insisting keeps what is
/// replaced.
#[test]
fn what_changed_behind_our_back_is_refused_by_name() {
    let mut scene = Scene::new();
    for name in ["mine", "theirs", "gone", "again"] {
        scene.put(name, "old\n");
    }
    let before = scene.seq();
    for name in ["mine", "theirs", "gone"] {
        scene.edit(name, "old", "new");
    }
    scene.put("theirs", "their own\n");
    std::fs::remove_file(scene.path("gone")).unwrap();
    let expected = [
        ("gone".to_owned(), conflict("someone else deleted it since")),
        ("mine".to_owned(), FileStep::Restore),
        ("theirs".to_owned(), conflict("someone else changed it since")),
    ];
    assert_eq!(scene.steps(before), expected);
    let shown = scene.plan(before).to_string();
    assert!(
        shown.starts_with("refused   gone: someone else deleted it since\nrestore   mine\nrefused   theirs: "),
        "{shown}"
    );
    assert!(shown.contains("--- a/mine\n+++ b/mine\n@@ -1 +1 @@\n-new\n+old\n"), "{shown}");
    assert!(shown.contains("--- /dev/null\n+++ b/gone\n"), "{shown}");

    let done = scene.restore(before, Restore::Rest);
    assert_eq!(done.files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["mine"]);
    let refused = |path: &str, why: &str| RefusedFile { path: path.into(), why: why.into() };
    assert_eq!(
        done.refused,
        [refused("gone", "someone else deleted it since"), refused("theirs", "someone else changed it since")]
    );
    assert_eq!(
        (scene.text("mine"), scene.text("theirs"), scene.bytes("gone")),
        ("old\n".into(), "their own\n".into(), None)
    );

    let insisted = scene.seq();
    let done = scene.restore(before, Restore::Over);
    assert_eq!((done.files.len(), done.refused.len()), (2, 0));
    assert_eq!((scene.text("theirs"), scene.text("gone")), ("old\n".into(), "old\n".into()));
    scene.back(insisted);
    assert_eq!((scene.text("theirs"), scene.bytes("gone")), ("their own\n".into(), None), "what they wrote was kept");
}

/// What others wrote between two of our changes goes with them, and the plan says so.
#[test]
fn a_change_of_someone_else_in_between_is_said() {
    let mut scene = Scene::new();
    scene.put("f", "a b\n");
    let before = scene.seq();
    scene.edit("f", "a", "A");
    scene.put("f", "A b theirs\n");
    scene.read("f");
    scene.edit("f", "b", "B");
    let plan = scene.plan(before);
    assert!(plan.files[0].others_between && plan.to_string().contains("what someone else wrote there in between"));
    scene.back(before);
    assert_eq!(scene.text("f"), "a b\n");
}

/// Names that are not text, links and names of one file.
#[test]
fn strange_names_links_and_hard_links_go_back() {
    let mut scene = Scene::new();
    let strange = std::ffi::OsStr::from_bytes(b"caf\xe9\nx");
    scene.put(strange, "old\n");
    scene.put("target", "old\n");
    symlink("target", scene.path("link")).unwrap();
    scene.put("one", "old\n");
    std::fs::hard_link(scene.path("one"), scene.path("two")).unwrap();
    let before = scene.seq();
    scene.edit(r#""caf\xe9\nx""#, "old", "new");
    scene.edit("link", "old", "new");
    scene.edit("one", "old", "newer");
    scene.edit("two", "newer", "newest");
    scene.write("dangling", "x");
    let steps = scene.steps(before);
    assert!(steps.iter().any(|(path, step)| path == r#""caf\xe9\nx""# && *step == FileStep::Restore), "{steps:?}");
    assert!(
        steps.iter().any(|(path, _)| path == "target"),
        "a link is written through, so its end is named: {steps:?}"
    );
    scene.back(before);
    assert_eq!(std::fs::read(scene.path("").join(strange)).unwrap(), b"old\n");
    assert_eq!(
        (scene.text("target"), scene.text("one"), scene.text("two")),
        ("old\n".into(), "old\n".into(), "old\n".into())
    );
    assert!(std::fs::symlink_metadata(scene.path("link")).unwrap().is_symlink());
    assert_eq!(std::fs::metadata(scene.path("one")).unwrap().nlink(), 2, "they are still one file");
}

/// A link put in the way afterwards is not followed, wherever it leads.
#[test]
fn a_link_in_the_way_is_refused() {
    let mut scene = Scene::new();
    scene.put("dir/f", "old\n");
    scene.put("other/f", "new\n");
    scene.put("plain", "old\n");
    let before = scene.seq();
    scene.edit("dir/f", "old", "new");
    scene.edit("plain", "old", "new");
    std::fs::rename(scene.path("dir"), scene.path("moved")).unwrap();
    symlink("other", scene.path("dir")).unwrap();
    std::fs::remove_file(scene.path("plain")).unwrap();
    symlink("/etc/hostname", scene.path("plain")).unwrap();
    let done = scene.restore(before, Restore::Over);
    assert_eq!((done.files.len(), done.refused.len()), (0, 2), "{done:?}");
    assert_eq!(scene.text("other/f"), "new\n");
    assert!(std::fs::symlink_metadata(scene.path("plain")).unwrap().is_symlink());
}

/// A call that a crash cut off has no result; its note says what it was about to change.
#[test]
fn a_call_that_was_cut_off_by_a_crash_is_taken_back_too() {
    let mut scene = Scene::new();
    scene.put("f", "old\n");
    let before = scene.seq();
    scene.crash_in("write", json!({"path": "f", "content": "new\n"}));
    scene.crash_in("write", json!({"path": "made", "content": "new\n"}));
    scene.crash_in("bash", json!({"command": "echo x > b"}));
    let plan = scene.plan(before);
    assert_eq!(plan.silent.len(), 1, "{:?}", plan.silent);
    assert!(plan.silent[0].starts_with("bash (call ") && plan.silent[0].contains("cut off by a crash"));
    scene.back(before);
    assert_eq!((scene.text("f"), scene.bytes("made")), ("old\n".into(), None));
    // A note of a change that was never made changes nothing.
    let vault = scene.tools.files().unwrap().vaults.at(Some(&scene.kept()));
    let mut note = vault.notes().unwrap().remove(0);
    note.seq = scene.seq().next();
    vault.note(&note).unwrap();
    assert_eq!(scene.steps(scene.seq()), [("f".to_owned(), FileStep::Nothing)]);
}

/// A restore that died before it was recorded is found by its notes, finished by another, and undone.
#[test]
fn a_restore_that_was_cut_off_is_finished_by_the_next() {
    let mut scene = Scene::new();
    for name in ["a", "b"] {
        scene.put(name, "old\n");
    }
    let before = scene.seq();
    for name in ["a", "b"] {
        scene.edit(name, "old", "new");
    }
    let edited = scene.seq();
    let (mut plan, bench) = scene.prepare(before);
    plan.files.truncate(1);
    drop(act::act(&plan, &bench, Restore::Whole));
    assert_eq!((scene.text("a"), scene.text("b")), ("old\n".into(), "new\n".into()));
    assert_eq!(scene.steps(edited), [("a".to_owned(), FileStep::Restore)], "what was done can be undone");
    let done = scene.back(before);
    assert_eq!(done.files.len(), 1);
    assert_eq!((scene.text("a"), scene.text("b")), ("old\n".into(), "old\n".into()));
}

/// The change says what was not kept, and is still made.
#[test]
fn what_could_not_be_kept_is_not_restorable_and_says_why() {
    let mut scene = Scene::with(Setup::new().keep(KeepLimits { file_bytes_max: 8, session_bytes_max: 19 }));
    scene.put("large", "a large file\n");
    scene.put("a", "1234567\n");
    scene.put("b", "7654321\n");
    let before = scene.seq();
    scene.write("large", "x\n");
    scene.write("a", "y\n");
    scene.write("b", "z\n");
    assert_eq!(scene.text("b"), "z\n");
    let steps = scene.steps(before);
    assert_eq!(steps[0], ("a".to_owned(), FileStep::Restore));
    assert_eq!(
        steps[1],
        ("b".to_owned(), not_restorable("its old content was not kept: the session keeps as much as it may, 19B"))
    );
    assert_eq!(steps[2], ("large".to_owned(), not_restorable("its old content was not kept: it is larger than 8B")));
    std::fs::remove_dir_all(scene.kept()).unwrap();
    assert!(scene.steps(before).iter().all(|(_, step)| matches!(step, FileStep::NotRestorable { .. })));
}

/// What could not be taken back again is not replaced, unless the host insists.
#[test]
fn what_is_there_is_kept_or_the_file_is_refused() {
    let mut scene = Scene::new();
    let before = scene.seq();
    scene.write("made", "new\n");
    let files = Setup::new().keep(KeepLimits { file_bytes_max: 1, session_bytes_max: 1 });
    scene.tools = files.full();
    std::fs::remove_dir_all(scene.kept()).unwrap();
    let done = scene.restore(before, Restore::Whole);
    assert!(done.refused[0].why.contains("could not be kept, so this could not be undone"), "{done:?}");
    assert_eq!(scene.text("made"), "new\n");
    assert_eq!(scene.restore(before, Restore::Over).files.len(), 1);
    assert_eq!(scene.bytes("made"), None);
}

/// BASH changes: what was read or written before is known; the rest is listed, never left out.
#[test]
fn what_a_command_changed_is_restored_where_it_is_known_and_named_where_not() {
    let mut scene = Scene::new();
    for name in ["read", "written", "unseen", "moved", "chmod", "untouched", "deleted"] {
        scene.put(name, "old\n");
    }
    scene.put(".gitignore", "ignored\n");
    scene.put("ignored", "old\n");
    scene.read("read");
    scene.read("deleted");
    assert!(!scene.kept().exists(), "a read stores nothing");
    scene.edit("written", "old", "newer");
    let before = scene.seq();
    let result = scene.bash(
        "echo x >> read; echo x >> written; echo x >> unseen; mv moved elsewhere; chmod 700 chmod; rm deleted; \
         echo made > 'made here'; echo x >> ignored; touch read; ln -s read link",
    );
    let changes = result.changes.unwrap();
    assert_eq!(changes.unlisted, None);
    let named: Vec<&str> = changes.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(named, ["chmod", "deleted", "elsewhere", "link", "made here", "moved", "read", "unseen", "written"]);
    let steps = scene.steps(before);
    let expected = [
        ("chmod", FileStep::Restore),
        ("deleted", FileStep::Restore),
        ("elsewhere", FileStep::Delete),
        ("link", not_restorable("it is a symbolic link")),
        ("made here", FileStep::Delete),
        ("moved", FileStep::Restore),
        ("read", FileStep::Restore),
        ("unseen", not_restorable("changed by bash, and its content before that is not known")),
        ("written", FileStep::Restore),
    ];
    assert_eq!(steps, expected.map(|(path, step)| (path.to_owned(), step)));
    let done = scene.restore(before, Restore::Rest);
    assert_eq!(done.refused.len(), 2);
    for (name, content) in [("read", "old\n"), ("written", "newer\n"), ("deleted", "old\n"), ("moved", "old\n")] {
        assert_eq!(scene.text(name), content);
    }
    assert_eq!((mode(&scene, "chmod"), scene.bytes("made here")), (0o644, None));
    assert_eq!((scene.text("unseen"), scene.text("ignored")), ("old\nx\n".into(), "old\nx\n".into()));
    // The command left what it wrote to be known: the next one finds it.
    let again = scene.seq();
    scene.bash("echo y >> unseen");
    scene.back(again);
    assert_eq!(scene.text("unseen"), "old\nx\n");
}

/// A command that uncovers what was ignored has not made it: it is not deleted.
#[test]
fn what_was_ignored_before_is_not_taken_for_made() {
    let mut scene = Scene::new();
    scene.put(".gitignore", "secret\nnew\n");
    scene.put("secret", "precious\n");
    std::thread::sleep(std::time::Duration::from_millis(120));
    let before = scene.seq();
    scene.bash("echo > .gitignore; echo visible > shown; echo shown > .gitignore");
    let steps = scene.steps(before);
    let of = |name: &str| steps.iter().find(|(path, _)| path == name).map(|(_, step)| step.clone());
    assert_eq!(of("secret"), Some(not_restorable("it existed before, and was not checked")));
    scene.restore(before, Restore::Rest);
    assert_eq!(scene.text("secret"), "precious\n");
}

/// A bound that is reached is said: nothing is left out in silence.
#[test]
fn a_workspace_beyond_the_bound_is_said() {
    let mut scene = Scene::new();
    for (look, why) in [
        (None, "bash was set not to look at what commands change"),
        (
            Some(LookLimits { files_max: 2, ..LookLimits::default() }),
            "the workspace has more than 2 files, so they were not checked",
        ),
        (
            Some(LookLimits { time_max: std::time::Duration::ZERO, ..LookLimits::default() }),
            "a check of the workspace takes longer than 0 ms, so the changes are unknown",
        ),
    ] {
        for name in ["a", "b", "c"] {
            scene.put(name, "old\n");
        }
        let mut bash = BashOptions::new([]);
        bash.look = look;
        scene.tools = Setup::new().bash(bash).full();
        let before = scene.seq();
        let result = scene.bash("echo x > a");
        assert_eq!(result.changes.unwrap().unlisted.as_deref(), Some(why));
        let plan = scene.plan(before);
        assert_eq!((plan.files.len(), plan.silent.len()), (0, 1));
        assert!(plan.to_string().contains(why), "{plan}");
    }
}

/// What ran elsewhere, and what does not say what it changes, is named.
#[test]
fn what_ran_elsewhere_is_listed_as_not_restorable() {
    struct There;
    impl crate::tools::RemoteExecutor for There {
        fn carry_out<'a>(
            &'a self,
            _: &'a str,
            _: Value,
            _: &'a ToolContext,
        ) -> crate::model::BoxFuture<'a, ToolResult> {
            Box::pin(async { ToolResult::ok("done") })
        }
    }
    let mut scene = Scene::new();
    let before = scene.seq();
    let here = std::mem::replace(&mut scene.tools, crate::tools::remote(&crate::tools::full(), Arc::new(There)));
    scene.call("write", json!({"path": "f", "content": "x"}));
    scene.call("bash", json!({"command": "ls"}));
    scene.call("read", json!({"path": "f"}));
    assert!(scene.tools.files().is_none(), "nothing is put back from here");
    scene.tools = here;
    let plan = scene.plan(before);
    assert_eq!(scene.steps(before), [("f".to_owned(), not_restorable("changed elsewhere by write"))]);
    assert_eq!(plan.silent.len(), 1);
    assert!(plan.silent[0].contains("bash ran elsewhere"), "{:?}", plan.silent);
}

/// A file outside of the workspace, and one of a workspace that is not set any more, stay; what is known is said.
#[test]
fn another_workspace_and_what_lies_outside_are_left_alone() {
    let mut scene = Scene::new();
    scene.put("f", "old\n");
    let before = scene.seq();
    scene.edit("f", "old", "new");
    std::fs::create_dir(scene.path("sub")).unwrap();
    let sub = scene.path("sub").canonicalize().unwrap();
    let mut settings = Settings::new(sub.to_str().unwrap(), "m/m".parse().unwrap());
    settings.agent = "other".into();
    scene.push(None, Record::Settings(Box::new(settings)));
    let steps = scene.steps(before);
    let whole = sub.parent().unwrap().join("f");
    assert_eq!(steps[0].0, whole.to_str().unwrap());
    assert!(
        matches!(&steps[0].1, FileStep::NotRestorable { why } if why.contains("its old content is kept as ")),
        "{steps:?}"
    );
    assert_eq!(scene.restore(before, Restore::Over).files, []);
    assert_eq!(scene.text("f"), "new\n");
}

/// A disk that is full half-way: what was put back is said and recorded, the rest is named; made again it is finished.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_half_way_is_said_and_the_next_restore_finishes() {
    let mut scene = Scene::new();
    let small = scene.path("");
    let mount =
        std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"]).arg(&small).output();
    if !mount.is_ok_and(|mount| mount.status.success()) {
        eprintln!("skipped: cannot mount a tmpfs here");
        return;
    }
    struct Mounted(PathBuf);
    impl Drop for Mounted {
        fn drop(&mut self) {
            drop(std::process::Command::new("umount").arg("-l").arg(&self.0).output());
        }
    }
    let _mounted = Mounted(small);
    scene.put("a", "old\n");
    scene.put("b", "old\n".repeat(40_000));
    let before = scene.seq();
    for name in ["a", "b"] {
        scene.write(name, "new\n");
    }
    scene.put("filler", vec![b'x'; 200 * 1024]);
    let done = scene.restore(before, Restore::Whole);
    assert_eq!(done.files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["a"]);
    assert!(done.refused[0].path == "b" && done.refused[0].why.contains("No space left"), "{done:?}");
    assert_eq!((scene.text("a"), scene.text("b")), ("old\n".into(), "new\n".into()));
    std::fs::remove_file(scene.path("filler")).unwrap();
    let done = scene.back(before);
    assert_eq!((done.files.len(), scene.text("b")), (1, "old\n".repeat(40_000)));
}

/// A folder that takes no change: its files are named, the others are put back.
#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_takes_no_change_is_named_and_the_rest_is_put_back() {
    use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
    let mut scene = Scene::new();
    scene.put("open/f", "old\n");
    let before = scene.seq();
    scene.edit("open/f", "old", "new");
    scene.write("shut/made", "new\n");
    set_mode(&scene, "shut", 0o555);
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        let given = std::process::Command::new("chown").args(["-R", "65534:65534"]).arg(scene.folder.path()).output();
        assert!(given.unwrap().status.success());
    }
    let (plan, bench) = scene.prepare(before);
    let work = || {
        if is_root {
            let nobody = (rustix::fs::Uid::from_raw(65_534), rustix::fs::Gid::from_raw(65_534));
            set_thread_groups(&[]).unwrap();
            set_thread_res_gid(nobody.1, nobody.1, nobody.1).unwrap();
            set_thread_res_uid(nobody.0, nobody.0, nobody.0).unwrap();
        }
        act::act(&plan, &bench, Restore::Whole)
    };
    let done = std::thread::scope(|scope| scope.spawn(work).join().unwrap());
    set_mode(&scene, "shut", 0o755);
    assert!(done.refused[0].path == "shut/made" && done.refused[0].why.contains("EACCES"), "{done:?}");
    assert_eq!((scene.text("open/f"), scene.text("shut/made")), ("old\n".into(), "new\n".into()));
    assert_eq!(scene.back(before).files.len(), 1, "once it may, it is done");
}

/// Finding: a call that ran when a session was forked continues in the parent alone, and so does a later restore there. The fork
/// must not put back what they do then, though their notes are from before its point.
#[test]
fn what_the_parent_does_after_the_fork_is_not_put_back_by_the_fork() {
    let mut scene = Scene::new();
    scene.put("f", "old\n");
    scene.put("g", "old\n");
    let before = scene.seq();
    scene.edit("g", "old", "new");
    let call = CallOpened { answer: Seq(1), index: 0, id: "c".into(), facts: facts("write", Effect::Once) };
    let ticket = scene.push(None, Record::Call(call));
    scene.push(Some(ticket), Record::CallStarted { attempt: 1, key: "k".into(), bytes: None, confined: false });
    let (parent, fork) = (scene.session.clone(), SessionId::new());
    let forked_at = scene.seq();
    let mut entries = scene.entries.clone();
    let forked = crate::tape::Forked {
        session: fork.clone(),
        parent: parent.clone(),
        seq: forked_at,
        sum: "0".repeat(16),
        depth: 1,
        spill: None,
    };
    let mut first = entries.last().unwrap().clone();
    (first.seq, first.ticket, first.record) = (forked_at.next(), None, Record::Forked(Box::new(forked)));
    entries.push(first);

    // From here on the parent is alone: the call writes, and a restore begins under the entry that was forked at.
    let result = scene.run("write", json!({"path": "f", "content": "new\n"}), ticket);
    let seen_by_fork = |scene: &Scene, since| {
        let (theirs, ours) = (scene.kept(), scene.folder.path().join("fork"));
        let folder_of = |session: &SessionId| Some(if *session == parent { theirs.clone() } else { ours.clone() });
        let files = scene.tools.files().unwrap();
        let (plan, _) =
            prepare_from(&entries, &history::forked_from(&entries), &folder_of, &fork, since, files).unwrap();
        let steps: Vec<_> = plan.files.iter().map(|file| (file.path.clone(), file.step.clone())).collect();
        (steps, plan.silent)
    };
    let (steps, silent) = seen_by_fork(&scene, before);
    assert_eq!(steps, [("g".to_owned(), FileStep::Restore)], "what was done before the fork is both's");
    assert!(silent.len() == 1 && silent[0].contains("what it changed is on the tape of"), "{silent:?}");
    assert_eq!(scene.steps(before).len(), 2, "of the parent it is a call that was cut off");

    let (plan, bench) = scene.prepare(before);
    drop(act::act(&plan, &bench, Restore::Whole));
    assert_eq!((scene.text("f"), scene.text("g")), ("old\n".into(), "old\n".into()));
    assert_eq!(seen_by_fork(&scene, forked_at).0, [], "a restore of the parent is the parent's");
    scene.push(Some(ticket), Record::Result { result: Arc::new(result), judged: CallVerdict::Allowed });
}

/// Finding: an anchor may begin while a call waits for its turn, or for an answer. What the call changes once it runs belongs to
/// what came after the anchor, though its ticket is from before it.
#[test]
fn a_call_that_waited_while_an_anchor_began_is_taken_back_too() {
    let mut scene = Scene::new();
    scene.put("f", "old\n");
    let call = CallOpened { answer: Seq(1), index: 0, id: "c".into(), facts: facts("write", Effect::Once) };
    let ticket = scene.push(None, Record::Call(call));
    let Record::State(first) = &scene.entries[0].record else { panic!("a tape begins with a state") };
    let mut state = (**first).clone();
    scene.entries.iter().for_each(|entry| state.apply(entry));
    assert!(state.calls().any(|(open, _)| open == ticket));
    let anchor = scene.push(None, Record::State(Arc::new(state)));
    scene.push(Some(ticket), Record::CallStarted { attempt: 1, key: "k".into(), bytes: None, confined: false });
    let result = scene.run("write", json!({"path": "f", "content": "new\n"}), ticket);
    scene.push(Some(ticket), Record::Result { result: Arc::new(result), judged: CallVerdict::Allowed });
    // Read from the anchor on, as for any entry behind it.
    scene.entries.drain(..2);
    assert_eq!(scene.steps(anchor), [("f".to_owned(), FileStep::Restore)]);
    scene.back(anchor);
    assert_eq!(scene.text("f"), "old\n");
}
