//! One conversation over all wires: it goes on with another one at every step, and each server takes what it is sent.
//!
//! The servers check each request (`support/strict`), and each takes only the thoughts that it signed itself. What is asked of them,
//! and what they answer, is chance from a seed.

use serde_json::{Value, json};
use tamtam::{
    Message, Part,
    model::{
        AnswerPart, Api, Delta, Endpoint, History, HttpModel, HttpOptions, Item, Model, ModelAnswer, Params, Request,
        ToolSpec, UserItem,
    },
    session::Finish,
};

use crate::support::{
    fault_server::{FaultServer, events_head, send},
    rng::Rng,
    streams::{APIS, Called, said, thought},
};

/// The smallest image: one black pixel.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0:~\x9bU\0\0\0\nIDATx\x9cc`\0\0\0\x02\0\x01H\xaf\xa4q\0\0\0\0IEND\xaeB`\x82";

/// Names of tools as models write them; a server takes none but the first two.
const TOOLS: [&str; 5] = ["read", "mcp_files_list", "functions.read", "7 zip", "größe"];

/// An answer of a server, by chance: words, thoughts and calls, at least one of them.
fn answer(api: Api, seed: u64) -> String {
    let mut rng = Rng::new(seed);
    let ids =
        ["", "same", "functions.read:0", "a call id of another provider, which is much too long for most of them"];
    let count = rng.below(4);
    let calls: Vec<_> = (0..count)
        .map(|n| Called { id: rng.pick(&ids).to_owned(), tool: rng.pick(&TOOLS), input: json!({"path": "a", "n": n}) })
        .collect();
    let text = if count == 0 || rng.percent(50) { "I look at it." } else { "" };
    thought(api, if rng.percent(60) { "Let me see." } else { "" }, text, &calls)
}

async fn model(api: Api, provider: &str, seed: u64) -> (FaultServer, HttpModel) {
    let server =
        FaultServer::answering(move |_, before| vec![events_head(), send(&answer(api, seed + before.len() as u64))])
            .await;
    let mut endpoint = Endpoint::new(api, provider, server.url(), "m");
    endpoint.limits.images = provider != "blind";
    let model = HttpModel::new(endpoint, HttpOptions::default()).unwrap();
    (server, model)
}

/// What comes behind an answer: the results of its calls, some with files, some lost; then a user's message, or several.
fn go_on(history: &mut History, answer: &ModelAnswer, rng: &mut Rng) {
    let image = |name: &str| Part::file("image/png", Some(name.into()), PNG);
    for part in &answer.parts {
        let AnswerPart::Call { id, name, .. } = part else { continue };
        if rng.percent(8) {
            continue;
        }
        let item = json!({
            "item": "result", "call": id, "name": name, "content": rng.pick(&["", "found", "\u{1F600} two\nlines"]),
            "is_error": rng.percent(20),
        });
        let Item::Result(mut result) = serde_json::from_value(item).unwrap() else { unreachable!() };
        if rng.percent(25) {
            let Part::File(file) = image("shot.png") else { unreachable!() };
            result.attachments.push(file);
        }
        history.push(Item::Result(result));
    }
    let has_calls = answer.parts.iter().any(|part| matches!(part, AnswerPart::Call { .. }));
    for _ in 0..if has_calls { rng.below(2) } else { 1 + rng.below(2) } {
        let mut message = Message::user(rng.pick(&["go on", "", "and this?"]));
        if rng.percent(20) {
            message.parts.push(image("seen.png"));
        }
        history.push(Item::User(UserItem::new(message.id, message.parts)));
    }
}

/// 200 steps over four wires and six names, each with the history of all before: no request is refused, calls keep their ids within
/// what a server takes, and each thought goes back to the server that had it. CROSS-001, CROSS-005, CROSS-ERR-001
#[tokio::test]
async fn a_conversation_goes_on_over_all_wires_and_no_request_is_refused() {
    let names = ["openai", "openai", "anthropic", "gemini", "blind", "gateway"];
    let apis = [APIS[0], APIS[1], APIS[2], APIS[3], APIS[3], APIS[1]];
    let mut models = Vec::new();
    for (n, (api, name)) in apis.into_iter().zip(names).enumerate() {
        models.push(model(api, name, 1_000 * n as u64).await);
    }
    let mut rng = Rng::new(7);
    let mut history = History::default();
    let first = Message::user("begin");
    history.push(Item::User(UserItem::new(first.id, first.parts)));
    let mut kinds = [0; 3];
    for step in 0..200 {
        let (_, model) = &models[rng.below(models.len())];
        let mut request = Request::new(history.clone());
        request.system = "be brief".into();
        let schema =
            json!({"type": "object", "properties": {"path": {"type": ["string", "null"]}}, "required": ["path"]});
        request.tools = [ToolSpec::new("read", "Reads.", schema)].into();
        request.params = Params::default().max_output(100 + step);
        let answered = model.stream(&request, &mut |_: Delta| {}).await;
        let answered = answered.unwrap_or_else(|error| panic!("step {step}, {}: {error}", model.id()));
        assert!(matches!(answered.finish, Finish::Stop | Finish::ToolCalls), "{answered:?}");
        for part in &answered.parts {
            kinds[match part {
                AnswerPart::Text { .. } => 0,
                AnswerPart::Reasoning { .. } => 1,
                _ => 2,
            }] += 1;
        }
        history.push(Item::Assistant(answered.clone()));
        go_on(&mut history, &answered, &mut rng);
    }
    // The other side: there was something to refuse, on each wire, and what is its own went back.
    assert!(kinds.iter().all(|count| *count > 60), "{kinds:?}");
    for ((server, model), api) in models.iter().zip(apis) {
        let seen = server.seen();
        assert!(seen.len() > 15, "{} was asked {} times", model.id(), seen.len());
        let last: Value = serde_json::from_str(&seen.last().unwrap().body).unwrap();
        assert!(said(&last).len() > 100, "{}", model.id());
        let signed = last.to_string().matches("signed by").count();
        assert_eq!(signed > 0, api != Api::OpenAiChat, "{}", model.id());
    }
}
