//! What a session's actor does as the core directs it: workers are started, told to stop, and forgotten when they have reported.

use crate::{
    actors::{
        session::{Live, build},
        summary::SummaryWorker,
        worker::{CallWorker, Post, RequestWorker},
    },
    error::SendError,
    ids::Seq,
    session::{CallState, Directive, Input, Open, Report, compaction_prompt},
};

impl Live {
    pub(super) fn carry_out(&mut self, directive: Directive) {
        fault!(self.host.store.faults(), "session.carry_out", self.slot.id.as_str());
        match directive {
            Directive::StartRequest(ticket) => self.start_request(ticket),
            Directive::StartCall(ticket) => self.start_call(ticket),
            Directive::StartCompaction(ticket) => self.start_compaction(ticket),
            Directive::StopCompaction(ticket) => drop(self.compactions.remove(&ticket)),
            Directive::CutRequest(ticket) => {
                match self.requests.get_mut(&ticket) {
                    // It stays until it has reported, so that it is never said of a running request that it is down.
                    Some(worker) => worker.cut(),
                    None => self.report_for(ticket, Report::CutOff { partial: Vec::new(), thrown_away: 0 }.of(ticket)),
                }
            }
            Directive::StopCall(ticket) => match self.calls.get(&ticket) {
                Some(worker) => worker.stop(),
                None => self.report_for(ticket, Report::Returned { result: build::never_ran() }.of(ticket)),
            },
            Directive::StartTask(ticket) | Directive::PartTask(ticket) => self.see_to_task(ticket),
            Directive::StopTask(ticket) => self.stop_task(ticket),
            Directive::Reply(to, reply) => self.slot.answer(to, reply.map_err(SendError::from)),
        }
    }

    pub(super) fn report(&self, report: Input) {
        self.slot.report(self.life, report);
    }

    /// Reports in the place of a worker that is not there: it was never started. One that has reported needs no second word, however
    /// often it is told to stop while the disk refuses.
    fn report_for(&self, ticket: Seq, report: Input) {
        if !self.is_reported(ticket) {
            self.report(report);
        }
    }

    pub(super) fn post(&self, ticket: Seq) -> Post {
        let turn = self.state.turn.as_ref();
        Post {
            host: self.host.clone(),
            slot: self.slot.clone(),
            life: self.life,
            ticket,
            turn: turn.map(|turn| turn.id),
            step: turn.map(|turn| turn.step),
        }
    }

    fn start_request(&mut self, ticket: Seq) {
        // A stop may have overtaken a start that waited for the tape; its report is on the way then.
        let Some(Open::Request(open)) = self.state.open.get(&ticket) else { return };
        if open.closing {
            return;
        }
        let model = open.model.clone();
        let request = build::request(&self.host, &self.state, ticket, open);
        let doing = format!(
            "model {model}{}",
            if open.attempt > 1 { format!(", try {}", open.attempt) } else { String::new() }
        );
        let card = self.host.registry.worker(&self.card, &format!("request {ticket}"), "request", doing);
        self.requests.insert(ticket, RequestWorker::start(self.post(ticket), model, request, card));
        fault!(self.host.store.faults(), "session.request_started", self.slot.id.as_str());
    }

    fn start_compaction(&mut self, ticket: Seq) {
        let Some(asked) = compaction_prompt(&self.state, ticket) else { return };
        let card = self.host.registry.worker(
            &self.card,
            &format!("compaction {ticket}"),
            "compaction",
            asked.model.to_string(),
        );
        self.compactions.insert(ticket, SummaryWorker::start(self.post(ticket), asked, card));
    }

    fn start_call(&mut self, ticket: Seq) {
        let Some(Open::Call(open)) = self.state.open.get(&ticket) else { return };
        if open.state != CallState::Running {
            return;
        }
        match build::call(&self.host, &self.state, ticket, open) {
            Ok((call, tool, context)) => {
                let id = format!("{} {ticket}", open.facts.tool);
                let card = self.host.registry.worker(&self.card, &id, "call", build::call_title(open));
                self.calls.insert(ticket, CallWorker::start(self.post(ticket), call, tool, context, card));
                fault!(self.host.store.faults(), "session.call_started", self.slot.id.as_str());
            }
            Err(result) => self.report(Report::Returned { result }.of(ticket)),
        }
    }

    /// A worker that has reported is down.
    pub(super) fn forget_worker(&mut self, input: &Input) {
        let Some(ticket) = input.reported() else { return };
        self.requests.remove(&ticket);
        self.calls.remove(&ticket);
        self.compactions.remove(&ticket);
        self.children.forget(ticket);
    }
}
