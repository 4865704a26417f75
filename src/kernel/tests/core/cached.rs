//! A request that a provider did not read from its cache as far as it could is named with its reason.

use tamtam::{
    kernel::{CacheMissed, Prepared, Report, Settings, Shown, TurnAdded},
    model::{AnswerSchema, Thinking, Usage},
    session::Finish,
};

use super::play::{Play, call};

/// The model asks for a call over a request of so many tokens, of which so many came from the cache; says what was missed, and why.
fn step(play: &mut Play, tokens: u64, cached: u64) -> Option<(u64, CacheMissed)> {
    let usage = Usage::new(tokens - cached, 5).cache_read(cached);
    play.answer_using(vec![call("c", "bash", "{}")], Finish::ToolCalls, usage);
    let (ticket, _) = play.state.calls().next().unwrap();
    let miss = play.state.turn.as_ref().unwrap().cache_miss.map(|miss| (miss.tokens, miss.why));
    play.returned(ticket, "ok");
    miss
}

/// A turn of which the provider has read two requests, the second one from its cache.
fn warm() -> Play {
    let mut play = Play::with(|settings| settings.compaction.auto = false);
    play.send("go");
    assert_eq!(step(&mut play, 9_000, 0), None, "the first request has nothing before it");
    assert_eq!(step(&mut play, 10_000, 9_000), None);
    play
}

#[test]
fn each_cause_of_a_miss_is_named() {
    let schema = || AnswerSchema::new(serde_json::json!({"type": "object"})).unwrap();
    type Change<'c> = &'c dyn Fn(&mut Settings);
    let rows: [(Change<'_>, CacheMissed); 6] = [
        (&|_| {}, CacheMissed::Unknown),
        (&|settings| settings.model = "b/other".parse().unwrap(), CacheMissed::Model),
        (&|settings| settings.system = "Be short.".into(), CacheMissed::System),
        (&|settings| settings.tools = Some(["bash".to_owned()].into()), CacheMissed::Tools),
        (&|settings| settings.params.thinking = Some(Thinking::High), CacheMissed::Options),
        (&|settings| settings.params.answer_schema = Some(schema()), CacheMissed::Options),
    ];
    for (change, why) in rows {
        let mut play = warm();
        play.configure(change);
        // The request that is open stays as it is; the one behind it has the change.
        assert_eq!(step(&mut play, 11_000, 10_000), None, "{why:?}");
        assert_eq!(step(&mut play, 12_000, 0), Some((11_000, why)), "{why:?}");
        assert_eq!(step(&mut play, 13_000, 12_000), None, "and the next is read from the cache again");
    }
    for (minutes, why) in [(5, CacheMissed::Unknown), (6, CacheMissed::Time)] {
        let mut play = warm();
        play.asleep(minutes * 60 * 1_000);
        assert_eq!(step(&mut play, 11_000, 10_000), None);
        assert_eq!(step(&mut play, 12_000, 0), Some((11_000, why)), "{minutes} minutes");
    }
}

/// Sampling changes no prefix, and what is missed within a block is no miss.
#[test]
fn what_changes_no_prefix_is_no_cause() {
    let mut play = warm();
    play.configure(|settings| settings.params.temperature = Some(0.5));
    assert_eq!(step(&mut play, 11_000, 9_100), None, "less than a quarter");
    assert_eq!(step(&mut play, 12_000, 8_000), Some((3_000, CacheMissed::Unknown)));
    let mut play = Play::with(|settings| settings.compaction.auto = false);
    play.send("go");
    assert_eq!(step(&mut play, 2_000, 0), None);
    assert_eq!(step(&mut play, 2_100, 1_000), None, "too little to be blamed");
}

/// A provider that says nothing of a cache is blamed for nothing.
#[test]
fn who_reports_no_cache_misses_none() {
    let mut play = Play::with(|settings| settings.compaction.auto = false);
    play.send("go");
    for tokens in [9_000, 10_000, 11_000] {
        assert_eq!(step(&mut play, tokens, 0), None);
    }
}

/// What one provider reports is not held against the next one, beyond the step that changed it.
#[test]
fn another_providers_cache_is_another_one() {
    for (model, again) in [("b/other", None), ("fake/other", Some((12_000, CacheMissed::Unknown)))] {
        let mut play = warm();
        play.configure(|settings| settings.model = model.parse().unwrap());
        assert_eq!(step(&mut play, 11_000, 10_000), None);
        assert_eq!(step(&mut play, 12_000, 0), Some((11_000, CacheMissed::Model)));
        assert_eq!(step(&mut play, 13_000, 0), again, "{model}");
    }
}

/// What hooks add to the system prompt and how they show the conversation is part of a request's beginning.
#[test]
fn what_hooks_make_of_a_request_is_part_of_its_beginning() {
    let prepare = |play: &mut Play, system: Option<&str>, shown: Option<Vec<Shown>>| {
        let turn = system.map(|system| TurnAdded { system: system.into(), messages: Vec::new() });
        let prepared = Prepared { turn, shown, ..Prepared::default() };
        let ticket = play.request();
        play.signal(Report::Prepared { prepared: Box::new(prepared) }.of(ticket));
    };
    let mut play = Play::with(|settings| settings.compaction.auto = false);
    play.send("go");
    prepare(&mut play, Some("be brief"), None);
    assert_eq!(step(&mut play, 9_000, 0), None);
    assert_eq!(step(&mut play, 10_000, 9_000), None);
    assert_eq!(step(&mut play, 11_000, 0), Some((10_000, CacheMissed::Unknown)), "the turn kept its words");
    play.answer_text("done");
    play.send("again");
    prepare(&mut play, Some("be long"), None);
    assert_eq!(step(&mut play, 12_000, 0), Some((11_000, CacheMissed::System)));
    prepare(&mut play, None, Some(vec![Shown::Kept(1, 3)]));
    assert_eq!(step(&mut play, 13_000, 0), Some((12_000, CacheMissed::Compacted)));
    prepare(&mut play, None, Some(vec![Shown::Kept(1, 5)]));
    assert_eq!(step(&mut play, 14_000, 0), Some((13_000, CacheMissed::Unknown)), "it only goes on");
    prepare(&mut play, None, Some(vec![Shown::Kept(2, 5)]));
    assert_eq!(step(&mut play, 15_000, 0), Some((14_000, CacheMissed::Compacted)));
}

/// A conversation that was pruned or summed up begins otherwise, and so does one that was put back.
#[test]
fn a_shortened_conversation_is_a_cause() {
    let mut play = warm();
    play.crash();
    assert_eq!(step(&mut play, 11_000, 10_000), None, "a crash loses no prefix");
    play.begin_as(|state| {
        let items: Vec<_> = state.history.iter().cloned().collect();
        state.replace_history(items.into_iter());
    });
    assert_eq!(step(&mut play, 11_500, 0), Some((11_000, CacheMissed::Compacted)));
}
