//! The work that a state asks for: which open tickets need a worker, so that the shell can start it.
//!
//! There is no list of starts. The shell asks for the due work again after each append and after a crash, and names the tickets that
//! have a worker already. So no start is lost or doubled.
//!
//! A change must keep that due work follows from the state alone: a start that needs something else would be forgotten in a crash.
//! Nothing here starts anything or changes the state.

use crate::{
    kernel::{CallState, Open, State},
    words::ids::Seq,
};

/// An open ticket that the shell must act on, and that has no worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// A model request is to be made.
    Request(Seq),
    /// A call is to be carried out.
    Call(Seq),
    /// A summary is to be written.
    Summary(Seq),
    /// The child of a task is to be made or woken, and told what its parent says.
    Task(Seq),
    /// A request or a call was told to stop and has no worker that could report it: the shell reports in its place.
    Gone(Seq),
}

impl State {
    /// The work to begin, in the order of the tickets. `at_work` says whether a ticket has a worker, or a report that waits.
    pub(crate) fn due_work(&self, at_work: impl Fn(Seq) -> bool) -> Vec<Due> {
        let open = self.open.iter().filter(|(ticket, _)| !at_work(**ticket));
        let due = open.filter_map(|(ticket, open)| match open {
            // An interrupted turn waits to be told to go on.
            Open::Request(_) | Open::Call(_) if self.waits => None,
            Open::Request(request) if request.closing => Some(Due::Gone(*ticket)),
            Open::Request(_) => Some(Due::Request(*ticket)),
            Open::Call(call) if call.state == CallState::Running => Some(Due::Call(*ticket)),
            Open::Call(call) if call.state == CallState::Closing => Some(Due::Gone(*ticket)),
            Open::Compaction(_) => Some(Due::Summary(*ticket)),
            // Its child is made when there is room.
            Open::Task(task) if task.queued => None,
            Open::Task(_) => Some(Due::Task(*ticket)),
            Open::Call(_) | Open::Ask(_) | Open::TaskAsk(_) | Open::BudgetAsk(_) | Open::Wait(_) | Open::Branch(_) => {
                None
            }
        });
        due.collect()
    }
}
