//! The answer to an ask: what a person said about a call, and what follows from it for the call and for those that wait beside it.
//!
//! An ask of a child goes on to the child (`task_ask.rs`), and one for more of a budget to the account (`spending.rs`). What the
//! rules of a standing grant allow is decided in `grants.rs`.
//!
//! A change must keep that an answer counts for what the person was shown: a digest that does not fit is refused.

use crate::{
    kernel::{
        CallVerdict, CarriedOut, Grant, Open, OpenAsk, OpenTaskAsk, Outcome, Record, Refusal,
        budget::spending,
        draft::{Decide, Draft},
        turn::{
            batch::{fail, release_granted},
            grants, question,
        },
    },
    permission::{Rule, offers},
    tape::Cause,
    tool::Access,
    words::ids::Seq,
};

/// A host answers an ask.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AnswerAsk {
    /// Which ask.
    pub ask: Seq,
    /// What the person said.
    pub grant: Grant,
    /// Who the person is, as the host says.
    pub who: Option<String>,
    /// The rules of a standing grant, where they were chosen before: on the parent's tape, or on this one. `None` for a host.
    pub rules: Option<Vec<Rule>>,
    /// The digest of what the person was shown (`question::digest`): the answer is for that and nothing else. `None`
    /// where the host does not say.
    pub digest: Option<String>,
}

impl Decide for AnswerAsk {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        draft.cause = Some(Cause::Entry(self.ask));
        let (ask, grant, who) = (self.ask, &self.grant, named(self.who.as_ref()));
        if let (Some(shown), Some(digest)) = (&self.digest, draft.state.digest_of(ask))
            && *shown != digest
        {
            return Err(Refusal::NotShown { ask });
        }
        if let Some(Open::TaskAsk(open)) = draft.state.open.get(&ask).cloned() {
            return answer_child(draft, self, &open);
        }
        let Some(Open::Ask(OpenAsk { call, access, question, .. })) = draft.state.open.get(&ask) else {
            return spending::answer(draft, ask, grant, who);
        };
        if matches!(grant, Grant::Raise(_)) {
            return Err(Refusal::NotABudget { ask });
        }
        let (grant, rules) = chosen(self, access, draft.state.grants.len() >= grants::GRANTS_MAX)?;
        let (call, is_question) = (*call, question.is_some());
        let seq = draft.write(Some(ask), Record::Granted { grant: grant.clone(), who, rules });
        match grant {
            Grant::Once | Grant::Raise(_) => {}
            // A running call is told, and goes on.
            Grant::Unheard if is_question => {}
            Grant::Unheard => {
                fail(draft, call, CallVerdict::Unheard, "Permission denied: nobody was left whom to ask.")
            }
            Grant::Always(_) | Grant::Offered { .. } => release_granted(draft),
            Grant::Reject(_) if is_question => question::answered(draft, call, &grant),
            Grant::Reject(Some(message)) => {
                fail(draft, call, CallVerdict::Rejected, format!("This call was rejected: {message}"));
            }
            Grant::Reject(None) => {
                let tool = draft.state.call(call).map_or_else(String::new, |call| call.facts.tool.clone());
                fail(draft, call, CallVerdict::Rejected, "The user rejected this call.");
                draft.write(None, Record::Ending { outcome: Outcome::Rejected { tool } });
            }
        }
        Ok(CarriedOut::Done(seq))
    }

    fn in_words(&self) -> String {
        let AnswerAsk { ask, grant, .. } = self;
        match grant {
            Grant::Once => format!("ask {ask} was granted once"),
            Grant::Always(_) | Grant::Offered { .. } => format!("ask {ask} was granted for more than once"),
            Grant::Reject(_) => format!("ask {ask} was rejected"),
            Grant::Unheard => format!("nobody was left to answer ask {ask}"),
            Grant::Raise(_) => format!("ask {ask} was answered with a higher limit"),
        }
    }

    fn about(&self) -> Option<Seq> {
        Some(self.ask)
    }

    fn stops(&self) -> bool {
        matches!(self.grant, Grant::Reject(_) | Grant::Unheard)
    }
}

/// The longest name of a person who answers, in bytes.
const WHO_BYTES_MAX: usize = 256;

/// The name of a person as a tape has it: at most 256 bytes.
fn named(who: Option<&String>) -> Option<String> {
    who.filter(|who| !who.is_empty()).map(|who| who[..who.floor_char_boundary(WHO_BYTES_MAX)].to_owned())
}

/// Takes a person's answer to a child's question. The child is told until it has it.
fn answer_child(draft: &mut Draft<'_>, given: &AnswerAsk, open: &OpenTaskAsk) -> Result<CarriedOut, Refusal> {
    let AnswerAsk { ask, grant, who, .. } = given;
    match grant {
        _ if open.answer.is_some() => Err(Refusal::AskClosed { ask: *ask }),
        Grant::Raise(_) => Err(Refusal::NotABudget { ask: *ask }),
        _ => {
            let (grant, rules) = chosen(given, &open.asked.access, false)?;
            let answered = Record::Granted { grant, who: named(who.as_ref()), rules };
            Ok(CarriedOut::Done(draft.write(Some(*ask), answered)))
        }
    }
}

/// What the tape gets for an answer about these accesses: the answer, and the rules that stand from then on. `is_full` says
/// whether the session has as many standing grants as it may.
///
/// # Errors
/// Where there is no such offer, and where a host's answer is one grant too many. Rules that come with the answer were chosen
/// before, on the parent's tape or on this one: such an answer is never refused, and counts as `Once` if there is no room.
fn chosen(given: &AnswerAsk, accesses: &[Access], is_full: bool) -> Result<(Grant, Vec<Rule>), Refusal> {
    let AnswerAsk { ask, grant, rules, .. } = given;
    let Some((_, number)) = grant.standing() else { return Ok((grant.clone(), Vec::new())) };
    if let Some(rules) = rules {
        return Ok(if is_full { (Grant::Once, Vec::new()) } else { (grant.clone(), rules.clone()) });
    }
    let mut offers = offers(accesses);
    if offers.is_empty() && number == 1 {
        return Ok((Grant::Once, Vec::new()));
    }
    let last = offers.len();
    match offers.iter_mut().find(|offer| offer.offer == number) {
        Some(_) if is_full => Err(Refusal::TooManyGrants { max: grants::GRANTS_MAX }),
        Some(offer) => Ok((grant.clone(), std::mem::take(&mut offer.rules))),
        None => Err(Refusal::NoSuchOffer { ask: *ask, offer: number, last }),
    }
}
