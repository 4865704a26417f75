//! Drivers of the commands to a session.

use futures_util::StreamExt;
use tamtam::{
    Delivery, Message, Receipt, Seq, Steering,
    hook::{Hook, HookContext, Input},
    model::BoxFuture,
    permission::Profile,
    session::{Grant, Granted, Labels, Link, Open, Scope, TurnStream},
    tape::TapeStoreExt as _,
};

use super::{
    matrix::{After, Driver, Word, go},
    world::{Digest, World, id, mine},
};

pub(super) fn drivers() -> Vec<Driver> {
    [messages(), turns(), settings(), children()].into_iter().flatten().collect()
}

/// A message that is on the tape once, under its id.
fn messages() -> Vec<Driver> {
    vec![
        Driver::new("Session::send", go!(w, drop(w.session.send(mine("fine"), Delivery::Queue).await.unwrap())))
            .effect(go!(w, w.count_mine("accepted")))
            .once(),
        Driver::new(
            "Session::send, past an input hook",
            go!(w, drop(w.session.send(mine("fine"), Delivery::Queue).await)),
        )
        .given(go!(w, w.restart(|builder| builder.hook(Slow)).await))
        .effect(go!(w, w.count_mine("accepted")))
        .but(Word::TakenBack)
        .once(),
        Driver::new(
            "Session::send, that aborts what runs",
            go!(w, drop(w.session.send(mine("fine"), ABORTS).await.unwrap())),
        )
        .given(go!(w, w.hold().await))
        .effect(go!(w, w.count_mine("delivered")))
        .once(),
        Driver::new(
            "Session::send_to_turn",
            go!(w, {
                let turn = w.session.state().await.unwrap().turn.map(|turn| turn.id);
                drop(w.session.send_to_turn(mine("fine"), Delivery::Queue, turn).await.unwrap());
            }),
        )
        .given(go!(w, w.hold().await))
        .effect(go!(w, w.count_mine("accepted")))
        // The driver asks for the turn first.
        .but(Word::TakenBack)
        .once(),
        Driver::new("Session::prompt", go!(w, drop(w.session.prompt(mine("fine")).await.unwrap())))
            .effect(go!(w, w.count_mine("accepted")))
            .once(),
        Driver::new("Session::prompt, that wakes it", go!(w, drop(w.session.prompt(mine("fine")).await.unwrap())))
            .given(go!(w, w.runtime.passivate(&id()).await.unwrap()))
            .effect(go!(w, w.count_mine("accepted")))
            .once(),
        Driver::new(
            "Session::send_when_room",
            go!(w, drop(w.session.send_when_room(mine("fine"), Delivery::Queue).await.unwrap())),
        )
        .effect(go!(w, w.count_mine("accepted")))
        .once(),
        Driver::new("Session::prompt_streaming", go!(w, drop(w.session.prompt_streaming(mine("fine")).await.unwrap())))
            .effect(go!(w, w.count_mine("accepted")))
            .once(),
        Driver::new(
            "Session::send_streaming",
            go!(w, drop(w.session.send_streaming(mine("fine"), Delivery::Queue).await.unwrap())),
        )
        .effect(go!(w, w.count_mine("accepted")))
        .once(),
        Driver::new("TurnStream::next", go!(w, drop(w.kept::<TurnStream>().next().await)))
            .given(go!(w, w.streamed().await)),
        Driver::new("TurnStream::poll_next", go!(w, drop(StreamExt::next(w.kept::<TurnStream>()).await)))
            .given(go!(w, w.streamed().await)),
        Driver::new("TurnStream::answer", go!(w, drop(w.kept::<TurnStream>().answer().await)))
            .given(go!(w, w.streamed().await)),
        Driver::new("Session::steer", go!(w, drop(w.session.steer(mine("fine")).await.unwrap())))
            .given(go!(w, w.hold().await))
            .effect(go!(w, w.count_mine("accepted")))
            .once(),
        Driver::new("Session::follow_up", go!(w, drop(w.session.follow_up(mine("fine")).await.unwrap())))
            .given(go!(w, w.hold().await))
            .effect(go!(w, w.count_mine("accepted")))
            .once(),
        Driver::new("Session::edit", go!(w, w.session.edit(mine("edited")).await.unwrap()))
            .given(go!(w, w.queued().await))
            .effect(go!(w, w.count_mine("edited"))),
        Driver::new("Session::withdraw", go!(w, drop(w.session.withdraw("mine".into()).await)))
            .given(go!(w, w.queued().await))
            .effect(go!(w, w.count_mine("withdrawn")))
            .once(),
        Driver::new("Session::clear_queue", go!(w, drop(w.session.clear_queue().await.unwrap())))
            .given(go!(w, w.queued().await))
            .effect(go!(w, w.count_mine("withdrawn")))
            .once(),
    ]
}

const ABORTS: Delivery = Delivery::Steer(Steering::AbortRunning);

fn turns() -> Vec<Driver> {
    vec![
        Driver::new("Session::abort", go!(w, assert!(w.session.abort("enough").await.unwrap().recorded)))
            .given(go!(w, w.hold().await))
            .effect(go!(w, w.aborted()))
            .once(),
        Driver::new(
            "Session::abort_turn",
            go!(w, {
                let turn = *w.kept::<Seq>();
                drop(w.session.abort_turn(turn, "enough").await);
            }),
        )
        .given(go!(w, {
            w.hold().await;
            let turn = w.session.state().await.unwrap().turn.as_ref().unwrap().id;
            w.keep(turn);
        }))
        .effect(go!(w, w.aborted()))
        .once(),
        Driver::new(
            "Session::answer",
            go!(w, {
                let ask = *w.kept::<Seq>();
                drop(w.session.answer(ask, Grant::Once).await);
            }),
        )
        .given(go!(w, w.ask().await))
        .effect(go!(w, w.count("granted")))
        .once()
        .then(go!(w, w.allow_all().await)),
        Driver::new(
            "Session::answer_as",
            go!(w, {
                let ask = *w.kept::<Seq>();
                drop(w.session.answer_as(ask, Grant::Once, "ada").await);
            }),
        )
        .given(go!(w, w.ask().await))
        .effect(go!(w, w.count("granted")))
        .once()
        .then(go!(w, w.allow_all().await)),
        Driver::new(
            "Session::answer_shown",
            go!(w, {
                let (ask, digest) = (*w.kept::<Seq>(), w.kept::<Digest>().0.clone());
                drop(w.session.answer_shown(ask, Grant::Once, digest, None).await);
            }),
        )
        .given(go!(w, w.ask().await))
        .effect(go!(w, w.count("granted")))
        .once()
        .then(go!(w, w.allow_all().await)),
        Driver::new(
            "Session::revoke",
            go!(w, {
                let grant = w.kept::<Granted>().id;
                drop(w.session.revoke(grant).await);
            }),
        )
        .given(go!(w, {
            w.ask().await;
            let ask = *w.kept::<Seq>();
            w.session.answer(ask, Grant::Always(Scope::Session)).await.unwrap();
            w.session.wait().await.unwrap();
            let grant = w.session.grants().await.unwrap().remove(0);
            w.keep(grant);
        }))
        .effect(go!(w, w.count("revoked")))
        .once()
        .then(go!(w, w.allow_all().await)),
        Driver::new("Session::revoke_all", go!(w, w.session.revoke_all().await.unwrap()))
            .given(go!(w, {
                w.ask().await;
                let ask = *w.kept::<Seq>();
                w.session.answer(ask, Grant::Always(Scope::Session)).await.unwrap();
                w.session.wait().await.unwrap();
            }))
            .effect(go!(w, w.count("revoked")))
            .once()
            .then(go!(w, w.allow_all().await)),
        Driver::new("Session::go_on", go!(w, w.session.go_on().await.unwrap()))
            .given(go!(w, {
                w.queued().await;
                w.session.abort("enough").await.unwrap();
                w.session.wait().await.unwrap();
            }))
            .effect(go!(w, w.count_mine("delivered")))
            .once(),
        Driver::new("Session::pause", go!(w, w.session.pause().await.unwrap()))
            .effect(go!(w, w.count("paused")))
            .once()
            .then(go!(w, w.session.resume().await.unwrap())),
        Driver::new("Session::resume", go!(w, w.session.resume().await.unwrap()))
            .given(go!(w, w.session.pause().await.unwrap()))
            .effect(go!(w, w.count("resumed")))
            .once()
            .then(go!(w, w.session.resume().await.unwrap())),
        Driver::new("Session::reset_loops", go!(w, w.session.reset_loops().await.unwrap()))
            .given(go!(w, w.ask().await))
            .effect(go!(w, w.count("loops_reset")))
            .once()
            .then(go!(w, w.allow_all().await)),
        Driver::new("Session::end", go!(w, w.session.end("over").await.unwrap()))
            .effect(go!(w, w.count("ended")))
            .then(go!(w, w.session.end("over").await.unwrap_or_default()))
            .leaving(After::HasEnded),
        Driver::new("Session::wait", go!(w, w.session.wait().await.unwrap())),
        Driver::new("Session::wait, in a turn", go!(w, w.session.wait().await.unwrap())).given(go!(w, w.hold().await)),
        Driver::new("Receipt::wait", go!(w, drop(w.kept::<Receipt>().clone().wait().await.unwrap())))
            .given(go!(w, w.hold().await)),
        Driver::new(
            "Receipt::wait, of a turn that is over",
            go!(w, drop(w.kept::<Receipt>().clone().wait().await.unwrap())),
        )
        .given(go!(w, {
            w.hold().await;
            w.let_go();
            w.session.wait().await.unwrap();
        })),
    ]
}

fn settings() -> Vec<Driver> {
    vec![
        Driver::new(
            "Session::configure",
            go!(w, w.session.configure(|set| set.title = Some("mine".into())).await.unwrap()),
        )
        .effect(go!(w, w.count_mine("settings"))),
        Driver::new("Session::set_title", go!(w, w.session.set_title(Some("mine".into())).await.unwrap()))
            .effect(go!(w, w.count_mine("settings"))),
        Driver::new(
            "Session::set_thinking",
            go!(w, w.session.set_thinking(Some(tamtam::model::Thinking::High)).await.unwrap()),
        )
        .effect(go!(w, w.count_with("settings", r#""thinking":"high""#))),
        Driver::new(
            "Session::set_labels",
            go!(w, w.session.set_labels(Labels::new([("tenant", "mine")]).unwrap()).await.unwrap()),
        )
        .effect(go!(w, w.count_mine("settings"))),
        Driver::new(
            "Session::switch_agent",
            go!(w, {
                let choice = tamtam::runtime::Agent::plan().for_session(w.session.id()).unwrap();
                w.session.switch_agent(choice).await.unwrap();
            }),
        )
        .effect(go!(w, w.count("agent_switched"))),
        Driver::new("Session::command", go!(w, drop(w.session.command("/agent plan", Delivery::Queue).await.unwrap())))
            .effect(go!(w, w.count("agent_switched"))),
        Driver::new("Session::handoff", go!(w, drop(w.session.handoff("there", None).await)))
            .effect(go!(w, w.store().anchors(&id()).unwrap().iter().filter(|at| at.name == "there").count()))
            .once(),
        Driver::new("Session::compact", go!(w, w.session.compact().await.unwrap()))
            .given(go!(w, w.say(&"many words ".repeat(20_000)).await))
            .effect(go!(w, w.count("compaction"))),
        Driver::new("Session::undo_compaction", go!(w, drop(w.session.undo_compaction().await)))
            .given(go!(w, {
                w.say(&"many words ".repeat(20_000)).await;
                w.session.compact().await.unwrap();
                w.session.wait().await.unwrap();
                w.rest().await;
                assert_eq!(w.count("compacted"), 1);
            }))
            .effect(go!(w, w.count("compaction_undone")))
            .once(),
        Driver::new("Session::pin", go!(w, w.session.pin("mine".into()).await.unwrap()))
            .given(go!(w, drop(w.session.prompt(mine("fine")).await.unwrap().wait().await.unwrap())))
            .effect(go!(w, w.count_mine("pinned")))
            .once(),
        Driver::new("Session::unpin", go!(w, drop(w.session.unpin("mine".into()).await)))
            .given(go!(w, drop(w.session.prompt(mine("fine").pinned()).await.unwrap().wait().await.unwrap())))
            .effect(go!(w, w.count_mine("unpinned")))
            .once(),
    ]
}

fn children() -> Vec<Driver> {
    vec![
        Driver::new(
            "Session::spawn_child",
            go!(w, {
                let options = w.options().id("child".parse().unwrap());
                drop(w.session.spawn_child(options, "work", Link::DETACHED).await.unwrap());
            }),
        )
        .effect(go!(w, w.count("task_started")))
        .once(),
        Driver::new(
            "Session::adopt",
            go!(w, {
                drop(w.session.adopt(&"child".parse().unwrap(), Link::DETACHED).await.unwrap());
            }),
        )
        .given(go!(w, {
            let parent = w.another("parent").await;
            let options = w.options().id("child".parse().unwrap());
            drop(parent.spawn_child(options, "hold", Link::MONITORED).await.unwrap());
            parent.end("over").await.unwrap();
            parent.wait().await.unwrap();
        }))
        .effect(go!(w, w.count("task_started")))
        .once(),
        Driver::new(
            "Child::is_queued",
            go!(w, assert!(!w.kept::<tamtam::runtime::Child>().is_queued().await.unwrap())),
        )
        .given(go!(w, w.child_at_work().await)),
        Driver::new(
            "Child::started",
            go!(w, drop(w.kept::<tamtam::runtime::Child>().started().await.unwrap().clone())),
        )
        .given(go!(w, w.child_at_work().await)),
        Driver::new("Child::down", go!(w, drop(w.kept::<tamtam::runtime::Child>().down().await.unwrap())))
            .given(go!(w, w.child_at_work().await)),
        Driver::new("Child::result", go!(w, drop(w.kept::<tamtam::runtime::Child>().result().await.unwrap())))
            .given(go!(w, w.child_at_work().await)),
        Driver::new("Child::progress", go!(w, drop(w.kept::<tamtam::runtime::Child>().progress().await.unwrap())))
            .given(go!(w, w.child_at_work().await)),
        Driver::new("Child::stop", go!(w, w.kept::<tamtam::runtime::Child>().stop("enough").await.unwrap()))
            .given(go!(w, w.child_at_work().await))
            .effect(go!(w, w.count("closing")))
            .once(),
        Driver::new("Session::write_title", go!(w, drop(w.session.write_title().await.unwrap())))
            .effect(go!(w, w.count("task_started"))),
        Driver::new("Session::write_summary", go!(w, drop(w.session.write_summary().await.unwrap())))
            .effect(go!(w, w.count("task_started"))),
        Driver::new("Session::tasks", go!(w, drop(w.session.tasks().await.unwrap())))
            .given(go!(w, w.child_at_work().await)),
        Driver::new(
            "Session::delegate",
            go!(w, {
                let mut request = tamtam::session::TaskRequest::new("general", "work", "work");
                request.idempotency_key = Some("key".to_owned());
                let mut options = tamtam::runtime::TaskOptions::default();
                options.link = Link::DETACHED;
                drop(w.session.delegate(request, options).await.unwrap());
            }),
        )
        .effect(go!(w, w.count("task_started")))
        .once(),
    ]
}

impl World {
    /// Keeps a child at work.
    async fn child_at_work(&mut self) {
        let options = self.options().id("child".parse().unwrap());
        let child = self.session.spawn_child(options, "hold", Link::DETACHED).await.unwrap();
        self.rest().await;
        self.keep(child);
    }

    /// Keeps the stream of a turn that hangs.
    async fn streamed(&mut self) {
        let stream = self.session.prompt_streaming("hold").await.unwrap();
        self.model.barrier("gate").reached().await;
        self.keep(stream);
    }

    /// A turn that hangs, and a message that waits behind it.
    async fn queued(&mut self) {
        self.hold().await;
        self.session.prompt(mine("fine")).await.unwrap();
    }

    fn aborted(&self) -> usize {
        let tape = self.tape(&id());
        tape.iter().filter(|entry| entry.kind == "turn_finished" && entry.data.get().contains("aborted")).count()
    }

    async fn allow_all(&mut self) {
        self.session.configure(|settings| settings.rules = vec![Profile::Auto.ruleset()]).await.unwrap();
        for (&ask, open) in self.session.state().await.unwrap().open.iter() {
            if let Open::Ask(_) = open {
                self.session.answer(ask, Grant::Once).await.unwrap();
            }
        }
    }
}

/// An input hook that waits twice.
struct Slow;

impl Hook for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn on_input<'a>(&'a self, _: &'a HookContext, message: Message) -> BoxFuture<'a, Input> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            Input::Pass(Box::new(message))
        })
    }
}
