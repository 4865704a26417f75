//! How a driver handles the starts and exits of its children.

use crate::supervisor::{
    driver::{Driver, Msg, place::Incarnation},
    monitor::ChildEvent,
    planner::{Event, Generation},
    shell::Context,
    spec::ChildId,
    status::Status,
    watch::Happening,
};

impl Driver {
    pub(super) fn child_event(
        &mut self,
        id: &ChildId,
        generation: Generation,
        child_event: ChildEvent,
        cx: &mut Context<Msg>,
    ) {
        let owned = id.clone();
        match child_event {
            ChildEvent::Started(info) => {
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
            ChildEvent::Ignored => {
                self.end_incarnation(id, generation);
                self.on(Event::Ignored { id: owned, generation }, cx);
                self.show_at_rest(id);
            }
            ChildEvent::StartFailed(reason) => {
                self.end_incarnation(id, generation);
                self.on(Event::StartFailed { id: owned, generation, reason }, cx);
                self.show_at_rest(id);
            }
            ChildEvent::Ended { reason, workers_left } => {
                if workers_left > 0 {
                    let path = self.places.get(id).map(|place| place.shown.0.path().to_owned());
                    tracing::error!(child = path, workers_left, "workers did not end in their time");
                    self.tell(id, Happening::WorkersLeft { count: workers_left });
                }
                self.end_incarnation(id, generation);
                self.on(Event::Exited { id: owned, generation, reason }, cx);
            }
            ChildEvent::Unkillable => {
                let path = self.places.get(id).map(|place| place.shown.0.path().to_owned());
                tracing::error!(child = path, "a child did not end although it was killed");
                self.on(Event::Unkillable { id: owned, generation }, cx);
                self.tell(id, Happening::Unkillable {});
            }
        }
    }

    pub(super) fn incarnation(&mut self, id: &ChildId, generation: Generation) -> Option<&mut Incarnation> {
        self.places.get_mut(id)?.incarnation.as_mut().filter(|incarnation| incarnation.generation == generation)
    }

    fn end_incarnation(&mut self, id: &ChildId, generation: Generation) {
        if let Some(place) = self.places.get_mut(id) {
            place.incarnation.take_if(|incarnation| incarnation.generation == generation);
        }
    }

    /// A start that led to nothing is no incarnation to show on the node.
    fn show_at_rest(&self, id: &ChildId) {
        if let Some(place) = self.places.get(id).filter(|place| place.incarnation.is_none()) {
            let mut words = place.shown.0.words();
            words.started_at = None;
            words.in_hand = None;
        }
    }
}
