//! The story is played once, and its tape kept. Then the world is stopped after each of its entries, and inside each of its
//! lines: a store with the tape up to there, an outside as it was then, and a runtime that continues.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use futures_util::StreamExt as _;

use super::{
    host::{id, play, runtime},
    judge::{differences, entries, promises, running, told},
    world::{Outside, World, ticket_of},
};

use crate::support::taped;

/// Cuts that are gone on with at the same time.
const AT_ONCE: usize = 16;

fn tape_of(store: &Path) -> PathBuf {
    store.join(format!("sessions/{}/anchors/001_session-start/entries.jsonl", id()))
}

/// The story as it is when nothing goes wrong.
struct Reference {
    folder: taped::Folder,
    lines: Vec<String>,
    entries: Vec<tamtam::tape::TapeEntry>,
    told: Vec<String>,
    world: World,
}

impl Reference {
    async fn play() -> Reference {
        let folder = taped::folder();
        let (world, store) = (World::default(), folder.path().join("store"));
        let runtime = runtime(&world, &store).start().await.unwrap();
        let state = play(&runtime, &world, folder.path()).await.unwrap();
        assert!(runtime.shutdown().await.is_empty());
        assert_eq!(promises(&state, &world, &store), Vec::<String>::new());
        let text = fs::read_to_string(tape_of(&store)).unwrap();
        let lines = text.split_inclusive('\n').map(str::to_owned).collect();
        Reference { lines, entries: entries(&store).unwrap(), told: told(&state), world, folder }
    }

    /// What was outside when that many entries were written: what a call did counts as done from its start on.
    fn outside(&self, entries: usize) -> World {
        let whole = self.world.look();
        let started: Vec<_> = self.entries[..entries]
            .iter()
            .filter(|entry| entry.kind == "call_started")
            .filter_map(|entry| entry.ticket)
            .collect();
        let asked = |ticket: &tamtam::Seq| self.entries[..entries].iter().any(|entry| entry.seq == *ticket);
        let ran = whole.ran_as.iter().filter(|(_, ticket)| started.contains(ticket));
        let ran_as: BTreeMap<_, _> = ran.map(|(what, ticket)| (what.clone(), *ticket)).collect();
        World::of(Outside {
            ran: ran_as.keys().map(|what| (what.clone(), 1)).collect(),
            ran_as,
            failed: whole
                .failed
                .iter()
                .filter(|(_, ticket)| asked(ticket))
                .map(|(how, ticket)| (*how, *ticket))
                .collect(),
            // A request that is made again under its key must be what it was in the story.
            requests: whole.requests.clone().into_iter().filter(|(key, _)| asked(&ticket_of(key))).collect(),
            ..Outside::default()
        })
    }

    /// Goes on from a tape with so many whole entries and so many bytes of the next line; what was wrong then.
    async fn cut(&self, whole: usize, torn: usize) -> Vec<String> {
        let folder = taped::folder();
        let store = folder.path().join("store");
        let tape = tape_of(&store);
        fs::create_dir_all(tape.parent().unwrap()).unwrap();
        let mut bytes = self.lines[..whole].concat().into_bytes();
        bytes.extend(self.lines.get(whole).map_or(&b""[..], |next| &next.as_bytes()[..torn]));
        fs::write(&tape, bytes).unwrap();
        // An append whose lines are not all there never was.
        let kept = self.whole_appends(whole);
        let world = self.outside(kept);
        let cut_off = running(&self.entries[..kept]);
        let runtime = runtime(&world, &store).start().await.unwrap();
        let played = play(&runtime, &world, self.folder.path()).await;
        let leftover = runtime.shutdown().await;
        let mut wrong = match played {
            Ok(state) => {
                let mut wrong = promises(&state, &world, &store);
                wrong.extend(differences(&told(&state), &self.told, &cut_off));
                wrong
            }
            Err(error) => vec![error],
        };
        if !leftover.is_empty() {
            wrong.push(format!("{leftover:?}"));
        }
        let place = format!("cut after {kept} entries ({whole} lines and {torn} bytes), {cut_off:?} running");
        if wrong.is_empty() { wrong } else { [vec![place], wrong].concat() }
    }

    /// How many entries of the first so many lines belong to whole appends.
    fn whole_appends(&self, lines: usize) -> usize {
        let more = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["more"].as_u64().unwrap_or(0);
        let mut whole = lines;
        while whole > 0 && more(&self.lines[whole - 1]) > 0 {
            whole -= 1;
        }
        whole
    }

    async fn cut_all(&self, cuts: impl Iterator<Item = (usize, usize)>) {
        let cuts: Vec<_> = cuts.collect();
        let judged = futures_util::stream::iter(&cuts).map(|(whole, torn)| self.cut(*whole, *torn));
        let wrong: Vec<_> =
            judged.buffer_unordered(AT_ONCE).filter(|wrong| std::future::ready(!wrong.is_empty())).collect().await;
        assert!(
            wrong.is_empty(),
            "of {} cuts {} went wrong: {:#?}",
            cuts.len(),
            wrong.len(),
            &wrong[..wrong.len().min(4)]
        );
    }
}

/// Must show 6, promises 1, 2, 4, SUPV invariants 16 and 18: a story that is cut off after any of its entries comes to the
/// same end; only calls that were running then are answered as unknown, and no call that may run once runs twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_story_that_is_cut_off_after_any_entry_comes_to_the_same_end() {
    let story = Reference::play().await;
    assert!(story.lines.len() > 70, "the story has {} entries only", story.lines.len());
    story.cut_all((1..=story.lines.len()).map(|whole| (whole, 0))).await;
}

/// Must show 6, R7, D05: the same with the crash inside a line: its first byte, half of it, all but its line feed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_story_that_is_cut_off_inside_any_line_comes_to_the_same_end() {
    let story = Reference::play().await;
    let inside = |whole: usize| {
        let length = story.lines[whole].len();
        [1, length / 2, length - 1].map(|torn| (whole, torn))
    };
    story.cut_all((1..story.lines.len()).flat_map(inside)).await;
}
