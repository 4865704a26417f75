//! Lists: all sessions at once, at a cost that does not grow by a round trip for each.

use tamtam::tape::{Mark, SessionSummary, TapeError, TapeStore as _, TapeStoreExt as _};
use tamtam_postgres::{Postgres, PostgresOptions};

use crate::{
    engines::claims::{LONG, Tape, entries, entry, id, talked},
    server::{Proxy, shared, sql},
};

/// A list of a hundred sessions asks the server as often as a list of two, and says of each what asking for it alone says.
#[test]
fn a_list_of_a_hundred_sessions_takes_three_statements() {
    let (options, proxy) = (shared().database(), Proxy::start(shared()));
    let direct = Postgres::open(&options).unwrap();
    let far = PostgresOptions::new(proxy.address()).schema(options.schema.clone());
    let store = Postgres::open(&far).unwrap();
    drop(talked(&direct, "parent"));
    assert!(direct.settle(LONG));
    direct.fork(&id("parent"), None, &id("fork"), entry(1).time).unwrap();
    let statements = || {
        let before = proxy.statements();
        (store.list().unwrap(), proxy.statements() - before)
    };
    // Once more than needed: the first connection is made.
    statements();
    let (few, of_few) = statements();
    assert_eq!(few.len(), 2);
    for n in 0..98 {
        let mut tape = Tape::create(&direct, &format!("s{n}"));
        tape.append(&entries(1..=1 + n % 3)).unwrap();
    }
    drop(direct.create(&id("empty"), std::sync::Arc::new(|_| {})).unwrap());
    assert!(direct.settle(LONG));
    let (all, of_all) = statements();
    assert_eq!((all.len(), of_few, of_all), (101, 3, 3));
    let one_by_one: Vec<_> = direct.names().unwrap().iter().map(|session| direct.summary(session).unwrap()).collect();
    assert_eq!(all, one_by_one);
    assert_eq!(all.iter().filter_map(|summary| summary.from.as_ref()).count(), 1);
}

/// One that cannot be read is listed as it is over files; one that is hidden is not.
#[test]
fn a_damaged_session_spoils_no_list() {
    let options = shared().database();
    let store = Postgres::open(&options).unwrap();
    drop(talked(&store, "parent"));
    assert!(store.settle(LONG));
    let time = entry(1).time;
    store.fork(&id("parent"), None, &id("fork"), time).unwrap();
    let schema = &options.schema;
    let damage = format!("update {schema}.entries set line = replace(line, 'parent', 'nobody') where session = 'fork'");
    sql(&shared().address(), &damage);
    assert!(matches!(store.summary(&id("fork")), Err(TapeError::Damaged(_))));
    let listed = store.list().unwrap();
    assert_eq!(listed[0], SessionSummary::unread(id("fork")));
    assert_eq!(listed[1].id, id("parent"));
    store.mark(&id("parent"), Mark::Hidden, "").unwrap();
    assert_eq!(store.list().unwrap().len(), 1);
}
