//! Large outputs as rows: whole or not there, bounded, gone with their session, and read on any node by the path that was told.

use std::{
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Value, json};
use tamtam::{
    Runtime, Session, SessionOptions,
    model::{BoxFuture, Item, Reply, Request, Scripted},
    permission::Profile,
    session::ForkOptions,
    tape::{ImportOptions, Spills, TapeError, TapeStore as _, TapeStoreExt as _},
    tool::{Tool, ToolContext, ToolResult},
    tools,
};
use tamtam_postgres::{Postgres, PostgresOptions};

use crate::{
    engines::claims::{LONG, Tape, entries, id},
    lost::taken_over,
    moved::files,
    processes::{CHILD, Process},
    server::{shared, sql},
    sessions::harness::{say, seen, until},
};

/// A file with this content.
pub(crate) fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn read(store: &Postgres, session: &str, name: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    store.get_output(&id(session), name, &mut bytes).unwrap().then_some(bytes)
}

fn names(store: &Postgres, session: &str) -> Vec<String> {
    store.outputs(&id(session)).unwrap().into_iter().map(|(name, _)| name).collect()
}

/// How many rows there are: of outputs, and of their pieces.
fn rows(options: &PostgresOptions) -> String {
    let schema = &options.schema;
    let text = format!("select (select count(*) from {schema}.outputs), (select count(*) from {schema}.output_pieces)");
    sql(&shared().address(), &text).remove(0)
}

fn bytes(many: usize) -> Vec<u8> {
    (0..many).map(|n| (n % 251) as u8).collect()
}

#[test]
fn an_output_comes_back_byte_for_byte_and_goes_with_its_session() {
    let options = shared().database();
    let (store, other) = (Postgres::open(&options).unwrap(), Postgres::open(&options).unwrap());
    assert!(matches!(store.put_output(&id("s"), "a.log", &file(b"x")), Err(TapeError::Missing { .. })));
    let mut tape = Tape::create(&store, "s");
    tape.append(&entries(1..=1)).unwrap();
    for (name, many) in [("none.log", 0), ("one.log", 1), ("piece.log", 256 * 1024), ("more.log", 5_000_001)] {
        store.put_output(&id("s"), name, &file(&bytes(many))).unwrap();
        assert!(read(&other, "s", name).unwrap() == bytes(many), "{name}");
    }
    // It is there: another of that name changes nothing.
    store.put_output(&id("s"), "one.log", &file(b"another")).unwrap();
    assert_eq!(read(&store, "s", "one.log").unwrap(), bytes(1));
    assert_eq!(
        store.outputs(&id("s")).unwrap(),
        [
            ("more.log".to_owned(), 5_000_001),
            ("none.log".to_owned(), 0),
            ("one.log".to_owned(), 1),
            ("piece.log".to_owned(), 256 * 1024),
        ]
    );
    assert_eq!((read(&store, "s", "two.log"), read(&store, "t", "one.log")), (None, None));
    assert_eq!(names(&store, "t"), Vec::<String>::new());
    drop(tape);
    assert!(store.settle(LONG));
    assert_eq!(rows(&options), "4 22");
    store.delete(&id("s")).unwrap();
    assert_eq!(rows(&options), "0 0");
}

/// Several nodes put the same output and others in at once: each is there once, and whole.
#[test]
fn outputs_that_come_at_once_are_all_there() {
    let options = shared().database();
    let store = Postgres::open(&options).unwrap();
    let _tape = Tape::create(&store, "s");
    std::thread::scope(|scope| {
        for n in 0..6 {
            let options = &options;
            scope.spawn(move || {
                let store = Postgres::open(options).unwrap();
                store.put_output(&id("s"), "same.log", &file(&bytes(1_000_000))).unwrap();
                store.put_output(&id("s"), &format!("{n}.log"), &file(&bytes(300_000 + n))).unwrap();
            });
        }
    });
    assert_eq!(names(&store, "s").len(), 7);
    assert!(read(&store, "s", "same.log").unwrap() == bytes(1_000_000));
    (0..6).for_each(|n| assert!(read(&store, "s", &format!("{n}.log")).unwrap() == bytes(300_000 + n), "{n}"));
}

/// What a folder keeps: 500 outputs and 512 MiB of a session, for 7 days.
#[test]
fn a_session_keeps_its_newest_outputs() {
    let options = shared().database();
    let (store, schema) = (Postgres::open(&options).unwrap(), &options.schema);
    let change = |set: &str| drop(sql(&shared().address(), &format!("update {schema}.outputs set {set}")));
    let put = |session: &str, name: &str| store.put_output(&id(session), name, &file(b"x")).unwrap();
    let _tapes = ["s", "t"].map(|name| Tape::create(&store, name));
    (0..501).for_each(|n| put("s", &format!("{n:03}.log")));
    assert_eq!((names(&store, "s").len(), names(&store, "s")[0].as_str()), (500, "001.log"));
    put("t", "t.log");
    change("bytes = 512 * 1024 * 1024 where name = '300.log'");
    put("s", "new.log");
    assert_eq!(names(&store, "s").first().map(String::as_str), Some("301.log"));
    // Of any session, with the next output of another one.
    change("at = at - interval '7 days' where session = 's' and name <> 'new.log'");
    (0..3).for_each(|n| put("t", &format!("{n}.log")));
    assert_eq!(names(&store, "s"), ["new.log"]);
    assert_eq!(names(&store, "t").len(), 4);
    assert_eq!(rows(&options), "5 5");
}

/// A tool of a host that says 5 MB.
struct Big;

fn line(n: usize) -> String {
    format!("line {n:07} {}\n", "x".repeat(37))
}

impl Tool for Big {
    fn name(&self) -> &str {
        "big"
    }

    fn description(&self) -> &str {
        "Says much."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn run<'a>(&'a self, _: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        // It could not be read elsewhere: a tool of a host is given no folder.
        assert!(context.spill.is_none());
        Box::pin(async { ToolResult::ok((1..=100_000).map(line).collect::<String>()) })
    }
}

/// To `use TOOL JSON` the model makes that call.
fn reply(request: &Request) -> Reply {
    let Some(Item::User(user)) = request.history.last().map(|item| &**item) else { return Reply::text("done") };
    let text = user.text();
    let (tool, arguments) = text.strip_prefix("use ").and_then(|call| call.split_once(' ')).unwrap();
    Reply::call(tool, serde_json::from_str(arguments).unwrap())
}

/// A node with a folder of its own for copies.
async fn node(options: &PostgresOptions, folder: &Path, name: &str) -> Runtime {
    let options = options.clone().node(name).output_copies(folder.join(name));
    let tapes = tokio::task::spawn_blocking(move || Postgres::open(&options)).await.unwrap().unwrap();
    let model = Arc::new(Scripted::from_fn(reply));
    let builder = Runtime::builder().tapes(Arc::new(tapes)).model(model);
    builder.tools(tools::full()).tool(Big).start().await.unwrap()
}

fn session(folder: &Path) -> SessionOptions {
    std::fs::create_dir_all(folder.join("work")).unwrap();
    SessionOptions::new(folder.join("work")).id("s".parse().unwrap()).profile(Profile::Auto)
}

/// What the model is told by a call.
async fn called(session: &Session, tool: &str, arguments: Value) -> String {
    say(session, &format!("use {tool} {arguments}")).await;
    seen(session).await.into_iter().rev().nth(1).unwrap()
}

/// The path that a result names.
fn told(result: &str) -> String {
    let (_, path) = result.split_once("Full output: ").unwrap_or_else(|| panic!("no path in {} bytes", result.len()));
    path.split_whitespace().next().unwrap().to_owned()
}

/// The files in a node's folder but those that say who lives.
fn copies(folder: &Path, name: &str) -> usize {
    let of = |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    of(folder.join(name)).filter(|path| path.is_dir()).flat_map(of).count()
}

/// Where the process below has its folder: beneath the target folder, since nobody tidies up after a killed process.
fn folder_of(schema: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("outputs-{}-{schema}", shared_name()))
}

/// Tells the servers of several runs apart.
fn shared_name() -> String {
    let at = std::env::var(CHILD).unwrap_or_else(|_| shared().address());
    let folder = at.split_whitespace().next().unwrap_or_default();
    folder.rsplit(['/', '=']).next().unwrap_or_default().to_owned()
}

/// The process of the test below. Does nothing unless the test starts it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(at) = std::env::var(CHILD) else { return };
    let (address, schema) = at.split_once('\n').unwrap();
    let folder = folder_of(schema);
    let runtime = node(&PostgresOptions::new(address).schema(schema), &folder, "child").await;
    let session = runtime.create(session(&folder)).await.unwrap();
    println!("told {}", told(&called(&session, "big", json!({})).await));
    std::future::pending::<()>().await;
}

/// The owner is killed (`kill -9`); the model of another node reads on by the path that it was told on the first, in a fork too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_reads_on_at_another_node_by_the_path_that_it_was_told() {
    let options = shared().database();
    let folder = folder_of(&options.schema);
    std::fs::create_dir_all(&folder).unwrap();
    let mut process = Process::of("outputs::child", &options);
    let path = tokio::task::spawn_blocking(move || {
        let path = process.hear(u64::MAX);
        process.signal("-KILL");
        path.unwrap()
    });
    let path = path.await.unwrap();
    assert!(path.starts_with("/tamtam/outputs/s/"), "{path}");
    std::fs::remove_dir_all(folder.join("child")).unwrap();

    let second = node(&options, &folder, "two").await;
    let there = taken_over(&second).await;
    let fork = there.fork(ForkOptions::default()).await.unwrap();
    for session in [&there, &fork] {
        let shown = called(session, "read", json!({ "path": path, "offset": 90_000, "limit": 2 })).await;
        assert!(shown.contains(line(90_000).trim_end()) && shown.contains(line(90_001).trim_end()), "{shown}");
        assert!(shown.contains("of 100000; "), "{shown}");
        let found = called(session, "grep", json!({ "path": path, "pattern": "line 0054321" })).await;
        assert!(found.contains("54321: line 0054321"), "{found}");
        let all = called(session, "grep", json!({ "path": "/tamtam/outputs/s", "pattern": "line 0000007" })).await;
        assert!(all.contains("line 0000007"), "{all}");
        let changed = called(session, "read", json!({ "path": format!("{path}x") })).await;
        assert!(changed.contains("No such file"), "{changed}");
    }
    until("no copy is left", || copies(&folder, "two") == 0).await;
    second.delete(fork.id()).await.unwrap();
    second.delete(there.id()).await.unwrap();
    assert_eq!(tokio::task::block_in_place(|| rows(&options)), "0 0");
    assert!(second.shutdown().await.is_empty());
    drop(second);
    std::fs::remove_dir_all(folder).unwrap();
}

/// A command's output is a row before its result names it; and where the store takes none, the result says so and names nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_names_no_output_that_the_store_did_not_take() {
    let (options, folder) = (shared().database(), tempfile::tempdir().unwrap());
    let runtime = node(&options, folder.path(), "one").await;
    let session = runtime.create(session(folder.path())).await.unwrap();
    let said = called(&session, "bash", json!({ "command": "seq 1 200000" })).await;
    let path = told(&said);
    let shown = called(&session, "read", json!({ "path": path, "offset": 123_456, "limit": 1 })).await;
    assert!(shown.contains("123456\t123456"), "{shown}");

    let rename = |from: &str, to: &str| {
        let text = format!("alter table {}.{from} rename to {to}", options.schema);
        tokio::task::block_in_place(|| drop(sql(&shared().address(), &text)));
    };
    rename("outputs", "away");
    for (tool, arguments) in [("big", json!({})), ("bash", json!({ "command": "seq 1 300000" }))] {
        let said = called(&session, tool, arguments).await;
        let why = "The full output could not be kept: the tape store failed: PostgreSQL refused to keep a large output";
        assert!(said.contains(why) && !said.contains("/tamtam/outputs"), "{}", said.replace("xxx", ""));
    }
    let shown = called(&session, "read", json!({ "path": path })).await;
    assert!(shown.starts_with("The output could not be read from the store: "), "{shown}");
    rename("away", "outputs");
    assert!(called(&session, "read", json!({ "path": path, "limit": 1 })).await.contains("1\t1"));
    until("no copy is left", || copies(folder.path(), "one") == 0).await;
    assert_eq!(tokio::task::block_in_place(|| rows(&options)), "1 5");
    assert!(runtime.shutdown().await.is_empty());
}

/// An export with its large outputs comes in and goes out the same, byte for byte.
#[test]
fn large_outputs_go_from_files_to_postgresql_and_back() {
    let (folder, options) = (tempfile::tempdir().unwrap(), shared().database());
    let from = files(folder.path());
    Tape::create(&from, "s").append(&entries(1..=3)).unwrap();
    assert!(from.settle(LONG));
    let spills = from.spill_path(&id("s")).unwrap();
    std::fs::create_dir_all(&spills).unwrap();
    for (name, many) in [("a-1.log", 700_000), ("b-2.log", 0), ("c-3.log", 3)] {
        std::fs::write(spills.join(name), bytes(many)).unwrap();
    }
    let mut file = Vec::new();
    assert_eq!(from.export(&id("s"), Spills::Taken, &mut file).unwrap().spills, 3);
    let to = Postgres::open(&options.clone().output_copies(folder.path().join("copies"))).unwrap();
    assert_eq!(to.import(&mut &file[..], &ImportOptions::as_it_was()).unwrap().spills, 3);
    assert!(read(&to, "s", "a-1.log").unwrap() == bytes(700_000));
    let mut again = Vec::new();
    to.export(&id("s"), Spills::Taken, &mut again).unwrap();
    assert!(again == file, "it goes out in another way");
    // Of a file that is cut off nothing is left.
    to.delete(&id("s")).unwrap();
    assert!(to.import(&mut &file[..file.len() - 9], &ImportOptions::as_it_was()).is_err());
    assert_eq!(rows(&options), "0 0");
}
