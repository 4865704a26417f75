//! The model clients against a server that misbehaves byte by byte (reliability rows V01 to V14).
//!
//! The clock is real, because the sockets are; limits are set low if one must pass. No test asserts a duration.

use std::time::Duration;

use serde_json::{Value, json};
use tamtam::{
    Message,
    model::{
        AnswerPart, Api, Delta, Endpoint, ErrorKind, History, HttpModel, HttpOptions, Item, Model, ModelAnswer,
        ModelError, Proxies, Request, RetryClass, Secret, UserItem,
    },
    session::Finish,
};

use crate::support::{
    fault_server::{Act, FaultServer, chunk, chunked_head, events_head, head, refusal, send},
    streams::{APIS, event},
};

const KEY: &str = "sk-CANARY-0123456789";

fn options() -> HttpOptions {
    let mut options = HttpOptions::default();
    options.idle_timeout = Duration::from_secs(20);
    options
}

fn short() -> HttpOptions {
    let mut options = options();
    options.idle_timeout = Duration::from_millis(200);
    options.first_timeout = Duration::from_millis(200);
    options.end_timeout = Duration::from_millis(50);
    // So that a limit that does not work fails its test instead of hanging it.
    options.total_timeout = Duration::from_secs(10);
    options
}

fn model(server: &FaultServer, api: Api, options: HttpOptions) -> HttpModel {
    let endpoint = Endpoint::new(api, "p", server.url(), "m").with_key(Secret::new(KEY));
    HttpModel::new(endpoint, options).unwrap()
}

fn request() -> Request {
    let message = Message::user("hello");
    let user = UserItem::new(message.id, message.parts);
    Request::new([Item::User(user)].into_iter().collect::<History>())
}

async fn ask(model: &HttpModel) -> (Result<ModelAnswer, ModelError>, Vec<Delta>) {
    let mut deltas = Vec::new();
    let answer = model.stream(&request(), &mut |delta| deltas.push(delta)).await;
    (answer, deltas)
}

/// One request to a server with one script.
async fn play(api: Api, script: Vec<Act>) -> Result<ModelAnswer, ModelError> {
    play_with(api, script, options()).await
}

async fn play_with(api: Api, script: Vec<Act>, options: HttpOptions) -> Result<ModelAnswer, ModelError> {
    let server = FaultServer::start([script]).await;
    let answer = ask(&model(&server, api, options)).await.0;
    if let Err(error) = &answer {
        assert!(!format!("{error} {error:?}").contains("CANARY"), "{error:?}");
    }
    answer
}

/// A good stream: the text "Grüße 👋", a call of `read`, usage and the end mark.
fn good(api: Api) -> String {
    let events: Vec<Value> = match api {
        Api::OpenAiChat => vec![
            json!({"model": "m-1", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Grüße"}}]}),
            json!({"choices": [{"index": 0, "delta": {"content": " 👋"}}]}),
            json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "read", "arguments": "{\"path\":"}}]}}]}),
            json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": "\"ä\"}"}}]}}]}),
            json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
            json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}}),
        ],
        Api::OpenAiResponses => {
            let call = |arguments: &str| json!({"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "read", "arguments": arguments});
            let message = json!({"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "Grüße 👋"}]});
            let whole = "{\"path\":\"ä\"}";
            let usage = json!({"input_tokens": 7, "output_tokens": 5, "total_tokens": 12});
            vec![
                json!({"type": "response.created", "response": {"id": "resp_1", "model": "m-1"}}),
                json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "msg_1", "content": []}}),
                json!({"type": "response.output_text.delta", "output_index": 0, "delta": "Grüße"}),
                json!({"type": "response.output_text.delta", "output_index": 0, "delta": " 👋"}),
                json!({"type": "response.output_text.done", "output_index": 0, "text": "Grüße 👋"}),
                json!({"type": "response.output_item.done", "output_index": 0, "item": message}),
                json!({"type": "response.output_item.added", "output_index": 1, "item": call("")}),
                json!({"type": "response.function_call_arguments.delta", "output_index": 1, "delta": "{\"path\":"}),
                json!({"type": "response.function_call_arguments.delta", "output_index": 1, "delta": "\"ä\"}"}),
                json!({"type": "response.function_call_arguments.done", "output_index": 1, "arguments": whole}),
                json!({"type": "response.output_item.done", "output_index": 1, "item": call(whole)}),
                json!({"type": "response.completed", "response": {"model": "m-1", "output": [message, call(whole)], "usage": usage}}),
            ]
        }
        Api::GeminiGenerateContent => {
            let chunk = |part: Value| json!({"candidates": [{"content": {"parts": [part], "role": "model"}}], "modelVersion": "m-1"});
            let mut last = chunk(json!({"functionCall": {"id": "c1", "name": "read", "args": {"path": "ä"}}}));
            last["candidates"][0]["finishReason"] = json!("STOP");
            last["usageMetadata"] = json!({"promptTokenCount": 7, "candidatesTokenCount": 5, "totalTokenCount": 12});
            vec![chunk(json!({"text": "Grüße"})), chunk(json!({"text": " 👋"})), last]
        }
        _ => vec![
            json!({"type": "message_start", "message": {"model": "m-1", "usage": {"input_tokens": 7, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Grüße"}}),
            json!({"type": "ping"}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": " 👋"}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "c1", "name": "read", "input": {}}}),
            json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{\"path\":"}}),
            json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "\"ä\"}"}}),
            json!({"type": "content_block_stop", "index": 1}),
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}}),
            json!({"type": "message_stop"}),
        ],
    };
    let text: String = events.iter().map(event).collect();
    if api == Api::OpenAiChat { text + "data: [DONE]\n\n" } else { text }
}

fn assert_good(answer: &ModelAnswer) {
    assert_eq!((answer.text().as_str(), answer.finish, answer.model.as_str()), ("Grüße 👋", Finish::ToolCalls, "m-1"));
    assert_eq!((answer.usage.input, answer.usage.output), (7, 5));
    let Some(AnswerPart::Call { id, name, input, .. }) = answer.parts.last() else { panic!("{answer:?}") };
    assert_eq!((id.as_str(), name.as_str(), input.as_str()), ("c1", "read", "{\"path\":\"ä\"}"));
}

/// W-02, W-03, AB-08, PROVIDER-ERR-006: in each format an answer is read, and the request is what the API wants, wherever it is
/// reached: with the key in its header, and the version of the API where there is one.
#[tokio::test]
async fn a_good_stream_is_an_answer_and_the_request_is_what_the_api_wants() {
    for api in APIS {
        let server = FaultServer::start([vec![events_head(), send(&good(api))]]).await;
        let (answer, deltas) = ask(&model(&server, api, options())).await;
        assert_good(&answer.unwrap());
        assert!(deltas.contains(&Delta::Text("Grüße".into())), "{deltas:?}");
        let seen = &server.seen()[0];
        let (path, key) = match api {
            Api::OpenAiChat => ("POST /chat/completions ", format!("authorization: Bearer {KEY}")),
            Api::OpenAiResponses => ("POST /responses ", format!("authorization: Bearer {KEY}")),
            Api::GeminiGenerateContent => {
                ("POST /models/m:streamGenerateContent?alt=sse ", format!("x-goog-api-key: {KEY}"))
            }
            _ => ("POST /v1/messages ", format!("x-api-key: {KEY}")),
        };
        assert!(seen.head.starts_with(path), "{}", seen.head);
        assert!(seen.head.to_ascii_lowercase().contains(&key.to_ascii_lowercase()), "{}", seen.head);
        assert_eq!(seen.head.contains("anthropic-version: 2023-06-01"), api == Api::AnthropicMessages);
        let body: Value = serde_json::from_str(&seen.body).unwrap();
        // One API has both in the path.
        let both = (json!("m"), json!(true));
        assert!(api == Api::GeminiGenerateContent || (&body["model"], &body["stream"]) == (&both.0, &both.1));
    }
}

/// What one request looks like to the server.
async fn sent(api: Api, request: &Request) -> Value {
    let server = FaultServer::start([vec![events_head(), send(&good(api))]]).await;
    model(&server, api, options()).stream(request, &mut |_| {}).await.unwrap();
    serde_json::from_str(&server.seen()[0].body).unwrap()
}

/// E-03, E-02, E-04: all seven tools, each with the schema of its arguments in the words of the API.
#[cfg(feature = "tools")]
#[tokio::test]
async fn the_schemas_of_all_tools_are_translated() {
    let toolbox = tamtam::tools::full();
    let mut request = request();
    let spec = |name| {
        let tool: &std::sync::Arc<dyn tamtam::tool::Tool> = toolbox.find(name).unwrap();
        tamtam::model::ToolSpec::new(tool.name(), tool.description(), tool.schema())
    };
    request.tools = toolbox.names().map(spec).collect();
    let required = [
        ("bash", &["command"][..]),
        ("edit", &["path"]),
        ("find", &["pattern"]),
        ("grep", &["pattern"]),
        ("ls", &[]),
        ("read", &["path"]),
        ("write", &["content", "path"]),
    ];
    for api in APIS {
        let body = sent(api, &request).await;
        let tools = body["tools"][0].get("functionDeclarations").unwrap_or(&body["tools"]).as_array().unwrap();
        assert_eq!(tools.len(), 7);
        for (tool, (name, required)) in tools.iter().zip(required) {
            let (tool, schema) = match api {
                Api::OpenAiChat => (&tool["function"], &tool["function"]["parameters"]),
                Api::AnthropicMessages => (tool, &tool["input_schema"]),
                _ => (tool, &tool["parameters"]),
            };
            assert_eq!((&tool["name"], &schema["type"]), (&json!(name), &json!("object")));
            assert!(tool["description"].as_str().is_some_and(|text| !text.is_empty()), "{name}");
            let mut named: Vec<&str> =
                schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            named.sort_unstable();
            assert_eq!(named, required, "{name}");
            assert!(required.iter().all(|field| schema["properties"][field]["type"] == "string"), "{schema}");
            assert!(schema.get("$schema").is_none(), "{schema}");
        }
        let read = serde_json::to_string(&tools[5]).unwrap();
        assert!(read.contains("\"offset\"") && read.contains("\"integer\""), "{read}");
    }
}

/// P-06, P-07: the system prompt, then the history, then the reminder of the last step.
#[tokio::test]
async fn the_reminder_stands_behind_the_history() {
    let mut request = request();
    request.system = "be brief".into();
    request.reminder = Some("no tools now".into());
    let openai = sent(Api::OpenAiChat, &request).await;
    let expected = json!([{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}, {"role": "user", "content": "no tools now"}]);
    assert_eq!(openai["messages"], expected);
    let anthropic = sent(Api::AnthropicMessages, &request).await;
    let blocks = json!([{"type": "text", "text": "hello"}, {"type": "text", "text": "no tools now"}]);
    assert_eq!(
        (&anthropic["system"], &anthropic["messages"]),
        (&json!("be brief"), &json!([{"role": "user", "content": blocks}]))
    );
    let responses = sent(Api::OpenAiResponses, &request).await;
    let said =
        |text: &str| json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]});
    let expected = (&json!("be brief"), &json!([said("hello"), said("no tools now")]));
    assert_eq!((&responses["instructions"], &responses["input"]), expected);
    let gemini = sent(Api::GeminiGenerateContent, &request).await;
    let contents = json!([{"role": "user", "parts": [{"text": "hello"}, {"text": "no tools now"}]}]);
    let expected = (&json!({"parts": [{"text": "be brief"}]}), &contents);
    assert_eq!((&gemini["systemInstruction"], &gemini["contents"]), expected);
}

/// V01: each form of Retry-After is reported as it is, also a huge one; what is too long is the session's business.
#[tokio::test]
async fn v01_a_refusal_says_how_long_the_server_wants_us_to_wait() {
    let date = httpdate(Duration::from_secs(3600));
    let cases = [
        ("retry-after-ms: 1500".to_owned(), 1500..=1500),
        ("retry-after: 2".to_owned(), 2000..=2000),
        ("Retry-After: 0.5".to_owned(), 500..=500),
        ("retry-after: 86400".to_owned(), 86_400_000..=86_400_000),
        (format!("retry-after: {date}"), 3_400_000..=3_600_000),
    ];
    for (header, expected) in cases {
        let error = play(Api::OpenAiChat, refusal("429 Too Many Requests", &[&header], "{}")).await.unwrap_err();
        assert_eq!((error.kind, error.status), (ErrorKind::RateLimited, Some(429)));
        assert!(expected.contains(&error.retry_after_ms.unwrap()), "{header}: {error:?}");
    }
    let hint = refusal("429 Too Many Requests", &[], r#"{"error":{"message":"Please try again in 350ms."}}"#);
    assert_eq!(play(Api::OpenAiChat, hint).await.unwrap_err().retry_after_ms, Some(350));
}

fn httpdate(ahead: Duration) -> String {
    let at = jiff::Timestamp::now() + ahead;
    at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// V02, V03
#[tokio::test]
async fn v02_v03_statuses_are_typed_and_say_whether_to_try_again() {
    let cases = [
        ("500 x", ErrorKind::Server, RetryClass::Transient),
        ("502 x", ErrorKind::Server, RetryClass::Transient),
        ("503 x", ErrorKind::Overloaded, RetryClass::Transient),
        ("504 x", ErrorKind::Server, RetryClass::Transient),
        ("529 x", ErrorKind::Overloaded, RetryClass::Transient),
        ("400 x", ErrorKind::InvalidRequest, RetryClass::Permanent),
        ("401 x", ErrorKind::Auth, RetryClass::Permanent),
        ("408 x", ErrorKind::Timeout, RetryClass::Transient),
        ("409 x", ErrorKind::Server, RetryClass::Transient),
        ("403 x", ErrorKind::Auth, RetryClass::Permanent),
        ("404 x", ErrorKind::NotFound, RetryClass::Permanent),
        ("413 x", ErrorKind::RequestTooLarge, RetryClass::ContextOverflow),
        ("422 x", ErrorKind::InvalidRequest, RetryClass::Permanent),
    ];
    for api in APIS {
        for (status, kind, class) in cases {
            let server = FaultServer::start([refusal(status, &[], "no")]).await;
            let error = ask(&model(&server, api, options())).await.0.unwrap_err();
            assert_eq!((error.kind, error.class()), (kind, class), "{status}");
            assert!(!error.was_read(), "{status}: a refusal costs nothing");
            assert_eq!(error.message, format!("p answered {}: no", &status[..3]));
            assert_eq!(server.seen().len(), 1, "the client never tries again by itself");
        }
    }
}

/// V04
#[tokio::test]
async fn v04_a_request_that_does_not_fit_is_a_context_overflow() {
    let openai = json!({"error": {"message": "too big", "code": "context_length_exceeded"}}).to_string();
    let anthropic = json!({"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum"}}).to_string();
    let gemini = json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "The input token count (9) exceeds the maximum number of tokens allowed (8)."}}).to_string();
    let all = [
        (Api::OpenAiChat, openai.clone()),
        (Api::OpenAiResponses, openai),
        (Api::AnthropicMessages, anthropic),
        (Api::GeminiGenerateContent, gemini),
    ];
    for (api, body) in all {
        let error = play(api, refusal("400 Bad Request", &[], &body)).await.unwrap_err();
        assert_eq!(error.class(), RetryClass::ContextOverflow);
        let error = play(api, refusal("429 Too Many Requests", &[], &body)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::RateLimited);
    }
}

/// V05, V09: a stream that ends well or badly at any byte is the whole answer or a typed failure, and never less.
#[tokio::test]
async fn v05_v09_a_stream_cut_at_any_byte_is_whole_or_truncated() {
    for api in APIS {
        let text = good(api);
        let whole_from = match api {
            Api::OpenAiChat => text.find("\"finish_reason\":\"tool_calls\"").unwrap(),
            Api::OpenAiResponses => text.find("event: response.completed").unwrap(),
            Api::GeminiGenerateContent => text.find("\"finishReason\":\"STOP\"").unwrap(),
            _ => text.find("\"stop_reason\":\"tool_use\"").unwrap(),
        };
        let cuts: Vec<usize> = (0..=text.len()).collect();
        let scripts = cuts.iter().map(|&cut| vec![events_head(), Act::Send(text.as_bytes()[..cut].to_vec())]);
        let server = FaultServer::start(scripts).await;
        let model = model(&server, api, options());
        for cut in cuts {
            match ask(&model).await.0 {
                Ok(answer) => {
                    assert!(cut > whole_from, "an answer out of {cut} bytes");
                    assert!(
                        matches!(answer.parts.last(), Some(AnswerPart::Call { input, .. }) if input == "{\"path\":\"ä\"}")
                    );
                }
                Err(error) => {
                    assert_eq!(error.kind, ErrorKind::Truncated, "{cut}: {error}");
                    assert!(cut < text.len() - 30 || api != Api::OpenAiChat, "{cut}");
                    assert!(cut < text.len() - 2, "{cut}: {error}");
                }
            }
        }
    }
}

/// V05: with a body in chunks, its end is marked; a connection that closes before it is a cut.
#[tokio::test]
async fn v05_an_end_in_mid_body_is_truncated_and_after_the_answer_it_is_nothing() {
    for api in APIS {
        let text = good(api);
        let cut = play(api, vec![chunked_head(), chunk(&text[..text.len() / 3])]).await.unwrap_err();
        assert_eq!(cut.kind, ErrorKind::Truncated, "{cut}");
        let ended = play(api, vec![chunked_head(), chunk(&text[..text.len() / 3]), chunk("")]).await.unwrap_err();
        assert_eq!(ended.kind, ErrorKind::Truncated, "{ended}");
        assert_good(&play(api, vec![chunked_head(), chunk(&text)]).await.unwrap());
    }
}

/// B-21: no `[DONE]`, and no end of the body either: the finish reason is the end.
#[tokio::test]
async fn v05_a_server_that_forgets_the_end_mark_is_not_waited_for() {
    let text = good(Api::OpenAiChat);
    let mut options = short();
    // Long: a busy machine may take its time over the answer, and only what comes behind it is not waited for.
    options.idle_timeout = Duration::from_secs(10);
    options.total_timeout = Duration::from_secs(20);
    let script = vec![events_head(), send(text.trim_end().trim_end_matches("data: [DONE]")), Act::Stall];
    assert_good(&play_with(Api::OpenAiChat, script, options.clone()).await.unwrap());
    let endless = vec![
        events_head(),
        send(text.trim_end().trim_end_matches("data: [DONE]")),
        Act::Repeat(b"data: {\"choices\":[{}]}\n\n".to_vec(), Duration::from_millis(10)),
    ];
    assert_good(&play_with(Api::OpenAiChat, endless, options).await.unwrap());
}

/// V06
#[tokio::test]
async fn v06_a_reset_is_a_network_error_before_the_head_and_a_cut_stream_after_it() {
    for api in APIS {
        let before = play(api, vec![Act::Reset]).await.unwrap_err();
        assert_eq!(before.class(), RetryClass::Transient, "{before}");
        let closed = play(api, vec![]).await.unwrap_err();
        assert_eq!((closed.kind, closed.class()), (ErrorKind::Network, RetryClass::Transient), "{closed}");
        let text = good(api);
        let half = send(&text[..text.find("Gr").unwrap() + 2]);
        let after = play(api, vec![chunked_head(), half, Act::Wait(Duration::from_millis(50)), Act::Reset]).await;
        let after = after.unwrap_err();
        assert_eq!((after.kind, after.class()), (ErrorKind::Truncated, RetryClass::Transient), "{after}");
        assert!(after.was_read() && !closed.was_read(), "the words that came were paid for");
    }
    // A port that is taken, so that no other test can have it meanwhile, and at which nobody listens.
    let nobody = tokio::net::TcpSocket::new_v4().unwrap();
    nobody.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", nobody.local_addr().unwrap());
    let endpoint = Endpoint::new(Api::OpenAiChat, "p", format!("{url}/?key={KEY}"), "m");
    let model = HttpModel::new(endpoint, options()).unwrap();
    let refused = ask(&model).await.0.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Network);
    assert!(refused.message.starts_with(&format!("failed to connect to {url}")), "{refused}");
    assert!(!refused.message.contains("CANARY"), "{refused}");
}

/// The start of a good stream, up to the end of the event with its first word.
fn first_piece(api: Api) -> String {
    let text = good(api);
    let word = text.find("Gr").unwrap();
    text[..word + text[word..].find("\n\n").unwrap() + 2].to_owned()
}

/// V07: once the answer has begun, silence, comments and pings are not life. One byte now and then is none at any time.
///
/// STREAM-007: a server that is silent for longer than the host allows (two minutes, where it says nothing) is a timeout.
#[tokio::test]
async fn v07_a_stall_ends_whatever_keeps_the_connection_busy() {
    let quick = Duration::from_millis(5);
    assert_eq!(HttpOptions::default().idle_timeout, Duration::from_secs(120));
    for api in APIS {
        let half = send(&good(api)[..60]);
        let begun = || send(&first_piece(api));
        let before = "p sent nothing of its answer within 200ms (the limit first_timeout)";
        let behind = "p sent nothing new within 200ms";
        let stalls = [
            (vec![Act::Stall], before),
            (vec![events_head(), Act::Stall], before),
            (vec![events_head(), half, Act::Repeat(b"x".to_vec(), quick)], before),
            (vec![events_head(), begun(), Act::Stall], behind),
            (vec![events_head(), begun(), Act::Repeat(b": keep-alive\n\n".to_vec(), quick)], behind),
            (
                vec![
                    events_head(),
                    begun(),
                    Act::Repeat(b"event: ping\ndata: {\"type\": \"ping\"}\n\n".to_vec(), quick),
                ],
                behind,
            ),
        ];
        for (script, message) in stalls {
            let error = play_with(api, script.clone(), short()).await.unwrap_err();
            assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Timeout, message), "{script:?}");
        }
    }
}

/// A server that reads its prompts slowly has a limit of its own, at which the request is given up for good: it would begin anew.
#[tokio::test]
async fn a_slow_server_has_a_limit_of_its_own_and_is_not_asked_again() {
    for api in APIS {
        let server = FaultServer::start([vec![events_head(), Act::Stall]]).await;
        let mut endpoint = Endpoint::new(api, "p", server.url(), "m");
        endpoint.quirks.first_timeout = Some(Duration::from_millis(100));
        let error = ask(&HttpModel::new(endpoint, options()).unwrap()).await.0.unwrap_err();
        assert_eq!((error.kind, error.class()), (ErrorKind::Silent, RetryClass::Permanent));
        assert!(error.message.contains("within 100ms (the limit first_timeout)"), "{error}");
        assert!(error.was_read(), "the server had the prompt");
    }
    let local = tamtam::model::Provider::known("local").unwrap().quirks;
    assert_eq!(local.first_timeout, Some(Duration::from_secs(600)));
}

/// llama.cpp tells how far it has read a prompt, in events without a choice; others send comments. Both last longer here than the
/// limit of silence.
#[tokio::test]
async fn a_server_that_shows_that_it_reads_is_waited_for() {
    let progress =
        |n: u64| format!("data: {{\"choices\":[],\"prompt_progress\":{{\"total\":9,\"processed\":{n}}}}}\n\n");
    for api in APIS {
        let mut options = options();
        options.first_timeout = Duration::from_millis(1_500);
        let mut script = vec![events_head()];
        for n in 0..9 {
            let sign = if n % 2 == 0 { progress(n) } else { ": processing\n\n".to_owned() };
            script.extend([send(&sign), Act::Wait(Duration::from_millis(250))]);
        }
        script.push(send(&good(api)));
        assert_good(&play_with(api, script, options).await.unwrap());
    }
}

/// V07: the total limit holds for a stream that never stops saying something.
#[tokio::test]
async fn v07_the_total_limit_ends_a_stream_that_goes_on_and_on() {
    let mut options = options();
    options.total_timeout = Duration::from_millis(300);
    let more = event(&json!({"choices": [{"delta": {"content": "x"}}]}));
    let script = vec![events_head(), Act::Repeat(more.into_bytes(), Duration::from_millis(5))];
    let error = play_with(Api::OpenAiChat, script, options).await.unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Timeout, "p did not finish within 300ms"));
}

/// V07: the side that must not happen. Slow but alive is fine, though it lasts longer than the idle limit.
#[tokio::test]
async fn v07_a_slow_stream_is_read_to_its_end() {
    let mut options = options();
    options.idle_timeout = Duration::from_millis(1500);
    for api in APIS {
        let text = good(api);
        let mut script = vec![events_head()];
        for piece in text.as_bytes().chunks(text.len() / 40) {
            script.extend([Act::Send(piece.to_vec()), Act::Wait(Duration::from_millis(50))]);
        }
        assert_good(&play_with(api, script, options.clone()).await.unwrap());
    }
}

/// V08
#[tokio::test]
async fn v08_what_is_no_stream_of_events_is_a_protocol_error() {
    let page = "<!doctype html>\n<h1>502 Bad Gateway</h1>";
    for api in APIS {
        for kind in ["content-type: text/html", "content-type: text/event-stream", "x: y"] {
            let error = play(api, refusal("200 OK", &[kind], page)).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Protocol);
            assert!(error.message.contains("502 Bad Gateway"), "{error}");
        }
        let zipped = refusal("200 OK", &["content-encoding: gzip"], "\u{1f}junk");
        assert_eq!(play(api, zipped).await.unwrap_err().kind, ErrorKind::Protocol);
        let nonsense = vec![events_head(), send("data: {\"choices\": [\n\ndata: x\n\n")];
        assert_eq!(play(api, nonsense).await.unwrap_err().kind, ErrorKind::Protocol);
        let error = json!({"error": {"type": "overloaded_error", "message": "busy"}}).to_string();
        let error = play(api, refusal("200 OK", &["content-type: application/json"], &error)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Overloaded, "an error object with status 200");
        let moved = play(api, refusal("307 Moved", &["location: http://127.0.0.1:1/"], "")).await.unwrap_err();
        assert_eq!(moved.kind, ErrorKind::NotFound, "a redirect is not followed");
    }
}

/// V08, V09: what is odd but allowed is read.
#[tokio::test]
async fn v09_marks_line_ends_and_wrong_content_types_change_nothing() {
    for api in APIS {
        let text = good(api);
        let forms = [
            format!("\u{feff}{text}"),
            text.replace('\n', "\r\n"),
            text.replace('\n', "\r"),
            format!(": hello\n\n{}", text.trim_end()),
        ];
        for form in forms {
            assert_good(&play(api, vec![events_head(), send(&form)]).await.unwrap());
            assert_good(&play(api, refusal("200 OK", &["content-type: text/html"], &form)).await.unwrap());
        }
        let single: Vec<Act> = text.bytes().map(|byte| Act::Send(vec![byte])).collect();
        assert_good(&play(api, [vec![events_head()], single].concat()).await.unwrap());
    }
}

/// V10
#[tokio::test]
async fn v10_an_error_event_in_mid_stream_is_like_its_status() {
    let error = event(&json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}));
    for api in APIS {
        let text = good(api);
        let first_event = text.find("\n\n").unwrap() + 2;
        let error = play(api, vec![events_head(), send(&text[..first_event]), send(&error)]).await.unwrap_err();
        assert_eq!((error.kind, error.class()), (ErrorKind::Overloaded, RetryClass::Transient));
    }
}

/// V12: wherever the arguments are cut, by the output limit or by the connection, they are never made good.
#[tokio::test]
async fn v12_arguments_cut_at_any_byte_are_never_completed() {
    let arguments = r#"{"path": "a\"b", "n": [1, {"x": "é"}]}"#;
    let cuts: Vec<usize> = (0..arguments.len()).filter(|&cut| arguments.is_char_boundary(cut)).collect();
    let stream = |cut: usize, finish: Value| {
        let call = json!([{"index": 0, "id": "c", "function": {"name": "bash", "arguments": &arguments[..cut]}}]);
        event(&json!({"choices": [{"delta": {"tool_calls": call}, "finish_reason": finish}]}))
    };
    let scripts = cuts.iter().flat_map(|&cut| {
        [vec![events_head(), send(&stream(cut, json!("length")))], vec![events_head(), send(&stream(cut, Value::Null))]]
    });
    let server = FaultServer::start(scripts).await;
    let model = model(&server, Api::OpenAiChat, options());
    for cut in cuts {
        let limited = ask(&model).await.0.unwrap();
        assert_eq!(limited.finish, Finish::Length);
        assert!(
            matches!(&limited.parts[..], [AnswerPart::Call { input, .. }] if *input == arguments[..cut]),
            "{limited:?}"
        );
        assert_eq!(ask(&model).await.0.unwrap_err().kind, ErrorKind::Truncated);
    }
}

/// V14
#[tokio::test]
async fn v14_an_endless_event_and_an_endless_answer_meet_their_bounds() {
    let mut options = options();
    options.event_bytes_max = 64 << 10;
    options.answer_bytes_max = 256 << 10;
    let now = Duration::ZERO;
    let one_event = vec![events_head(), send("data: "), Act::Repeat(vec![b'x'; 4096], now)];
    let error = play_with(Api::OpenAiChat, one_event, options.clone()).await.unwrap_err();
    assert_eq!(
        (error.kind, error.message.as_str()),
        (ErrorKind::AnswerTooLarge, "p sent an event of more than 65536 bytes")
    );
    let more = event(&json!({"choices": [{"delta": {"content": "x".repeat(1000)}}]}));
    let endless = vec![events_head(), Act::Repeat(more.into_bytes(), now)];
    let error = play_with(Api::OpenAiChat, endless, options.clone()).await.unwrap_err();
    assert_eq!(
        (error.kind, error.message.as_str()),
        (ErrorKind::AnswerTooLarge, "p sent an answer of more than 262144 bytes")
    );
    let body = vec![Act::Send(head("500 x", &[])), Act::Repeat(vec![b'x'; 4096], now)];
    let error = play_with(Api::OpenAiChat, body, options).await.unwrap_err();
    assert!(error.kind == ErrorKind::Server && error.message.len() < 600, "{error}");
}

/// K01, K02: a server that echoes the key in a refusal, an error event, a page or nonsense.
#[tokio::test]
async fn k02_a_key_that_the_server_repeats_is_in_no_error() {
    for api in APIS {
        let scripts = [
            refusal("401 no", &[], &format!("bad key {KEY}")),
            refusal("401 no", &[], &json!({"error": {"message": format!("Bearer {KEY}"), "type": KEY}}).to_string()),
            vec![events_head(), send(&event(&json!({"type": "error", "error": {"type": KEY, "message": KEY}})))],
            vec![events_head(), send(&format!("data: {KEY}\n\n"))],
            refusal("200 OK", &[], &format!("<p>{KEY}</p>")),
        ];
        for script in scripts {
            // `play` looks for the key in the error.
            play(api, script).await.unwrap_err();
        }
    }
}

/// Promise 12 and the pool: the second request goes over the same connection, and its body begins as the first one's.
#[tokio::test]
async fn a_whole_answer_leaves_its_connection_for_the_next_request() {
    for api in APIS {
        let script = vec![chunked_head(), chunk(&good(api)), chunk(""), Act::KeepOpen];
        let server = FaultServer::start([script.clone(), script]).await;
        let model = model(&server, api, options());
        assert_good(&ask(&model).await.0.unwrap());
        assert_good(&ask(&model).await.0.unwrap());
        let connections: Vec<usize> = server.seen().iter().map(|seen| seen.connection).collect();
        assert_eq!(connections, [0, 0]);
        assert_eq!(server.seen()[0].body, server.seen()[1].body);
    }
}

/// A plain request goes to the host's proxy whole; a secure one asks the proxy for a tunnel first. The proxy's password is for the
/// proxy, and the key for the server.
#[tokio::test]
async fn a_request_goes_through_the_proxy_that_the_host_names() {
    let password = "proxy-authorization: Basic dTpzay1DQU5BUlktcHJveHk=";
    let with = |proxy: &FaultServer| {
        let mut options = options();
        options.proxies = Proxies::all(Secret::new(proxy.url().replace("http://", "http://u:sk-CANARY-proxy@")));
        options
    };
    for api in APIS {
        let proxy = FaultServer::start([vec![chunked_head(), chunk(&good(api)), chunk("")]]).await;
        let endpoint = Endpoint::new(api, "p", "http://server.invalid/v1", "m").with_key(Secret::new(KEY));
        assert_good(&ask(&HttpModel::new(endpoint, with(&proxy)).unwrap()).await.0.unwrap());
        let head = &proxy.seen()[0].head;
        assert!(head.starts_with("POST http://server.invalid/v1/"), "{head}");
        assert!(head.contains("\r\nhost: server.invalid") && head.contains(password) && head.contains(KEY), "{head}");
    }
    for (status, cause) in [("407 No", "tunnel error: proxy authorization required"), ("502 No", "unsuccessful")] {
        let proxy = FaultServer::start([refusal(status, &[], "")]).await;
        let endpoint = Endpoint::new(Api::OpenAiChat, "p", "https://server.invalid/v1", "m").with_key(Secret::new(KEY));
        let error = ask(&HttpModel::new(endpoint, with(&proxy)).unwrap()).await.0.unwrap_err();
        assert_eq!((error.kind, error.class()), (ErrorKind::Network, RetryClass::Transient));
        assert!(error.message.contains(cause) && !error.message.contains("CANARY"), "{error}");
        let head = &proxy.seen()[0].head;
        assert!(head.starts_with("CONNECT server.invalid:443 HTTP/1.1"), "{head}");
        assert!(head.to_lowercase().contains(&password.to_lowercase()) && !head.contains(KEY), "{head}");
    }
}

/// Without a key, the user of a base URL opens the server; it is in no first line and in no error.
#[tokio::test]
async fn the_user_of_a_base_url_is_sent_as_a_header() {
    let server = FaultServer::start([refusal("401 No", &[], "no")]).await;
    let base = server.url().replace("http://", "http://u:sk-CANARY@") + "/v1";
    let model = HttpModel::new(Endpoint::new(Api::OpenAiChat, "p", base, "m"), options()).unwrap();
    let error = ask(&model).await.0.unwrap_err();
    assert!(error.kind == ErrorKind::Auth && !error.message.contains("CANARY"), "{error}");
    let head = &server.seen()[0].head;
    assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1"), "{head}");
    assert!(head.contains("authorization: Basic dTpzay1DQU5BUlk=") && !head.contains("CANARY"), "{head}");
}

/// D-04: dropping the request closes its connection, and what had arrived went to the deltas.
#[tokio::test]
async fn dropping_a_request_closes_its_connection() {
    let server = FaultServer::start([vec![events_head(), send(&good(Api::OpenAiChat)[..120]), Act::Stall]]).await;
    let model = model(&server, Api::OpenAiChat, options());
    let (arrived, mut arrivals) = tokio::sync::mpsc::unbounded_channel();
    let asked = request();
    let mut push = move |delta| arrived.send(delta).unwrap();
    tokio::select! {
        _ = model.stream(&asked, &mut push) => panic!("the server stalls"),
        delta = arrivals.recv() => assert_eq!(delta, Some(Delta::Text("Grüße".into()))),
    }
    for _ in 0..3_000 {
        if server.gone() == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the connection is still open");
}

/// Limits that a host sets to "never" are no panic.
#[tokio::test]
async fn limits_without_end_are_no_panic() {
    let mut options = HttpOptions::default();
    for limit in [&mut options.idle_timeout, &mut options.total_timeout, &mut options.end_timeout] {
        *limit = Duration::MAX;
    }
    for api in APIS {
        assert_good(&play_with(api, vec![events_head(), send(&good(api))], options.clone()).await.unwrap());
    }
}

/// TLS is set up, without anything installed for the process, and a server that does not speak it is a typed error.
#[tokio::test]
async fn https_to_a_server_without_tls_is_a_network_error() {
    let server = FaultServer::start([]).await;
    let endpoint = Endpoint::new(Api::OpenAiChat, "p", server.url().replace("http://", "https://"), "m");
    let model = HttpModel::new(endpoint, short()).unwrap();
    let error = ask(&model).await.0.unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Network | ErrorKind::Timeout), "{error:?}");
}
