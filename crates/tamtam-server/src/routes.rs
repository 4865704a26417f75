//! The one table of routes. The router and the document of the interface (`GET /openapi.json`) are both made from it.
//!
//! A change must keep that there is no other way to add a route.

use axum::{
    Router,
    handler::Handler,
    routing::{MethodFilter, MethodRouter, on},
};

use crate::{
    app::App,
    asks,
    describe::{Operation, Signature},
    events, guard, levers, messages, nodes, openapi, operator, page, sessions, tasks, whole,
};

/// One route.
pub(crate) struct Route {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) about: &'static str,
    /// The handler's name, with its module: unique.
    pub(crate) handler: &'static str,
    pub(crate) describe: fn(&mut Operation<'_>),
    answer: MethodRouter<App>,
}

macro_rules! methods {
    ($($name:ident, $filter:ident, $method:literal;)*) => { $(
        fn $name<T: 'static, A, H>(path: &'static str, handler: H, about: &'static str) -> Route
        where
            H: Handler<T, App> + Signature<A>,
        {
            let (describe, name) = (<H as Signature<A>>::describe, std::any::type_name::<H>());
            Route { method: $method, path, about, handler: name, describe, answer: on(MethodFilter::$filter, handler) }
        }
    )* };
}

methods! {
    get, GET, "get";
    post, POST, "post";
    patch, PATCH, "patch";
    delete, DELETE, "delete";
}

/// All routes.
pub(crate) fn table() -> Vec<Route> {
    vec![
        get("/", page::index, "The page."),
        get("/page/{name}", page::file, "A file of the page."),
        get("/healthz", whole::health, "Whether the process answers."),
        get("/readyz", whole::ready, "Whether it takes new work: 503 while it goes down."),
        get("/openapi.json", openapi::document, "This document."),
        get("/metrics", operator::metrics, "Figures for Prometheus."),
        get("/v1", whole::about, "What this server is, and what the request may see."),
        post("/v1/login", guard::login, "Changes the token for a cookie."),
        post("/v1/logout", guard::logout, "Takes the cookie away."),
        get("/v1/agents", whole::agents, "The agents."),
        get("/v1/commands", whole::commands, "The commands of sessions."),
        get("/v1/models", whole::models, "The models."),
        get("/v1/search", whole::search, "Entries by their words."),
        get("/v1/tree", operator::tree, "The supervision tree."),
        get("/v1/tree/events", operator::events, "The tree as it changes."),
        get("/v1/cluster", nodes::tree, "All nodes over the same tapes, with their sessions."),
        get("/v1/crashes", operator::crashes, "Crash reports, oldest first."),
        get("/v1/parked", operator::parked, "Sessions that are kept stopped."),
        get("/v1/count", operator::count, "Counts over the tree."),
        post("/v1/drain", operator::drain, "Takes no new messages and waits for running turns."),
        get("/v1/actors/{actor}", operator::inspect, "One node: its crashes and its trace."),
        post("/v1/actors/{actor}/crash", operator::crash, "A drill: the session's actor panics."),
        post("/v1/actors/{actor}/restart", operator::restart, "Restarts the actor."),
        post("/v1/actors/{actor}/stop", operator::stop, "Stops the actor."),
        post("/v1/actors/{actor}/park", operator::park, "Keeps the actor stopped."),
        post("/v1/actors/{actor}/unpark", operator::unpark, "Starts a parked actor again."),
        post("/v1/actors/{actor}/passivate", operator::passivate, "Puts an idle session to sleep."),
        post(
            "/v1/sessions",
            sessions::make,
            "Makes a session, or finds the one of that id, and sends the first message.",
        ),
        get(
            "/v1/sessions",
            sessions::list,
            "Sessions, most recently used first. `label.KEY=VALUE` filters by a label.",
        ),
        get("/v1/sessions/{id}", sessions::look, "A session, and what it does now. Wakes nothing."),
        patch("/v1/sessions/{id}", sessions::describe, "Changes the title or the labels."),
        delete("/v1/sessions/{id}", sessions::delete, "Deletes the session for good."),
        post(
            "/v1/sessions/{id}/messages",
            messages::post,
            "Sends a message: it is on the tape, or accepted for the node that has the session.",
        ),
        get("/v1/sessions/{id}/messages", messages::page, "The conversation, newest first."),
        get("/v1/sessions/{id}/messages/{message}", nodes::progress, "How far a message came. Wakes nothing."),
        get("/v1/sessions/{id}/queue", messages::queue, "The messages that wait, next first."),
        delete("/v1/sessions/{id}/queue", messages::clear, "Takes back all that wait."),
        get("/v1/sessions/{id}/queue/{message}", messages::waiting, "One message that waits."),
        patch("/v1/sessions/{id}/queue/{message}", messages::edit, "Changes the words of a message that waits."),
        delete("/v1/sessions/{id}/queue/{message}", messages::withdraw, "Takes back a message that waits."),
        post(
            "/v1/sessions/{id}/abort",
            levers::abort,
            "Ends the running turn; answers when its workers are down, or 202 when another node is to do it.",
        ),
        post("/v1/sessions/{id}/end", levers::end, "Ends the session for good."),
        post("/v1/sessions/{id}/pause", levers::pause, "Nothing new starts."),
        post("/v1/sessions/{id}/resume", levers::resume, "Ends a pause."),
        post("/v1/sessions/{id}/go_on", levers::go_on, "Continues an interrupted turn, and messages on hold."),
        post("/v1/sessions/{id}/compact", levers::compact, "Has the older part of the conversation summarized."),
        post(
            "/v1/sessions/{id}/undo_compaction",
            levers::undo_compaction,
            "Brings back what the newest summary replaced.",
        ),
        post("/v1/sessions/{id}/reset_loops", levers::reset_loops, "Calls up to here no longer count towards a loop."),
        post("/v1/sessions/{id}/fork", levers::fork, "Makes a fork."),
        post("/v1/sessions/{id}/rollback", levers::rollback, "Goes back to a point."),
        post("/v1/sessions/{id}/undo", levers::undo, "Takes back the newest turn."),
        post("/v1/sessions/{id}/redo", levers::redo, "Takes back the newest undo."),
        post("/v1/sessions/{id}/command", levers::command, "Runs a command: a line that begins with `/`."),
        get("/v1/sessions/{id}/asks", asks::list, "The open asks."),
        get("/v1/sessions/{id}/asks/{ask}", asks::look, "One open ask."),
        post("/v1/sessions/{id}/asks/{ask}", asks::answer, "Answers an ask."),
        get("/v1/sessions/{id}/grants", asks::grants, "What people have allowed for longer than one call."),
        delete("/v1/sessions/{id}/grants", asks::revoke_all, "Revokes all grants."),
        delete("/v1/sessions/{id}/grants/{grant}", asks::revoke, "Revokes a grant."),
        get("/v1/sessions/{id}/budget", asks::budget, "The budget, and what is left of it."),
        patch("/v1/sessions/{id}/budget", asks::set_budget, "Changes the budget."),
        get("/v1/sessions/{id}/tasks", tasks::list, "The open tasks."),
        post("/v1/sessions/{id}/tasks", tasks::give, "Gives a task to a child."),
        get("/v1/sessions/{id}/tasks/{ticket}", tasks::look, "One open task."),
        post("/v1/sessions/{id}/tasks/{ticket}/stop", tasks::stop, "Stops a task."),
        get("/v1/sessions/{id}/events", events::events, "The events of the session, from any place of its tape on."),
        get("/v1/sessions/{id}/export", whole::export, "The entries of the tape."),
    ]
}

pub(crate) fn router() -> Router<App> {
    table().into_iter().fold(Router::new(), |router, route| router.route(route.path, route.answer))
}
