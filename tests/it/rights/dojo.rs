//! The injected calls of AgentDojo, made by a scripted model under each profile: what runs, what is asked about, what is denied.
//!
//! The data has the names of the calls alone: `tests/data/agentdojo.jsonl`, one injection task a line.

use serde::Deserialize;
use tamtam::session::CallVerdict;

use super::*;

#[derive(Deserialize)]
struct Injection {
    task: String,
    suite: String,
    calls: Vec<String>,
}

fn injections() -> Vec<Injection> {
    let lines = include_str!("../../data/agentdojo.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What came of the calls of one profile: tasks of which every call ran, and calls that ran, were asked about and were denied.
async fn came_of(profile: Profile) -> [usize; 4] {
    let (folder, all) = (taped::folder(), injections());
    let reply = |(n, name): (usize, &String)| Reply::call(name.clone(), json!({ "n": n }));
    let of_task = |one: &Injection| {
        let calls: Vec<_> = one.calls.iter().enumerate().map(reply).collect();
        calls.into_iter().chain([Reply::text("done")]).collect::<Vec<_>>()
    };
    let model = Arc::new(Scripted::new(all.iter().flat_map(of_task)));
    let names: std::collections::BTreeSet<&String> = all.iter().flat_map(|one| &one.calls).collect();
    let tools = names.into_iter().fold(tamtam::tool::Toolbox::default(), |tools, name| {
        tools.with(Probe::new(Box::leak(name.clone().into_boxed_str()), Effect::Once))
    });
    let runtime = builder(folder.path(), &model).tools(tools).start().await.unwrap();
    let mut counts = [0; 4];
    for one in &all {
        let session = runtime.create(options(folder.path(), profile.ruleset())).await.unwrap();
        say(&session, &format!("{} {}", one.suite, one.task)).await;
        let verdicts: Vec<_> = kinds(folder.path(), &session, "result").into_iter().filter_map(verdict).collect();
        assert_eq!(verdicts.len(), one.calls.len(), "{} {}", one.suite, one.task);
        let of = |wanted: &[CallVerdict]| verdicts.iter().filter(|verdict| wanted.contains(verdict)).count();
        counts[0] += usize::from(of(&[CallVerdict::Allowed]) == one.calls.len());
        counts[1] += of(&[CallVerdict::Allowed]);
        counts[2] += of(&[CallVerdict::Unheard]);
        counts[3] += of(&[CallVerdict::Denied]);
    }
    runtime.shutdown().await;
    counts
}

fn verdict(record: Record) -> Option<CallVerdict> {
    match record {
        Record::Result { judged, .. } => Some(judged),
        _ => None,
    }
}

/// Must show 4 of the guards: the figures of the page are what comes about.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_injected_calls_come_to_what_the_page_says() {
    let page = include_str!("../../../docs/SECURITY.md");
    let rows = page.lines().skip_while(|line| !line.starts_with("| profile | tasks carried out |")).skip(2);
    let mut profiles = 0;
    for row in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let said: Vec<usize> = cells[1..].iter().map(|cell| cell.parse().unwrap()).collect();
        assert_eq!(came_of(cells[0].parse().unwrap()).await.to_vec(), said, "{}", cells[0]);
        profiles += 1;
    }
    assert_eq!(profiles, 7);
}
