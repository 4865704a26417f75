#![allow(clippy::unwrap_used, clippy::panic)]

mod nasty;
mod outside;
mod rules;
mod stale;
mod stop;

use serde_json::json;

use crate::tool::{Effect, Toolbox};

use super::lab::{Lab, lines};

fn names(toolbox: &Toolbox) -> Vec<&str> {
    toolbox.names().collect()
}

/// E-01, TOOLCFG-001, TOOLCFG-002, TOOLCFG-003, FT-17, FT-21
#[test]
fn the_presets_have_the_tools_that_they_name() {
    assert_eq!(names(&super::full()), ["bash", "edit", "find", "grep", "ls", "read", "write"]);
    assert_eq!(names(&super::minimal()), ["bash", "edit", "read", "write"]);
    assert_eq!(names(&super::readonly()), ["find", "grep", "ls", "read"]);
}

/// TOOLCFG-004, TOOLCFG-005, TOOLCFG-006
#[test]
fn a_set_can_be_made_of_names() {
    let setup = super::Setup::new();
    assert_eq!(names(&setup.named(["read", "ls"]).unwrap()), ["ls", "read"]);
    let unknown = setup.named(["read", "nonexistent"]).unwrap_err();
    assert_eq!(unknown.to_string(), "unknown tool \"nonexistent\"");
    assert_eq!(setup.named([]).unwrap_err().to_string(), "a set of tools cannot be empty");
}

/// BDD-WRITE-008: what is written to `~/…` lies in the home that the host handed in; without one the call is an error.
/// BDD-READ-019: what is read from `~/…` is the file in that home.
///
/// J.1 5.1, J.3 6.2, J.4 3.3, c9a20a3a: so it is with an edit, and a leading `@` is dropped.
#[test]
fn bdd_read_019_bdd_write_008_home_is_what_the_host_says() {
    let mut lab = Lab::new();
    assert!(lab.error("read", json!({"path": "~/a"})).contains("no home directory is known"));
    lab.tools = super::Setup::new().home(lab.path("home")).full();
    lab.ok("write", json!({"path": "~/test_dir/hello.txt", "content": "hello"}));
    lab.ok("edit", json!({"path": "~/test_dir/hello.txt", "old_string": "hello", "new_string": "bye"}));
    assert_eq!(lab.ok("read", json!({"path": "~/test_dir/hello.txt"})), "     1\tbye");
    assert_eq!(lab.content("home/test_dir/hello.txt"), "bye");
    assert_eq!(lab.ok("read", json!({"path": "@home/test_dir/hello.txt"})), "     1\tbye");
}

/// PATH-002: a path that is there is taken as it is written; where it is not, the same name in the other Unicode form is found by
/// every tool that looks, folders included; and what is written has the name that was given, byte for byte.
#[test]
fn path_002_a_name_is_found_in_both_unicode_forms() {
    let (composed, apart) = ("caf\u{e9}", "cafe\u{301}");
    for (there, asked) in [(composed, apart), (apart, composed), ("test", "test")] {
        let lab = Lab::new();
        lab.put(&format!("{there}/{there}.txt"), "noir\n");
        let folder = lab.path(asked).display().to_string();
        for folder in [asked, &folder] {
            let file = format!("{folder}/{asked}.txt");
            assert_eq!(lab.ok("read", json!({ "path": file })), "     1\tnoir", "{file}");
            assert_eq!(lab.call("grep", json!({"path": file, "pattern": "noir"})).details["total"], 1, "{file}");
            for tool in ["ls", "find"] {
                let found = lab.ok(tool, json!({"path": folder, "pattern": "*.txt"}));
                assert!(found.contains(&format!("{there}.txt")), "{tool} {folder}: {found}");
            }
        }
    }
    let lab = Lab::new();
    for name in [composed, apart] {
        lab.ok("write", json!({"path": name, "content": name}));
    }
    assert_eq!(
        (lab.content(composed), lab.content(apart)),
        (composed.to_owned(), apart.to_owned()),
        "two names, two files"
    );
}

/// H-17: what a rule is asked about is taken from the arguments: the command of bash, the path of a file tool, and the folder of
/// any search; of a tool that says nothing it is `*`.
#[test]
fn h_17_a_rule_is_asked_about_what_stands_in_the_arguments() {
    struct Silent;
    impl crate::tool::Tool for Silent {
        fn name(&self) -> &str {
            "silent"
        }
        fn description(&self) -> &str {
            ""
        }
        fn schema(&self) -> serde_json::Value {
            json!({})
        }
        fn run<'a>(
            &'a self,
            _: serde_json::Value,
            _: &'a crate::tool::ToolContext,
        ) -> crate::model::BoxFuture<'a, crate::tool::ToolResult> {
            Box::pin(async { crate::tool::ToolResult::ok("") })
        }
    }
    let tools = super::full();
    let wants = |tool: &str, arguments| {
        let asked = match tool {
            "silent" => crate::tool::Tool::access(&Silent, &arguments),
            _ => tools.find(tool).unwrap().access(&arguments),
        };
        asked.into_iter().map(|access| format!("{} {}", access.permission, access.pattern)).collect::<Vec<_>>()
    };
    for (tool, arguments, expected) in [
        ("bash", json!({"command": "git status -s"}), "bash git status -s"),
        ("read", json!({"path": "src/a.rs"}), "read src/a.rs"),
        ("write", json!({"file_path": "src/a.rs", "content": ""}), "edit src/a.rs"),
        ("edit", json!({"path": "./src/x/../a.rs", "old_string": "a", "new_string": "b"}), "edit src/a.rs"),
        ("grep", json!({"pattern": "secret", "path": "src"}), "read src"),
        ("grep", json!({"pattern": "secret"}), "read ."),
        ("find", json!({"pattern": "*.rs", "path": "src"}), "read src"),
        ("ls", json!({"path": "src"}), "read src"),
        ("silent", json!({"path": "src/a.rs"}), "silent *"),
    ] {
        assert_eq!(wants(tool, arguments), [expected], "{tool}");
    }
    // Outside of the workspace it is two things.
    assert_eq!(wants("read", json!({"path": "../x"})), ["external_directory ../x", "read ../x"]);
}

/// TOOLRES-103, TOOLRES-106, TOOLRES-107; 101, 104 and 105 are with their tools.
#[test]
fn toolres_every_tool_has_both_channels() {
    let lab = Lab::new();
    lab.put("findme.txt", "x\n");
    assert_eq!(lab.call("read", json!({"path": "findme.txt"})).details["truncated"], false);
    assert_eq!(lab.call("find", json!({"pattern": "findme.txt"})).details["total"], 1);
    assert_eq!(lab.call("ls", json!({"path": "."})).details["entries"][0]["name"], "findme.txt");
}

/// E-14, FT-21 and TOOL-EDGE-002: other names and another case are understood.
#[test]
fn tools_are_found_by_their_other_names() {
    let tools = super::full();
    for (alias, name) in [
        ("read_file", "read"),
        ("Read_File", "read"),
        ("write_file", "write"),
        ("edit_file", "edit"),
        ("find_files", "find"),
        ("list_directory", "ls"),
        ("GREP", "grep"),
    ] {
        assert_eq!(tools.find(alias).unwrap().name(), name);
    }
}

/// C-30: arguments are named `path`, `old_string` and `new_string`; under the other names that models use for them, and for the
/// tools, a call does the same.
#[test]
fn arguments_are_found_by_their_other_names() {
    let tools = super::full();
    for (tool, names) in [
        ("read", ["path"].as_slice()),
        ("write", &["path"]),
        ("edit", &["path", "old_string", "new_string"]),
        ("grep", &["path"]),
        ("find", &["path"]),
        ("ls", &["path"]),
    ] {
        let schema = tools.find(tool).unwrap().schema();
        for name in names {
            assert!(schema["properties"][name].is_object(), "{tool}.{name}");
        }
        assert!(schema["properties"].get("file_path").is_none(), "{tool}: one name is offered");
    }
    for (read, write, edit, path, old, new) in [
        ("read", "write", "edit", "path", "old_string", "new_string"),
        ("read_file", "write_file", "edit_file", "file_path", "oldText", "newText"),
        ("Read", "Write", "Edit", "filePath", "oldString", "newString"),
    ] {
        let lab = Lab::new();
        lab.ok(write, json!({path: "a.txt", "content": "one two"}));
        lab.ok(edit, json!({path: "a.txt", old: "two", new: "2"}));
        assert_eq!(lab.ok(read, json!({path: "a.txt"})), "     1\tone 2", "{read}");
    }
}

/// G-10: of an output that is too long, read, grep, find and ls keep the beginning, and bash the end.
#[test]
fn each_tool_keeps_the_end_of_its_output_that_matters() {
    let lab = Lab::new();
    lab.put("long.txt", lines(5_000, 60));
    for n in 0..1_100 {
        lab.put(&format!("many/{n:04}.md"), "x\n");
    }
    let long = |tool: &str, arguments| {
        let output = lab.ok(tool, arguments);
        let has = |n: usize| {
            let (line, file) = (format!("line {n}x"), format!("{n:04}.md"));
            output.lines().any(|shown| shown.contains(&line) || shown.contains(&file))
        };
        (has(1), has(if tool == "ls" { 1_099 } else { 5_000 }))
    };
    assert_eq!(long("read", json!({"path": "long.txt"})), (true, false), "read");
    assert_eq!(long("grep", json!({"pattern": "line", "path": "long.txt"})), (true, false), "grep");
    assert_eq!(long("ls", json!({"path": "many"})), (true, false), "ls");
    let (bash, context) = (lab.tools.find("bash").unwrap(), lab.context());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let output = runtime.block_on(bash.run(json!({"command": "cat long.txt"}), &context)).content;
    assert!(!output.contains("line 1x") && output.contains("line 5000x"), "bash");
    // The newest come first, and so those are what stays.
    (0..1_100).for_each(|n| lab.age(&format!("many/{n:04}.md"), n * 10 + 10));
    let found = lab.ok("find", json!({"pattern": "*.md"}));
    assert!(found.contains("0000.md") && found.contains("0199.md") && !found.contains("1099.md"), "{found}");
}

/// Promise 4: what only looks may run again and beside others; what writes may not.
#[test]
fn only_tools_that_look_may_run_again() {
    for name in super::full().names().filter(|name| *name != "bash") {
        let tools = super::full();
        let tool = tools.find(name).unwrap();
        let reads = !matches!(name, "write" | "edit");
        assert_eq!(tool.effect(), if reads { Effect::Read } else { Effect::Once }, "{name}");
        assert_eq!(tool.parallel(), reads, "{name}");
        let permission = if reads { "read" } else { "edit" };
        assert_eq!(tool.access(&json!({"path": "a/b"}))[0].permission, permission);
        let schema = tool.schema();
        assert_eq!(schema["type"], "object");
        assert!(schema["properties"]["path"]["description"].is_string(), "{schema}");
    }
}

/// pi #1259, J.3 6.3, J.4 3.4, J.5 4.1, J.6 3.1, J.7 3.1: wrong types are an error that names the field.
#[test]
fn wrong_arguments_are_an_error_and_never_a_crash() {
    let lab = Lab::new();
    for (tool, field) in [
        ("read", "path"),
        ("write", "path"),
        ("edit", "path"),
        ("grep", "pattern"),
        ("find", "pattern"),
        ("ls", "path"),
    ] {
        for wrong in [json!(42), json!(null), json!(["a"]), json!({"a": 1}), json!(true)] {
            let arguments = json!({ field: wrong, "content": "x", "old_string": "a", "new_string": "b" });
            let error = lab.error(tool, arguments);
            assert!(error.starts_with("bad arguments: ") && error.contains(field), "{tool}: {error}");
        }
    }
    assert!(lab.error("write", json!({"path": "a", "content": null})).contains("`content`"));
    assert!(!lab.path("a").exists());
}

/// E-04: each tool's arguments become a schema that says what is required and of which type.
#[test]
fn every_schema_names_its_fields_their_types_and_what_is_required() {
    let tools = super::full();
    for (name, required, typed) in [
        ("read", json!(["path"]), [("path", "string"), ("offset", "integer"), ("limit", "integer")].as_slice()),
        ("write", json!(["path", "content"]), &[("path", "string"), ("content", "string")]),
        ("edit", json!(["path"]), &[("old_string", "string"), ("new_string", "string"), ("replace_all", "boolean")]),
        ("bash", json!(["command"]), &[("command", "string"), ("timeout", "integer"), ("cwd", "string")]),
        ("grep", json!(["pattern"]), &[("pattern", "string"), ("ignore_case", "boolean"), ("limit", "integer")]),
        ("find", json!(["pattern"]), &[("pattern", "string"), ("exclude", "string"), ("limit", "integer")]),
        ("ls", serde_json::Value::Null, &[("path", "string")]),
    ] {
        let schema = tools.find(name).unwrap().schema();
        assert_eq!(schema["type"], "object", "{name}");
        assert_eq!(schema["required"], required, "{name}");
        for (field, kind) in typed {
            assert_eq!(schema["properties"][field]["type"], *kind, "{name}.{field}");
            assert!(schema["properties"][field]["description"].is_string(), "{name}.{field}");
        }
        if schema["properties"].get("offset").is_some() {
            assert_eq!(schema["properties"]["offset"]["minimum"], 0);
        }
    }
}

/// TOOL-EDGE-001
#[test]
fn bdd_tool_edge_001_no_arguments_at_all() {
    let error = Lab::new().error("read", json!({}));
    assert_eq!(error, "bad arguments: missing field `path`");
}

/// TOOL-EDGE-005
#[test]
fn bdd_tool_edge_005_a_missing_file_is_a_result() {
    assert!(Lab::new().error("read", json!({"path": "/nonexistent_file_xyz.txt"})).contains("ENOENT"));
}

/// A call that is stopped before it begins does nothing.
#[test]
fn a_stopped_call_does_nothing() {
    let lab = Lab::new();
    let context = lab.context();
    context.cancel.cancel();
    for (tool, arguments) in [
        ("read", json!({"path": "a"})),
        ("write", json!({"path": "a", "content": "x"})),
        ("edit", json!({"path": "a", "old_string": "a", "new_string": "b"})),
        ("grep", json!({"pattern": "a"})),
        ("find", json!({"pattern": "a"})),
        ("ls", json!({})),
    ] {
        let result = lab.call_in(tool, arguments, &context);
        assert_eq!(result.content, "Operation aborted", "{tool}");
        assert_eq!(result.error, Some(crate::words::message::ErrorReason::Aborted));
    }
    assert!(!lab.path("a").exists());
}

/// F01, F02, F03: nothing outside is read, listed, searched or written, however it is spelled.
#[test]
fn nothing_outside_the_workspace_is_reached() {
    let lab = Lab::new();
    let outside = lab.outside().join("ws-evil");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "hidden needle\n").unwrap();
    lab.link(&outside, "door");
    lab.link(outside.join("secret"), "pane");
    lab.link(outside.join("new"), "dangling");
    let absolute = outside.join("secret").display().to_string();
    for path in ["../ws-evil/secret", "door/secret", "pane", "a/../../ws-evil/secret", "~/x", &absolute] {
        assert!(!lab.error("read", json!({"path": path})).contains("needle"));
        lab.error("grep", json!({"path": path, "pattern": "needle"}));
        lab.error("edit", json!({"path": path, "old_string": "needle", "new_string": "x"}));
        lab.error("write", json!({"path": path, "content": "x"}));
    }
    for path in ["..", "../ws-evil", "door", "/"] {
        lab.error("ls", json!({"path": path}));
        lab.error("find", json!({"path": path, "pattern": "*"}));
    }
    lab.error("write", json!({"path": "dangling", "content": "x"}));
    assert_eq!(lab.ok("grep", json!({"pattern": "needle"})), "No matches found");
    let found = lab.ok("find", json!({"pattern": "**/*"}));
    assert!(!found.contains("secret"), "{found}");
    assert_eq!(std::fs::read_to_string(outside.join("secret")).unwrap(), "hidden needle\n");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
}

/// Nasty case 11: one entry stays one line, and what is printed can be given back.
#[test]
fn nasty_11_hostile_names_are_printed_so_that_they_can_be_given_back() {
    use std::os::unix::ffi::OsStringExt as _;
    let lab = Lab::new();
    let names: [&[u8]; 8] = [
        b"line\nfeed",
        b"\x1b[31mred",
        b"a.txt:12: fake match",
        b"caf\xe9",
        b"tail ",
        b"-rf",
        "a\u{202e}b".as_bytes(),
        b"\"quoted\"",
    ];
    for name in names {
        let path = lab.path("d").join(std::ffi::OsString::from_vec(name.to_vec()));
        std::fs::create_dir_all(lab.path("d")).unwrap();
        std::fs::write(path, format!("needle {}\n", name.len())).unwrap();
    }
    let found = lab.ok("find", json!({"pattern": "d/*"}));
    assert_eq!(found.lines().count(), names.len(), "{found}");
    for line in found.lines() {
        assert!(lab.ok("read", json!({ "path": line })).contains("needle"), "{line}");
    }
    let matches = lab.ok("grep", json!({"pattern": "needle", "output_mode": "files_with_matches"}));
    assert_eq!(matches.lines().count(), names.len());
    for line in matches.lines() {
        let edit = json!({"path": line, "old_string": "needle", "new_string": "thread"});
        assert!(lab.ok("edit", edit).contains("1 replacement"));
    }
    let matches = lab.ok("grep", json!({"pattern": "thread"}));
    assert_eq!(matches.lines().filter(|line| line.contains(":1: thread")).count(), names.len(), "{matches}");
    assert_eq!(lab.ok("ls", json!({"path": "d"})).lines().count(), names.len());
}

/// Nasty case 4: other than regular files are refused at once, and a walk skips them.
#[test]
fn nasty_04_a_named_pipe_stops_nobody() {
    let lab = Lab::new();
    lab.put("a.txt", "needle\n");
    let pipe = lab.path("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600), 0)
        .unwrap();
    for (tool, arguments) in [
        ("read", json!({"path": "pipe"})),
        ("grep", json!({"path": "pipe", "pattern": "x"})),
        ("edit", json!({"path": "pipe", "old_string": "a", "new_string": "b"})),
        ("write", json!({"path": "pipe", "content": "x"})),
    ] {
        let error = lab.error(tool, arguments);
        assert!(error.contains("named pipe"), "{tool}: {error}");
    }
    assert_eq!(lab.ok("grep", json!({"pattern": "needle"})), "a.txt:1: needle");
    assert!(lab.ok("find", json!({"pattern": "p*"})).contains("pipe"));
}

/// F04, nasty case 1: a folder that turns into a link and back lets nothing out.
#[test]
fn nasty_01_a_folder_that_turns_into_a_link_lets_nothing_out() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let lab = Lab::new();
    let outside = lab.outside().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("f"), "outside needle").unwrap();
    lab.put("real/f", "inside");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (d, real) = (lab.path("d"), lab.path("real"));
            while !done.load(Ordering::Relaxed) {
                std::fs::rename(&real, &d).unwrap();
                std::fs::rename(&d, &real).unwrap();
                std::os::unix::fs::symlink(&outside, &d).unwrap();
                std::fs::remove_file(&d).unwrap();
            }
        });
        for n in 0..300 {
            // Parents are made for a write, which the other thread would trip over.
            let _ = lab.call("edit", json!({"path": "d/f", "old_string": "inside", "new_string": "inside"}));
            let _ = lab.call("edit", json!({"path": "d/f", "old_string": "outside", "new_string": format!("{n}")}));
            assert!(!lab.call("read", json!({"path": "d/f"})).content.contains("needle"));
            assert!(!lab.call("grep", json!({"pattern": "needle"})).content.contains("needle"));
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(std::fs::read_to_string(outside.join("f")).unwrap(), "outside needle");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
}

/// A NUL in a source is shown, searched and edited around, anywhere; what is binary is binary for all tools.
#[test]
fn a_nul_in_a_text_keeps_no_tool_from_it() {
    let lab = Lab::new();
    let source = "fn main() { let name = \"a\0b\"; }\nfn other() {}\n";
    lab.put("a.rs", source);
    assert!(lab.ok("read", json!({"path": "a.rs"})).contains("a\u{2400}b"));
    assert_eq!(lab.ok("grep", json!({"pattern": "name"})), "a.rs:1: fn main() { let name = \"a\u{2400}b\"; }");
    lab.ok("edit", json!({"path": "a.rs", "old_string": "fn other() {}", "new_string": "fn another() {}"}));
    assert_eq!(lab.content("a.rs"), source.replace("other", "another"));
    lab.put("b.bin", b"\0\x01\x02abc");
    assert!(lab.error("read", json!({"path": "b.bin"})).contains("Binary file"));
    assert!(lab.error("edit", json!({"path": "b.bin", "old_string": "a", "new_string": "x"})).contains("Binary file"));
    assert!(lab.ok("grep", json!({"pattern": "abc", "path": "b.bin"})).contains("1 binary files skipped"));
}
