//! A thread that swaps a folder and a file of the workspace for links that lead out, while the file tools work on both.
//! Whatever the tools answer, nothing outside is touched or shown.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use serde_json::{Value, json};
use tamtam::{
    tool::{ToolContext, ToolResult, Toolbox},
    tools::Setup,
};

/// Rounds of all four tools; the thread flips some thousand times meanwhile.
const ROUNDS: usize = 300;
const ROUNDS_MAX: usize = 20 * ROUNDS;

const SECRET: &str = "the secret of outside";

/// Swaps `name` between what stands in `inside` and a link to `outside`, until it is told to stop. Counts the swaps.
fn flip(workspace: &Path, name: &str, inside: &str, outside: &Path, stop: &AtomicBool, flips: &AtomicUsize) {
    let (here, aside, link) = (workspace.join(name), workspace.join(inside), workspace.join(format!("{name}.link")));
    while !stop.load(Ordering::Relaxed) {
        // Each step is one rename, so that the name is always something.
        let _ = fs::remove_file(&link);
        if symlink(outside, &link).is_ok() && fs::rename(&here, &aside).is_ok() && fs::rename(&link, &here).is_ok() {
            flips.fetch_add(1, Ordering::Relaxed);
        }
        let _ = fs::remove_file(&here);
        let _ = fs::rename(&aside, &here);
    }
}

async fn call(tools: &Toolbox, name: &str, arguments: Value, context: &ToolContext) -> ToolResult {
    tools.find(name).unwrap().run(arguments, context).await
}

/// Reliability F04, nasty case 1, 1,200 writes and edits: a symbolic link that is flipped between check and use lets nothing out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nasty_01_a_flipped_link_lets_no_file_tool_out_of_the_workspace() {
    let (workspace, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir(workspace.path().join("folder")).unwrap();
    fs::write(workspace.path().join("folder/file"), "inside\n").unwrap();
    fs::write(workspace.path().join("single"), "inside\n").unwrap();
    fs::create_dir(outside.path().join("folder")).unwrap();
    fs::write(outside.path().join("folder/file"), format!("{SECRET}\ninside\n")).unwrap();
    fs::write(outside.path().join("only-outside"), SECRET).unwrap();
    fs::write(outside.path().join("single"), format!("{SECRET}\ninside\n")).unwrap();

    let (stop, flips) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let flipping = [
        ("folder", "folder.aside", outside.path().join("folder")),
        ("single", "single.aside", outside.path().join("single")),
    ]
    .map(|(name, aside, target)| {
        let (workspace, stop, flips) = (workspace.path().to_path_buf(), stop.clone(), flips.clone());
        std::thread::spawn(move || flip(&workspace, name, aside, &target, &stop, &flips))
    });

    let tools = Setup::new().full();
    let context = ToolContext::detached(workspace.path().to_path_buf(), workspace.path().join("spill"));
    let mut shown = String::new();
    // More of them where the disk holds up the thread.
    for round in 0..ROUNDS_MAX {
        if round >= ROUNDS && flips.load(Ordering::Relaxed) > ROUNDS {
            break;
        }
        for path in ["folder/file", "single"] {
            let text = format!("round {round}\ninside\n");
            for (name, arguments) in [
                ("read", json!({ "path": path })),
                ("edit", json!({ "path": path, "old_string": "inside", "new_string": "inside edited" })),
                ("write", json!({ "path": path, "content": text })),
                ("ls", json!({ "path": "folder" })),
            ] {
                shown.push_str(&call(&tools, name, arguments, &context).await.content);
            }
        }
    }
    stop.store(true, Ordering::Relaxed);
    flipping.into_iter().for_each(|thread| thread.join().unwrap());

    let flips = flips.load(Ordering::Relaxed);
    assert!(flips > ROUNDS, "the links were flipped only {flips} times");
    assert!(!shown.contains(SECRET) && !shown.contains("only-outside"));
    let outside_now = |name: &str| fs::read_to_string(outside.path().join(name)).unwrap();
    assert_eq!(outside_now("folder/file"), format!("{SECRET}\ninside\n"));
    assert_eq!(outside_now("single"), format!("{SECRET}\ninside\n"));
    let left: Vec<_> =
        fs::read_dir(outside.path().join("folder")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["file"]);
}
