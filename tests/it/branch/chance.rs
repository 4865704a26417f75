//! Random sends, rollbacks, undos, redos, forks and merges, against what a list of messages would do.

use std::collections::BTreeMap;

use tamtam::{Session, session::Point};

use super::{create, newest, say, seen, start, told};
use crate::{back::Echo, support::rng::Rng, support::taped};

const SEEDS: u64 = 12;
const STEPS: usize = 40;
const FORKS_MAX: usize = 5;

/// What is said at one place of a list: words of its own, or what a fork said.
#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Said(String),
    /// Which fork, all that it had said by then, and what of it is new here.
    Merged(usize, Vec<String>, Vec<String>),
}

/// A conversation as a list of messages.
#[derive(Clone, Debug, Default)]
struct List {
    pieces: Vec<Piece>,
    /// What undos and rollbacks came from, as long as nothing was said since.
    redo: Vec<Vec<Piece>>,
    /// Of a fork: which it was forked from, and what was said there.
    of: Option<(usize, Vec<String>)>,
}

fn words(pieces: &[Piece]) -> Vec<String> {
    let words = pieces.iter().flat_map(|piece| match piece {
        Piece::Said(word) => vec![word.clone()],
        Piece::Merged(_, _, new) => new.clone(),
    });
    words.collect()
}

impl List {
    fn words(&self) -> Vec<String> {
        words(&self.pieces)
    }

    /// With the answers.
    fn lines(&self) -> Vec<String> {
        self.words().iter().flat_map(|word| [word.clone(), format!("re {word}")]).collect()
    }

    fn go_back_to(&mut self, pieces: usize) {
        let before = self.pieces.clone();
        self.pieces.truncate(pieces);
        self.redo.push(before);
    }

    /// What a merge of that fork would bring.
    fn news(&self, n: usize, fork: &List) -> Vec<String> {
        let merged = self.pieces.iter().rev().find_map(|piece| match piece {
            Piece::Merged(known, all, _) if *known == n => Some(all.clone()),
            _ => None,
        });
        let known = merged.unwrap_or_else(|| fork.of.clone().unwrap().1);
        let now = fork.words();
        let common = now.iter().zip(&known).take_while(|(a, b)| a == b).count();
        now[common..].to_vec()
    }
}

struct Both {
    sessions: Vec<Session>,
    lists: Vec<List>,
    said: usize,
}

impl Both {
    async fn step(&mut self, rng: &mut Rng, counts: &mut BTreeMap<&'static str, usize>) {
        let n = rng.below(self.sessions.len());
        let may_fork = self.lists.len() < FORKS_MAX;
        let (session, list) = (self.sessions[n].clone(), &mut self.lists[n]);
        let what = rng.weighted(&[(6, "say"), (3, "undo"), (3, "redo"), (2, "rollback"), (2, "fork"), (4, "merge")]);
        let done = match what {
            "say" => {
                self.said += 1;
                let word = format!("m{}", self.said);
                say(&session, &[&word]).await;
                list.pieces.push(Piece::Said(word));
                list.redo.clear();
                true
            }
            "undo" => {
                let undone = session.undo().await;
                assert_eq!(undone.is_ok(), !list.pieces.is_empty(), "{undone:?}");
                if let Some(last) = list.pieces.len().checked_sub(1) {
                    list.go_back_to(last);
                }
                undone.is_ok()
            }
            "redo" => {
                let redone = session.redo().await;
                assert_eq!(redone.is_ok(), !list.redo.is_empty(), "{redone:?}");
                if let Some(pieces) = list.redo.pop() {
                    list.pieces = pieces;
                }
                redone.is_ok()
            }
            "rollback" if !list.pieces.is_empty() => {
                let at = rng.below(list.pieces.len());
                let words = words(&list.pieces[at..=at]);
                let word = rng.pick(&words);
                session.rollback(Point::BeforeMessage(word.as_str().into())).await.unwrap();
                list.go_back_to(at);
                true
            }
            "fork" if may_fork => {
                let at = rng.below(list.pieces.len() + 1);
                let pieces = list.pieces[..at].to_vec();
                let fork = match list.pieces.get(at) {
                    Some(piece) => {
                        let word = words(std::slice::from_ref(piece))[0].clone();
                        session.fork(Point::BeforeMessage(word.as_str().into())).await.unwrap()
                    }
                    None => session.fork(newest(&session).await).await.unwrap(),
                };
                // Words of its own first, so that what was taken back in its parent is not redone in it.
                self.said += 1;
                let word = format!("m{}", self.said);
                say(&fork, &[&word]).await;
                let of = Some((n, words(&pieces)));
                let pieces = [pieces, vec![Piece::Said(word)]].concat();
                self.lists.push(List { pieces, redo: Vec::new(), of });
                self.sessions.push(fork);
                true
            }
            "merge" => {
                let forks: Vec<usize> = (0..self.lists.len())
                    .filter(|fork| self.lists[*fork].of.as_ref().is_some_and(|of| of.0 == n))
                    .collect();
                if forks.is_empty() {
                    return;
                }
                let fork = rng.pick(&forks);
                let (news, all) = (self.lists[n].news(fork, &self.lists[fork]), self.lists[fork].words());
                let merged = session.merge(self.sessions[fork].id()).await;
                let Ok(merged) = merged else {
                    // A fork from before its parent was forked itself is of the parent's parent.
                    assert!(self.lists[n].of.is_some(), "{merged:?}");
                    return;
                };
                let said: Vec<String> = merged.messages.iter().map(ToString::to_string).collect();
                assert_eq!(said, news, "{merged:?}");
                if !news.is_empty() {
                    let list = &mut self.lists[n];
                    list.pieces.push(Piece::Merged(fork, all, news));
                    list.redo.clear();
                }
                !said.is_empty()
            }
            _ => false,
        };
        *counts.entry(what).or_default() += usize::from(done);
        for (session, list) in self.sessions.iter().zip(&self.lists) {
            assert_eq!(seen(session).await, list.lines(), "after {what} of session {n}");
        }
        assert_eq!(told(&self.sessions[n]).await, self.lists[n].lines(), "after {what} of session {n}, as messages");
    }
}

/// Z-01, Z-02, Z-05, S-10: whatever is done in whatever order, each conversation is what a list of messages would be, the model
/// and the page see the same, and the next process finds it so.
#[tokio::test(flavor = "multi_thread")]
async fn conversations_are_what_lists_of_messages_would_be() {
    let mut counts = BTreeMap::new();
    for seed in 1..=SEEDS {
        let folder = taped::folder();
        let runtime = start(folder.path(), Echo::new()).await;
        let parent = create(&runtime, folder.path()).await;
        let mut both = Both { sessions: vec![parent], lists: vec![List::default()], said: 0 };
        let mut rng = Rng::new(seed);
        for _ in 0..STEPS {
            both.step(&mut rng, &mut counts).await;
        }
        assert!(runtime.shutdown().await.is_empty());
        let runtime = start(folder.path(), Echo::new()).await;
        for (session, list) in both.sessions.iter().zip(&both.lists) {
            let session = runtime.open(session.id()).await.unwrap();
            assert_eq!((seen(&session).await, told(&session).await), (list.lines(), list.lines()), "seed {seed}");
        }
        assert!(runtime.shutdown().await.is_empty());
    }
    assert!(counts.len() == 6 && counts.values().all(|times| *times > 10), "too tame: {counts:?}");
}
