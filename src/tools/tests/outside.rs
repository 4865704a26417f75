//! What a call may reach outside of the workspace once it was allowed to, and what it may not even then.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{tool::ToolResult, tools::lab::Lab};

/// Beside the workspace: a folder, a file in it, and a secret next to the folder. Links are resolved, as on macOS `/tmp` is one.
fn beside(lab: &Lab) -> PathBuf {
    let beside = lab.outside().canonicalize().unwrap();
    std::fs::create_dir(beside.join("notes")).unwrap();
    std::fs::write(beside.join("notes/a.txt"), "needle\n").unwrap();
    std::fs::write(beside.join("secret"), "hidden\n").unwrap();
    beside
}

fn call(lab: &Lab, allowed: &[&Path], tool: &str, arguments: Value) -> ToolResult {
    let mut context = lab.context();
    context.external = allowed.iter().map(|path| path.to_path_buf()).collect();
    lab.call_in(tool, arguments, &context)
}

fn link(target: impl AsRef<Path>, at: impl AsRef<Path>) {
    std::os::unix::fs::symlink(target, at).unwrap();
}

#[test]
fn an_allowed_folder_is_reached_with_all_beneath_it() {
    let lab = Lab::new();
    let beside = beside(&lab);
    let notes = beside.join("notes");
    // What git ignores in the workspace says nothing about other folders.
    std::fs::create_dir_all(lab.path(".git/info")).unwrap();
    std::fs::write(lab.path(".git/info/exclude"), "*.txt\n").unwrap();
    std::fs::write(lab.path(".gitignore"), "*.txt\n").unwrap();
    let ok = |tool: &str, arguments: Value| {
        let result = call(&lab, &[&notes], tool, arguments);
        assert!(!result.is_error(), "{tool}: {}", result.content);
        result.content
    };
    let file = notes.join("a.txt").display().to_string();
    assert_eq!(ok("read", json!({ "path": file })), "     1\tneedle");
    assert_eq!(ok("grep", json!({"path": notes, "pattern": "needle"})), format!("{file}:1: needle"));
    assert_eq!(ok("find", json!({"path": notes, "pattern": "*.txt"})), file);
    assert!(ok("ls", json!({ "path": notes })).ends_with("a.txt"));
    ok("edit", json!({"path": file, "old_string": "needle", "new_string": "thread"}));
    ok("write", json!({"path": notes.join("new/b.txt"), "content": "b"}));
    assert_eq!(std::fs::read_to_string(notes.join("new/b.txt")).unwrap(), "b");
    for path in [beside.join("secret"), beside.join("notes2"), beside.join("notes/../secret"), beside.clone()] {
        let refused = call(&lab, &[&notes], "read", json!({ "path": path }));
        assert!(refused.is_error() && refused.content.contains("outside the workspace"), "{}", refused.content);
    }
}

#[test]
fn an_allowed_file_is_reached_and_nothing_beside_it() {
    let lab = Lab::new();
    let beside = beside(&lab);
    let file = beside.join("notes/a.txt");
    let refused = |tool: &str, arguments: Value| call(&lab, &[&file], tool, arguments).is_error();
    assert_eq!(call(&lab, &[&file], "read", json!({ "path": file })).content, "     1\tneedle");
    assert!(refused("ls", json!({"path": beside.join("notes")})));
    assert!(refused("write", json!({"path": beside.join("notes/b.txt"), "content": "x"})));
    assert!(refused("read", json!({"path": beside.join("notes/a.txt/../../secret")})));
    let nothing = call(&lab, &[], "read", json!({ "path": file }));
    assert!(nothing.is_error(), "another call is not allowed what one was");
}

#[test]
fn an_allowed_file_may_not_be_there_yet() {
    let lab = Lab::new();
    let new = beside(&lab).join("made/by/the/call.txt");
    let result = call(&lab, &[&new], "write", json!({"path": new, "content": "x"}));
    assert!(!result.is_error(), "{}", result.content);
    assert_eq!(std::fs::read_to_string(&new).unwrap(), "x");
    let other = new.with_file_name("other.txt");
    assert!(call(&lab, &[&new], "write", json!({"path": other, "content": "x"})).is_error() && !other.exists());
}

/// F03, S10: judged by what it leads to. The refusal names the real path, which can be asked for.
#[test]
fn f03_an_allowed_path_that_goes_through_a_link_is_refused_and_named() {
    let lab = Lab::new();
    let beside = beside(&lab);
    link("secret", beside.join("harmless"));
    link("notes", beside.join("folder"));
    for (given, real) in [("harmless", "secret"), ("folder/a.txt", "notes/a.txt"), ("folder", "notes")] {
        let (given, real) = (beside.join(given), beside.join(real));
        for (tool, arguments) in [
            ("read", json!({ "path": given })),
            ("write", json!({"path": given, "content": "x"})),
            ("edit", json!({"path": given, "old_string": "needle", "new_string": "x"})),
            ("grep", json!({"path": given, "pattern": "e"})),
        ] {
            let result = call(&lab, &[&given], tool, arguments);
            let named = format!("it goes through a link; ask for {} itself", real.display());
            assert!(result.is_error() && result.content.contains(&named), "{tool}: {}", result.content);
        }
    }
    assert_eq!(std::fs::read_to_string(beside.join("secret")).unwrap(), "hidden\n");
    // A file that does not exist yet is named too; behind a link that leads nowhere nothing is.
    link("nowhere", beside.join("dangling"));
    for (given, named) in [("folder/new/b.txt", Some("notes/new/b.txt")), ("dangling", None), ("dangling/b.txt", None)]
    {
        let given = beside.join(given);
        let told = call(&lab, &[&given], "write", json!({"path": given, "content": "x"})).content;
        let ask_for = named.map(|real| format!("ask for {} itself", beside.join(real).display()));
        assert_eq!(told.contains("itself"), named.is_some(), "{told}");
        assert!(ask_for.is_none_or(|words| told.contains(&words)), "{told}");
    }
}

/// F03, S30: a link that is put there after the look is not followed either, nor is one in an allowed folder that leads out.
#[test]
fn f03_a_link_that_appears_later_is_not_followed() {
    use crate::tool::workspace::{Workspace, WriteOptions};
    let lab = Lab::new();
    let beside = beside(&lab);
    let (file, new) = (beside.join("notes/a.txt"), beside.join("notes/new.txt"));
    let workspace = Workspace::open(&lab.path("")).unwrap().with_external(&[file.clone(), new.clone()]);
    std::fs::remove_file(&file).unwrap();
    link("../secret", &file);
    link("../secret", &new);
    for path in [&file, &new] {
        let place = workspace.resolve(&path.display().to_string()).unwrap();
        assert!(workspace.open_read(&place).is_err());
        assert!(workspace.write(&place, b"x", &WriteOptions::default()).is_err());
    }
    let notes = beside.join("notes");
    assert!(call(&lab, &[&notes], "read", json!({ "path": file })).is_error());
    assert_eq!(std::fs::read_to_string(beside.join("secret")).unwrap(), "hidden\n");
}

/// TOOLCFG and F01: what climbs or begins at home is one place, under one name.
#[test]
fn other_spellings_of_an_allowed_place_reach_it() {
    let mut lab = Lab::new();
    let beside = beside(&lab);
    let file = beside.join("notes/a.txt");
    lab.tools = crate::tools::Setup::new().home(beside.clone()).full();
    let mut context = lab.context();
    context.workspace = std::sync::Arc::new(beside.join("ws"));
    context.external = [file].into_iter().collect();
    for spelling in ["../notes/a.txt", "~/notes/a.txt", "../notes/../notes/./a.txt"] {
        let result = lab.call_in("read", json!({ "path": spelling }), &context);
        assert_eq!(result.content, "     1\tneedle", "{spelling}");
    }
}
