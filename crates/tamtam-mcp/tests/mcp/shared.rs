//! One process for each configuration, however many use it.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use serde_json::json;
use tamtam::{
    Outcome, Part,
    model::{Reply, ScriptBy, Scripted},
};

use crate::lab::{Lab, hostile, started};

/// P4-18, ASK-14: 200 sessions with 3 servers, all at once, from a cold start: 3 processes.
#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_sessions_with_three_servers_are_three_processes() {
    let folder = crate::taped::folder();
    let starts = folder.path().join("starts");
    let names = ["one", "two", "three"];
    let configs: Vec<_> = names.iter().map(|name| hostile(name, "good", &starts)).collect();
    let lab = Lab::with(folder, configs).await;
    let calls = names.iter().fold(Reply::empty(), |reply, name| reply.with_call(format!("mcp_{name}_pid"), json!({})));
    let script = Scripted::from_list([calls, Reply::text("Three.")], ScriptBy::Answers);
    let lab = lab.with_sessions(script).await;
    std::fs::remove_file(&starts).unwrap();
    let sessions = (0..200).map(|_| async {
        let session = lab.runtime.create(lab.options()).await.unwrap();
        let answer = session.prompt("Ask all three.").await.unwrap().wait().await.unwrap();
        assert_eq!(answer.outcome, Outcome::Done);
        let parts = session.messages().await.unwrap().into_iter().flat_map(|message| message.parts);
        let outputs = parts.filter_map(|part| match part {
            Part::Tool(part) => serde_json::to_value(&part).unwrap()["state"]["output"].as_str().map(str::to_owned),
            _ => None,
        });
        outputs.map(|output| output.parse::<i32>().unwrap()).collect::<Vec<_>>()
    });
    let pids = join_all(sessions).await;
    assert!(pids.iter().all(|pids| pids.len() == 3), "{pids:?}");
    let pids: BTreeSet<i32> = pids.into_iter().flatten().collect();
    assert_eq!((pids.len(), &pids), (3, &started(&starts).into_iter().collect()));
    assert_eq!(names.map(|name| lab.figures(name).calls), [200; 3]);
    lab.end().await;
}
