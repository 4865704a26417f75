//! Drivers of what reads a session, forks and merges it, and takes it or its files back.

use tamtam::{
    Seq, Session, SessionId,
    ops::Restore,
    session::{ForkOptions, MessageStream, Point, RollbackOptions},
    tape::TapeStoreExt as _,
};

use super::{
    matrix::{Driver, Word, go},
    world::{World, id, mine},
};

pub(super) fn drivers() -> Vec<Driver> {
    [reads(), forks(), back(), files()].into_iter().flatten().collect()
}

fn reads() -> Vec<Driver> {
    vec![
        Driver::new("Session::state", go!(w, drop(w.session.state().await.unwrap()))),
        Driver::new("Session::peek", go!(w, drop(w.session.peek().await.unwrap())))
            .given(go!(w, w.runtime.passivate(&id()).await.unwrap())),
        Driver::new("Session::last_entry", go!(w, assert!(w.session.last_entry().await.unwrap() > Seq(0))))
            .given(go!(w, w.runtime.passivate(&id()).await.unwrap())),
        Driver::new("Session::queue", go!(w, drop(w.session.queue().await.unwrap()))),
        Driver::new("Session::grants", go!(w, drop(w.session.grants().await.unwrap()))),
        Driver::new("Session::pins", go!(w, drop(w.session.pins().await.unwrap()))),
        Driver::new("Session::messages", go!(w, drop(w.session.messages().await.unwrap()))),
        Driver::new("Session::bill", go!(w, drop(w.session.bill().await.unwrap()))),
        Driver::new("Session::entries", go!(w, drop(w.session.entries().await.unwrap()))),
        Driver::new("Session::messages_before", go!(w, drop(w.session.messages_before(None, 5).await.unwrap()))),
        Driver::new("Session::events_after", go!(w, drop(w.session.events_after(Seq(1)).await.unwrap()))),
        Driver::new("Session::changes", go!(w, drop(w.session.changes(Seq(1)).await.unwrap()))),
        Driver::new("Session::plan_rollback", go!(w, drop(w.session.plan_rollback(Point::At(Seq(1))).await.unwrap()))),
        // Nothing is lost: what a dropped call has not given, the next one gives.
        Driver::new("MessageStream::next", go!(w, drop(w.kept::<MessageStream>().next().await.unwrap())))
            .given(go!(w, w.keep(w.session.newest_first())))
            .then(go!(w, {
                let stream = w.kept::<MessageStream>();
                while let Some(message) = stream.next().await.unwrap() {
                    if message.text() == "first" {
                        return;
                    }
                }
                panic!("the oldest message comes last");
            })),
    ]
}

fn forks() -> Vec<Driver> {
    vec![
        Driver::new("Session::fork", go!(w, drop(w.session.fork(Point::At(Seq(1))).await.unwrap())))
            .effect(go!(w, w.store().forks_of(&id()).unwrap().len())),
        Driver::new(
            "Session::fork, under an id",
            go!(w, drop(w.session.fork(ForkOptions::at(Point::At(Seq(1))).id("fork".parse().unwrap())).await.unwrap())),
        )
        .effect(go!(w, w.store().forks_of(&id()).unwrap().len()))
        .but(Word::TakenBack)
        .once(),
        Driver::new(
            "Session::merge",
            go!(w, {
                let fork = w.kept::<Session>().id().clone();
                drop(w.session.merge(&fork).await.unwrap());
            }),
        )
        .given(go!(w, w.forked().await))
        .effect(go!(w, w.count("merged")))
        .once(),
        Driver::new(
            "Session::merge_and_delete",
            go!(w, {
                let fork = w.kept::<SessionId>().clone();
                drop(w.session.merge_and_delete(&fork).await);
            }),
        )
        .given(go!(w, {
            w.forked().await;
            let fork = w.kept::<Session>().id().clone();
            w.keep(fork);
        }))
        .effect(go!(w, w.count("merged")))
        .once()
        .then(go!(w, {
            let fork = w.kept::<SessionId>().clone();
            assert_eq!(w.has(fork.as_str()), 0, "the second call deletes it");
        })),
        Driver::new(
            "Session::leave_branch",
            go!(w, {
                let branch = w.kept::<Session>().clone();
                w.session.leave_branch(&branch, Seq(1)).await.unwrap();
            }),
        )
        .given(go!(w, w.forked().await))
        .effect(go!(w, w.count("branch_summary"))),
    ]
}

fn back() -> Vec<Driver> {
    vec![
        Driver::new("Session::rollback", go!(w, drop(w.session.rollback(Point::BeforeMessage("mine".into())).await)))
            .given(go!(w, w.said().await))
            .effect(go!(w, w.count("rolled_back")))
            .once(),
        Driver::new("Session::undo", go!(w, drop(w.session.undo().await.unwrap())))
            .given(go!(w, w.said().await))
            .effect(go!(w, w.count("rolled_back"))),
        Driver::new("Session::redo", go!(w, drop(w.session.redo().await)))
            .given(go!(w, {
                w.said().await;
                w.session.undo().await.unwrap();
            }))
            .effect(go!(w, w.count("rolled_back") - 1))
            .once(),
        Driver::new(
            "Session::rollback_with",
            go!(w, {
                let options = RollbackOptions::new().with_files(Restore::Whole).with_summary();
                drop(w.session.rollback_with(Point::BeforeMessage("mine".into()), options).await);
            }),
        )
        .given(go!(w, w.written().await))
        .effect(go!(w, {
            let (back, file) = (w.count("rolled_back"), w.file().is_none());
            assert_eq!(back == 1, file, "the file goes with the conversation");
            back
        }))
        .once()
        .in_real_time(),
    ]
}

fn files() -> Vec<Driver> {
    vec![
        Driver::new("Session::restore", go!(w, drop(w.session.restore(Seq(1), Restore::Whole).await)))
            .given(go!(w, w.written().await))
            .effect(go!(w, {
                let (restored, file) = (w.count("restored"), w.file().is_none());
                assert_eq!(restored > 0, file, "what was put back is on the tape");
                usize::from(file)
            }))
            .once()
            .in_real_time(),
    ]
}

impl World {
    async fn said(&mut self) {
        self.session.prompt(mine("fine")).await.unwrap().wait().await.unwrap();
    }

    /// A turn that wrote a file.
    async fn written(&mut self) {
        self.session.prompt(mine("write")).await.unwrap().wait().await.unwrap();
        assert_eq!(self.file().as_deref(), Some("new\n"));
    }

    fn file(&self) -> Option<String> {
        std::fs::read_to_string(self.folder.path().join("work/file")).ok()
    }

    /// A fork in which something was said.
    async fn forked(&mut self) {
        let at = self.session.state().await.unwrap().seq;
        let fork = self.session.fork(Point::At(at)).await.unwrap();
        fork.prompt("aside").await.unwrap().wait().await.unwrap();
        fork.wait().await.unwrap();
        self.keep(fork);
    }
}
