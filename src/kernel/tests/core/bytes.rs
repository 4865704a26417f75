//! Whatever is said, the tape gives it back: any text, any number, any depth that a provider or tool can hand over.

use proptest::prelude::*;
use serde_json::{Value, json};
use tamtam::{
    Part,
    kernel::{Delivery, Report, Steering},
    model::AnswerPart,
    session::{Extra, Finish, VALUE_DEPTH_MAX},
    tool::ToolResult,
};

use super::{
    line,
    play::{Play, call, text},
};

fn reasoning(value: Value) -> AnswerPart {
    let extra = Extra { provider: "p".into(), api: "a".into(), value };
    AnswerPart::Reasoning { text: "hm".into(), time: Default::default(), extra: Some(extra) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Text of any kind comes back as it was, on one line. `Play` compares fold and live after each signal.
    #[test]
    fn any_text_comes_back_from_the_tape(said in ".{1,40}", answer in any::<String>(), input in any::<String>()) {
        let mut play = Play::new();
        let message = tamtam::Message::user(said).with_id("m".into()).with_part(Part::text("x"));
        play.send_message(message, Delivery::Queue, None).unwrap();
        play.answer(vec![text(&answer), call("c", "bash", &input), call("d", "read", "{}")], Finish::ToolCalls);
        play.steer("s", Steering::FinishBatch);
        for ticket in play.state.calls().map(|(ticket, _)| ticket).collect::<Vec<_>>() {
            play.returned(ticket, &answer);
        }
        play.abort(&input);
        for entry in &play.entries {
            let bytes = line::encode(entry);
            prop_assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 1);
        }
    }

    /// A number that a provider wants back goes back as it came, to the last bit: else the request would not be the same.
    #[test]
    fn any_number_comes_back_from_the_tape(number in any::<f64>().prop_filter("JSON has no other", |n| n.is_finite())) {
        let mut play = Play::new();
        play.send("go");
        play.answer(vec![text("so"), reasoning(json!({"n": number}))], Finish::Stop);
    }
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(Value::Null, |inner, _| json!([inner]))
}

/// Reading JSON stops at 128 levels, and an entry puts some more around what a provider or a tool sent: 96 at most, as it comes in.
#[test]
fn what_may_come_in_can_be_read_from_the_tape() {
    let mut play = Play::new();
    play.send("go");
    play.answer(vec![reasoning(nested(VALUE_DEPTH_MAX)), call("c", "bash", "{}")], Finish::ToolCalls);
    let ticket = play.started()[0];
    let result = ToolResult::ok("ok").with_details(nested(VALUE_DEPTH_MAX));
    play.signal(Report::Returned { result }.of(ticket));
    assert_eq!(play.newest(1, 9), ["c ok"]);
}
