//! The index of words in PostgreSQL, past what every index promises: what a search reads, and what a deletion leaves.

use std::sync::Arc;

use tamtam::{
    Runtime, Seq,
    model::Scripted,
    tape::{Behind, Mark, Page, Query, TapeStore as _, TapeStoreExt as _},
};
use tamtam_postgres::{Postgres, PostgresOptions};

use crate::{
    engines::claims::{LONG, Tape, entries, id},
    server::{Proxy, shared, sql},
};

pub(crate) async fn searches(store: &Postgres) -> Runtime {
    let model = Arc::new(Scripted::new([]));
    Runtime::builder().tapes(Arc::new(store.clone())).model(model).start().await.unwrap()
}

async fn search(runtime: &Runtime, query: Query) -> Page {
    runtime.search(query.wait(LONG)).await.unwrap()
}

/// How many rows the index has: of entries, and of sessions.
fn rows(options: &PostgresOptions) -> Vec<String> {
    let schema = &options.schema;
    let sql_text = format!("select (select count(*) from {schema}.words), (select count(*) from {schema}.indexed)");
    tokio::task::block_in_place(|| sql(&shared().address(), &sql_text))
}

/// An append writes nothing to the index; a search reads each entry once, and asks nothing of sessions at rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_is_read_once_and_by_the_search_that_needs_it() {
    let (options, proxy) = (shared().database(), Proxy::start(shared()));
    let direct = Postgres::open(&options).unwrap();
    let store = Postgres::open(&PostgresOptions::new(proxy.address()).schema(options.schema.clone())).unwrap();
    let write = |from: u64, through: u64| {
        for n in 0..20 {
            let name = format!("s{n}");
            let mut tape = if from == 1 { Tape::create(&direct, &name) } else { Tape::load(&direct, &name).0 };
            tape.append(&entries(from..=through)).unwrap();
        }
        assert!(direct.settle(LONG));
    };
    tokio::task::block_in_place(|| write(1, 300));
    assert_eq!(rows(&options), ["0 0"]);
    let runtime = searches(&store).await;
    let page = search(&runtime, Query::new("entry 299")).await;
    assert_eq!((page.hits.len(), page.behind, page.next), (20, Behind::No, None));
    assert_eq!(rows(&options), ["6000 20"]);
    let before = proxy.statements();
    assert_eq!(search(&runtime, Query::new("entry 300")).await.hits.len(), 20);
    let of_second = proxy.statements() - before;
    // Two tidy up and look for what is new, four count once, three find: the entries, no more at the last place, none before it.
    assert_eq!(of_second, 9);
    // A common word is found from the newest entry on.
    let page = search(&runtime, Query::new("entry").limit(20)).await;
    assert_eq!((page.hits.iter().all(|hit| hit.seq == Seq(300)), page.next.is_some()), (true, true));
    tokio::task::block_in_place(|| write(301, 301));
    assert_eq!(search(&runtime, Query::new("301")).await.hits.len(), 20);
    assert_eq!(rows(&options), ["6020 20"]);
    assert!(runtime.shutdown().await.is_empty());
}

/// A session that is gone, or hidden for its forks, has no row; one that cannot be read keeps no other from being found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_session_leaves_no_row_and_a_damaged_one_is_behind() {
    let options = shared().database();
    let store = Postgres::open(&options).unwrap();
    let create = |name: &str| Tape::create(&store, name).append(&entries(1..=3));
    tokio::task::block_in_place(|| {
        ["a", "b", "c", "d"].iter().for_each(|name| drop(create(name)));
        assert!(store.settle(LONG));
        let damage = "update $.entries set line = replace(line, 'entry 2', 'entry 7') where session = 'a' and seq = 2";
        sql(&shared().address(), &damage.replace('$', &options.schema));
    });
    let runtime = searches(&store).await;
    let page = search(&runtime, Query::new("entry").limit(2)).await;
    assert_eq!(page.behind, Behind::Sessions(1));
    let mut all = page.hits;
    let mut next = page.next;
    while let Some(after) = next {
        let page = search(&runtime, Query::new("entry").limit(2).after(after)).await;
        all.extend(page.hits);
        next = page.next;
    }
    let mut hits: Vec<_> = all.iter().map(|hit| (hit.session.to_string(), hit.seq)).collect();
    hits.sort();
    let expected = ["b", "c", "d"].map(|name| (1..=3).map(move |seq| (name.to_owned(), Seq(seq))));
    assert_eq!(hits, expected.into_iter().flatten().collect::<Vec<_>>());
    assert_eq!(rows(&options), ["9 3"]);
    tokio::task::block_in_place(|| {
        store.delete(&id("b")).unwrap();
        store.mark(&id("c"), Mark::Hidden, "").unwrap();
    });
    assert_eq!(rows(&options), ["3 1"]);
    assert_eq!(search(&runtime, Query::new("entry")).await.hits.len(), 3);
    assert_eq!(rows(&options), ["3 1"]);
    assert!(runtime.shutdown().await.is_empty());
}

/// What an earlier version left of a hidden session goes with the next search; hiding gives another epoch, so that a put of words
/// which waits for it is none. A row that cannot be read any more ends no search.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leftovers_of_a_hidden_session_go_and_an_unreadable_row_is_passed_over() {
    let options = shared().database();
    let store = Postgres::open(&options).unwrap();
    let run = |text: &str| sql(&shared().address(), &text.replace('$', &options.schema));
    tokio::task::block_in_place(|| {
        ["a", "b"].iter().for_each(|name| drop(Tape::create(&store, name).append(&entries(1..=3))));
        assert!(store.settle(LONG));
    });
    let runtime = searches(&store).await;
    assert_eq!(search(&runtime, Query::new("entry")).await.hits.len(), 6);
    tokio::task::block_in_place(|| {
        let epoch = || run("select epoch from $.sessions where session = 'a'");
        let before = epoch();
        run("create table $.kept as select * from $.words where session = 'a'");
        store.mark(&id("a"), Mark::Hidden, "").unwrap();
        assert_ne!(epoch(), before);
        run("insert into $.words select * from $.kept");
        run("update $.entries set line = 'no line' where session = 'b' and seq = 2");
    });
    assert_eq!(rows(&options), ["6 1"]);
    let (mut hits, mut after) = (Vec::new(), None);
    loop {
        let query = Query::new("entry").limit(1);
        let page = search(&runtime, after.into_iter().fold(query, Query::after)).await;
        hits.extend(page.hits.iter().map(|hit| (hit.session.to_string(), hit.seq)));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(hits, [("b".to_owned(), Seq(3)), ("b".to_owned(), Seq(1))]);
    assert_eq!(rows(&options), ["3 1"]);
    assert!(runtime.shutdown().await.is_empty());
}
