//! How a watch brings a child up: temporary obstacles are waited for, and a DOWN reports only a permanent end.

use std::fs;

use super::*;

/// What a machine that is short of something says when a child's tape is opened passes: the child is looked at again, works to
/// its end, and its parent is told of that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_whose_tape_cannot_be_opened_just_now_is_not_lost() {
    let found = || Reply::text("found it").when("user: look it up");
    let lab = lab([Reply::text("thank you"), found().at_barrier("child")]).await;
    let child = lab.spawn("look it up", Link::default()).await;
    lab.model.barrier("child").reached().await;
    let (id, parent, ticket) = (child.session().id().clone(), lab.parent.id().clone(), child.ticket());
    let Lab { folder, runtime, .. } = lab;
    assert!(runtime.shutdown().await.is_empty());

    // As a limit of open files would do it: the tape is there, and cannot be opened.
    let anchors = folder.path().join("store/sessions").join(id.as_str()).join("anchors");
    let first = fs::read_dir(&anchors).unwrap().next().unwrap().unwrap().path().join("entries.jsonl");
    let aside = anchors.with_file_name("aside");
    fs::rename(&first, &aside).unwrap();
    fs::create_dir(&first).unwrap();
    let (model, slow) = (Arc::new(Scripted::new([Reply::text("thank you"), found()])), Arc::default());
    let runtime = start(folder.path(), &model, &slow).await;
    let failed = runtime.recovered().iter().find(|recovered| recovered.session == id).unwrap();
    assert!(failed.error.as_ref().is_some_and(|error| error.contains("failed to")), "{failed:?}");
    let parent = runtime.open(&parent).await.unwrap();
    // Its watch looks at once when the parent is up; whoever else looks meanwhile looks with it.
    for _ in 0..20 {
        assert!(runtime.open(&id).await.is_err());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    fs::remove_dir(&first).unwrap();
    fs::rename(&aside, &first).unwrap();
    until(async || {
        parent.state().await.unwrap().tasks_ended.iter().any(|end| end.ticket == ticket && end.down.is_some())
    })
    .await;
    let state = parent.state().await.unwrap();
    let end = state.tasks_ended.iter().find(|end| end.ticket == ticket).unwrap();
    assert_eq!(end.down.as_ref().map(|down| (&down.reason, &*down.text)), Some((&DownReason::Done, "found it")));
    assert!(runtime.shutdown().await.is_empty());
}
