//! A stopped call is answered at once, at any stage, and changes nothing afterwards.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::{sync::mpsc, time::Duration};

use serde_json::json;

use crate::{
    tool::files::FileKey,
    tools::{
        Setup,
        call::{self, Shared},
        lab::Lab,
    },
    words::message::ErrorReason,
};

/// Longest wait for another thread to do what it does next. Reached only where it never does.
const PATIENCE: Duration = Duration::from_secs(60);

/// What waits for a file that another call holds is answered, though the file never comes free; and the file stays as it is.
#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_a_file_is_answered_when_it_must_stop() {
    let mut lab = Lab::new();
    lab.put("f", "one\n");
    let setup = Setup::new();
    lab.tools = setup.full();
    let holder = lab.context();
    let identity = {
        use std::os::unix::fs::MetadataExt as _;
        let metadata = std::fs::metadata(lab.path("f")).unwrap();
        (metadata.dev(), metadata.ino())
    };
    let key = FileKey::Existing(identity.0, identity.1);
    let held = setup.shared.files.locks.lock(key, || holder.is_cancelled()).unwrap();
    let context = lab.context();
    let tool = lab.tools.find("edit").unwrap().clone();
    let mut call = tool.run(json!({"path": "f", "old_string": "one", "new_string": "two"}), &context);
    assert!(futures_util::poll!(&mut call).is_pending());
    context.cancel.cancel();
    // The clock is stopped: nothing here may wait for time to pass.
    let result = call.await;
    assert_eq!((result.content.as_str(), result.error), ("Operation aborted", Some(ErrorReason::Aborted)));
    drop(held);
    assert_eq!(lab.content("f"), "one\n");
}

/// A body that never looks whether it must stop does not hold up the answer, and cannot change anything any more.
#[tokio::test(start_paused = true)]
async fn a_body_that_is_deaf_is_answered_for_and_finds_the_gate_closed() {
    let lab = Lab::new();
    let context = lab.context();
    let (go, gone) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let (begin, begun) = tokio::sync::oneshot::channel();
    let mut running = call::run(&Shared::default(), "edit", &context, move |call| {
        begin.send(()).unwrap();
        gone.recv_timeout(PATIENCE).unwrap();
        let changed = call.change(|| ()).is_ok();
        tell.send(changed).unwrap();
        Ok(crate::tool::ToolResult::ok("done"))
    });
    assert!(futures_util::poll!(&mut running).is_pending());
    begun.await.unwrap();
    context.cancel.cancel();
    assert_eq!(running.await.content, "Operation aborted");
    go.send(()).unwrap();
    assert!(!told.recv_timeout(PATIENCE).unwrap(), "nothing is changed after the answer");
}

/// The other side: a change that has begun is waited for, so the answer never says "aborted" of what was done.
#[tokio::test]
async fn a_change_that_has_begun_is_told_of() {
    let lab = Lab::new();
    let context = lab.context();
    let (begin, begun) = tokio::sync::oneshot::channel();
    let (go, gone) = mpsc::channel::<()>();
    let mut running = call::run(&Shared::default(), "edit", &context, move |call| {
        call.change(move || {
            begin.send(()).unwrap();
            gone.recv_timeout(PATIENCE).unwrap();
        })?;
        Ok(crate::tool::ToolResult::ok("done"))
    });
    assert!(futures_util::poll!(&mut running).is_pending());
    begun.await.unwrap();
    context.cancel.cancel();
    assert!(futures_util::poll!(&mut running).is_pending(), "it is not answered while the change is being made");
    go.send(()).unwrap();
    assert_eq!(running.await.content, "done");
}

/// pi #44: a long search says how far it is.
#[tokio::test]
async fn a_long_search_says_how_far_it_is() {
    use std::sync::{Arc, Mutex};
    let lab = Lab::new();
    for n in 0..2_500 {
        lab.put(&format!("f{n}"), "needle\n");
    }
    for (tool, arguments, last) in [
        ("grep", json!({"pattern": "needle|x", "output_mode": "count", "limit": 1000}), None),
        ("grep", json!({"pattern": "absent"}), Some(json!({"files": 2_000, "matches": 0}))),
        ("find", json!({"pattern": "f*"}), Some(json!({"entries": 2_000, "found": 1_999}))),
    ] {
        let said = Arc::new(Mutex::new(Vec::new()));
        let mut context = lab.context();
        let told = said.clone();
        context.progress = crate::tool::Progress::new(move |_, metadata| told.lock().unwrap().push(metadata));
        lab.tools.find(tool).unwrap().run(arguments, &context).await;
        let said = said.lock().unwrap();
        assert!(!said.is_empty());
        assert!(last.is_none() || said.last() == last.as_ref(), "{said:?}");
    }
}

/// What only looks is let go of in the middle of a tree.
#[tokio::test]
async fn a_search_is_let_go_of_in_mid_walk() {
    let lab = Lab::new();
    for n in 0..2_000 {
        lab.put(&format!("d{}/f{n}", n % 40), "needle\n");
    }
    for (tool, arguments) in [
        ("grep", json!({"pattern": "absent"})),
        ("find", json!({"pattern": "**"})),
        ("ls", json!({"path": "d1"})),
        ("read", json!({"path": "d1/f1"})),
    ] {
        let context = lab.context();
        let tool = lab.tools.find(tool).unwrap().clone();
        let mut call = tool.run(arguments, &context);
        let at_once = futures_util::poll!(&mut call);
        context.cancel.cancel();
        let result = match at_once {
            std::task::Poll::Ready(result) => result,
            std::task::Poll::Pending => call.await,
        };
        // A short call may have been done before its stop.
        assert!(!result.is_error() || result.content == "Operation aborted", "{}", result.content);
    }
}
