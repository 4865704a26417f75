//! What waits for a person, what people have allowed for longer, and the budget.

use axum::{Json, extract::State, http::StatusCode};
use serde_json::{Value, json};
use tamtam::{
    Seq,
    permission::offers,
    session::{OpenAsk, State as Conversation},
};

use crate::{
    app::{App, Granted, Named, Said, Seen},
    problem::Answered,
    wire::{AnswerJson, NewBudget},
};

/// The open asks: those of calls, those that children have handed up, and that of the budget.
pub(crate) async fn list(Seen(session): Seen) -> Answered<Json<Value>> {
    let state = session.peek().await?;
    let calls = state.asks().map(|(ask, open)| of_call(&state, ask, open));
    let tasks = state.task_asks().map(|(ask, open)| {
        let asked = &open.asked;
        json!({
            "ask": ask, "kind": "task", "name": asked.name, "input": asked.input, "access": asked.access,
            "expires": asked.expires, "question": asked.question, "from": asked.from, "offers": offers(&asked.access),
            "digest": asked.digest(),
        })
    });
    let budget = state.budget_ask().map(
        |(ask, open)| json!({ "ask": ask, "kind": "budget", "breach": open.breach.shown(), "expires": open.expires }),
    );
    let asks: Vec<Value> = calls.chain(tasks).chain(budget).collect();
    Ok(Json(json!({ "asks": asks })))
}

fn of_call(state: &Conversation, ask: Seq, open: &OpenAsk) -> Value {
    let call = state.calls().find(|(ticket, _)| *ticket == open.call).map(|(_, call)| call);
    json!({
        "ask": ask, "kind": "call", "call": call.map(|call| &call.id), "name": call.map(|call| &call.facts.tool),
        "input": call.map(|call| &call.input), "access": open.access, "expires": open.expires,
        "question": open.question, "offers": open.offers(), "digest": state.digest_of(ask),
    })
}

pub(crate) async fn answer(
    scope: Granted,
    Seen(session): Seen,
    name: Named,
    Said(answer): Said<AnswerJson>,
) -> Answered<StatusCode> {
    let (ask, grant) = (name.seq()?, answer.grant()?);
    // A tenant cannot give itself more than its budget.
    if answer.is_of_more() && session.state().await?.budget_ask().is_some_and(|(open, _)| open == ask) {
        scope.all()?;
    }
    match (answer.digest, answer.who) {
        (Some(digest), who) => session.answer_shown(ask, grant, digest, who).await?,
        (None, Some(who)) => session.answer_as(ask, grant, who).await?,
        (None, None) => session.answer(ask, grant).await?,
    }
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn grants(Seen(session): Seen) -> Answered<Json<Value>> {
    let state = session.peek().await?;
    let grants = state.grants.iter().map(|grant| {
        json!({
            "id": grant.id, "scope": grant.scope, "turn": grant.turn, "rules": grant.rules, "who": grant.who,
            "time": grant.time, "allows": grant.allows(),
        })
    });
    Ok(Json(json!({ "grants": grants.collect::<Vec<_>>() })))
}

pub(crate) async fn revoke(Seen(session): Seen, name: Named) -> Answered<StatusCode> {
    session.revoke(name.seq()?).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn revoke_all(Seen(session): Seen) -> Answered<StatusCode> {
    session.revoke_all().await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn budget(Seen(session): Seen) -> Answered<Json<Value>> {
    let state = session.peek().await?;
    let budget = &state.settings.budget;
    Ok(Json(json!({
        "session": budget.session.shown(), "turn": budget.turn.shown(), "on_breach": budget.on_breach,
        "spent": state.spent.shown(), "left": state.left().shown(),
    })))
}

pub(crate) async fn set_budget(
    State(_): State<App>,
    scope: Granted,
    Seen(session): Seen,
    Said(change): Said<NewBudget>,
) -> Answered<StatusCode> {
    scope.all()?;
    session.configure(|settings| change.apply(&mut settings.budget)).await?;
    Ok(StatusCode::NO_CONTENT)
}
