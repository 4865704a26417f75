//! A tool whose calls the rules all deny is not in the requests that the model gets, and nothing brings it back. E-09, C-10.

use tamtam::{
    Delivery, Message, SessionId, Steering,
    hook::{Hook, HookContext, Input},
    runtime::Agent,
};

use super::*;

/// The tools that the newest request offers.
fn offered(model: &Scripted) -> Vec<String> {
    model.requests().last().unwrap().tools.iter().map(|tool| tool.name.clone()).collect()
}

async fn runtime(folder: &Path, model: &Arc<Scripted>) -> Runtime {
    let tools = tamtam::tools::with_plan_mode(&tamtam::tools::full());
    builder(folder, model).tools(tools).hook(TurnsOn).start().await.unwrap()
}

/// A hook that switches on every tool in every message.
struct TurnsOn;

impl Hook for TurnsOn {
    fn name(&self) -> &str {
        "turns on"
    }

    fn on_input<'a>(&'a self, _: &'a HookContext, mut message: Message) -> BoxFuture<'a, Input> {
        message.tools = ["*", "edit", "write"].map(|tool| (tool.to_owned(), true)).into();
        Box::pin(async move { Input::Pass(Box::new(message)) })
    }
}

const ALL: [&str; 9] = ["bash", "edit", "find", "grep", "ls", "plan_enter", "plan_exit", "read", "write"];

/// The same without these.
fn without(names: &[&str]) -> Vec<String> {
    ALL.iter().filter(|name| !names.contains(*name)).map(|name| (*name).to_owned()).collect()
}

/// `edit: deny` takes edit and write; a rule that is about some paths or that another one makes an exception of takes none. Each profile
/// offers what it might allow or ask about.
#[tokio::test]
async fn a_model_is_offered_what_the_rules_might_allow() {
    let deny_edits = rules("r", &[("*", "*", Action::Allow), ("edit", "*", Action::Deny)]);
    let but_docs = rules("r", &[("edit", "**", Action::Deny), ("edit", "docs/**", Action::Allow)]);
    let secrets = rules("r", &[("read", "secrets/**", Action::Deny)]);
    let no_commands = rules("r", &[("bash", "*", Action::Deny)]);
    let reports = rules("r", &[("bash", "*", Action::Deny), ("confined_bash", "*", Action::Allow)]);
    let plan_mode = ["plan_enter", "plan_exit"];
    // Where the kernel can confine a command.
    let held = tamtam::tools::process::SandboxLevel::probe().holds();
    let changes = ["bash", "edit", "write", "plan_enter", "plan_exit"];
    let table: Vec<(Ruleset, &[&str])> = vec![
        (deny_edits, &["edit", "write"]),
        (but_docs, &[]),
        (secrets, &[]),
        (no_commands, &["bash"]),
        (reports, if held { &[] } else { &["bash"] }),
        (rules("r", &[("plan_*", "*", Action::Deny)]), &plan_mode),
        (Profile::Strict.ruleset(), &[]),
        (Profile::Ask.ruleset(), &[]),
        (Profile::Edits.ruleset(), &[]),
        (Profile::Auto.ruleset(), &[]),
        (Profile::Opencode.ruleset(), &[]),
        (Profile::Readonly.ruleset(), if held { &changes[1..] } else { &changes }),
        (Profile::Headless.ruleset(), if held { &changes[1..] } else { &changes }),
    ];
    let folder = taped::folder();
    let model = Arc::new(Scripted::new(table.iter().map(|_| Reply::text("done"))));
    let runtime = runtime(folder.path(), &model).await;
    for (rules, hidden) in table {
        let session = runtime.create(options(folder.path(), rules.clone())).await.unwrap();
        say(&session, "go").await;
        assert_eq!(offered(&model), without(hidden), "{rules:?}");
    }
    assert!(runtime.shutdown().await.is_empty());
}

/// The agent `plan` edits its plan only, and keeps the tools for it; a switch of the agent brings back nothing that the session, its
/// parent or the host denies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_agent_and_no_child_is_offered_what_is_denied_above() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new((0..5).map(|_| Reply::text("done"))));
    let runtime = runtime(folder.path(), &model).await;
    let session = runtime.create(options(folder.path(), everything())).await.unwrap();
    session.switch_agent(Agent::plan().for_session(session.id()).unwrap()).await.unwrap();
    say(&session, "plan").await;
    assert_eq!(offered(&model), without(&[]), "the plan is written with them");

    let denied = rules("r", &[("*", "*", Action::Allow), ("edit", "**", Action::Deny)]);
    let session = runtime.create(options(folder.path(), denied)).await.unwrap();
    session.switch_agent(Agent::plan().for_session(session.id()).unwrap()).await.unwrap();
    say(&session, "plan").await;
    assert_eq!(offered(&model), without(&["edit", "write"]));
    let child = session.spawn_child(options(folder.path(), everything()), "work", Link::DETACHED).await.unwrap();
    assert_eq!(down(&child).await, DownReason::Done);
    assert_eq!(offered(&model), without(&["edit", "write"]), "a child is no wider than its parent");
    assert!(runtime.shutdown().await.is_empty());
}

/// The mask follows the rules from request to request, and a request that is made again in another process offers what it offered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_mask_is_that_of_each_request() {
    let folder = taped::folder();
    let replies = [Reply::text("one"), Reply::text("never").at_barrier("gate")];
    let model = Arc::new(Scripted::new(replies));
    let first = runtime(folder.path(), &model).await;
    let id: SessionId = "s".parse().unwrap();
    let session = first.create(options(folder.path(), everything()).id(id.clone())).await.unwrap();
    say(&session, "go").await;
    assert_eq!(offered(&model), without(&[]));
    let denied = rules("r", &[("*", "*", Action::Allow), ("write", "*", Action::Deny), ("edit", "*", Action::Deny)]);
    session.configure(|settings| settings.rules = vec![denied.clone()]).await.unwrap();
    drop(session.send("more", Delivery::Steer(Steering::default())).await.unwrap());
    model.barrier("gate").reached().await;
    assert_eq!(offered(&model), without(&["edit", "write"]));
    assert!(first.shutdown().await.is_empty());

    let again = Arc::new(Scripted::new([Reply::text("two")]));
    let second = runtime(folder.path(), &again).await;
    idle(&second.session(&id)).await;
    assert_eq!(offered(&again), without(&["edit", "write"]));
    assert!(second.shutdown().await.is_empty());
}
