//! Questions to the person in front of the editor: a call that needs a yes, a question of a running call, a limit of a budget.
//!
//! A question names its ask in each option, and its answer is for what was shown ([`Session::answer_shown`]) or it is refused. So an
//! answer for another ask, a made-up option and an answer that comes twice decide nothing. What is answered elsewhere is taken down
//! here by dropping the future: the client is then told that the request is cancelled.

use std::sync::Arc;

use serde_json::{Value, json};
use tamtam::{
    EventKind, SendError, Seq, Session,
    permission::Offer,
    session::{Grant, Refusal, Scope},
    tool::Question,
};

use crate::{calls, peer::Peer};

/// How often a client is asked whose answers are none.
const TRIES_MAX: u32 = 3;

/// What the model is told of a call that was not allowed.
const NO: &str = "The user did not allow this call.";

/// An open ask, as the client is shown it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) ask: Seq,
    /// The fields of the call.
    pub(crate) call: Value,
    pub(crate) offers: Vec<Offer>,
    /// What an answer is for; `None` for an ask about a budget.
    pub(crate) digest: Option<String>,
    pub(crate) question: Option<Arc<Question>>,
}

impl Asked {
    /// The ask of an event; `None` for any other event. `known` is the id of the call, if the client has seen it.
    pub(crate) fn of(kind: &EventKind, workspace: &std::path::Path, known: Option<&str>) -> Option<Asked> {
        match kind {
            EventKind::Ask { ask, name, input, from, offers, question, digest, .. } => {
                let mut call = calls::facts(name, input, workspace);
                // A child numbers its calls for itself.
                let known = known.filter(|_| from.is_empty());
                call["toolCallId"] = known.map_or_else(|| format!("ask-{ask}"), str::to_owned).into();
                call["name"] = name.as_str().into();
                if let Some(child) = from.last() {
                    call["title"] = format!("{}: {}", child.agent, call["title"].as_str().unwrap_or(name)).into();
                }
                let (offers, question) = (offers.clone(), question.clone());
                Some(Asked { ask: *ask, call, offers, digest: Some(digest.clone()), question })
            }
            EventKind::Budget { ask: Some(ask), text, .. } => Some(Asked::of_budget(*ask, text)),
            _ => None,
        }
    }

    pub(crate) fn of_budget(ask: Seq, text: &str) -> Asked {
        let call = json!({
            "toolCallId": format!("ask-{ask}"), "title": "Raise the limit of the budget?", "kind": "other",
            "content": [calls::said(text)],
        });
        Asked { ask, call, offers: Vec::new(), digest: None, question: None }
    }

    /// Each option with the answer that it stands for.
    fn options(&self) -> Vec<(Value, Grant)> {
        let option = |id: &str, name: &str, kind: &str| json!({ "optionId": format!("{}:{id}", self.ask), "name": name, "kind": kind });
        if self.digest.is_none() {
            return vec![
                (option("once", "Raise it by its own size", "allow_once"), Grant::Once),
                (option("always", "Remove the limit", "allow_always"), Grant::Always(Scope::Session)),
                (option("stop", "Stop here", "reject_once"), Grant::Reject(None)),
            ];
        }
        let mut options = vec![(option("once", "Allow once", "allow_once"), Grant::Once)];
        options.extend(self.offers.iter().map(|offer| {
            let name = format!("For this session: {}", offer.allows);
            let grant = Grant::Offered { scope: Scope::Session, offer: offer.offer };
            (option(&format!("offer-{}", offer.offer), &name, "allow_always"), grant)
        }));
        options.push((option("no", "Do not allow, and go on", "reject_once"), Grant::Reject(Some(NO.to_owned()))));
        options.push((option("stop", "Do not allow, and stop", "reject_once"), Grant::Reject(None)));
        options
    }

    /// The call with the words of its question.
    fn shown(&self) -> Value {
        let mut call = self.call.clone();
        if let Some(question) = &self.question {
            call["title"] = calls::cut(&question.title).into();
            if !question.details.is_empty() {
                call["content"] = json!([calls::said(&question.details)]);
            }
        }
        call
    }

    /// Whether it is a question in words, which no rule answers.
    fn is_in_words(&self) -> bool {
        self.question.as_ref().is_some_and(|question| question.access.is_empty() && self.offers.is_empty())
    }
}

/// How a client answers.
pub(crate) struct Answers {
    pub(crate) peer: Peer,
    /// The client's name, kept with each answer.
    pub(crate) who: String,
    /// Whether the client shows forms.
    pub(crate) has_forms: bool,
}

impl Answers {
    /// Asks the person, and answers the ask. Ends without an answer where the client is gone, or gave none that is one: then the ask
    /// is open until its limit, for every other listener. Dropping the future takes the question down.
    pub(crate) async fn put(&self, session: &Session, asked: &Asked) {
        for _ in 0..TRIES_MAX {
            let answer = match self.has_forms && asked.is_in_words() {
                true => self.form(session, asked).await,
                false => self.permission(session, asked).await,
            };
            let Some(answer) = answer else { return };
            let Some(grant) = answer else { continue };
            let who = self.who.clone();
            let done = match &asked.digest {
                Some(digest) => session.answer_shown(asked.ask, grant, digest.clone(), Some(who)).await,
                None => session.answer_as(asked.ask, grant, who).await,
            };
            match done {
                // Answered elsewhere at the same moment.
                Ok(()) | Err(SendError::Refused(Refusal::AskClosed { .. })) => {}
                Err(error) => {
                    tracing::warn!(session = %session.id(), ask = %asked.ask, %error, "an answer was not taken")
                }
            }
            return;
        }
    }

    /// The outer `None`: nobody answers. The inner one: the answer is none.
    async fn permission(&self, session: &Session, asked: &Asked) -> Option<Option<Grant>> {
        let options = asked.options();
        let shown: Vec<_> = options.iter().map(|(option, _)| option).collect();
        let request = json!({ "sessionId": session.id(), "toolCall": asked.shown(), "options": shown });
        let answer = match self.peer.ask("session/request_permission", request).await.ok()? {
            Ok(answer) => answer,
            // This client asks nobody.
            Err(_) => return Some(Some(Grant::Unheard)),
        };
        let outcome = &answer["outcome"];
        if outcome["outcome"] == "cancelled" {
            return Some(Some(Grant::Reject(None)));
        }
        let chosen = Some(&outcome["optionId"]).filter(|_| outcome["outcome"] == "selected");
        Some(options.into_iter().find(|(option, _)| Some(&option["optionId"]) == chosen).map(|(_, grant)| grant))
    }

    async fn form(&self, session: &Session, asked: &Asked) -> Option<Option<Grant>> {
        let question = asked.question.as_ref()?;
        let message = match question.details.as_str() {
            "" => question.title.clone(),
            details => format!("{}\n\n{details}", question.title),
        };
        let yes_or_no = json!([{ "const": "yes", "title": "Yes" }, { "const": "no", "title": "No" }]);
        let schema = json!({
            "type": "object",
            "properties": {
                "answer": { "type": "string", "title": "Answer", "oneOf": yes_or_no, "default": "yes" },
                "words": { "type": "string", "title": "In words, for a no" },
            },
            "required": ["answer"],
        });
        let request = json!({
            "sessionId": session.id(), "mode": "form", "message": message, "requestedSchema": schema,
            "toolCallId": asked.call["toolCallId"],
        });
        let answer = match self.peer.ask("elicitation/create", request).await.ok()? {
            Ok(answer) => answer,
            Err(_) => return Some(Some(Grant::Unheard)),
        };
        let words = answer["content"]["words"].as_str().map(str::trim).filter(|words| !words.is_empty());
        Some(match (answer["action"].as_str(), answer["content"]["answer"].as_str()) {
            (Some("accept"), Some("yes")) => Some(Grant::Once),
            (Some("accept"), Some("no")) => Some(Grant::Reject(Some(words.unwrap_or("No.").to_owned()))),
            (Some("decline"), _) => Some(Grant::Reject(Some("No.".to_owned()))),
            (Some("cancel"), _) => Some(Grant::Reject(None)),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn asked(from: Value) -> Asked {
        let ask = json!({
            "event": "ask", "ask": 17, "call": "c", "name": "bash", "input": "{\"command\":\"make\"}", "access": [],
            "expires": 0, "from": from, "digest": "d",
            "offers": [{ "offer": 1, "rules": [], "allows": "Allows the command `make`, exactly." }],
        });
        Asked::of(&serde_json::from_value(ask).unwrap(), "/w".as_ref(), Some("known")).unwrap()
    }

    /// Each option names its ask, says what it allows in words, and stands for one answer.
    #[test]
    fn the_options_are_the_offers_in_words() {
        let options = asked(json!([])).options();
        let shown: Vec<_> = options.iter().map(|(option, _)| option["optionId"].as_str().unwrap()).collect();
        assert_eq!(shown, ["17:once", "17:offer-1", "17:no", "17:stop"]);
        assert_eq!(options[1].0["name"], "For this session: Allows the command `make`, exactly.");
        assert_eq!(options[1].1, Grant::Offered { scope: Scope::Session, offer: 1 });
        assert!(matches!(&options[2].1, Grant::Reject(Some(_))) && options[3].1 == Grant::Reject(None));
        let of_budget: Vec<_> =
            Asked::of_budget(Seq(3), "10 of 10").options().into_iter().map(|(_, grant)| grant).collect();
        assert_eq!(of_budget, [Grant::Once, Grant::Always(Scope::Session), Grant::Reject(None)]);
    }

    /// The call of a child is none of the session's, whatever its number; and the child is named.
    #[test]
    fn the_question_of_a_child_is_about_a_call_of_its_own() {
        let own = asked(json!([])).call;
        assert_eq!((&own["toolCallId"], &own["title"]), (&json!("known"), &json!("make")));
        let of_child = asked(json!([{ "session": "s", "agent": "explore" }])).call;
        assert_eq!((&of_child["toolCallId"], &of_child["title"]), (&json!("ask-17"), &json!("explore: make")));
    }
}
