//! What becomes of a mailbox when an incarnation of its session (a start of the actor) begins, and when its actor does not come
//! back.
//!
//! The tape decides about the append that was in flight: if the tape has its entries, the replies hold; otherwise the inputs wait
//! again. An input over which two incarnations died is given up.
//!
//! The entries are compared, and not their numbers alone: over an engine whose claims can be lost, another owner may have had the
//! session between two incarnations, and an entry of that number is then the other's.
//!
//! A change must keep that each input of an earlier incarnation is on the tape, or waits again, or is given up; and that each
//! sender who still waits is answered once. Like the whole mailbox, this code takes no lock, reads no clock and waits for nothing.

use crate::kernel::{Command, Entry, Input, ReplyTo};

use super::{CommandEnd, DEATHS_MAX, Flight, Hand, Left, Mailbox, Waiting, failure};

impl Mailbox {
    /// Begins an incarnation. `recover` is its first input, and `has` says whether the tape has these entries. If it has the append
    /// that the predecessor had in flight, its senders are answered as decided; otherwise the inputs in hand wait again. Gives the
    /// answers.
    pub(crate) fn begin(
        &mut self,
        incarnation: u32,
        recover: Input,
        has: impl FnOnce(&[Entry]) -> bool,
    ) -> Vec<(ReplyTo, CommandEnd)> {
        self.incarnation = incarnation;
        (self.recover, self.timed, self.stopped, self.refused) = (Some(recover), None, None, None);
        let mut ends = Vec::new();
        match self.hand.take() {
            Some(Hand { flight: Some(Flight { entries, replies }), .. }) if entries.is_empty() || has(&entries) => {
                ends.extend(replies.into_iter().map(|(to, reply)| (to, CommandEnd::Decided(reply))));
            }
            Some(mut hand) => {
                hand.of.iter_mut().for_each(|(_, flags)| flags.deaths += 1);
                self.put_back(hand);
            }
            None => {}
        }
        // A connection that had a message is gone with the incarnation.
        let is_note = |input: &Input| matches!(input, Input::Command { command: Command::NoteSent(_), .. });
        self.waiting.retain(|_, waiting| !is_note(&waiting.input));
        for Waiting { input, flags } in self.waiting.values_mut() {
            (flags.tried, flags.stopped) = (false, false);
            if flags.deaths >= DEATHS_MAX
                && let Input::Report { ticket, report } = &input
            {
                *input = failure(report, "the session crashed twice on this report").of(*ticket);
                flags.deaths = 0;
            }
        }
        let poison = self.take_out(|waiting| waiting.flags.deaths >= DEATHS_MAX);
        ends.extend(poison.into_iter().map(|to| (to, CommandEnd::Crashed)));
        ends
    }

    /// Takes out the waiting commands. Reports stay for the next incarnation; stops stay too, unless `stops_too` is set. Gives the
    /// senders of all waiting commands to answer, also those of the stops that stay.
    pub(crate) fn take_waiting(&mut self, stops_too: bool) -> Vec<ReplyTo> {
        let told = self.waiting.values().filter_map(|waiting| waiting.input.reply()).collect();
        self.waiting.retain(|_, Waiting { input, .. }| input.reported().is_some() || (!stops_too && input.is_stop()));
        told
    }

    /// The commands in hand that wait for an answer, each with the reply that was decided.
    #[must_use]
    pub(crate) fn in_hand(&self) -> Vec<Left> {
        let Some(hand) = &self.hand else { return Vec::new() };
        let left = hand.inputs.iter().filter_map(|input| {
            let (reply, message) = (input.reply()?, input.message().cloned());
            let decided = hand.flight.as_ref().and_then(|Flight { entries, replies }| {
                let (_, decided) = replies.iter().find(|(to, _)| *to == reply)?;
                Some((entries.clone(), decided.clone()))
            });
            Some(Left { reply, message, decided })
        });
        left.collect()
    }

    /// Drops the inputs in hand, because the actor does not come back.
    pub(crate) fn drop_hand(&mut self) {
        self.hand = None;
    }

    /// Takes out a command whose sender no longer waits. Gives false if the command is in hand or is a stop: then it stays.
    pub(crate) fn withdraw(&mut self, reply: ReplyTo) -> bool {
        !self.take_out(|waiting| waiting.input.reply() == Some(reply) && !waiting.input.is_stop()).is_empty()
    }
}
