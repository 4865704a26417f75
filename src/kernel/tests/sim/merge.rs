//! Merging what was said in a fork: taken only by a session at rest that is what it was, behind all that was said, and counted.

use std::sync::Arc;

use tamtam::{
    Millis, Part, Seq,
    kernel::{ForkMade, Merge, Merged, Spent},
    model::{History, Item, ModelAnswer, ToolResultItem, UserItem},
    session::Finish,
};

use super::{Broken, hold, host::Wish, world::World};
use crate::kernel::tests::core::play::{call, text};

impl World {
    /// What a fork may have said: whole, as every conversation at rest is.
    fn said_in_a_fork(&mut self) -> History {
        let mut said = History::default();
        let turns = self.rng.below(3);
        for n in 0..turns {
            let id = format!("fork-{}-{n}", self.state.seq).into();
            let parts = vec![Part::text("words of a fork")];
            said.push(Item::User(UserItem { id, parts, fragment: Default::default() }));
            let calls = self.rng.below(3);
            if calls > 0 {
                let parts = (0..calls).map(|call_n| call(&format!("c{call_n}"), "read", "{}")).collect();
                said.push(Item::Assistant(ModelAnswer::new(parts, Finish::ToolCalls)));
                for call_n in 0..calls {
                    said.push(Item::Result(ToolResultItem {
                        call: format!("c{call_n}").as_str().into(),
                        name: "read".to_owned(),
                        content: "from a fork".to_owned(),
                        is_error: false,
                        attachments: Vec::new(),
                        time: self.now,
                        seq: self.state.seq.next(),
                        fragment: Default::default(),
                    }));
                }
            }
            said.push(Item::Assistant(ModelAnswer::new(vec![text("so said the fork")], Finish::Stop)));
        }
        said
    }

    /// A host merges a fork; now and then by what it worked out from an older state, or the same twice.
    pub(super) fn merge(&mut self) -> Result<(), Broken> {
        self.catch_up()?;
        if self.state.turn.is_some() && self.rng.percent(80) {
            return Ok(());
        }
        if self.rng.percent(50) && self.merge_a_fork()? {
            return Ok(());
        }
        let stale = self.rng.percent(10);
        let items = self.said_in_a_fork();
        let spent = Spent { requests: self.rng.below(3) as u64, ..Spent::default() };
        let onto = Seq(self.state.seq.0 - u64::from(stale));
        let spill = self.rng.percent(50).then(|| "/store/sessions/fork/spill".to_owned());
        let (files, unlisted) = (Vec::new(), Vec::new());
        let (fork, from, to) = ("fork".parse().unwrap(), Seq(1), Seq(self.rng.below(90) as u64));
        let made = ForkMade { entry: Seq(1), time: Millis(1) };
        let merged = Arc::new(Merged { fork, made, onto, from, to, items, spent, files, unlisted, spill });
        let before = self.state.clone();
        let reply = self.host.wish(Wish::Other);
        self.at_once(&Merge { merged: merged.clone() }.to(reply))?;
        if before.turn.is_some() || before.closed.is_some() || stale {
            hold!(self.state == before, "a merge was taken that was to be refused");
            return Ok(());
        }
        let now = &self.state;
        let said = before.history.iter().chain(merged.items.iter());
        hold!(now.history.iter().eq(said), "a merge is not what was said, behind all that was said before");
        hold!(
            now.open == before.open && now.queue == before.queue && now.ended == before.ended,
            "a merge touched more"
        );
        let mut expected = before.spent_in_all();
        expected += merged.spent;
        hold!(now.spent_in_all() == expected, "what the fork used does not count once");
        self.counts.merges += 1;
        let reply = self.host.wish(Wish::Other);
        let after = self.state.clone();
        self.at_once(&Merge { merged }.to(reply))?;
        hold!(self.state == after, "the same merge was taken twice");
        Ok(())
    }
}
