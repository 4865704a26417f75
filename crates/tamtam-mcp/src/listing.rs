//! The tools of [`SessionTools`](crate::SessionTools) as a client lists them: names, words and schemas. A constant as a function; what
//! they do is in `session_tools.rs`, and a change here is one there.

use serde_json::{Value, json};

/// The tools as they are listed.
pub(crate) fn tools() -> Value {
    let text = |said: &str| json!({ "type": "string", "description": said });
    let session = || text("the id of a session, as a result has it");
    let wait = json!({ "type": "number", "minimum": 0, "maximum": 600, "description": "how long to wait for the end of the turn; 45 by default. The turn goes on afterwards" });
    let id = || text("an id of your own for the message: the same id again is the same message");
    let tool = |name: &str, said: &str, properties: Value, required: &[&str], reads: bool| {
        json!({
            "name": name, "description": said,
            "inputSchema": { "type": "object", "properties": properties, "required": required, "additionalProperties": false },
            "outputSchema": {
                "type": "object",
                "properties": {
                    "session": { "type": "string" }, "seq": { "type": "integer" }, "state": { "type": "string" },
                    "turn": { "type": ["integer", "null"] },
                    "waiting": { "type": "array" }, "asks": { "type": "array" },
                    "receipt": { "type": "object" }, "fate": { "type": "object" }, "recorded": { "type": "boolean" },
                },
                "required": ["session", "state"],
            },
            "annotations": { "readOnlyHint": reads, "openWorldHint": !reads },
        })
    };
    json!([
        tool(
            "prompt",
            "Sends a message to an agent, in a new session or in one that is there. Waits for the end of the turn, or until the agent asks \
             for a permission (answer it with `answer`). A message to a session that works waits for its turn.",
            json!({ "text": text("the message"), "session": session(), "message": id(), "delivery": { "enum": ["queue", "reject"], "description": "what to do if the session works: wait (queue, the default) or refuse" }, "wait_seconds": wait }),
            &["text"],
            false,
        ),
        tool(
            "steer",
            "Sends a message into the turn that runs: the agent reads it before its next step.",
            json!({ "session": session(), "text": text("the message"), "message": id(), "running": { "enum": ["skip_remaining", "finish_batch", "abort_running"], "description": "what happens to the calls of the turn: those that have not begun are skipped (the default), all finish, or the running ones are stopped too" }, "wait_seconds": wait }),
            &["session", "text"],
            false,
        ),
        tool(
            "status",
            "What a session does, what it asks, what waits; with a message's id, what became of it.",
            json!({ "session": session(), "message": text("the id of a message, as its receipt has it") }),
            &["session"],
            true,
        ),
        tool(
            "answer",
            "Answers a question of a session: whether a call may run.",
            json!({ "session": session(), "ask": { "type": "integer", "description": "the number of the question" }, "grant": { "enum": ["once", "always", "reject"] }, "message": text("what the agent is told of a rejection"), "digest": text("the digest that the question was shown with; needed to grant: the answer is for that and nothing else") }),
            &["session", "ask", "grant"],
            false,
        ),
        tool(
            "abort",
            "Ends the turn that runs; messages that wait stay.",
            json!({ "session": session(), "turn": { "type": "integer", "description": "the turn that is meant: where it is over by now, nothing is ended" }, "reason": text("why") }),
            &["session"],
            false,
        ),
    ])
}
