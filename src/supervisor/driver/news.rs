//! How a driver handles the starts and exits of its children.

use crate::supervisor::{
    driver::{Driver, Msg, place::Life},
    minder::News,
    planner::{Event, Generation},
    shell::Context,
    spec::ChildId,
    status::Status,
    watch::Happening,
};

impl Driver {
    pub(super) fn news(&mut self, id: &ChildId, generation: Generation, news: News, cx: &mut Context<Msg>) {
        let owned = id.clone();
        match news {
            News::Started(info) => {
                if let Some(place) = self.places.get_mut(id) {
                    place.info.clone_from(&info);
                }
                self.on(Event::Started { id: owned, generation, info }, cx);
                let view = self.planner.view(id).filter(|view| super::answers::status(view.state) == Status::Running);
                // One that was told to stop meanwhile never counted as started.
                if let Some(view) = view {
                    self.tell(id, Happening::Started { incarnation: view.incarnation });
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
            News::Ended { reason, workers_left } => {
                if workers_left > 0 {
                    let path = self.places.get(id).map(|place| place.shown.0.path().to_owned());
                    tracing::error!(child = path, workers_left, "workers did not end in their time");
                    self.tell(id, Happening::WorkersLeft { count: workers_left });
                }
                self.end_life(id, generation);
                self.on(Event::Exited { id: owned, generation, reason }, cx);
            }
            News::Unkillable => {
                let path = self.places.get(id).map(|place| place.shown.0.path().to_owned());
                tracing::error!(child = path, "a child did not end although it was killed");
                self.on(Event::Unkillable { id: owned, generation }, cx);
                self.tell(id, Happening::Unkillable {});
            }
        }
    }

    pub(super) fn life(&mut self, id: &ChildId, generation: Generation) -> Option<&mut Life> {
        self.places.get_mut(id)?.life.as_mut().filter(|life| life.generation == generation)
    }

    fn end_life(&mut self, id: &ChildId, generation: Generation) {
        if let Some(place) = self.places.get_mut(id) {
            place.life.take_if(|life| life.generation == generation);
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
}
