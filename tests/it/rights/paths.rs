//! Rules about paths, seen from a child's own folder.

use super::*;

struct Scene {
    folder: taped::Folder,
    model: Arc<Scripted>,
    runtime: Runtime,
}

/// A workspace `w` with a secret, a link to it, and a file that anybody may read.
async fn scene(host: Option<Ruleset>, replies: Vec<Reply>) -> Scene {
    let folder = taped::folder();
    let workspace = folder.path().join("w");
    std::fs::create_dir_all(workspace.join("secrets")).unwrap();
    std::fs::create_dir_all(workspace.join("docs")).unwrap();
    std::fs::write(workspace.join("secrets/key.pem"), "TOKEN hidden\n").unwrap();
    std::fs::write(workspace.join("open.txt"), "TOKEN shown\n").unwrap();
    std::os::unix::fs::symlink("secrets/key.pem", workspace.join("innocent")).unwrap();
    let model = Arc::new(Scripted::new(replies));
    let builder = builder(folder.path(), &model).tools(tamtam::tools::full());
    let builder = match host {
        Some(rules) => builder.rules(rules),
        None => builder,
    };
    let runtime = builder.start().await.unwrap();
    Scene { folder, model, runtime }
}

impl Scene {
    /// What a child with all rights, in that folder of the workspace, was shown at the end of its turn.
    async fn of_child(&self, parent: Ruleset, below: &str) -> String {
        let workspace = self.folder.path().join("w");
        let parent = self.runtime.create(options(&workspace, parent)).await.unwrap();
        let child = options(workspace.join(below), everything());
        let child = parent.spawn_child(child, "work", Link::DETACHED).await.unwrap();
        assert_eq!(down(&child).await, DownReason::Done);
        shown(&self.model)
    }
}

fn no_secrets(name: &str) -> Ruleset {
    let mut rules = everything();
    rules.name = name.to_owned();
    rules.rules.push(Rule::new("read", "secrets/**", Action::Deny));
    rules
}

fn search() -> Vec<Reply> {
    let read = Reply::call("grep", json!({"pattern": "TOKEN"})).with_call("read", json!({"path": "innocent"}));
    vec![read, Reply::text("done")]
}

/// Promise 8: a search by a child leaves out what its parent may not read, and a link does not lead there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_childs_search_does_not_find_what_its_parent_may_not_read() {
    let scene = scene(None, search()).await;
    let said = scene.of_child(no_secrets("narrow"), ".").await;
    assert!(said.contains("TOKEN shown") && !said.contains("TOKEN hidden"), "{said}");
    assert!(said.contains("it is a link to secrets/key.pem, about which the rules are stricter"), "{said}");
    assert!(scene.runtime.shutdown().await.is_empty());
}

/// Promise 8: nor what the host denies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_childs_search_does_not_find_what_the_host_denies() {
    let scene = scene(Some(no_secrets("host")), search()).await;
    let said = scene.of_child(everything(), ".").await;
    assert!(said.contains("TOKEN shown") && !said.contains("TOKEN hidden"), "{said}");
    assert!(said.contains("it is a link to secrets/key.pem, about which the rules are stricter"), "{said}");
    assert!(scene.runtime.shutdown().await.is_empty());
}

/// Promise 8: a parent's rules are about the paths that it sees, wherever below it a child works: named, searched, and in a
/// folder beside its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parents_paths_mean_the_same_in_a_child_that_works_further_below() {
    let read = Reply::call("read", json!({"path": "key.pem"})).with_call("grep", json!({"pattern": "TOKEN"}));
    let scene = scene(None, vec![read, Reply::text("done")]).await;
    let said = scene.of_child(no_secrets("narrow"), "secrets").await;
    assert!(!said.contains("TOKEN hidden"), "{said}");
    assert!(said.contains("Permission denied: read key.pem by narrow"), "{said}");
    assert!(scene.runtime.shutdown().await.is_empty());
}

/// The other side of it: what a parent allows in one folder is not allowed in another that is called alike from below.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_parent_allows_in_a_folder_is_not_allowed_in_one_called_alike() {
    let write = Reply::call("write", json!({"path": "src/x", "content": "x"}));
    let write = write.with_call("write", json!({"path": "../src/x", "content": "x"}));
    let scene = scene(None, vec![write, Reply::text("done")]).await;
    let mut only_src = everything();
    only_src.rules.push(Rule::new("edit", "**", Action::Deny));
    only_src.rules.push(Rule::new("edit", "src/**", Action::Allow));
    let said = scene.of_child(only_src, "docs").await;
    let written = |path: &str| scene.folder.path().join("w").join(path).exists();
    // The second is what the parent may do; the child's own rules allow it as well.
    assert_eq!((written("docs/src/x"), written("src/x")), (false, true), "{said}");
    assert!(scene.runtime.shutdown().await.is_empty());
}
