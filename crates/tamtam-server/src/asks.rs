//! What waits for a person, what people have allowed for longer, and the budget.

use std::sync::Arc;

use axum::{Json, extract::State};
use schemars::JsonSchema;
use serde::Serialize;
use tamtam::{
    Millis, Seq, Session,
    permission::{Offer, Rule, offers},
    session::{AskFrom, Breach, CallId, OnBreach, OpenAsk, Scope, ShownLimits, ShownSpent, State as Conversation},
    tool::{Access, Question},
};

use crate::{
    answer::Done,
    app::{App, Granted, Named, Said, Seen},
    problem::{Answered, Problem},
    wire::{AnswerJson, NewBudget},
};

/// An open ask.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AskShown {
    /// Its ticket: answer with it.
    ask: Seq,
    #[serde(flatten)]
    about: AskAbout,
}

/// What an ask is about.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum AskAbout {
    /// A call of the session.
    Call {
        /// The id that the model gave to the call.
        call: Option<CallId>,
        /// Which tool.
        name: Option<String>,
        /// Its arguments as received.
        input: Option<Arc<str>>,
        /// What is asked about.
        access: Vec<Access>,
        /// When the ask expires.
        expires: Millis,
        /// The question that the running call asks.
        question: Option<Arc<Question>>,
        /// What may be allowed for more than this call.
        offers: Vec<Offer>,
        /// The digest of what is shown: an answer that names it is for this and nothing else.
        digest: Option<String>,
    },
    /// A call of a child.
    Task {
        /// Which tool.
        name: String,
        /// Its arguments as received.
        input: Arc<str>,
        /// What is asked about.
        access: Vec<Access>,
        /// When the ask expires.
        expires: Millis,
        /// The question that the running call asks.
        question: Option<Arc<Question>>,
        /// The sessions that passed it on; the one that makes the call comes last.
        from: Vec<AskFrom>,
        /// What may be allowed for more than this call.
        offers: Vec<Offer>,
        /// The digest of what is shown: an answer that names it is for this and nothing else.
        digest: String,
    },
    /// More of a budget.
    Budget {
        /// The limit, and what would be needed.
        breach: Breach,
        /// When the ask expires.
        expires: Millis,
    },
}

/// The open asks: those of calls, those that children have handed up, and that of the budget.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Asks {
    asks: Vec<AskShown>,
}

async fn open(session: &Session) -> Answered<Vec<AskShown>> {
    let state = session.peek().await?;
    let calls = state.asks().map(|(ask, open)| AskShown { ask, about: of_call(&state, ask, open) });
    let tasks = state.task_asks().map(|(ask, open)| {
        let asked = &open.asked;
        let about = AskAbout::Task {
            name: asked.name.clone(),
            input: asked.input.clone(),
            access: asked.access.clone(),
            expires: asked.expires,
            question: asked.question.clone(),
            from: asked.from.clone(),
            offers: offers(&asked.access),
            digest: asked.digest(),
        };
        AskShown { ask, about }
    });
    let budget = state.budget_ask().map(|(ask, open)| AskShown {
        ask,
        about: AskAbout::Budget { breach: open.breach.shown(), expires: open.expires },
    });
    Ok(calls.chain(tasks).chain(budget).collect())
}

fn of_call(state: &Conversation, ask: Seq, open: &OpenAsk) -> AskAbout {
    let call = state.calls().find(|(ticket, _)| *ticket == open.call).map(|(_, call)| call);
    AskAbout::Call {
        call: call.map(|call| call.id.clone()),
        name: call.map(|call| call.facts.tool.clone()),
        input: call.map(|call| call.input.clone()),
        access: open.access.clone(),
        expires: open.expires,
        question: open.question.clone(),
        offers: open.offers(),
        digest: state.digest_of(ask),
    }
}

pub(crate) async fn list(Seen(session): Seen) -> Answered<Json<Asks>> {
    Ok(Json(Asks { asks: open(&session).await? }))
}

pub(crate) async fn look(Seen(session): Seen, name: Named) -> Answered<Json<AskShown>> {
    let seq = name.seq()?;
    let ask = open(&session).await?.into_iter().find(|one| one.ask == seq);
    ask.map(Json).ok_or_else(|| Problem::not_found(format!("no ask {seq} is open")))
}

pub(crate) async fn answer(
    scope: Granted,
    Seen(session): Seen,
    name: Named,
    Said(answer): Said<AnswerJson>,
) -> Answered<Done> {
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
    Ok(Done)
}

/// The standing grants.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Grants {
    grants: Vec<GrantShown>,
}

/// What a person has allowed for longer than one call.
#[derive(Serialize, JsonSchema)]
struct GrantShown {
    /// Its id: revoke it by this.
    id: Seq,
    /// How far it reaches.
    scope: Scope,
    /// The turn that it is limited to.
    turn: Option<Seq>,
    /// What it allows.
    rules: Vec<Rule>,
    /// Who gave it.
    who: Option<String>,
    /// When it was given.
    time: Millis,
    /// What it allows, in one sentence.
    allows: String,
}

pub(crate) async fn grants(Seen(session): Seen) -> Answered<Json<Grants>> {
    let state = session.peek().await?;
    let grants = state.grants.iter().map(|grant| GrantShown {
        allows: grant.allows(),
        id: grant.id,
        scope: grant.scope,
        turn: grant.turn,
        rules: grant.rules.clone(),
        who: grant.who.clone(),
        time: grant.time,
    });
    Ok(Json(Grants { grants: grants.collect() }))
}

pub(crate) async fn revoke(Seen(session): Seen, name: Named) -> Answered<Done> {
    session.revoke(name.seq()?).await?;
    Ok(Done)
}

pub(crate) async fn revoke_all(Seen(session): Seen) -> Answered<Done> {
    session.revoke_all().await?;
    Ok(Done)
}

/// The budget, what was used, and what is left.
#[derive(Serialize, JsonSchema)]
pub(crate) struct BudgetShown {
    /// What the session may use in all.
    session: ShownLimits,
    /// What each turn may use.
    turn: ShownLimits,
    /// What happens where a limit is reached.
    on_breach: OnBreach,
    /// What the session has used.
    spent: ShownSpent,
    /// What is left.
    left: ShownLimits,
}

pub(crate) async fn budget(Seen(session): Seen) -> Answered<Json<BudgetShown>> {
    let state = session.peek().await?;
    let budget = &state.settings.budget;
    Ok(Json(BudgetShown {
        session: budget.session.shown(),
        turn: budget.turn.shown(),
        on_breach: budget.on_breach.clone(),
        spent: state.spent.shown(),
        left: state.left().shown(),
    }))
}

pub(crate) async fn set_budget(
    State(_): State<App>,
    scope: Granted,
    Seen(session): Seen,
    Said(change): Said<NewBudget>,
) -> Answered<Done> {
    scope.all()?;
    session.configure(|settings| change.apply(&mut settings.budget)).await?;
    Ok(Done)
}
