//! What an unasked command reaches, with the kernel of this system. If it can confine nothing, the tool says that no such command
//! can run.

mod attempts;
mod harmless;

use std::{os::unix::fs::symlink, sync::Arc};

use super::*;
use crate::{
    process::SandboxLevel,
    tool::{Held, May},
};

/// An unasked call, which may write these files of the workspace and read what `may` lets it.
fn context(scene: &Scene, writes: &[&str], denied: &'static [&'static str]) -> ToolContext {
    let held = Held {
        writes: writes.iter().map(|name| scene.path(name)).collect(),
        keeps_reads: !denied.is_empty(),
        history: false,
    };
    let may = May::new(move |access| {
        let is_beneath =
            |folder: &&str| access.pattern == **folder || access.pattern.starts_with(&format!("{folder}/"));
        match access.permission.as_str() {
            "edit" => !access.pattern.starts_with(".git"),
            _ => !denied.iter().any(is_beneath),
        }
    });
    ToolContext { held: Some(Arc::new(held)), may, ..scene.context() }
}

async fn runs(scene: &Scene, writes: &[&str], denied: &'static [&'static str], command: &str) -> ToolResult {
    scene.bash.run(json!({ "command": command }), &context(scene, writes, denied)).await
}

/// Whether this system can confine a command. Where it cannot, the tool tells the rules so, and runs none.
async fn can_hold(scene: &Scene) -> bool {
    let level = SandboxLevel::probe();
    let permissions = scene.bash.permissions();
    assert_eq!(permissions.iter().any(|name| name == "confined_bash"), level.holds());
    if !level.holds() {
        let result = runs(scene, &[], &[], "echo ran").await;
        assert!(
            result.is_error()
                && result.content.contains("cannot confine")
                && result.content.starts_with("the command was not run"),
            "{}",
            result.content
        );
    }
    level.holds()
}

#[tokio::test]
async fn a_command_that_nobody_was_asked_about_reads_and_does_nothing_else() {
    let scene = scene();
    if !can_hold(&scene).await {
        return;
    }
    fs::write(scene.path("a"), "one\n").unwrap();
    fs::write(scene.path("evil.sh"), "#!/bin/sh\ntouch ran\n").unwrap();
    fs::set_permissions(scene.path("evil.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let outside = scene.folder.path().join("outside");
    fs::write(&outside, "secret").unwrap();
    symlink(&outside, scene.path("link")).unwrap();
    for (command, expected) in [
        ("cat a; ls; grep -c o a | tr 1 2", "one\na\nevil.sh\nlink\n2"),
        ("python3 -c 'print(1 + 1)'", "2"),
        ("echo x > $TMPDIR/t && cat $TMPDIR/t", "x"),
        ("sort a > /dev/null; echo $?", "0"),
    ] {
        assert_eq!(runs(&scene, &[], &[], command).await.content, expected, "{command}");
    }
    for command in [
        "touch ran",
        "echo x > a",
        "rm a",
        "mv a b",
        "./evil.sh",
        "cp evil.sh $TMPDIR/e && $TMPDIR/e",
        "cat link",
        "cat ../outside",
        "ls ..",
        "ln a b",
        "mkdir d",
        "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 9))'",
        "kill -0 $PPID",
    ] {
        let result = runs(&scene, &[], &[], command).await;
        assert_ne!(result.details["exit_code"], 0, "{command}: {}", result.content);
        assert!(result.content.contains("ran confined"), "{command}: {}", result.content);
        assert_eq!(result.details["sandbox"]["mode"], "unasked", "{command}");
    }
    assert_eq!(fs::read_to_string(scene.path("a")).unwrap(), "one\n");
    assert!(!scene.path("ran").exists() && !scene.path("b").exists() && !scene.path("d").exists());
    // What went on without a part says so.
    let result = runs(&scene, &[], &[], "touch ran; echo on").await;
    assert!(
        result.content.contains("\non\n") && result.content.contains("It went on without that."),
        "{}",
        result.content
    );
    scene.is_clean();
}

/// A file that the command names is written, and no other; one that the command did not touch is not there afterwards. A link does not
/// lead further than the rules do.
#[tokio::test]
async fn only_the_files_that_it_names_are_written() {
    let scene = scene();
    if !can_hold(&scene).await {
        return;
    }
    fs::create_dir_all(scene.path(".git/hooks")).unwrap();
    symlink(".git/hooks", scene.path("g")).unwrap();
    symlink("/", scene.path("l")).unwrap();
    fs::write(scene.path("old"), "1\n").unwrap();
    symlink("old", scene.path("same")).unwrap();
    let writes = ["new", "old", "never", "none/x", "same"];
    let command = "echo a > new; echo 2 >> old; echo 3 | tee -a same; touch other; false && echo > never";
    let result = runs(&scene, &writes, &[], command).await;
    let text = |name: &str| fs::read_to_string(scene.path(name)).ok();
    assert_eq!(
        (text("new").as_deref(), text("old").as_deref()),
        (Some("a\n"), Some("1\n2\n3\n")),
        "{}",
        result.content
    );
    assert_eq!((text("other"), text("never")), (None, None));
    // An empty file that the command wanted stays.
    runs(&scene, &["empty"], &[], "> empty").await;
    assert_eq!(text("empty").as_deref(), Some(""));
    for path in ["g/pre-commit", "l/tmp/x", "../x"] {
        let result = runs(&scene, &[path], &[], &format!("echo x > {path}")).await;
        assert!(result.content.contains("cannot be opened for it alone"), "{path}: {}", result.content);
        assert!(!scene.path(path).exists(), "{path}");
    }
}

/// Reads that the rules deny: the files do not exist for the command, under any name, and the rest does.
#[tokio::test]
async fn what_the_rules_deny_to_be_read_is_not_there() {
    let scene = scene();
    if !can_hold(&scene).await {
        return;
    }
    scene.bash("git init -q . && mkdir -p secrets src/deep && echo KEY > secrets/key && echo KEY > src/deep/.env && echo open > src/deep/a && echo b > b && git add -A && git -c user.name=a -c user.email=a@b commit -qm 1").await;
    symlink("secrets/key", scene.path("l")).unwrap();
    symlink("secrets", scene.path("ls")).unwrap();
    let denied: &'static [&'static str] = &["secrets", "src/deep/.env"];
    for command in [
        "cat secrets/key",
        "cat secrets/*",
        "cat l",
        "cat ls/key",
        "grep -rh KEY .",
        "cat src/deep/.e*",
        "find . -name key -exec cat {} +",
        "tar cf - . | tr -d '\\0'",
        "git show HEAD:secrets/key",
        "git log -p",
        "cd secrets && cat key",
        "python3 -c 'print(open(\"secrets/key\").read())'",
        "dd if=src/deep/.env",
        "cp secrets/key $TMPDIR/k; cat $TMPDIR/k",
        "ln secrets/key $TMPDIR/k; cat $TMPDIR/k",
    ] {
        let result = runs(&scene, &[], denied, command).await;
        let printed = result.content.split("[Nobody was asked").next().unwrap_or_default();
        assert!(!printed.contains("KEY"), "{command}: {}", result.content);
    }
    for (command, expected) in [("cat src/deep/a b", "open\nb"), ("grep -c open src/deep/a", "1")] {
        assert_eq!(runs(&scene, &[], denied, command).await.content, expected, "{command}");
    }
}
