//! What a driver makes of the news about its children: births, starts, ends.

use std::time::Duration;

use crate::{
    actors::shell::{Context, Ended, Pid},
    supervisor::{
        driver::{Driver, Msg, place::Life},
        event::SupervisorEvent,
        exit::ExitReason,
        minder::News,
        planner::{Event, Generation},
        spec::ChildId,
        status::Status,
    },
};

/// How long the news of how a child ended may come after the proof that it has ended.
const OBITUARY_WAIT: Duration = Duration::from_millis(100);

impl Driver {
    pub(super) fn news(&mut self, id: &ChildId, generation: Generation, news: News, cx: &mut Context<Msg>) {
        let owned = id.clone();
        match news {
            News::Spawned(pid, note) => {
                let early = self.early.remove(&pid);
                if let Some(life) = self.life(id, generation) {
                    life.pid = Some(pid);
                    life.note = note;
                    life.ended = early;
                    self.pids.insert(pid, (owned, generation));
                    self.is_born();
                }
            }
            News::Started(info) => {
                if let Some(place) = self.places.get_mut(id) {
                    place.info.clone_from(&info);
                }
                self.on(Event::Started { id: owned, generation, info }, cx);
                let view = self.planner.view(id).filter(|view| super::answers::status(view.state) == Status::Running);
                // One that was told to stop meanwhile never counted as started.
                if let Some(view) = view {
                    self.tell(SupervisorEvent::Started { id: id.clone(), incarnation: view.incarnation });
                }
            }
            News::Ignored => {
                self.end_life(id, generation);
                self.on(Event::Ignored { id: owned, generation }, cx);
                self.show_at_rest(id);
            }
            News::StartFailed(reason) => {
                self.end_life(id, generation);
                self.on(Event::StartFailed { id: owned, generation, reason }, cx);
                self.show_at_rest(id);
            }
            News::Joined { workers_left } => {
                if workers_left > 0 {
                    let path = self.places.get(id).map(|place| place.shown.0.path().to_owned());
                    tracing::error!(child = path, workers_left, "workers did not end in their time");
                    self.tell(SupervisorEvent::WorkersLeft { id: owned, count: workers_left });
                }
                if let Some(life) = self.life(id, generation) {
                    life.joined = true;
                }
                self.bury(id, generation, cx);
            }
            News::NoObituary => {
                if let Some(life) = self.life(id, generation).filter(|life| life.joined) {
                    // It is gone, and nobody will say how: only what it noted itself tells a crash from anything else.
                    life.ended.get_or_insert(Ended::Cancelled);
                    self.bury(id, generation, cx);
                }
            }
            News::Unkillable => {
                let path = self.places.get(id).map(|place| place.shown.0.path().to_owned());
                tracing::error!(child = path, "a child did not end although it was killed");
                self.on(Event::Unkillable { id: owned.clone(), generation }, cx);
                self.tell(SupervisorEvent::Unkillable { id: owned });
            }
        }
    }

    /// An actor of this supervisor has ended.
    pub(super) fn ended(&mut self, child: Pid, how: Ended, cx: &mut Context<Msg>) {
        if let Some((id, generation)) = self.pids.get(&child).cloned() {
            if let Some(life) = self.life(&id, generation) {
                life.ended = Some(how);
            }
            self.bury(&id, generation, cx);
        } else if self.unborn > 0 {
            self.early.insert(child, how);
        }
    }

    /// Acts on an end, when all that proves it is there.
    fn bury(&mut self, id: &ChildId, generation: Generation, cx: &mut Context<Msg>) {
        let Some(life) = self.life(id, generation).filter(|life| life.joined) else { return };
        // The obituary is sent before the join handle resolves, and yet may be seen after it: a channel shows nothing that
        // stands behind a message whose sender was interrupted while it wrote. What the child noted at its end is as good.
        let Some(ended) = life.ended.take().or_else(|| life.note.stopped()) else {
            // No note: it was killed, or has cut its link. One that is only late is waited for.
            let (id, mailbox) = (id.clone(), cx.mailbox());
            self.tasks.spawn(async move {
                tokio::time::sleep(OBITUARY_WAIT).await;
                // Where the supervisor itself has ended meanwhile, nobody is left to bury anything.
                let _ = mailbox.send(Msg::News(id, generation, News::NoObituary));
            });
            return;
        };
        let note = life.note.take();
        let reason = match (ended, note) {
            (Ended::Failed(_) | Ended::Stopped(_) | Ended::Cancelled, Some(reason)) => reason,
            (Ended::Failed(text), None) => ExitReason::Error(text),
            (Ended::Stopped(None), None) => ExitReason::Normal,
            (Ended::Stopped(Some(word)), None) => ExitReason::Shutdown(word),
            (Ended::Killed, _) => ExitReason::Killed,
            (Ended::Cancelled, None) => ExitReason::Cancelled,
        };
        self.end_life(id, generation);
        self.on(Event::Exited { id: id.clone(), generation, reason }, cx);
    }

    pub(super) fn life(&mut self, id: &ChildId, generation: Generation) -> Option<&mut Life> {
        self.places.get_mut(id)?.life.as_mut().filter(|life| life.generation == generation)
    }

    fn end_life(&mut self, id: &ChildId, generation: Generation) {
        let Some(place) = self.places.get_mut(id) else { return };
        let Some(life) = place.life.take_if(|life| life.generation == generation) else { return };
        match life.pid {
            Some(pid) => drop(self.pids.remove(&pid)),
            None => self.is_born(),
        }
    }

    /// A start that led to nothing is no life to show on the card.
    fn show_at_rest(&self, id: &ChildId) {
        if let Some(place) = self.places.get(id).filter(|place| place.life.is_none()) {
            let mut words = place.shown.0.words();
            words.started_at = None;
            words.in_hand = None;
        }
    }

    /// One start fewer that has not told of an actor; ends that nobody can claim any more are forgotten.
    fn is_born(&mut self) {
        self.unborn -= 1;
        if self.unborn == 0 {
            self.early.clear();
        }
    }
}
