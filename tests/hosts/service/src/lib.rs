//! A service for many tenants over one runtime: conversations over HTTP with streams, steering, questions to people, tasks for other
//! agents, budgets and tenants that see nothing of each other. It goes on after a restart.
//!
//! What a conversation can be asked, and how, is `tamtam-server`'s. Here is what only this service knows: who its tenants are
//! (`config.rs`), what their agents can do (`tools.rs`), what must never be written down (`cards.rs`), and what a tenant has as a
//! whole:
//!
//! | request | who | does |
//! |---|---|---|
//! | `GET /tenant/bill` | tenant | what all of its sessions used |
//! | `GET /tenant/asks` | tenant | all of its open questions |
//! | `DELETE /tenants/{name}` | operator | drains it, and deletes all that it has |
//! | `POST /reload` | operator | reads the configuration again |

pub mod cards;
pub mod config;
pub mod tools;

use std::{
    error::Error,
    path::{Path, PathBuf},
    sync::{Arc, RwLock},
    time::Duration,
};

use axum::{
    Extension, Json, Router,
    extract::Path as Named,
    routing::{delete, get, post},
};
use serde_json::{Value, json};
use tamtam::{
    Runtime, SessionOptions,
    model::{MicroUsd, Model},
    permission::{Action, Rule, Ruleset},
    runtime::{Labelled, LabelledAsks, LabelledBill},
    session::{Labels, Limits},
};
use tamtam_server::{Denied, NewSession, Problem, RequestInfo, Scope, Server, ServerOptions};

use config::{Config, tenant};

/// How long the running turns of a tenant that leaves may go on.
const FAREWELL: Duration = Duration::from_secs(10);

pub struct Service {
    pub runtime: Runtime,
    pub server: Server,
}

/// What the routes and checks share.
struct Shared {
    runtime: Runtime,
    config: RwLock<Config>,
    path: PathBuf,
    folder: PathBuf,
}

type Failed = Box<dyn Error + Send + Sync>;

impl Service {
    /// Starts the runtime over a folder, and a server over it. Turns that a restart cut off go on.
    pub async fn start(config: Config, path: &Path, folder: &Path, model: Arc<dyn Model>) -> Result<Service, Failed> {
        let builder = Runtime::builder().store(folder.join("tapes")).model(model).agents(config.agents()?);
        let builder = builder.rules(config.rules()).tools(tools::all()).with_tasks().hook(cards::NoCards);
        let runtime = builder.start().await?;
        let (path, folder) = (path.to_owned(), folder.to_owned());
        let shared = Arc::new(Shared { runtime: runtime.clone(), config: RwLock::new(config), path, folder });
        let server = Server::new(runtime.clone()).with(options(&shared)).routes(routes(&shared));
        Ok(Service { runtime, server })
    }
}

fn options(shared: &Arc<Shared>) -> ServerOptions {
    let (who, what) = (shared.clone(), shared.clone());
    ServerOptions::default()
        .authorize(move |request| who.scope(request))
        .new_session(move |new, scope| what.session(new, scope))
        .shows_agent(|scope, agent| tenant(scope).is_none_or(|tenant| is_of(agent, tenant, '/')))
}

fn routes(shared: &Arc<Shared>) -> Router {
    let (bill, asks, leaves, reloads) = (shared.clone(), shared.clone(), shared.clone(), shared.clone());
    let bill = async move |Extension(scope): Extension<Scope>| -> Result<Json<LabelledBill>, Problem> {
        Ok(Json(bill.own(&scope)?.bill().await?))
    };
    let asks = async move |Extension(scope): Extension<Scope>| -> Result<Json<LabelledAsks>, Problem> {
        Ok(Json(asks.own(&scope)?.asks().await))
    };
    let leave = async move |Extension(scope): Extension<Scope>, Named(name): Named<String>| {
        only_operator(&scope)?;
        leaves.farewell(&name).await
    };
    let reload = async move |Extension(scope): Extension<Scope>| -> Result<Json<Value>, Problem> {
        only_operator(&scope)?;
        let reloaded = reloads.reload().map_err(|error| Denied::Invalid(error.to_string()))?;
        Ok(Json(json!({ "tenants": reloaded })))
    };
    Router::new()
        .route("/tenant/bill", get(bill))
        .route("/tenant/asks", get(asks))
        .route("/tenants/{name}", delete(leave))
        .route("/reload", post(reload))
}

fn only_operator(scope: &Scope) -> Result<(), Denied> {
    match tenant(scope) {
        None => Ok(()),
        Some(_) => Err(Denied::Forbidden("only the operator may do that".into())),
    }
}

/// Whether a name begins with that of the tenant.
fn is_of(name: &str, tenant: &str, separator: char) -> bool {
    name.strip_prefix(tenant).is_some_and(|rest| rest.starts_with(separator))
}

impl Shared {
    fn config(&self) -> Config {
        self.config.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    fn scope(&self, request: &RequestInfo<'_>) -> Result<Scope, Denied> {
        let bearer = request.headers.get("authorization").and_then(|value| value.to_str().ok());
        let token = bearer.and_then(|value| value.strip_prefix("Bearer ")).ok_or(Denied::Unauthorized)?;
        self.config().scope(token)
    }

    /// What a session of a tenant is: it works in the tenant's folder, asks before it refunds, gives tasks to the tenant's agents alone,
    /// and has the tenant's budget.
    fn session(&self, new: &NewSession, scope: &Scope) -> Result<SessionOptions, Denied> {
        new.only_words()?;
        let name = tenant(scope).ok_or_else(|| Denied::Forbidden("sessions belong to tenants".into()))?;
        if let Some(id) = new.id.as_deref().filter(|id| !is_of(id, name, '.')) {
            return Err(Denied::Invalid(format!("the id {id:?} must begin with \"{name}.\"")));
        }
        let config = self.config();
        let limit = config.tenants.get(name).ok_or(Denied::Unauthorized)?.micro_usd;
        let folder = self.folder.join("work").join(name);
        std::fs::create_dir_all(&folder).map_err(|error| Denied::Invalid(error.to_string()))?;
        let rules = [
            Rule::new("order_status", "*", Action::Allow),
            Rule::new("crawl", "*", Action::Allow),
            Rule::new("refund", "*", Action::Ask),
            Rule::new("task", "*", Action::Deny),
            Rule::new("task", format!("{name}/*"), Action::Allow),
        ];
        let mut options = SessionOptions::new(folder).rules(Ruleset::new("tenant", rules)).asks_wait(true);
        options.budget.session = Limits::default();
        options.budget.session.usd = Some(MicroUsd(limit).to_pico());
        Ok(options)
    }

    /// All sessions of the tenant that asks.
    fn own(&self, scope: &Scope) -> Result<Labelled, Problem> {
        let Scope::Labels(labels) = scope else {
            return Err(Denied::Forbidden("this is for tenants: use a tenant's token".into()).into());
        };
        Ok(self.runtime.labelled(labels.clone())?)
    }

    /// Drains a tenant, and deletes all that it has.
    async fn farewell(&self, name: &str) -> Result<Json<Value>, Problem> {
        let tenant = self.runtime.labelled(Labels::new([("tenant", name)])?)?;
        for busy in tenant.drain(FAREWELL).await? {
            self.runtime.session(&busy).abort("the tenant leaves").await?;
        }
        let deletion = tenant.delete().await?;
        let kept: Vec<_> =
            deletion.kept.iter().map(|(id, why)| json!({ "session": id, "why": why.to_string() })).collect();
        Ok(Json(json!({ "deleted": deletion.deleted.len(), "kept": kept, "behind": deletion.behind })))
    }

    /// Reads the configuration again. Sessions take the new agents and rules as they go on.
    fn reload(&self) -> Result<usize, Failed> {
        let config = Config::read(&self.path)?;
        self.runtime.set_agents(config.agents()?);
        self.runtime.set_rules(Some(config.rules()));
        let tenants = config.tenants.len();
        *self.config.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = config;
        Ok(tenants)
    }
}
