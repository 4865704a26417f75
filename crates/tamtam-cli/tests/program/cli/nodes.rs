//! `tamtam serve --postgres`: several servers over one database, by clients that know one of them.

use std::{net::TcpStream, process::Command};

use serde_json::{Value, json};

use super::{
    lab::{Ended, Lab, Live},
    serve::{address, ask},
};

#[path = "../../../../tamtam-postgres/tests/postgres/server.rs"]
#[allow(dead_code, reason = "the engine's own tests use all of it")]
pub(crate) mod server;

/// In no output, wherever it came from.
const PASSWORD: &str = "hunter2-hunter2";

/// A server over the schema, which says where it listens.
struct Node {
    live: Live,
    at: String,
}

impl Node {
    fn start(lab: &Lab, name: &str, schema: &str, database: impl FnOnce(&mut Command)) -> Node {
        let model = lab.script(json!(["Hello to you.", "Hello to you.", "Hello to you."]));
        let mut command =
            lab.command(&["serve", "--addr", "127.0.0.1:0", "--node", name, "--schema", schema, "--model", &model]);
        database(command.env("PGPASSWORD", PASSWORD));
        let mut live = Live::start(command);
        let at = address(&mut live);
        Node { live, at }
    }

    fn ask(&self, request: &str, body: &Value) -> (u16, Value) {
        ask(TcpStream::connect(self.at.trim_start_matches("http://")).unwrap(), request, body)
    }

    /// Waits until the turn of a message is over, wherever it runs. The process is killed where it never is.
    fn comes_to_its_end(&self, message: &str) -> Value {
        loop {
            let (status, now) = self.ask(&format!("GET /v1/sessions/s/messages/{message}"), &Value::Null);
            assert_eq!(status, 200, "{now}");
            if now["stage"] == "over" {
                return now;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// What `tamtam tree --all` prints, once it has this.
fn tree_with(lab: &Lab, node: &Node, json: bool, is_so: impl Fn(&str) -> bool) -> String {
    let mut arguments = vec!["tree", "--all", "--at", &node.at];
    arguments.extend(json.then_some("--json"));
    loop {
        let Ended { code, stdout, stderr } = lab.run(&arguments);
        assert_eq!(code, 0, "{stderr}");
        if is_so(&stdout) {
            return stdout;
        }
    }
}

/// A message to any server is answered, also after the one that had the session was killed; the tree shows that one as gone, and not
/// one that ended in order.
#[test]
fn any_server_takes_messages_for_all_sessions_and_shows_all_servers() {
    let lab = Lab::new();
    let (database, schema) = (server::shared().address(), "program_nodes");
    let by_flag = |command: &mut Command| {
        command.args(["--postgres", &database]);
    };
    let by_variable = |command: &mut Command| {
        command.env("TAMTAM_SERVE_POSTGRES", &database);
    };

    // Without tables it says how they are made, and the password is nowhere.
    let model = lab.script(json!([]));
    let with_password = format!("{database} password={PASSWORD}");
    let refused = lab.run(&["serve", "--postgres", &database, "--schema", schema, "--model", &model]);
    let migrate = format!("`tamtam postgres migrate --postgres '{database}' --schema {schema}`");
    assert!(refused.code == 2 && refused.error().contains(&migrate), "{refused:?}");
    let refused = lab.run(&["serve", "--postgres", &with_password, "--schema", schema, "--model", &model]);
    assert!(refused.code == 2 && !refused.stderr.contains(PASSWORD), "{refused:?}");
    for expected in ["the tables are made", "are up to date"] {
        let made = lab.run(&["postgres", "migrate", "--postgres", &database, "--schema", schema]);
        assert!(made.code == 0 && made.stdout.contains(expected), "{made:?}");
    }
    let none = lab.run(&["postgres", "migrate"]);
    assert!(none.code == 2 && none.error().contains("TAMTAM_SERVE_POSTGRES"), "{none:?}");

    let anna = Node::start(&lab, "anna", schema, by_flag);
    let bert = Node::start(&lab, "bert", schema, by_variable);
    let cora = Node::start(&lab, "cora", schema, by_flag);
    let new = json!({ "id": "s", "profile": "readonly", "prompt": { "id": "m1", "text": "Hello." } });
    let (status, made) = anna.ask("POST /v1/sessions", &new);
    assert_eq!((status, &made["receipt"]["disposition"]), (201, &json!("started")), "{made}");
    assert_eq!(cora.comes_to_its_end("m1")["outcome"], "done");
    let sent = lab.run(&["send", "--at", &bert.at, "--message-id", "m2", "s", "And you?"]);
    assert!(sent.code == 0 && sent.stdout.contains("goes to the server that has the session"), "{sent:?}");
    let over = cora.comes_to_its_end("m2");
    assert_eq!((&over["outcome"], &over["text"]), (&json!("done"), &json!("Hello to you.")));
    let tree = tree_with(&lab, &bert, false, |tree| tree.contains("3 of 3 nodes live, 1 session"));
    assert!(
        tree.lines().any(|line| line.contains("anna") && line.contains("live") && line.contains("1 session")),
        "{tree}"
    );

    anna.live.signal("-KILL");
    assert_ne!(anna.live.end().code, 0);
    let (status, sent) = bert.ask("POST /v1/sessions/s/messages", &json!({ "id": "m3", "text": "Still there?" }));
    assert_eq!((status, &sent["stage"]), (202, &json!("accepted")));
    assert_eq!(bert.comes_to_its_end("m3")["outcome"], "done");
    let tree = tree_with(&lab, &cora, false, |tree| tree.contains("2 of 3 nodes live, 1 session"));
    assert!(
        tree.lines().any(|line| line.contains("anna") && line.contains("gone") && line.contains("0 sessions")),
        "{tree}"
    );
    let tree = tree_with(&lab, &cora, true, |_| true);
    let tree: Value = serde_json::from_str(&tree).unwrap();
    let live: Vec<_> = tree["nodes"].as_array().unwrap().iter().map(|node| (&node["name"], &node["is_live"])).collect();
    assert_eq!(live, [(&json!("anna"), &json!(false)), (&json!("bert"), &json!(true)), (&json!("cora"), &json!(true))]);

    bert.live.signal("-TERM");
    let ended = bert.live.end();
    assert!(ended.code == 0 && !ended.stderr.contains(PASSWORD), "{ended:?}");
    let tree = tree_with(&lab, &cora, false, |tree| tree.contains("1 of 2 nodes live"));
    assert!(!tree.contains("bert"), "{tree}");
    let (_, page) = cora.ask("GET /v1/sessions/s/messages", &Value::Null);
    let said = page["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "user").count();
    assert_eq!(said, 3, "each message was read once: {page}");
}

/// The folder is there for a server alone: `--store` on the command line means files, whatever the environment says.
#[test]
fn a_named_store_means_files_and_such_a_server_is_alone() {
    let lab = Lab::new();
    let model = lab.script(json!([]));
    let mut command = lab.command(&["serve", "--addr", "127.0.0.1:0", "--store", "../store", "--model", &model]);
    command.env("TAMTAM_SERVE_POSTGRES", "host=/nowhere user=nobody");
    let mut live = Live::start(command);
    let at = address(&mut live);
    // A database that was forgotten makes no service of its own.
    let forgotten = lab.run(&["serve", "--node", "anna", "--model", &model]);
    assert!(forgotten.code == 2 && forgotten.error().contains("give --postgres URL"), "{forgotten:?}");
    let alone = lab.run(&["tree", "--all", "--at", &at]);
    assert!(alone.code == 1 && alone.error().contains("tamtam serve --postgres"), "{alone:?}");
    let shown = lab.run(&["tree", "--at", &at]);
    assert!(shown.code == 0 && shown.stdout.contains("sessions"), "{shown:?}");
    live.signal("-TERM");
    assert_eq!(live.end().code, 0);
}
