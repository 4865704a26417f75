//! What people granted for longer than a session ([`tamtam::session::Settings::granted`]), and who gets it.

use super::*;

/// A child in its parent's folder has it, because its questions would go to the same people. In another folder its paths would mean
/// other files, so a child there has none of it, and neither has a fork.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_granted_goes_to_a_child_in_the_same_folder_only() {
    let folder = taped::folder();
    std::fs::create_dir(folder.path().join("below")).unwrap();
    let model = Arc::new(Scripted::new([Reply::text("done"), Reply::text("done")]));
    let runtime = builder(folder.path(), &model).start().await.unwrap();
    let mut options = options(folder.path(), rules("ask", &[("*", "*", Action::Ask)]));
    options.granted = vec![Rule::new("edit", "src/**", Action::Allow)];
    let parent = runtime.create(options.clone()).await.unwrap();
    let child = async |below: &str| {
        let options = SessionOptions::new(folder.path().join(below));
        let child = parent.spawn_child(options, "work", Link::DETACHED).await.unwrap();
        assert_eq!(down(&child).await, DownReason::Done);
        child.session().state().await.unwrap().settings.granted.clone()
    };
    assert_eq!(child("").await, options.granted);
    assert_eq!(child("below").await, []);
    assert!(runtime.shutdown().await.is_empty());
}
