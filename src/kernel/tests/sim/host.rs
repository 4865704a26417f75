//! Who sends: what was said, what was acknowledged, and what was promised by that.

use std::collections::{BTreeMap, BTreeSet};

use tamtam::{
    Message, MessageId, Seq,
    kernel::{CarriedOut, Delivery, Disposition, Entry, Receipt, Record, Refusal, Reply, ReplyTo, State},
    model::Item,
};

use super::{Broken, hold};

/// What a host asked for.
#[derive(Clone, Debug)]
pub(super) enum Wish {
    Send(MessageId),
    Edit(MessageId, String),
    Withdraw(MessageId),
    Other,
}

/// What a host knows of a message.
#[derive(Debug, Default)]
struct Known {
    receipt: Option<Receipt>,
    /// What it may say: the words acknowledged last, and words sent since without an answer.
    texts: Vec<String>,
    /// Taken back, and told so.
    withdrawn: bool,
    /// Taken back perhaps: the answer was lost.
    withdrawing: bool,
    /// The model has read it, as the tape said at the last look.
    was_read: bool,
}

/// The host: it remembers what it was promised.
#[derive(Debug, Default)]
pub(super) struct Host {
    /// Taken back with the conversation they were in; their receipts stand.
    pub(super) gone: BTreeSet<MessageId>,
    /// Taken as steering, as the tape says.
    steering: BTreeSet<MessageId>,
    messages: BTreeMap<MessageId, Known>,
    wishes: BTreeMap<ReplyTo, Wish>,
    replies: u64,
    /// Sends of a message whose answer was lost with a process.
    unsure: BTreeSet<MessageId>,
    /// Refused by the disk or by a crash, and never sent otherwise: they are nowhere.
    never: BTreeSet<MessageId>,
    /// Whether the host has ended the session. An end that waits with an owner of before takes back what was sent after it too.
    ends: bool,
    /// What the ids of its messages begin with.
    prefix: String,
}

impl Host {
    /// The host of a fork: it knows what was said by then, and what its senders were told.
    pub(super) fn of_fork(whole: &State, generation: u32) -> Host {
        let mut host = Host { prefix: format!("fork-{generation}-{}-", whole.seq), ..Host::default() };
        for item in whole.history.iter() {
            let Item::User(user) = item.as_ref() else { continue };
            let Some(seen) = whole.seen.get(&user.id).filter(|_| !user.id.as_str().starts_with("task-")) else {
                continue;
            };
            let (seq, disposition) = (seen.seq, seen.disposition);
            let receipt = Receipt { message: user.id.clone(), seq, disposition, known_before: false };
            let texts = vec![Message { parts: user.parts.clone(), ..Message::user("") }.text()];
            host.messages.insert(user.id.clone(), Known { receipt: Some(receipt), texts, ..Known::default() });
        }
        host
    }

    /// Says whom to answer.
    pub(super) fn wish(&mut self, wish: Wish) -> ReplyTo {
        match &wish {
            Wish::Edit(id, text) => self.messages.entry(id.clone()).or_default().texts.push(text.clone()),
            Wish::Withdraw(id) => self.messages.entry(id.clone()).or_default().withdrawing = true,
            Wish::Send(id) => {
                self.never.remove(id);
            }
            Wish::Other => {}
        }
        self.replies += 1;
        let reply = ReplyTo(self.replies);
        self.wishes.insert(reply, wish);
        reply
    }

    /// A new message, known from now on.
    pub(super) fn write(&mut self) -> Message {
        let id = MessageId::from(format!("{}m{}", self.prefix, self.messages.len()));
        let text = format!("text of {id}");
        self.messages.insert(id.clone(), Known { texts: vec![text.clone()], ..Known::default() });
        Message::user(text).with_id(id)
    }

    /// Every message so far.
    pub(super) fn ids(&self) -> Vec<MessageId> {
        self.messages.keys().cloned().collect()
    }

    /// The words a message was written with.
    pub(super) fn again(&self, id: &MessageId) -> Message {
        Message::user(format!("text of {id}")).with_id(id.clone())
    }

    /// Hears an answer: the shell released it.
    pub(super) fn hear(&mut self, to: ReplyTo, reply: &Reply) -> Result<(), Broken> {
        let Some(wish) = self.wishes.remove(&to) else {
            return Err(format!("{to:?} was answered twice, or never asked"));
        };
        match (wish, reply) {
            (Wish::Send(id), Ok(CarriedOut::Receipt(receipt))) => {
                let known = self.messages.entry(id.clone()).or_default();
                hold!(receipt.message == id, "the receipt of {id} names {}", receipt.message);
                let Some(first) = &known.receipt else {
                    known.receipt = Some(receipt.clone());
                    return Ok(());
                };
                // An owner that lost the session may say late what it wrote first.
                let known_before = !first.known_before || receipt.known_before;
                let again = Receipt { known_before, ..first.clone() };
                hold!(again == *receipt, "the same id got two receipts: {first:?}, then {receipt:?}");
            }
            (Wish::Send(id), Ok(_)) => return Err(format!("the send of {id} got no receipt")),
            (Wish::Send(_), Err(_)) => {}
            (Wish::Edit(id, text), Ok(_)) => {
                // Edits sent before this one are overwritten by it, but for those that still wait with an owner of before; one sent
                // since may or may not have been taken.
                let waits = |edit: &String| {
                    self.wishes.values().any(|wish| matches!(wish, Wish::Edit(of, text) if *of == id && text == edit))
                };
                let texts = &mut self.messages.entry(id.clone()).or_default().texts;
                if let Some(at) = texts.iter().position(|known| *known == text) {
                    let before: Vec<_> = texts.drain(..at).filter(waits).collect();
                    texts.splice(..0, before);
                }
            }
            (Wish::Edit(id, text), Err(_)) => {
                self.messages.entry(id).or_default().texts.retain(|known| *known != text);
            }
            (Wish::Withdraw(id), Ok(_)) => self.messages.entry(id).or_default().withdrawn = true,
            (Wish::Withdraw(_), Err(Refusal::NotWaiting { .. })) | (Wish::Other, _) => {}
            (Wish::Withdraw(id), Err(other)) => return Err(format!("withdrawing {id} was refused: {other}")),
        }
        Ok(())
    }

    /// It was not taken, or the disk did not take it, or it is poison: it never takes effect.
    pub(super) fn not_taken(&mut self, to: ReplyTo) -> Result<(), Broken> {
        if to == ReplyTo::NOBODY {
            return Ok(());
        }
        let Some(wish) = self.wishes.remove(&to) else {
            return Err(format!("{to:?} was answered twice, or never asked"));
        };
        match wish {
            Wish::Edit(id, text) => self.messages.entry(id).or_default().texts.retain(|known| *known != text),
            Wish::Send(id) => {
                let again = self.wishes.values().any(|wish| matches!(wish, Wish::Send(other) if *other == id));
                let known = self.messages.get(&id).is_some_and(|known| known.receipt.is_some());
                if !again && !known && !self.unsure.contains(&id) {
                    self.never.insert(id);
                }
            }
            Wish::Withdraw(_) | Wish::Other => {}
        }
        Ok(())
    }

    /// The runtime died: what was not answered will not be.
    pub(super) fn hang_up(&mut self) {
        let sent = self.wishes.values().filter_map(|wish| match wish {
            Wish::Send(id) => Some(id.clone()),
            _ => None,
        });
        self.unsure.extend(sent);
        self.wishes.clear();
    }

    /// Somebody else may take that message back.
    pub(super) fn may_withdraw(&mut self, id: &str) {
        if let Some(known) = self.messages.get_mut(&MessageId::from(id)) {
            known.withdrawing = true;
        }
    }

    /// The host ends the session: what waits in it is taken back.
    pub(super) fn end(&mut self) -> ReplyTo {
        self.ends = true;
        self.wish(Wish::Other)
    }

    /// Whether somebody waits for an answer.
    pub(super) fn waits(&self) -> bool {
        !self.wishes.is_empty()
    }

    /// Looks over a whole tape: what of it was taken back, and how each message was taken.
    pub(super) fn look_over(&mut self, written: &[Entry]) {
        self.gone = super::back::gone(written);
        written.iter().for_each(|line| self.look_at(line));
    }

    /// Looks at the next entry of the tape: how a message was taken.
    pub(super) fn look_at(&mut self, line: &Entry) {
        let Record::Accepted { message, delivery, .. } = &line.record else { return };
        match delivery {
            Delivery::Steer(_) => self.steering.insert(message.id.clone()),
            Delivery::Queue | Delivery::Reject => self.steering.remove(&message.id),
        };
    }

    /// Promise 1: what was acknowledged is there once, or was taken back; nothing is there twice; all of it in order.
    /// `state` is the fold that knows no compaction: its history is the whole conversation. An end of the session takes back what
    /// waits, and nothing that was read.
    pub(super) fn check(&mut self, state: &State) -> Result<(), Broken> {
        let mut read: BTreeMap<&MessageId, (usize, String)> = BTreeMap::new();
        let mut order: BTreeMap<bool, Seq> = BTreeMap::new();
        for item in state.history.iter() {
            let Item::User(user) = item.as_ref() else { continue };
            // What was merged was said to another session; news of that one's children too.
            let is_known = self.messages.contains_key(&user.id) || state.seen.get(&user.id).is_some();
            let merged = ["fork-", "task-"].iter().any(|own| user.id.as_str().starts_with(own)) && !is_known;
            // News of two sessions' children may go by the same name.
            let merged = merged || (state.merged.is_some() && user.id.as_str().starts_with("task-"));
            if ["branch-", "hooks-"].iter().any(|own| user.id.as_str().starts_with(own)) || merged {
                continue;
            }
            let said = Message { parts: user.parts.clone(), ..Message::user("") }.text();
            let times = read.entry(&user.id).or_insert((0, said));
            times.0 += 1;
            let Some(seen) = state.seen.get(&user.id) else {
                return Err(format!("{} was read and is not known", user.id));
            };
            // News of children are no messages of a host: their receipt says how they were taken.
            let steers = seen.disposition == Disposition::Steering || self.steering.contains(&user.id);
            let before = order.entry(steers).or_default();
            hold!(*before < seen.seq, "{} was read out of order", user.id);
            *before = seen.seq;
        }
        let mut waits: BTreeMap<&MessageId, (usize, String)> = BTreeMap::new();
        for waiting in state.queue.iter().chain(&state.steering) {
            waits.entry(&waiting.message.id).or_insert((0, waiting.message.text())).0 += 1;
        }
        for (id, known) in &mut self.messages {
            let times = |there: &BTreeMap<&MessageId, (usize, String)>| there.get(id).map_or(0, |(times, _)| *times);
            let (was_read, still_waits) = (times(&read), times(&waits));
            let there = was_read + still_waits;
            hold!(there <= 1, "{id} is there twice: read {was_read} times, waiting {still_waits} times");
            hold!(!(known.withdrawn && there > 0), "{id} was taken back and is there");
            let never = self.never.contains(id) && (there > 0 || state.seen.get(id).is_some());
            hold!(!never, "{id} was not recorded, its sender was told so, and it took effect");
            let taken_back = known.withdrawing || self.gone.contains(id) || (self.ends && !known.was_read);
            let lost = known.receipt.is_some() && there == 0 && !taken_back;
            known.was_read = was_read > 0;
            hold!(!(self.gone.contains(id) && there > 0), "{id} was rolled back and is there");
            hold!(!lost, "{id} was acknowledged and is lost");
            if let Some((_, said)) = read.get(id).or_else(|| waits.get(id)) {
                hold!(known.texts.contains(said), "{id} says {said:?}, and may say {:?}", known.texts);
            }
        }
        Ok(())
    }
}
