//! The work that a state asks for: which workers must run, as it follows from the open tickets. There is no list of starts: the
//! work is computed anew after each append and after a crash, and tickets that have a worker are left out.

use crate::{
    kernel::{CallState, Open, State},
    words::ids::Seq,
};

/// Something that is open and has nobody at work on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// A model request is to be made.
    Request(Seq),
    /// A call is to be carried out.
    Call(Seq),
    /// A summary is to be written.
    Summary(Seq),
    /// The child of a task is to be made, or brought up, and told what it is told.
    Task(Seq),
    /// A request or a call was told to stop, and nobody is at work on it that could say that it has.
    Gone(Seq),
}

impl State {
    /// What is to be begun, in the order of the tickets. `at_work` says of which tickets somebody is at work, or has reported.
    pub fn due_work(&self, at_work: impl Fn(Seq) -> bool) -> Vec<Due> {
        let open = self.open.iter().filter(|(ticket, _)| !at_work(**ticket));
        let due = open.filter_map(|(ticket, open)| match open {
            // An interrupted turn waits to be told to go on.
            Open::Request(_) | Open::Call(_) if self.waits => None,
            Open::Request(request) if request.closing => Some(Due::Gone(*ticket)),
            Open::Request(_) => Some(Due::Request(*ticket)),
            Open::Call(call) if call.state == CallState::Running => Some(Due::Call(*ticket)),
            Open::Call(call) if call.state == CallState::Closing => Some(Due::Gone(*ticket)),
            Open::Compaction(_) => Some(Due::Summary(*ticket)),
            Open::Task(_) => Some(Due::Task(*ticket)),
            Open::Call(_) | Open::Ask(_) | Open::BudgetAsk(_) | Open::Wait(_) | Open::Branch(_) => None,
        });
        due.collect()
    }
}
