//! Who has a session: several nodes over one database, each a [`Postgres`] of its own.

use std::{
    collections::BTreeMap,
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

use tamtam::{
    Seq,
    tape::{Appended, Notify, TapeEntry, TapeError, TapeStore, TapeStoreExt as _, TapeWriter},
};
use tamtam_postgres::{Postgres, PostgresError, PostgresOptions};

use crate::{
    engines::claims::{LONG, Tape, Told, deaf, entries, entry, id, listener},
    server::{StopAtEnd, comes_true, shared, sql},
};

/// Two nodes over one database.
fn nodes(options: &PostgresOptions) -> (Postgres, Postgres) {
    let open = |name: &str| Postgres::open(&options.clone().node(name)).unwrap();
    (open("one"), open("two"))
}

/// Takes a session over as soon as it is free; ends its lease where `ends` names the database.
pub(crate) fn take_over(
    store: &Postgres,
    notify: &Notify,
    ends: Option<&str>,
) -> (Box<dyn TapeWriter>, Vec<TapeEntry>) {
    let mut taken = None;
    let is_taken = || {
        ends.into_iter().for_each(free_all);
        match store.claim(&id("s"), notify.clone()) {
            Ok(loaded) => taken = Some((loaded.tape, loaded.entries)),
            Err(TapeError::Claimed { .. } | TapeError::Busy { .. }) => {}
            Err(other) => panic!("{other}"),
        }
        taken.is_some()
    };
    assert!(comes_true(is_taken));
    taken.unwrap()
}

/// The statement that frees all sessions of a database. It locks the rows in the order of their names, as the library does: in another
/// order, it and a release of several sessions may wait for each other.
pub(crate) fn all_are_free(schema: &str) -> String {
    format!(
        "with held as materialized (select session from {schema}.sessions order by session for no key update)
        update {schema}.sessions s set expires = '-infinity' from held h where s.session = h.session"
    )
}

/// Frees all sessions of a database, as if their owner had given them back and did not know.
pub(crate) fn free_all(schema: &str) {
    sql(&shared().address(), &all_are_free(schema));
}

/// The statement that ends the leases of all nodes, as if nobody had renewed them.
pub(crate) fn all_died(schema: &str) -> String {
    format!("update {schema}.nodes set expires = clock_timestamp()")
}

/// The statement that gives all sessions of a database to a node that lives for ever and does nothing.
pub(crate) fn stolen(schema: &str) -> String {
    format!(
        "insert into {schema}.nodes values ('thief', '', 0, null, 'infinity');
        update {schema}.sessions set epoch = nextval('{schema}.epochs'), node = 'thief', expires = 'infinity'"
    )
}

/// The numbers of a tape's rows, past the store.
pub(crate) fn rows(schema: &str, session: &str) -> Vec<u64> {
    let query = format!("select seq from {schema}.entries where session = '{session}' order by seq");
    sql(&shared().address(), &query).iter().map(|seq| seq.parse().unwrap()).collect()
}

#[test]
fn a_session_belongs_to_one_node_and_the_other_is_told_to_whom() {
    let (one, two) = nodes(&shared().database());
    let mut tape = Tape::create(&one, "s");
    tape.append(&entries(1..=2)).unwrap();
    let Err(TapeError::Claimed { by, .. }) = two.claim(&id("s"), deaf()) else { panic!("it is claimed") };
    assert_eq!((by.pid, by.host.as_str()), (std::process::id(), "one"));
    assert!(matches!(two.begin(&id("s"), None, deaf()), Err(TapeError::Exists { .. })));
    assert!(matches!(two.erase(&id("s"), None, &[]), Err(TapeError::Claimed { .. })));
    assert_eq!(two.claimed_sessions().unwrap(), [id("s")]);
    // Reading claims nothing.
    assert_eq!(two.read(&id("s"), Seq::ZERO).unwrap(), entries(1..=2));

    // A graceful end frees it at once, and not only when the lease is over.
    let (tell, told) = mpsc::channel();
    tape.tape.give_back(Box::new(move || tell.send(()).unwrap()));
    told.recv_timeout(LONG).unwrap();
    let (tape, read) = Tape::load(&two, "s");
    assert_eq!((tape.tape.last(), read), (Seq(2), entries(1..=2)));
}

/// A node that stood still for longer than its lease: another has the session, and nothing of the first is written any more. Its
/// release takes nothing from the new owner.
#[test]
fn a_stale_owner_is_refused_at_its_append_and_its_release_strips_nothing() {
    // A heartbeat comes only every quarter of an hour: the append is what is refused.
    let options = shared().database().lease(Duration::from_secs(3600));
    let (one, two) = nodes(&options);
    let mut old = Tape::create(&one, "s");
    old.append(&entries(1..=2)).unwrap();
    free_all(&options.schema);
    let (mut new, read) = Tape::load(&two, "s");
    assert_eq!(read, entries(1..=2));

    let Err(TapeError::Claimed { by, .. }) = old.append(&[entry(3)]) else { panic!("it is another's") };
    assert_eq!(by.host, "two");
    assert_eq!(rows(&options.schema, "s"), [1, 2]);
    // From then on without asking the server.
    assert!(matches!(old.tape.append(&[entry(3)]), Appended::Now(Err(TapeError::Claimed { .. }))));
    drop(old);
    assert!(one.settle(LONG));
    assert!(matches!(one.claim(&id("s"), deaf()), Err(TapeError::Claimed { .. })));
    assert_eq!(new.append(&[entry(3)]).unwrap(), Seq(3));
    assert_eq!(rows(&options.schema, "s"), [1, 2, 3]);
}

#[test]
fn a_stale_owner_is_told_by_its_heartbeat_before_it_appends() {
    let options = shared().database().lease(Duration::from_millis(400));
    let (one, two) = nodes(&options);
    let mut old = Tape::create(&one, "s");
    old.append(&entries(1..=2)).unwrap();
    // Another owner, as if the heartbeats of the first had not come through.
    sql(&shared().address(), &stolen(&options.schema));
    // An append of nothing asks nobody: the heartbeat is what was told.
    let mut told = None;
    assert!(comes_true(|| {
        told = match old.tape.append(&[]) {
            Appended::Now(Err(TapeError::Claimed { by, .. })) => Some(by.owner),
            _ => None,
        };
        told.is_some()
    }));
    assert_eq!(told.as_deref(), Some("thief"));
    assert!(matches!(two.claim(&id("s"), deaf()), Err(TapeError::Claimed { .. })));
}

/// The heartbeats of a node keep all of its sessions, for longer than a lease and without an append. They write no row of a session: under
/// a transaction that somebody holds open, each append would walk over all that was ever written.
#[test]
fn a_node_that_lives_keeps_what_it_has() {
    let options = shared().database();
    let (one, two) = nodes(&options);
    // The first append connects, and what a node has then gets new epochs.
    Tape::create(&one, "first").append(&[entry(1)]).unwrap();
    let tapes: Vec<Tape> = (0..20).map(|n| Tape::create(&one, &format!("s{n:02}"))).collect();
    let ask = |what: &str| sql(&shared().address(), &what.replace("$.", &format!("{}.", options.schema)));
    // Where a row is, and who wrote it: a row that is written again is another one.
    let written = || ask("select session, ctid, xmin, epoch from $.sessions where session <> 'first' order by session");
    let before = written();
    for _ in 0..5 {
        let now = ask("select expires from $.nodes where host = 'one'").remove(0);
        assert!(comes_true(|| ask(&format!("select expires > '{now}' from $.nodes where host = 'one'")) == ["t"]));
        assert!(matches!(two.claim(&id("s07"), deaf()), Err(TapeError::Claimed { .. })));
    }
    assert_eq!((before.len(), written()), (20, before));
    drop(tapes);
    assert!(one.settle(LONG));
    assert_eq!(two.claimed_sessions().unwrap(), []);
}

/// A node with more sessions than one heartbeat looks at hears of each that another took.
#[test]
fn a_node_with_many_sessions_hears_of_each_that_it_lost() {
    let options = shared().database().lease(Duration::from_millis(400));
    let store = Postgres::open(&options).unwrap();
    let made = |from: usize| {
        let names = (from..1_100).step_by(4).map(|n| format!("s{n:04}"));
        names.map(|name| (name.clone(), Tape::create(&store, &name))).collect::<Vec<_>>()
    };
    let mut tapes: BTreeMap<String, Tape> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..4).map(|from| scope.spawn(move || made(from))).collect();
        all.into_iter().flat_map(|one| one.join().unwrap()).collect()
    });
    let taken = ["s0000", "s0511", "s0512", "s1023", "s1024", "s1099"];
    let names = taken.map(|name| format!("'{name}'")).join(", ");
    sql(&shared().address(), &format!("{} where session in ({names})", stolen(&options.schema)));
    // An append of nothing asks nobody.
    let is_lost = |tape: &mut Tape| matches!(tape.tape.append(&[]), Appended::Now(Err(TapeError::Claimed { .. })));
    assert!(comes_true(|| taken.iter().all(|name| is_lost(tapes.get_mut(*name).unwrap()))));
    let lost = tapes.values_mut().filter_map(|tape| is_lost(tape).then_some(()));
    assert_eq!(lost.count(), taken.len());
}

/// A server that refuses a release, for a moment: the session is free once it does not, although its node lives on.
#[test]
fn a_session_that_could_not_be_given_back_is_given_back_later() {
    let options = shared().database();
    let (one, two) = nodes(&options);
    let (tape, stays) = (Tape::create(&one, "s"), Tape::create(&one, "stays"));
    let alter = |what| sql(&shared().address(), &format!("alter table {}.sessions {what}", options.schema));
    alter("add constraint stuck check (expires > '-infinity')");
    drop(tape);
    assert!(one.settle(LONG));
    assert!(matches!(two.claim(&id("s"), deaf()), Err(TapeError::Claimed { .. })));
    alter("drop constraint stuck");
    assert!(comes_true(|| two.claimed_sessions().unwrap() == [id("stays")]));
    assert!(two.claim(&id("s"), deaf()).is_ok());
    drop(stays);
}

/// What a dead node had is deleted on another, and stays hidden for its fork: it has no owner, also when the node lives again.
#[test]
fn a_session_that_was_deleted_after_its_node_died_has_no_owner() {
    let options = shared().database().lease(Duration::from_secs(3600));
    let name = format!("dead-{}", options.schema);
    let (one, two) = (Postgres::open(&options.clone().node(&name)).unwrap(), Postgres::open(&options).unwrap());
    let mut tape = Tape::create(&one, "s");
    tape.append(&entries(1..=2)).unwrap();
    one.fork(&id("s"), None, &id("f"), entry(9).time).unwrap();
    assert!(one.settle(LONG));
    sql(&shared().address(), &all_died(&options.schema));
    two.delete(&id("s")).unwrap();
    let lives = format!("update {}.nodes set expires = 'infinity'", options.schema);
    sql(&shared().address(), &lives);
    assert_eq!(two.claimed_sessions().unwrap(), []);
    let cut = format!("select pg_terminate_backend(pid) from pg_stat_activity where application_name = '{name}'");
    sql(&shared().address(), &cut);
    let refused = tape.append(&[entry(3)]);
    assert!(matches!(refused, Err(TapeError::Claimed { .. })), "{refused:?}");
    two.delete(&id("f")).unwrap();
    assert_eq!(two.names().unwrap(), []);
}

/// A node whose statement looked before another node came, and then waited for the row: it finds the session taken, although it has
/// never seen that the other lives.
#[test]
fn a_claim_that_waited_does_not_take_a_session_from_an_owner_it_did_not_see() {
    for has_entries in [true, false] {
        let options = shared().database();
        let name = format!("late-{}", options.schema);
        let (first, late) = (Postgres::open(&options).unwrap(), Postgres::open(&options.clone().node(&name)).unwrap());
        let mut tape = Tape::create(&first, "s");
        if has_entries {
            tape.append(&[entry(1)]).unwrap();
        }
        drop(tape);
        assert!(first.settle(LONG));
        // So that it has connections, and lives.
        drop(Tape::create(&late, "other"));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (client, connection) =
            runtime.block_on(tokio_postgres::connect(&shared().address(), tokio_postgres::NoTls)).unwrap();
        runtime.spawn(connection);
        let run = |sql: &str| runtime.block_on(client.batch_execute(&sql.replace("$", &options.schema))).unwrap();
        run("begin; select from $.sessions where session = 's' for update");
        let claimed = std::thread::scope(|scope| {
            let claim = scope.spawn(|| match has_entries {
                true => late.claim(&id("s"), deaf()).map(drop),
                false => late.begin(&id("s"), None, deaf()).map(drop),
            });
            let waits = format!(
                "select count(*) from pg_stat_activity where application_name = '{name}' and wait_event_type = 'Lock'"
            );
            assert!(comes_true(|| sql(&shared().address(), &waits) == ["1"]));
            run(&format!("{} where session = 's'; commit", stolen("$")));
            claim.join().unwrap()
        });
        match claimed {
            Err(TapeError::Claimed { by, .. }) if has_entries => assert_eq!(by.owner, "thief"),
            Err(TapeError::Exists { .. }) if !has_entries => {}
            other => panic!("it is the thief's: {other:?}"),
        }
    }
}

/// While nodes are updated one after the other, a session that one of the version before has is left to it until its lease is over.
#[test]
fn a_session_of_a_node_of_the_version_before_is_its_own_while_its_lease_lasts() {
    let options = shared().database();
    let store = Postgres::open(&options).unwrap();
    drop(Tape::create(&store, "s"));
    assert!(store.settle(LONG));
    let had = "update $.sessions set node = 'before', expires = clock_timestamp() + interval '1 h'";
    sql(&shared().address(), &had.replace('$', &options.schema));
    assert!(matches!(store.begin(&id("s"), None, deaf()), Err(TapeError::Exists { .. })));
    assert!(matches!(store.claim(&id("s"), deaf()), Err(TapeError::Claimed { by, .. }) if by.owner == "before"));
    assert_eq!(store.claimed_sessions().unwrap(), [id("s")]);
    let over = "update $.sessions set expires = clock_timestamp()";
    sql(&shared().address(), &over.replace('$', &options.schema));
    store.claim(&id("s"), deaf()).unwrap();
}

/// How often the session of the test below changes hands: 200 times, or as often as `TAMTAM_HAND_OVERS` says.
fn hand_overs() -> u64 {
    std::env::var("TAMTAM_HAND_OVERS").map_or(200, |times| times.parse().unwrap())
}

/// A session goes from node to node many times, each time in the middle of an append, with others written meanwhile. From the rows:
/// each number once, none missing, and what was acknowledged is what is there.
#[test]
fn hand_overs_under_load_lose_and_double_nothing() {
    let options = shared().database();
    let (one, two) = nodes(&options);
    let (stop, mut refused) = (AtomicBool::new(false), 0);
    let acknowledged = std::thread::scope(|scope| {
        for n in 0..4 {
            let (store, stop) = (if n % 2 == 0 { &one } else { &two }, &stop);
            scope.spawn(move || {
                let mut tape = Tape::create(store, &format!("load{n}"));
                for seq in 1.. {
                    tape.append(&[entry(seq)]).unwrap();
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                }
            });
        }
        let mut acknowledged = BTreeMap::new();
        let mut old: Option<(Box<dyn TapeWriter>, mpsc::Receiver<Told>)> = None;
        drop(Tape::create(&one, "s"));
        let end = StopAtEnd(&stop);
        for turn in 0..hand_overs() {
            let store = if turn % 2 == 0 { &two } else { &one };
            let (notify, told) = listener();
            let ends = old.is_some().then_some(options.schema.as_str());
            let (mut tape, read) = take_over(store, &notify, ends);
            let mut acknowledge = |seq: Seq| *acknowledged.entry(seq.0).or_insert(0) += 1;
            if let Some((_stale, told)) = old.take() {
                match told.recv_timeout(LONG).unwrap() {
                    Ok(seq) => {
                        assert!(read.iter().any(|entry| entry.seq == seq), "{seq} was there before the claim");
                        acknowledge(seq);
                    }
                    Err(TapeError::Claimed { .. }) => refused += 1,
                    Err(other) => panic!("{other}"),
                }
            }
            let next = entry(tape.last().0 + 1);
            assert!(matches!(tape.append(std::slice::from_ref(&next)), Appended::Later));
            acknowledge(told.recv_timeout(LONG).unwrap().unwrap());
            assert!(matches!(tape.append(&[entry(next.seq.0 + 1)]), Appended::Later));
            match turn % 2 {
                // Given back in the middle of an append.
                0 => {
                    drop(tape);
                    acknowledge(told.recv_timeout(LONG).unwrap().unwrap());
                }
                // Taken away in the middle of it.
                _ => old = Some((tape, told)),
            }
        }
        if let Some(Ok(seq)) = old.map(|(_, told)| told.recv_timeout(LONG).unwrap()) {
            *acknowledged.entry(seq.0).or_insert(0) += 1;
        }
        drop(end);
        acknowledged
    });
    println!("{refused} appends were refused, as another node had the session by then");
    assert!(one.settle(LONG) && two.settle(LONG));
    let all = rows(&options.schema, "s");
    assert_eq!(all, (1..=all.len() as u64).collect::<Vec<_>>());
    assert_eq!(acknowledged.keys().copied().collect::<Vec<_>>(), all);
    assert!(acknowledged.values().all(|times| *times == 1), "{acknowledged:?}");
    // Each line follows the one before, by its checksum.
    assert_eq!(one.read(&id("s"), Seq::ZERO).unwrap().len(), all.len());
    for n in 0..4 {
        let load = rows(&options.schema, &format!("load{n}"));
        assert!(!load.is_empty() && load == (1..=load.len() as u64).collect::<Vec<_>>());
    }
}

/// Nodes that die one after the other while they have a session, before they wrote anything: the bound parks it, for all nodes. An
/// entry, or an owner that gives it back, ends the count; unparked it is as it was.
#[test]
fn a_session_that_its_nodes_die_of_is_parked_and_stays_usable() {
    let options = shared().database().lease(Duration::from_secs(3600)).deaths_max(2);
    // Nobody renewed its lease: as after a death.
    let dies = || sql(&shared().address(), &all_died(&options.schema));
    let open = || Postgres::open(&options).unwrap();
    let first = open();
    let mut tape = Tape::create(&first, "s");
    tape.append(&entries(1..=2)).unwrap();
    let mut dead: Vec<(Postgres, Tape)> = Vec::new();
    let mut claims = |writes: bool| {
        dies();
        let store = open();
        let (mut tape, read) = Tape::load(&store, "s");
        let next = read.last().unwrap().seq.0 + 1;
        if writes {
            tape.append(&[entry(next)]).unwrap();
        }
        dead.push((store, tape));
    };
    // The first wrote; then one died of it; the third one writes again, and two die of it.
    [false, true, false, false].into_iter().for_each(&mut claims);
    let last = open();
    for _ in 0..2 {
        dies();
        let TapeError::Engine(error) = last.claim(&id("s"), deaf()).unwrap_err() else { panic!("it is parked") };
        assert_eq!(error.downcast_ref(), Some(&PostgresError::Deadly { session: id("s"), deaths: 2 }));
    }
    let [(session, why)] = &last.parked_sessions().unwrap()[..] else { panic!("it is parked") };
    assert_eq!(session, &id("s"));
    assert!(why.starts_with("session s is parked: 2 nodes in a row died"), "{why}");
    // The mark and the count go together, or neither goes.
    let alter = |what| sql(&shared().address(), &format!("alter table {}.sessions {what}", options.schema));
    alter("add constraint counted check (deaths > 0) not valid");
    last.unpark(&id("s")).unwrap_err();
    assert_eq!(last.parked_sessions().unwrap().len(), 1);
    alter("drop constraint counted");
    last.unpark(&id("s")).unwrap();
    let (mut tape, read) = Tape::load(&last, "s");
    assert_eq!(read, entries(1..=3));
    tape.append(&[entry(4)]).unwrap();
    drop(tape);
    assert!(last.settle(LONG));
    // Given back, whatever there is on the tape.
    let other = open();
    for store in [&last, &other, &last, &other] {
        drop(Tape::load(store, "s"));
        assert!(store.settle(LONG));
    }
    // One dies; the next one writes, gives it back, and dies of it when it has it again: that is one death.
    let kept = Tape::load(&last, "s");
    dies();
    let (mut tape, _) = Tape::load(&other, "s");
    tape.append(&[entry(5)]).unwrap();
    drop(tape);
    assert!(other.settle(LONG));
    let again = Tape::load(&other, "s");
    dies();
    assert_eq!(Tape::load(&open(), "s").1.len(), 5);
    drop((kept, again));
}

/// The two nodes at one moment, many times: one of them has the session, and only that one writes.
#[test]
fn of_two_nodes_that_claim_at_once_one_has_it() {
    let options = shared().database();
    let (one, two) = nodes(&options);
    drop(Tape::create(&one, "s"));
    assert!(one.settle(LONG));
    for round in 0..50 {
        let at_once = Barrier::new(2);
        let claim = |store: &Postgres| {
            at_once.wait();
            let (notify, told) = listener();
            store.claim(&id("s"), notify).map(|loaded| (loaded.tape, told))
        };
        let (mine, other) = std::thread::scope(|scope| {
            let other = scope.spawn(|| claim(&two));
            (claim(&one), other.join().unwrap())
        });
        let (mut tape, told) = match (mine, other) {
            (Ok(has), Err(TapeError::Claimed { .. })) | (Err(TapeError::Claimed { .. }), Ok(has)) => has,
            both => panic!("round {round}: {both:?}"),
        };
        assert!(matches!(tape.append(&[entry(round + 1)]), Appended::Later));
        let written: Told = told.recv_timeout(LONG).unwrap();
        assert_eq!(written.unwrap(), Seq(round + 1));
        drop(tape);
        assert!(one.settle(LONG) && two.settle(LONG));
    }
}
