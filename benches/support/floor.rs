//! The floor, and the server that both sides ask.
//!
//! The floor is what a program without a library does: it posts its messages, reads the stream, runs the call, and posts again. It
//! keeps the messages in memory and nothing on the disk; there is no retry, no limit, nobody listens and nothing is supervised.

use std::{env, io::Write as _, time::Duration};

use futures_util::StreamExt as _;
use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

fn number(name: &str) -> usize {
    env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(1)
}

/// A server of Chat Completions that asks for `K` calls of `read`, one in each answer, and then says that it is done. Prints its
/// port.
pub(crate) fn serve() {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", listener.local_addr().unwrap().port());
        std::io::stdout().flush().unwrap();
        let calls = number("K");
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(connection(stream, calls));
        }
    });
}

/// Answers the requests of one connection, until its client closes it. Each has a length and is taken whole.
async fn connection(mut stream: TcpStream, calls: usize) {
    let _ = stream.set_nodelay(true);
    let mut buffer = Vec::new();
    loop {
        let (head, length) = loop {
            if let Some(end) = memchr::memmem::find(&buffer, b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&buffer[..end]).to_ascii_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
                break (end + 4, length.and_then(|length| length.trim().parse().ok()).unwrap_or(0));
            }
            if stream.read_buf(&mut buffer).await.unwrap_or(0) == 0 {
                return;
            }
        };
        while buffer.len() < head + length {
            if stream.read_buf(&mut buffer).await.unwrap_or(0) == 0 {
                return;
            }
        }
        let text = answer(calls, &buffer[head..head + length]);
        buffer.drain(..head + length);
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n", text.len());
        if stream.write_all((head + &text).as_bytes()).await.is_err() {
            return;
        }
    }
}

fn answer(calls: usize, body: &[u8]) -> String {
    let done = memchr::memmem::find_iter(body, br#""role":"tool""#).count();
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        format!(
            "data: {}\n\n",
            json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "mock", "choices": [choice]})
        )
    };
    let mut text = String::new();
    if done < calls {
        let arguments = json!({"path": format!("small{}.txt", done % super::FILES)}).to_string();
        let call = json!({"index": 0, "id": format!("call_{done}"), "type": "function",
            "function": {"name": "read", "arguments": arguments}});
        text += &chunk(json!({"role": "assistant", "content": "I read the next one."}), Value::Null);
        text += &chunk(json!({"tool_calls": [call]}), Value::Null);
        text += &chunk(json!({}), json!("tool_calls"));
    } else {
        text += &chunk(json!({"role": "assistant", "content": "I am done."}), Value::Null);
        text += &chunk(json!({}), json!("stop"));
    }
    let usage = json!({"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110});
    text += &format!(
        "data: {}\n\ndata: [DONE]\n\n",
        json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "mock", "choices": [], "usage": usage})
    );
    text
}

/// Says which phase was reached, in the words of `examples/peer_driver.rs`, and waits for the bench.
fn phase(name: &str, ok: usize) {
    let nanos = |clock| {
        let time = clock_gettime(clock);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    let (cpu, now) = (nanos(ClockId::ProcessCPUTime) / 1_000, nanos(ClockId::Monotonic));
    println!("{}", json!({ "phase": name, "ok": ok, "cpu_us": cpu, "t": now }));
    std::io::stdout().flush().unwrap();
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

/// The floor's program.
pub(crate) fn run() {
    let tokio = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    tokio.block_on(async {
        let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(600)).build().unwrap();
        let url = format!("http://127.0.0.1:{}/v1/chat/completions", env::var("MOCK_PORT").unwrap());
        let (sessions, calls) = (number("N"), number("K"));
        phase("ready", 0);
        let all: Vec<Vec<Value>> =
            (0..sessions).map(|_| vec![json!({"role": "system", "content": "You are a helpful assistant."})]).collect();
        phase("opened", sessions);
        let running: Vec<_> =
            all.into_iter().map(|messages| tokio::spawn(turn(client.clone(), url.clone(), messages))).collect();
        let (mut ok, mut held) = (0, Vec::new());
        for running in running {
            let (steps, messages) = running.await.unwrap();
            ok += usize::from(steps == calls + 1);
            held.push(messages);
        }
        phase("done", ok);
        drop(held);
    });
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    delta: Delta,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<String>,
    #[serde(default)]
    tool_calls: Vec<Part>,
}

#[derive(Deserialize)]
struct Part {
    id: Option<String>,
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: Option<String>,
    arguments: Option<String>,
}

/// One conversation from its prompt to its last answer: how many requests it took, and its messages.
async fn turn(client: reqwest::Client, url: String, mut messages: Vec<Value>) -> (usize, Vec<Value>) {
    let folder = env::var("WORKDIR").unwrap();
    let parameters = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
    let tools = json!([{"type": "function",
        "function": {"name": "read", "description": "Read a file", "parameters": parameters}}]);
    messages.push(json!({"role": "user", "content": "Read the small files, then say you are done."}));
    for step in 1.. {
        let body = json!({"model": "mock", "stream": true, "messages": messages, "tools": tools});
        let response = client.post(&url).bearer_auth("fake").header("content-type", "application/json");
        let response = response.body(serde_json::to_vec(&body).unwrap()).send().await.unwrap();
        let mut events = sseer::event_stream::EventStream::new(response.bytes_stream());
        let (mut text, mut id, mut name, mut arguments) = (String::new(), String::new(), String::new(), String::new());
        while let Some(event) = events.next().await {
            let event = event.unwrap();
            if &*event.data == "[DONE]" {
                break;
            }
            let chunk: Chunk = serde_json::from_str(&event.data).unwrap();
            for choice in chunk.choices {
                text += choice.delta.content.as_deref().unwrap_or_default();
                for part in choice.delta.tool_calls {
                    id += part.id.as_deref().unwrap_or_default();
                    name += part.function.name.as_deref().unwrap_or_default();
                    arguments += part.function.arguments.as_deref().unwrap_or_default();
                }
            }
        }
        if id.is_empty() {
            messages.push(json!({"role": "assistant", "content": text}));
            return (step, messages);
        }
        let path: Value = serde_json::from_str(&arguments).unwrap();
        let content = tokio::fs::read_to_string(format!("{folder}/{}", path["path"].as_str().unwrap())).await.unwrap();
        let call = json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
        messages.push(json!({"role": "assistant", "content": text, "tool_calls": [call]}));
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": content}));
    }
    unreachable!("the loop ends by itself")
}
