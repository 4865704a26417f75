//! Search over a million entries of a hundred sessions (`TAMTAM_SEARCHED` for another number).
#![allow(unreachable_pub, reason = "a part of one bench")]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tamtam::{
    Millis, Seq, SessionId,
    tape::{Appended, Order, Query, Store, StoreOptions, TapeEntry, TapeStore as _, TapeStoreExt as _},
};

use super::parts::{distribution, scaled};

/// Numbers that look random and are the same in every run.
struct Rng(u64);

impl Rng {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    /// A word of 50,000; small numbers are common, like words: the first is in most texts, the last ones in a few.
    fn word(&mut self) -> u64 {
        let part = self.below(1 << 20) as f64 / f64::from(1 << 20);
        (50_000_f64.powf(part)) as u64
    }
}

/// (s) Searching a million entries of 20 words each.
pub fn search() {
    let total: u64 = std::env::var("TAMTAM_SEARCHED").ok().and_then(|n| n.parse().ok()).unwrap_or(scaled(1_000_000));
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), StoreOptions::default()).unwrap();
    let mut rng = Rng(1);
    let sessions = scaled(100);
    for session in 0..sessions {
        let mut tape = store.create(&SessionId::new(), Arc::new(|_| {})).unwrap();
        for seq in 1..=total / sessions {
            let words: Vec<String> = (0..20).map(|_| format!("w{}", rng.word())).collect();
            let mark = if seq == 1 { format!(" only{session}") } else { String::new() };
            let data = serde_json::json!({ "text": words.join(" ") + &mark });
            let data = serde_json::value::to_raw_value(&data).unwrap();
            let mut entry = TapeEntry::new(Seq(seq), Millis(1_700_000_000_000 + seq), "message", data);
            (entry.turn, entry.step) = (Some(Seq(1)), Some(1));
            if let Appended::Later = tape.append(&[entry]) {
                assert!(store.settle(Duration::from_secs(10)));
            }
        }
    }
    let start = Instant::now();
    let mut index = store.index().unwrap();
    index.catch_up().unwrap();
    let rows = index.rows().unwrap().entries;
    println!("s: index of {rows} entries made in {:.0} s", start.elapsed().as_secs_f64());
    type Words<'a> = &'a dyn Fn(&mut Rng) -> String;
    let searches: [(&str, Words<'_>); 6] = [
        ("one word, as often as it is said", &|rng| format!("w{}", rng.word())),
        ("two words", &|rng| format!("w{} w{}", rng.word(), rng.word())),
        ("a phrase of two words", &|rng| format!("\"w{} w{}\"", rng.word(), rng.word())),
        ("a prefix", &|rng| format!("w{}*", rng.word())),
        ("a word in one entry", &|rng| format!("only{}", rng.below(sessions))),
        ("a word that is nowhere", &|rng| format!("no{}", rng.word())),
    ];
    let rounds = scaled(300);
    for (what, words) in searches {
        for order in [Order::Newest, Order::Best] {
            let mut took = Vec::new();
            let mut found = 0;
            for _ in 0..rounds {
                let mut query = Query::new(words(&mut rng));
                (query.order, query.wait) = (order, Duration::ZERO);
                let start = Instant::now();
                found += index.search(&query).unwrap().hits.len();
                took.push(start.elapsed());
            }
            distribution(&format!("s: {what}, {order:?} ({} hits a page)", found / rounds), took);
        }
    }
}
