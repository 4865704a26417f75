//! Standing grants: the rules that people gave to a session with their answers, for the running turn or for longer.
//!
//! A grant loosens an ask and never a deny. It is looked at after all rules, so it also answers an ask that a rule of an ancestor
//! makes: asks of children are passed up and put to the people of the topmost session (`task_ask.rs`). The rules of a grant are
//! those of the offer that the person chose ([`offers`]). They stand on the tape with the answer, so an offer that a later version
//! words or cuts differently changes nothing that was granted. Rules that a host keeps for longer than one session
//! ([`Settings::granted`]) count in the same way.
//!
//! A change must keep that a tape replays to the same decisions. [`Granted`] is a stored format.

use serde::{Deserialize, Serialize};

use crate::{
    kernel::{
        AskAnswer, CarriedOut, Grant, Record, Refusal, Scope, Settings, State, decide::Draft, input::Decide,
        turn::answer_ask::AnswerAsk,
    },
    permission::{Action, Globs, Judgement, Rule, allows, bound_text, grants, offers, stays_in},
    tool::Access,
    words::ids::{Millis, Seq},
};

/// The most standing grants of a session. With so many, a further one is refused, or counts as `Once` ([`chosen`]).
pub(in crate::kernel) const GRANTS_MAX: usize = 200;

/// A standing grant. Part of the stored form of a state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Granted {
    /// The entry that gave it: [`Session::revoke`](crate::Session::revoke) takes it back.
    pub id: Seq,
    /// How far it reaches.
    pub scope: Scope,
    /// The turn that it is limited to; `None` for the whole session.
    pub turn: Option<Seq>,
    /// What it allows.
    pub rules: Vec<Rule>,
    /// Who gave it, as the host says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// When it was given.
    pub time: Millis,
}

impl Granted {
    /// What it allows, in one sentence for a person.
    #[must_use]
    pub fn allows(&self) -> String {
        allows(&self.rules)
    }
}

/// A host takes a standing grant back.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RevokeGrant {
    /// Its id.
    pub grant: Seq,
}

impl Decide for RevokeGrant {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        let RevokeGrant { grant } = *self;
        match draft.state.grants.iter().any(|granted| granted.id == grant) {
            true => Ok(CarriedOut::Done(draft.write(None, Record::Revoked { grant }))),
            false => Err(Refusal::NoSuchGrant { grant }),
        }
    }

    fn in_words(&self) -> String {
        format!("grant {} was revoked", self.grant)
    }

    fn about(&self) -> Option<Seq> {
        Some(self.grant)
    }
}

/// What the tape gets for an answer about these accesses: the answer, and the rules that stand from then on. `is_full` says
/// whether the session has as many standing grants as it may.
///
/// # Errors
/// Where there is no such offer, and where a host's answer is one grant too many. Rules that come with the answer were chosen
/// before, on the parent's tape or on this one: such an answer is never refused, and counts as `Once` if there is no room.
pub(in crate::kernel) fn chosen(
    given: &AnswerAsk,
    accesses: &[Access],
    is_full: bool,
) -> Result<(Grant, Vec<Rule>), Refusal> {
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
        Some(_) if is_full => Err(Refusal::TooManyGrants { max: GRANTS_MAX }),
        Some(offer) => Ok((grant.clone(), std::mem::take(&mut offer.rules))),
        None => Err(Refusal::NoSuchOffer { ask: *ask, offer: number, last }),
    }
}

impl Settings {
    /// Whether what people granted for longer than this session ([`Settings::granted`]) answers what the rules ask about these
    /// accesses. What the rules deny stays denied: look at [`Settings::judge`] first.
    #[must_use]
    pub fn grants(&self, accesses: &[Access], globs: &Globs) -> bool {
        let rules: Vec<_> = self.granted.iter().collect();
        self.allows_rest(&self.left(&rules, accesses, globs), accesses, globs)
    }

    /// Whether these are parts of a command of which one decides what another one does ([`bound_text`]). To go to the folder where the
    /// command begins anyway changes nothing.
    pub(in crate::kernel) fn is_bound(&self, accesses: &[Access]) -> bool {
        let moving = |access: &&Access| !stays_in(access, &self.workspace);
        bound_text(&accesses.iter().filter(moving).cloned().collect::<Vec<_>>()).is_some()
    }

    /// The accesses that none of these granted rules takes. Parts of a command of which one decides what another one does are taken
    /// together, by a rule with the whole text, or not at all.
    fn left(&self, rules: &[&Rule], accesses: &[Access], globs: &Globs) -> Vec<Access> {
        let is_granted = |text: String| {
            let whole = Access::new("bash", text);
            rules.iter().any(|rule| rule.exact && grants([*rule], &whole, globs))
        };
        let (is_bound, is_whole) = (self.is_bound(accesses), bound_text(accesses).is_some_and(is_granted));
        let is_taken = |access: &Access| match access.permission.as_str() {
            "bash" if is_bound || is_whole => is_whole,
            _ => grants(rules.iter().copied(), access, globs),
        };
        accesses.iter().filter(|access| !is_taken(access)).cloned().collect()
    }

    /// Whether some of these accesses are granted, and the rules allow the others.
    fn allows_rest(&self, left: &[Access], accesses: &[Access], globs: &Globs) -> bool {
        left.len() < accesses.len() && (left.is_empty() || self.judge(left, globs).action == Action::Allow)
    }
}

impl State {
    /// The decision about all that is wanted, by the rules of the settings and by the standing grants.
    pub(in crate::kernel) fn judge(&self, accesses: &[Access], globs: &Globs) -> Judgement {
        let judged = self.settings.judge(accesses, globs);
        match judged.action {
            Action::Ask if self.is_granted(accesses, globs) => {
                Judgement { action: Action::Allow, rule: None, layer: "granted".to_owned() }
            }
            _ => judged,
        }
    }

    /// Whether standing grants answer what would be asked about these accesses. A call that names no access has nothing that could
    /// have been granted.
    pub(in crate::kernel) fn is_granted(&self, accesses: &[Access], globs: &Globs) -> bool {
        if accesses.is_empty() || (self.grants.is_empty() && self.settings.granted.is_empty()) {
            return false;
        }
        let turn = self.turn.as_ref().map(|turn| turn.id);
        let standing = self.grants.iter().filter(|granted| granted.turn.is_none() || granted.turn == turn);
        let rules: Vec<_> = standing.flat_map(|granted| &granted.rules).chain(&self.settings.granted).collect();
        self.settings.allows_rest(&self.settings.left(&rules, accesses, globs), accesses, globs)
    }

    /// The rules of a person's answer hold from here on.
    pub(in crate::kernel) fn stand(&mut self, answer: &AskAnswer) {
        let Some((scope, _)) = answer.grant.standing() else { return };
        let turn = self.turn.as_ref().map(|turn| turn.id).filter(|_| scope == Scope::Turn);
        let (rules, who) = (answer.rules.clone(), answer.who.clone());
        let granted = Granted { id: self.seq, scope, turn, rules, who, time: self.time };
        std::sync::Arc::make_mut(&mut self.grants).push(granted);
    }

    /// A standing grant is taken back.
    pub(in crate::kernel) fn revoke(&mut self, grant: Seq) {
        std::sync::Arc::make_mut(&mut self.grants).retain(|granted| granted.id != grant);
    }
}
