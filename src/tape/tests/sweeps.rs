//! Sweeps over sessions of which some cannot be read.

use std::fs;

use super::support::*;
use crate::{
    ops::sweep::{KeptReason, Sweep, SweepPolicy, sweep_plan, sweep_planned},
    tape::{Store, line::Sum},
    words::ids::{Millis, SessionId},
};

fn nothing_stays() -> SweepPolicy {
    SweepPolicy { keep_newest: Some(0), ..SweepPolicy::default() }
}

fn gone(sweep: &Sweep) -> Vec<&str> {
    sweep.gone.iter().map(|gone| gone.session.as_str()).collect()
}

fn why<'s>(sweep: &'s Sweep, name: &str) -> Option<&'s KeptReason> {
    let session: SessionId = id(name);
    sweep.kept.iter().find(|kept| kept.session == session).map(|kept| &kept.why)
}

/// A library of a later version was here, and went: what only that one understands is that one's to remove.
#[test]
fn a_session_that_cannot_be_read_stays_and_keeps_no_other() {
    for somebody_is_at_work in [true, false] {
        let folder = own_folder();
        let store = Store::open(folder.path(), small()).unwrap();
        for name in ["a", "claimed", "forked", "later", "lost", "works"] {
            Waiting::create(&store, &id(name)).append(&entries(1..=2)).unwrap();
        }
        assert!(store.settle(LONG));
        let session = |name: &str| folder.path().join("sessions").join(name);
        if somebody_is_at_work {
            store.mark_open(&id("works")).unwrap();
        }
        let line = br#"{"v":9,"session":"later","seq":1,"time":1,"who knows":"what""#;
        let sum = Sum::zero().next(line);
        let line = [&line[..], b",\"sum\":\"", sum.as_str().as_bytes(), b"\"}\n"].concat();
        fs::write(session("later").join("anchors/001_session-start/entries.jsonl"), line).unwrap();
        fs::create_dir(session("claimed").join("claim")).unwrap();
        fs::write(session("forked").join("forks"), "no folder").unwrap();
        fs::rename(session("lost").join("anchors"), session("lost").join("elsewhere")).unwrap();
        fs::write(session("lost").join("anchors"), "no folder").unwrap();

        let planned = sweep_plan(&store, nothing_stays(), Millis::now(), || false).unwrap();
        let swept = sweep_planned(&store, planned.clone(), || false).unwrap();
        for sweep in [&planned, &swept] {
            let expected = if somebody_is_at_work { vec!["a"] } else { vec!["a", "works"] };
            assert_eq!(gone(sweep), expected);
            assert_eq!(why(sweep, "claimed"), Some(&KeptReason::Live));
            for name in ["later", "forked"] {
                assert!(matches!(why(sweep, name), Some(KeptReason::Failed(_))), "{name}: {:?}", why(sweep, name));
            }
            assert_eq!(why(sweep, "works"), somebody_is_at_work.then_some(&KeptReason::AtWork));
        }
        for name in ["claimed", "forked", "later", "lost"] {
            assert!(store.exists(&id(name)), "{name}");
        }
    }
}
