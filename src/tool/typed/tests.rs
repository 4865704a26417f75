//! The tools made from closures, by themselves. What becomes of their calls in a session is tested in `tests/it/typed_tools.rs`.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{collections::BTreeMap, pin::pin, sync::Mutex};

use futures_util::poll;
use serde_json::json;

use super::*;
use crate::tool::Toolbox;

#[derive(Deserialize, JsonSchema)]
struct Order {
    /// What to order.
    item: String,
    count: u32,
    #[serde(default)]
    note: Option<String>,
}

fn context() -> ToolContext {
    ToolContext::detached("/".into(), "/".into())
}

fn order() -> TypedTool<Order> {
    typed("order", "Orders things.", |Order { item, count, note }, _| async move { format!("{count} {item} {note:?}") })
}

/// What a tool says whose closure returns this value.
async fn said<R: IntoToolResult + Clone + Send + Sync + 'static>(value: R) -> (String, bool) {
    let blocking = {
        let value = value.clone();
        typed_blocking("t", "", move |_: NoArguments, _| value.clone())
    };
    let tool = typed("t", "", move |_: NoArguments, _| {
        let value = value.clone();
        async move { value }
    });
    let result = tool.run(json!({}), &context()).await;
    assert_eq!(blocking.run(json!({}), &context()).await, result, "both forms say the same");
    (result.content.clone(), result.is_error())
}

#[tokio::test]
async fn each_type_of_result_says_what_it_holds() {
    let good = |text: &str| (text.to_owned(), false);
    let bad = |text: &str| (text.to_owned(), true);
    assert_eq!(said("text").await, good("text"));
    assert_eq!(said("text".to_owned()).await, good("text"));
    assert_eq!(said("").await, good("(no output)"));
    assert_eq!(said(()).await, good("(no output)"));
    assert_eq!(said(ToolResult::ok("whole")).await, good("whole"));
    assert_eq!(said(ToolResult::error("whole")).await, bad("whole"));
    assert_eq!(said(json!({"a": [1, "x"]})).await, good(r#"{"a":[1,"x"]}"#));
    assert_eq!(said(json!("x")).await, good("\"x\""));
    assert_eq!(said(Json(vec![2, 3])).await, good("[2,3]"));
    assert_eq!(
        said(Json(BTreeMap::from([((1, 2), 3)]))).await,
        bad("failed to write the result as JSON: key must be a string")
    );
    assert_eq!(said(Ok::<_, String>("fine")).await, good("fine"));
    assert_eq!(said(Ok::<(), String>(())).await, good("(no output)"));
    assert_eq!(said(Ok::<_, String>(Json(1))).await, good("1"));
    assert_eq!(said(Ok::<_, String>(ToolResult::error("whole"))).await, bad("whole"));
    assert_eq!(said(Err::<&str, _>("no such table")).await, bad("no such table"));
    assert_eq!(said(Err::<&str, _>("")).await, bad("The tool failed and did not say why."));
}

#[tokio::test]
async fn details_and_attachments_of_a_whole_result_stay() {
    let mut whole = ToolResult::ok("").with_details(json!({"n": 1})).with_title("title");
    whole.attachments = vec![crate::words::message::FilePart::inline("image/png", None, b"x")];
    let made = whole.clone();
    let tool = typed("t", "", move |_: NoArguments, _| {
        let whole = made.clone();
        async move { whole }
    });
    assert_eq!(tool.run(json!({}), &context()).await, whole);
}

/// The model sees which field is wrong, in the same words before the call and in it.
#[tokio::test]
async fn arguments_that_do_not_fit_the_type_are_errors_in_words() {
    for (arguments, why) in [
        (
            json!({"item": "gong", "count": "many"}),
            "bad arguments: `count`: invalid type: string \"many\", expected u32",
        ),
        (json!({"count": 2}), "bad arguments: missing field `item`"),
        (json!({"item": 1, "count": 2}), "bad arguments: `item`: invalid type: integer `1`, expected a string"),
    ] {
        assert_eq!(order().check(&arguments), Err(why.to_owned()));
        assert_eq!(order().run(arguments, &context()).await, ToolResult::error(why));
    }
    let good = json!({"item": "gong", "count": "2"});
    assert_eq!(order().check(&good), Ok(()));
    assert_eq!(order().run(good, &context()).await.content, "2 gong None");
}

#[test]
fn the_schema_comes_from_the_type() {
    let expected = json!({
        "type": "object",
        "properties": {
            "item": { "type": "string", "description": "What to order." },
            "count": { "type": "integer", "minimum": 0 },
            "note": { "type": "string" },
        },
        "required": ["item", "count"],
    });
    assert_eq!(order().schema(), expected);
    assert_eq!(typed("now", "", |_: NoArguments, _| async {}).schema(), json!({ "type": "object" }));
}

#[test]
fn setters_say_what_the_trait_asks() {
    let plain = order();
    let (tool, none): (&dyn Tool, _) = (&plain, json!({}));
    assert_eq!((tool.effect(), tool.parallel(), tool.limit(&none)), (Effect::Once, false, CALL_LIMIT));
    assert_eq!((tool.aliases(), tool.output()), (&[][..], CutLimits::default()));
    assert_eq!(tool.access(&json!({"item": "gong", "count": 1})), [Access::new("order", "*")]);

    let limits = CutLimits::new(1, 2);
    let set = order()
        .effect(Effect::Read)
        .parallel()
        .limit(Duration::from_secs(1))
        .output(limits)
        .access(|order| vec![Access::new("shop", &order.item)])
        .alias("buy")
        .alias("purchase");
    let tool: &dyn Tool = &set;
    assert_eq!((tool.effect(), tool.parallel(), tool.limit(&none)), (Effect::Read, true, Duration::from_secs(1)));
    assert_eq!((tool.aliases(), tool.output()), (&["buy", "purchase"][..], limits));
    assert_eq!(tool.access(&json!({"item": "gong", "count": 1})), [Access::new("shop", "gong")]);
    assert_eq!(tool.access(&none), [Access::new("order", "*")], "`check` refuses such a call");
    assert!(Toolbox::default().with(set).find("buy").is_some());
}

/// A context whose progress is kept.
fn watched() -> (ToolContext, Arc<Mutex<Vec<Value>>>) {
    let shown: Arc<Mutex<Vec<Value>>> = Arc::default();
    let keep = shown.clone();
    let mut context = context();
    context.progress = crate::tool::Progress::new(move |_, metadata| keep.lock().unwrap().push(metadata));
    (context, shown)
}

#[tokio::test]
async fn a_streaming_tool_shows_its_pieces_in_order_and_gives_them_together() {
    let tool = typed_streaming("count", "", |_: NoArguments, _, out| async move {
        for n in ["one ", "", "two", "\n", "three"] {
            out.write(n);
            tokio::task::yield_now().await;
        }
    });
    let (context, shown) = watched();
    assert_eq!(tool.run(json!({}), &context).await, ToolResult::ok("one two\nthree"));
    let pieces = [("one ", 4), ("two", 7), ("\n", 8), ("three", 13)];
    let expected: Vec<_> = pieces.iter().map(|(text, all)| json!({ "piece": text, "total_bytes": all })).collect();
    assert_eq!(*shown.lock().unwrap(), expected);
}

#[tokio::test]
async fn what_a_streaming_closure_returns_follows_its_text() {
    async fn of(text: &'static str, end: Result<&'static str, &'static str>) -> ToolResult {
        let tool = typed_streaming("t", "", move |_: NoArguments, _, out| async move {
            out.write(text);
            end
        });
        tool.run(json!({}), &context()).await
    }
    assert_eq!(of("text", Ok("")).await, ToolResult::ok("text"));
    assert_eq!(of("text", Ok("end")).await, ToolResult::ok("text\nend"));
    assert_eq!(of("text\n", Ok("end")).await, ToolResult::ok("text\nend"));
    assert_eq!(of("", Ok("end")).await, ToolResult::ok("end"));
    assert_eq!(of("", Ok("")).await, ToolResult::ok("(no output)"));
    assert_eq!(of("text", Err("broke")).await, ToolResult::error("text\nbroke"));
}

#[tokio::test]
async fn the_text_of_a_streaming_tool_is_bounded_and_says_what_is_missing() {
    let tool = typed_streaming("t", "", |_: NoArguments, _, out| async move {
        out.write("é".repeat(STREAM_BYTES_MAX / 2 - 1));
        // One byte too many: the whole character is left out, and all that comes after it.
        out.write("aé€");
        out.write("z");
    });
    let (context, shown) = watched();
    let content = tool.run(json!({}), &context).await.content;
    let expected =
        format!("{}a\n[6 more bytes are left out: 1048576 bytes are kept]", "é".repeat(STREAM_BYTES_MAX / 2 - 1));
    assert!(content == expected, "{}", &content[content.len() - 80..]);
    let shown = shown.lock().unwrap();
    assert_eq!(shown[0]["piece"].as_str().unwrap().len(), 8 * 1024);
    assert_eq!(shown[2], json!({ "piece": "z", "total_bytes": STREAM_BYTES_MAX + 5 }));
}

#[tokio::test]
async fn what_is_written_after_the_end_is_dropped() {
    let kept: Arc<Mutex<Option<TextSink>>> = Arc::default();
    let keep = kept.clone();
    let tool = typed_streaming("t", "", move |_: NoArguments, _, out| {
        out.write("in time");
        *keep.lock().unwrap() = Some(out);
        async {}
    });
    let (context, shown) = watched();
    assert_eq!(tool.run(json!({}), &context).await.content, "in time");
    kept.lock().unwrap().take().unwrap().write("late");
    assert_eq!(shown.lock().unwrap().len(), 1);
}

/// A streaming call that does not stop is answered before the worker would drop it and lose its text.
#[tokio::test(start_paused = true)]
async fn a_stopped_streaming_call_keeps_what_it_has_written() {
    let tool = typed_streaming("t", "", |_: NoArguments, _, out| async move {
        out.write("so far");
        std::future::pending::<()>().await;
    });
    let context = context();
    let mut call = pin!(tool.run(json!({}), &context));
    assert!(poll!(&mut call).is_pending());
    let stopped_at = tokio::time::Instant::now();
    context.cancel.cancel();
    let expected = ToolResult::failed(ErrorReason::Aborted, "so far\nStopped while it was running.");
    assert_eq!(call.await, expected);
    assert_eq!(stopped_at.elapsed(), TIDY_UP);
}
