//! A server that goes away, and a database that cannot be used: what was acknowledged is there, nothing is there twice, and errors
//! say what to do.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};

use tamtam::{
    Seq,
    tape::{Mark, TapeError, TapeStore, TapeStoreExt as _},
};
use tamtam_postgres::{Postgres, PostgresError, PostgresOptions, migrate};

use crate::{
    engines::claims::{LONG, Tape, entries, entry, id},
    server::{Proxy, Server, StopAtEnd, comes_true, shared, sql},
};

/// What of an error is PostgreSQL's.
fn inside(error: &TapeError) -> Option<&PostgresError> {
    match error {
        TapeError::Engine(error) | TapeError::Unreachable(error) | TapeError::Lost { why: error, .. } => {
            error.downcast_ref()
        }
        _ => None,
    }
}

/// Appends to four sessions while `harm` is done; then each has what was acknowledged, each number once, without a gap.
pub(crate) fn no_append_is_lost_or_doubled(server: &Server, options: &PostgresOptions, harm: impl FnOnce()) {
    const WRITERS: usize = 4;
    let store = Postgres::open(options).unwrap();
    let (stop, began) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|n| {
                let (store, stop, began) = (&store, &stop, &began);
                scope.spawn(move || {
                    let mut tape = Tape::create(store, &format!("s{n}"));
                    let mut last = 0;
                    while last < 20 || !stop.load(Ordering::SeqCst) {
                        let next = entries(last + 1..=last + 2);
                        match tape.append(&next) {
                            Ok(seq) => {
                                assert_eq!(seq, Seq(last + 2));
                                last += 2;
                                began.fetch_add(usize::from(last == 10), Ordering::SeqCst);
                            }
                            // Not sent, as the server was away for long: nothing of it is there.
                            Err(error) => {
                                assert!(matches!(inside(&error), Some(PostgresError::Unreachable { .. })), "{error}")
                            }
                        }
                    }
                    last
                })
            })
            .collect();
        let end = StopAtEnd(&stop);
        assert!(comes_true(|| began.load(Ordering::SeqCst) == WRITERS));
        harm();
        drop(end);
        for (n, writer) in writers.into_iter().enumerate() {
            let last = writer.join().unwrap();
            let query = format!("select seq from {}.entries where session = 's{n}' order by seq", options.schema);
            let rows: Vec<u64> = sql(&server.address(), &query).iter().map(|seq| seq.parse().unwrap()).collect();
            assert_eq!(rows, (1..=last).collect::<Vec<_>>());
            assert_eq!(store.read(&id(&format!("s{n}")), Seq::ZERO).unwrap(), entries(1..=last));
        }
    });
    assert!(store.settle(LONG));
    assert_eq!(store.claimed_sessions().unwrap(), []);
}

#[test]
fn after_a_kill_of_the_server_all_appends_are_settled() {
    let server = Server::start();
    let options = server.database();
    no_append_is_lost_or_doubled(&server, &options, || {
        for _ in 0..3 {
            server.kill();
            server.start_again();
        }
    });
}

#[test]
fn connections_that_are_ended_again_and_again_lose_and_double_nothing() {
    let server = Server::start();
    let options = server.database();
    let end = "select count(pg_terminate_backend(pid)) from pg_stat_activity
        where pid <> pg_backend_pid() and backend_type = 'client backend'";
    no_append_is_lost_or_doubled(&server, &options, || {
        let mut ended = 0;
        while ended < 100 {
            ended += sql(&server.address(), end)[0].parse::<u32>().unwrap();
        }
    });
}

/// Makes each write of entry 3 take a while, and counts them.
fn make_entry_3_slow(server: &Server, options: &PostgresOptions) {
    let slow = "create sequence $.written;
        create function $.slow() returns trigger language plpgsql as $body$ begin
            if new.seq = 3 then perform nextval('$.written'); perform pg_sleep(0.3); end if; return new; end $body$;
        create trigger slow before insert on $.entries for each row execute function $.slow()";
    sql(&server.address(), &slow.replace("$.", &format!("{}.", options.schema)));
}

/// The answer of an append is lost, and its statement goes on at the server: the next connection waits for that, finds the row, and
/// does not write it again. Where another node took the session meanwhile, the answer is still what the tape has.
#[test]
fn an_append_whose_answer_was_lost_is_found_and_not_written_again() {
    let server = shared();
    let options = server.database();
    make_entry_3_slow(server, &options);
    let proxy = Proxy::start(server);
    let store = Postgres::open(&PostgresOptions::new(proxy.address()).schema(&options.schema)).unwrap();
    let mut tape = Tape::create(&store, "s");
    tape.append(&entries(1..=2)).unwrap();
    let appended = std::thread::scope(|scope| {
        let appending = scope.spawn(|| tape.append(&entries(3..=4)));
        let sleeps = "select count(*) from pg_stat_activity where wait_event = 'PgSleep' and query like '%$.entries%'";
        assert!(comes_true(|| sql(&server.address(), &sleeps.replace('$', &options.schema)) == ["1"]));
        proxy.cut();
        appending.join().unwrap()
    });
    assert_eq!(appended.unwrap(), Seq(4));
    assert_eq!(sql(&server.address(), &format!("select last_value from {}.written", options.schema)), ["1"]);
    assert_eq!(tape.append(&entries(5..=5)).unwrap(), Seq(5));
    assert_eq!(store.read(&id("s"), Seq::ZERO).unwrap(), entries(1..=5));
}

/// The statement was cancelled: that is an answer, and nothing of it was written.
#[test]
fn an_append_that_the_server_gave_up_is_refused_and_can_be_tried_again() {
    an_append_that_is_given_up_is_refused(shared(), &shared().database());
}

pub(crate) fn an_append_that_is_given_up_is_refused(server: &Server, options: &PostgresOptions) {
    make_entry_3_slow(server, options);
    let store = Postgres::open(options).unwrap();
    let mut tape = Tape::create(&store, "s");
    tape.append(&entries(1..=2)).unwrap();
    let appended = std::thread::scope(|scope| {
        let appending = scope.spawn(|| tape.append(&entries(3..=4)));
        let query = format!("query like '%{}.entries%'", options.schema);
        let cancel = "select count(pg_cancel_backend(pid)) from pg_stat_activity where wait_event = 'PgSleep' and ";
        assert!(comes_true(|| sql(&server.address(), &format!("{cancel}{query}")) == ["1"]));
        appending.join().unwrap()
    });
    let error = appended.unwrap_err();
    assert!(matches!(inside(&error), Some(PostgresError::Refused { code, .. }) if code == "57014"), "{error}");
    assert!(error.to_string().ends_with("look for locks in pg_stat_activity"), "{error}");
    assert_eq!(store.read(&id("s"), Seq::ZERO).unwrap(), entries(1..=2));
    assert_eq!(tape.append(&entries(3..=4)).unwrap(), Seq(4));
}

/// Appends of several sessions go with one statement; where one of them cannot be written, the others are.
#[test]
fn one_bad_append_refuses_no_other() {
    let options = shared().database();
    let store = Postgres::open(&options).unwrap();
    let (mut good, mut bad) = (Tape::create(&store, "good"), Tape::create(&store, "bad"));
    // The row of another writer in the way: what no owner of an epoch meets.
    let row = "insert into $.entries values ('bad', 1, 0, 0, '001_session-start', true, '', 0, '')";
    sql(&shared().address(), &row.replace("$.", &format!("{}.", options.schema)));
    std::thread::scope(|scope| {
        let good = scope.spawn(move || {
            for seq in 1..=50 {
                assert_eq!(good.append(&[entry(seq)]).unwrap(), Seq(seq));
            }
        });
        for _ in 0..20 {
            let error = bad.append(&[entry(1)]).unwrap_err();
            assert!(matches!(inside(&error), Some(PostgresError::Refused { code, .. }) if code == "23505"), "{error}");
        }
        good.join().unwrap();
    });
}

/// A server that is away is told as such, after a while and not at once; what was not sent is not written later.
#[test]
fn without_a_server_callers_are_told_and_nothing_comes_later() {
    let server = Server::start();
    let options = server.database();
    let store = Postgres::open(&options).unwrap();
    let mut tape = Tape::create(&store, "s");
    tape.append(&entries(1..=2)).unwrap();
    server.kill();
    // By the end of this the store knows that the connection of its appends is gone as well.
    // Backends that outlive the postmaster for a moment may still answer.
    let read = std::iter::repeat_with(|| store.read(&id("s"), Seq::ZERO)).find_map(Result::err).unwrap();
    let appended = tape.append(&[entry(3)]);
    for error in [appended.unwrap_err(), read] {
        assert!(matches!(inside(&error), Some(PostgresError::Unreachable { .. })), "{error}");
        assert!(error.to_string().contains("check that the server runs"), "{error}");
    }
    server.start_again();
    assert_eq!(store.read(&id("s"), Seq::ZERO).unwrap(), entries(1..=2));
    assert_eq!(tape.append(&entries(3..=4)).unwrap(), Seq(4));
    drop(tape);
    assert!(store.settle(LONG));
}

#[test]
fn tables_are_made_once_and_a_later_version_is_refused() {
    let options = shared().database();
    assert_eq!(migrate(&options).unwrap(), 7);
    let newer = format!("insert into {}.migrations (version) values (99)", options.schema);
    sql(&shared().address(), &newer);
    let newer = PostgresError::Newer { schema: options.schema.clone(), found: 99, known: 7 };
    assert_eq!(Postgres::open(&options).unwrap_err(), newer);
    assert_eq!(migrate(&options).unwrap_err(), newer);
    let none = PostgresOptions::new(shared().address()).schema("nobody_made_this");
    let error = Postgres::open(&none).unwrap_err();
    assert!(error.to_string().ends_with("run tamtam_postgres::migrate as the owner of the schema"), "{error}");
    // Several at once: one does the work.
    let together = PostgresOptions::new(shared().address()).schema("made_together");
    let found = std::thread::scope(|scope| {
        let all: Vec<_> = (0..8).map(|_| scope.spawn(|| migrate(&together).unwrap())).collect();
        all.into_iter().map(|one| one.join().unwrap()).sum::<i32>()
    });
    assert_eq!(found, 49, "one found no tables, and seven found version 7");
}

/// A migration that cannot lock a table gives way, changes nothing, and says what to do; once the table is free it runs.
#[test]
fn a_migration_does_not_wait_behind_a_reader_for_ever() {
    let options = shared().database();
    let before =
        "alter table $.sessions drop column deaths, drop column claimed_seq; drop table $.nodes, $.words, $.indexed, $.outputs, $.output_pieces;
        drop function $.few_words; drop index $.sessions_owner;
        delete from $.migrations where version > 2";
    sql(&shared().address(), &before.replace('$', &options.schema));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let reader = runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(&shared().address(), tokio_postgres::NoTls).await.unwrap();
        let driven = tokio::spawn(connection);
        client.batch_execute(&format!("begin; select from {}.sessions", options.schema)).await.unwrap();
        (client, driven)
    });
    let error = migrate(&options).unwrap_err();
    assert!(matches!(&error, PostgresError::Refused { code, .. } if code == "55P03"), "{error}");
    assert!(error.to_string().ends_with("run it again when that has ended"), "{error}");
    runtime.block_on(reader.0.batch_execute("commit")).unwrap();
    assert_eq!((migrate(&options).unwrap(), migrate(&options).unwrap()), (2, 7));
}

/// The grants of `migrate`'s documentation are enough, and rows of a tape cannot be changed with them.
#[test]
fn a_role_with_the_least_privileges_has_all_that_a_node_needs() {
    let options = shared().database();
    let docs = include_str!("../../src/schema.rs");
    let grants = docs.lines().filter_map(|line| line.strip_prefix("/// grant ")).map(|grant| format!("grant {grant}"));
    let grants: String = grants.collect::<Vec<_>>().join("\n").replace("tamtam", &options.schema);
    assert_eq!(grants.lines().count(), 7);
    sql(&shared().address(), &format!("create role app login; {grants}"));
    let address = shared().address().replace("user=postgres", "user=app");
    let store = Postgres::open(&PostgresOptions::new(&address).schema(&options.schema)).unwrap();
    let mut tape = Tape::create(&store, "s");
    tape.append(&entries(1..=2)).unwrap();
    store.fork(&id("s"), None, &id("f"), entry(9).time).unwrap();
    store.mark_open(&id("s")).unwrap();
    store.protect(&id("s")).unwrap();
    drop(tape);
    assert!(store.settle(LONG));
    assert_eq!(store.open_sessions().unwrap(), [id("s")]);
    let indexed = || sql(&address, &format!("select through from {}.indexed order by session", options.schema));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let searches = crate::words::searches(&store).await;
        let found = searches.search(tamtam::tape::Query::new("entry").wait(LONG)).await.unwrap();
        assert_eq!((found.hits.len(), found.behind), (2, tamtam::tape::Behind::No));
        assert!(searches.shutdown().await.is_empty());
    });
    assert_eq!(indexed(), ["3", "2"]);
    store.put_output(&id("s"), "much.log", &crate::outputs::file(b"much")).unwrap();
    let mut read = Vec::new();
    assert!(store.get_output(&id("s"), "much.log", &mut read).unwrap());
    assert_eq!((&read[..], store.outputs(&id("s")).unwrap()), (&b"much"[..], vec![("much.log".to_owned(), 4)]));
    let changed =
        std::panic::catch_unwind(|| sql(&address, &format!("update {}.entries set sum = ''", options.schema)));
    assert!(changed.is_err(), "an entry cannot be changed");
    store.unprotect(&id("s")).unwrap();
    store.delete(&id("f")).unwrap();
    store.delete_given_up(&id("s")).unwrap();
    assert_eq!((store.names().unwrap(), store.marks(Mark::Open, None).unwrap()), (vec![], vec![]));
    assert_eq!((indexed(), store.outputs(&id("s")).unwrap()), (vec![], vec![]));
}

/// A replica took over that had not got the last commit: nothing is written behind the gap, and who opens the session again goes on
/// from what is there.
#[test]
fn a_database_that_went_back_is_noticed_before_anything_is_written() {
    let options = shared().database();
    let store = Postgres::open(&options).unwrap();
    let mut tape = Tape::create(&store, "s");
    for seq in 1..=3 {
        tape.append(&[entry(seq)]).unwrap();
    }
    let ask = |sql: &str| crate::server::sql(&shared().address(), &sql.replace("$.", &format!("{}.", options.schema)));
    ask("delete from $.entries where seq = 3");
    let error = tape.append(&[entry(4)]).unwrap_err();
    assert_eq!(inside(&error), Some(&PostgresError::WentBack { session: id("s"), seq: Seq(3) }));
    assert_eq!(ask("select seq from $.entries order by seq"), ["1", "2"]);
    drop(tape);
    let (mut tape, read) = Tape::load(&store, "s");
    assert_eq!(read, entries(1..=2));
    assert_eq!(tape.append(&[entry(3)]).unwrap(), Seq(3));
    // The claim itself is gone: an older one of this node is in its row.
    ask("update $.sessions set epoch = epoch - 1");
    let error = tape.append(&[entry(4)]).unwrap_err();
    assert!(matches!(inside(&error), Some(PostgresError::WentBack { seq: Seq(3), .. })), "{error}");
}

/// A row that was changed past the store is found by its checksum: what is before it can be read, and nothing is written behind it.
#[test]
fn a_row_that_was_changed_is_damage() {
    let options = shared().database();
    let store = Postgres::open(&options).unwrap();
    let mut tape = Tape::create(&store, "s");
    for seq in 1..=3 {
        tape.append(&[entry(seq)]).unwrap();
    }
    drop(tape);
    let changed = "update $.entries set line = replace(line, 'entry 2', 'entry 9') where seq = 2";
    sql(&shared().address(), &changed.replace("$.", &format!("{}.", options.schema)));
    let loaded = store.claim(&id("s"), crate::engines::claims::deaf()).unwrap();
    let damage = loaded.read_only.unwrap();
    assert_eq!(
        (loaded.entries, damage.last_good, damage.what.as_str()),
        (entries(1..=1), Seq(1), "the checksum does not fit")
    );
    let mut tape = loaded.tape;
    let refused = tape.append(&[entry(2)]);
    assert!(matches!(refused, tamtam::tape::Appended::Now(Err(TapeError::Damaged(_)))));
    drop(tape);
    assert!(matches!(store.read(&id("s"), Seq::ZERO), Err(TapeError::Damaged(_))));
    assert!(store.settle(Duration::from_secs(60)));
}

#[test]
fn options_that_cannot_be_used_are_refused_and_passwords_are_not_shown() {
    let at = "host=/nowhere user=app password=secret";
    let wrong = [
        (PostgresOptions::new("host=/nowhere"), "names no user"),
        (PostgresOptions::new("user=app"), "names no host"),
        (PostgresOptions::new("host=/nowhere user=app port=secret"), "cannot be read"),
        (PostgresOptions::new(at).schema("Robert'); drop"), "lower-case letters"),
        (PostgresOptions::new(at).lease(Duration::from_millis(1)), "200 ms to 1 h"),
        (PostgresOptions::new(at).look(Duration::ZERO), "10 ms to 1 h"),
        (PostgresOptions::new(at).deaths_max(0), "deaths_max 0: take at least 1"),
        (PostgresOptions::new(at).connections(0), "connections 0: take at least 1"),
    ];
    for (options, what) in wrong {
        let error = Postgres::open(&options).unwrap_err();
        assert!(matches!(error, PostgresError::Options { .. }) && error.to_string().contains(what), "{error}");
        assert!(!format!("{options:?} {error}").contains("secret"));
    }
    let error = Postgres::open(&PostgresOptions::new(at)).unwrap_err();
    assert!(matches!(error, PostgresError::Unreachable { .. }) && !error.to_string().contains("secret"), "{error}");
}
