//! Standing grants: the rules that people gave to a session with their answers, for the running turn or for longer.
//!
//! A grant loosens an ask and never a deny. It is looked at after all rules, so it also answers an ask that a rule of an ancestor
//! makes: asks of children are passed up and put to the people of the topmost session (`task_ask.rs`). The rules of a grant are
//! those of the offer that the person chose (`permission::offers`). They are on the tape with the answer, so an offer that a later
//! version words or cuts differently changes nothing that was granted. Rules that a host keeps for longer than one session
//! ([`Settings::granted`]) count in the same way.
//!
//! A change must keep that a tape replays to the same decisions. [`Granted`] is a stored format.

use crate::{
    kernel::{
        AskAnswer, CarriedOut, Granted, Record, Refusal, Scope, Settings, State,
        draft::{Decide, Draft},
    },
    permission::{Action, Globs, Judgement, Rule, bound_text, grants, stays_in},
    tool::Access,
    words::ids::Seq,
};

/// The most standing grants of a session. With so many, a further one is refused, or counts as `Once` (`answer_ask.rs`).
pub(in crate::kernel) const GRANTS_MAX: usize = 200;

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

/// A host takes all standing grants of the session back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RevokeAll;

impl Decide for RevokeAll {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        let granted: Vec<Seq> = draft.state.grants.iter().map(|granted| granted.id).collect();
        let revoked = granted.into_iter().map(|grant| draft.write(None, Record::Revoked { grant })).last();
        Ok(CarriedOut::Done(revoked.unwrap_or(draft.state.seq)))
    }

    fn in_words(&self) -> String {
        "all standing grants were revoked".to_owned()
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
