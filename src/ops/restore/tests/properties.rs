//! Random sequences of writes, edits, reads, commands and changes by others: going back to any point gives the bytes of then,
//! or names the file.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const NAMES: [&str; 4] = ["a", "b", "sub/c", "sub/d"];

#[derive(Clone, Debug)]
enum Op {
    Write(usize, u8),
    Edit(usize, u8),
    Read(usize),
    /// Another program writes.
    Theirs(usize, u8),
    /// Another program deletes.
    Gone(usize),
    /// A command writes, or deletes.
    Command(usize, Option<u8>),
    /// An earlier point is gone back to.
    Back(prop::sample::Index),
}

fn op(with_commands: bool) -> impl Strategy<Value = Op> {
    let name = 0..NAMES.len();
    let content = 0..6_u8;
    let commands = if with_commands { 2 } else { 0 };
    prop_oneof![
        4 => (name.clone(), content.clone()).prop_map(|(name, content)| Op::Write(name, content)),
        4 => (name.clone(), content.clone()).prop_map(|(name, content)| Op::Edit(name, content)),
        3 => name.clone().prop_map(Op::Read),
        2 => (name.clone(), content.clone()).prop_map(|(name, content)| Op::Theirs(name, content)),
        1 => name.clone().prop_map(Op::Gone),
        1 => any::<prop::sample::Index>().prop_map(Op::Back),
        commands => (name, prop::option::of(content)).prop_map(|(name, content)| Op::Command(name, content)),
    ]
}

type Tree = BTreeMap<&'static str, Option<Vec<u8>>>;

fn tree(scene: &Scene) -> Tree {
    NAMES.iter().map(|name| (*name, scene.bytes(name))).collect()
}

fn content(n: u8) -> String {
    format!("head\nline {n}\ntail\n")
}

/// One thing that happened: where the tape was before it, the tree before and after, and who did it to which file.
struct FileStep {
    at: Seq,
    before: Tree,
    after: Tree,
    /// The files that are in our record of it, also where they hold the same as before.
    ours: Vec<String>,
}

fn play(scene: &mut Scene, op: &Op, steps: &[FileStep]) -> Vec<String> {
    let result = match op {
        Op::Write(name, n) => scene.call("write", json!({"path": NAMES[*name], "content": content(*n)})),
        Op::Edit(name, n) => {
            let old = scene.bytes(NAMES[*name]).and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
            let old = old.lines().nth(1).unwrap_or("nothing").to_owned();
            scene.call("edit", json!({"path": NAMES[*name], "old_string": old, "new_string": format!("line {n}")}))
        }
        Op::Read(name) => scene.call("read", json!({"path": NAMES[*name]})),
        Op::Theirs(name, n) => {
            scene.put(NAMES[*name], content(*n));
            return Vec::new();
        }
        Op::Gone(name) => {
            drop(std::fs::remove_file(scene.path(NAMES[*name])));
            return Vec::new();
        }
        Op::Command(name, Some(n)) => {
            let name = NAMES[*name];
            scene.bash(&format!("mkdir -p sub; printf 'head\\nline {n}\\ntail\\n' > {name}"))
        }
        Op::Command(name, None) => scene.bash(&format!("rm -f {}", NAMES[*name])),
        Op::Back(index) => {
            if steps.is_empty() {
                return Vec::new();
            }
            let done = scene.restore(steps[index.index(steps.len())].at, Restore::Rest);
            return done.files.into_iter().map(|file| file.path).collect();
        }
    };
    result.changes.unwrap_or_default().files.into_iter().map(|file| file.path).collect()
}

/// Plays all, goes back to one point, and holds each file against what is known of it.
fn check(ops: &[Op], point: &prop::sample::Index) -> Result<(), TestCaseError> {
    let mut scene = Scene::new();
    scene.put("a", content(0));
    scene.put("sub/c", content(1));
    let mut steps: Vec<FileStep> = Vec::new();
    for op in ops {
        let (at, before) = (scene.seq(), tree(&scene));
        let ours = play(&mut scene, op, &steps);
        steps.push(FileStep { at, before, after: tree(&scene), ours });
    }
    let from = point.index(steps.len());
    let since = steps[from].at;
    // Several steps may be at one point of the tape: what others did leaves no entry.
    let from = steps.iter().position(|step| step.at == since).unwrap();
    let now = tree(&scene);
    let plan = scene.plan(since);
    let refused: Vec<String> = plan.refused().map(|file| file.path.clone()).collect();
    let done = scene.restore(since, Restore::Rest);
    prop_assert_eq!(done.refused.iter().map(|file| file.path.clone()).collect::<Vec<_>>(), refused.clone());
    let then = tree(&scene);
    for name in NAMES {
        let changed = |step: &FileStep| step.before[name] != step.after[name];
        let ours = |step: &FileStep| step.ours.iter().any(|path| path == name);
        let first = steps[from..].iter().position(ours).map(|at| at + from);
        let last = steps[from..].iter().rposition(ours).map(|at| at + from);
        let is_refused = refused.iter().any(|path| path == name);
        let (Some(first), Some(last)) = (first, last) else {
            prop_assert_eq!(&then[name], &now[name], "{} was not ours to change", name);
            continue;
        };
        if is_refused {
            prop_assert_eq!(&then[name], &now[name], "{} is left alone", name);
            continue;
        }
        let target = &steps[first].before[name];
        prop_assert_eq!(&then[name], target, "{} is what it was before our first change", name);
        if !steps[from..first].iter().any(changed) {
            prop_assert_eq!(&then[name], &steps[from].before[name], "{} is what it was then", name);
        }
        let theirs = now[name] != steps[last].after[name] && now[name] != *target;
        prop_assert!(!theirs, "{} was changed behind our back, and is not refused", name);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Z-03: the bytes of then, or the file by name.
    #[test]
    fn going_back_gives_the_bytes_of_then_or_names_the_file(
        ops in prop::collection::vec(op(false), 1..16),
        point in any::<prop::sample::Index>(),
    ) {
        check(&ops, &point)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// The same with commands of the shell among it.
    #[test]
    fn going_back_past_commands_gives_the_bytes_of_then_or_names_the_file(
        ops in prop::collection::vec(op(true), 1..10),
        point in any::<prop::sample::Index>(),
    ) {
        check(&ops, &point)?;
    }
}
