//! What a call comes by is judged too: the end of a link, and the files of a tree.

#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::{Value, json};

use crate::{
    tool::{May, ToolResult},
    tools::lab::{Lab, entries},
    words::message::ErrorReason,
};

/// A call under rules that are strict about everything called "secret".
fn call(lab: &Lab, tool: &str, arguments: Value) -> ToolResult {
    let mut context = lab.context();
    context.may = May::new(|access| !access.pattern.contains("secret"));
    lab.call_in(tool, arguments, &context)
}

/// F03, S10: a link to a file that the rules protect does not evade them, even to one that does not exist yet.
#[test]
fn f03_a_link_is_judged_by_what_it_leads_to() {
    let lab = Lab::new();
    lab.put("secret/key", "needle\n");
    lab.put("plain", "needle\n");
    lab.link("secret/key", "innocent");
    lab.link("secret", "folder");
    lab.link("innocent", "twice");
    lab.link("plain", "fine");
    lab.put("deep/x", "");
    lab.link(lab.path("secret"), "deep/up");
    for path in ["innocent", "folder/key", "twice", "deep/up/key", "folder/new", "folder/new/er", "deep/../folder/new"]
    {
        for (tool, arguments) in [
            ("read", json!({ "path": path })),
            ("write", json!({"path": path, "content": "x"})),
            ("edit", json!({"path": path, "old_string": "needle", "new_string": "x"})),
            ("grep", json!({"path": path, "pattern": "needle"})),
        ] {
            let result = call(&lab, tool, arguments);
            assert_eq!(result.error, Some(ErrorReason::Denied), "{tool} {path}: {}", result.content);
            assert!(result.content.contains("it is a link to secret"), "{tool} {path}: {}", result.content);
        }
    }
    for (tool, path) in [("ls", "folder"), ("find", "folder")] {
        assert!(call(&lab, tool, json!({"path": path, "pattern": "*"})).is_error());
    }
    assert_eq!(
        (lab.content("secret/key").as_str(), entries(&lab.path("secret"))),
        ("needle\n", vec!["key".to_owned()])
    );
    assert_eq!(
        call(&lab, "read", json!({"path": "fine"})).content,
        "     1\tneedle",
        "a link to what is allowed works"
    );
    assert!(!call(&lab, "write", json!({"path": "fine", "content": "x"})).is_error());
    assert_eq!(lab.content("plain"), "x");
}

/// K04: a search of a folder does not show what a read of the file would not, and says that it left something out.
#[test]
fn k04_a_search_leaves_out_what_may_not_be_read() {
    let lab = Lab::new();
    lab.put("secret.env", "KEY=needle\n");
    lab.put("d/notes", "needle\n");
    let found = call(&lab, "grep", json!({"pattern": "needle"}));
    assert_eq!(found.content, "d/notes:1: needle\n[1 files left out by the permission rules]");
    assert!(!found.details.to_string().contains("KEY"));
}

/// F03, K04: for any links into a folder, no tool shows or changes a file in it that the rules protect. A rule about what is in
/// the folder (`secret/**`) does not name the folder itself, and neither does a link to the folder or to one above it.
#[test]
fn a_link_to_a_folder_is_no_way_round_a_rule_about_its_files() {
    let lab = Lab::new();
    lab.put("secret/key", "needle\n");
    lab.put("open/notes", "needle\n");
    lab.put("deep/x", "");
    lab.link("secret", "to-folder");
    lab.link("to-folder", "chain");
    lab.link(".", "dot");
    lab.link("dot/dot", "dots");
    lab.link("..", "deep/up");
    lab.link(lab.path("secret"), "absolute");
    lab.link(lab.path(""), "root");
    let mut context = lab.context();
    context.may = May::new(|access| !access.pattern.starts_with("secret/"));
    let ways = "secret to-folder chain dot dots dot/secret dots/to-folder deep/up deep/up/chain absolute root \
                root/absolute root/deep/up .";
    for way in ways.split_ascii_whitespace() {
        for (tool, arguments) in [
            ("grep", json!({"path": way, "pattern": "needle"})),
            ("grep", json!({"path": way, "pattern": "needle", "output_mode": "files_with_matches"})),
            ("find", json!({"path": way, "pattern": "**", "include_ignored": true})),
        ] {
            let result = lab.call_in(tool, arguments.clone(), &context);
            let said = format!("{} {}", result.content, result.details);
            assert!(!result.is_error() && !said.contains("key"), "{tool} {arguments}: {said}");
        }
        assert!(!lab.call_in("ls", json!({"path": way}), &context).is_error(), "{way}");
    }
    for way in ["to-folder", "chain", "dot/secret", "dots/to-folder", "deep/up/chain", "absolute", "root/absolute"] {
        let path = format!("{way}/key");
        for (tool, arguments) in [
            ("read", json!({"path": path})),
            ("grep", json!({"path": path, "pattern": "needle"})),
            ("write", json!({"path": path, "content": "x"})),
            ("write", json!({"path": format!("{way}/new"), "content": "x"})),
            ("edit", json!({"path": path, "old_string": "needle", "new_string": "x"})),
        ] {
            let result = lab.call_in(tool, arguments.clone(), &context);
            assert_eq!(result.error, Some(ErrorReason::Denied), "{tool} {arguments}: {}", result.content);
            assert!(!result.content.contains("needle"), "{tool} {arguments}: {}", result.content);
        }
    }
    assert_eq!(entries(&lab.path("secret")), ["key"]);
    // What no rule protects is found by the same ways, and shown as where it is.
    let found = lab.call_in("grep", json!({"path": "dots", "pattern": "needle"}), &context);
    assert_eq!(found.content, "open/notes:1: needle\n[1 files left out by the permission rules]");
    let found = lab.call_in("find", json!({"path": "root/open", "pattern": "*"}), &context);
    assert_eq!(found.content, "open/notes");
}
