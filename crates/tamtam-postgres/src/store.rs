//! [`Postgres`]: the engine itself. Each method of [`TapeStore`] is a statement or a short transaction on a connection of the pool;
//! appends, leases and the mark of an open turn go through the [`keeper`](crate::keeper).

use std::{fs::File, io::Write, path::PathBuf, sync::Arc, time::Duration};

use tamtam::{
    Seq, SessionId,
    session::Labels,
    tape::{
        Anchor, EntryWords, FoundEntry, LoadedTape, Mark, Notify, Position, SessionSummary, TapeEntry, TapeError,
        TapePiece, TapeStore, TapeWriter, UnreadTape, WantedWords,
    },
};
use tokio::{runtime::Handle, sync::mpsc};
use tokio_postgres::{Client, IsolationLevel::RepeatableRead, Row};

use crate::{
    PostgresError, PostgresOptions,
    keeper::Keeper,
    node::{Job, Node, Shared},
    pool::{Pool, connect},
    read::{anchor, int, millis, seq},
    schema::{check, in_schema},
    thread::{on_a_thread, runtime},
};

/// Tapes in PostgreSQL. Cheap to clone; all clones are one node, and each session has one writer among all nodes.
///
/// **Durability** is the server's: an append is acknowledged when its transaction is committed.
///
/// **Ownership.** A claim counts up the session's epoch, and every append carries it in the statement that writes it: once another
/// node has claimed the session, nothing of the earlier owner can be written, however late it comes. A node that has sessions renews
/// its own lease four times in each [`lease`](PostgresOptions::lease), whatever it has; only the server's clock counts. A
/// writer that lost its session fails from then on as [`TapeError::Claimed`], which names the new owner. Dropping a writer gives its
/// session back at once; a node that was killed keeps its sessions until its lease is over.
///
/// **A server that goes away.** Connections are made again. An append whose answer was lost waits until the server can be asked
/// whether it is on the tape, and is then acknowledged, or written: never twice. What was not sent yet waits 5 s and then fails with
/// [`PostgresError::Unreachable`] in a [`TapeError::Unreachable`]; so does reading.
///
/// The last clone or writer that is dropped lets what waits finish in the background, for 5 s if there is no server; then its
/// thread ends. [`TapeStore::settle`] waits for it.
///
/// **A session that its nodes die of** is not handed on for ever. An owner that died without an entry on the tape is counted in the
/// session's row; after [`deaths_max`](PostgresOptions::deaths_max) of them in a row the next claim parks it instead, and fails as
/// [`PostgresError::Deadly`]. An owner that got as far as an entry is counted on the tape, like a crash in one process.
///
/// **Lists and searches.** `Runtime::list` is three statements, and one more for each 10,000 sessions. `Runtime::search` finds the words
/// that it finds over files. It first reads what was appended since the last search, for as long as its query waits; an append does
/// nothing for it.
///
/// **Large outputs** are rows too, once a node has a folder for copies of them ([`PostgresOptions::output_copies`]): a call of any node
/// reads on in an earlier output of its session. A session has the newest 500, 512 MiB together, for 7 days.
///
/// There is no folder beside these tapes: see [`TapeStore::folder`].
///
/// ```no_run
/// use std::sync::Arc;
/// use tamtam::Runtime;
/// use tamtam_postgres::{Postgres, PostgresOptions, migrate};
///
/// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
/// let options = PostgresOptions::new("host=/run/postgresql user=app dbname=app").node("web-1");
/// let tapes = tokio::task::spawn_blocking(move || {
///     migrate(&options)?;
///     Postgres::open(&options)
/// });
/// let runtime = Runtime::builder().tapes(Arc::new(tapes.await??)).start().await?;
/// # runtime.shutdown().await;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Postgres {
    pub(crate) node: Arc<Node>,
}

/// How many entries of a long range are read with one statement.
const PIECE: i64 = 512;

const POSITION: &str = "
select e.time, e.more, e.sum, e.anchor, p.seq, p.time from $schema.entries e
join lateral (
    select seq, time from $schema.entries where session = $1 and begins and seq <= $2 order by seq desc limit 1) p on true
where e.session = $1 and e.seq = $2";

/// Removes a mark, and the count of deaths with that of a parked session: in one statement, or a session whose mark is gone would be
/// parked again by its next claim.
const UNMARK: &str = "
with removed as (delete from $schema.marks where mark = $1 and session = $2 and fork = $3)
update $schema.sessions set deaths = 0 where session = $2 and $1 = 'parked' and deaths > 0";

/// What a node asks of a server first: an id for itself, and whether it can be used.
pub(crate) async fn about(client: &Client) -> Result<Row, PostgresError> {
    let about = "select gen_random_uuid()::text, current_setting('server_encoding'), current_setting('server_version'),
        current_setting('transaction_read_only') = 'on'";
    let about = client.query_one(about, &[]).await.map_err(|error| PostgresError::of("open the store", &error))?;
    match about.get(1) {
        "UTF8" => Ok(about),
        other => Err(PostgresError::Options { what: format!("the database is in {other}: make one in UTF8") }),
    }
}

impl Postgres {
    /// Connects to the database and checks its tables. Blocks until that is done: on an async thread it holds up others.
    ///
    /// # Errors
    ///
    /// Each of [`PostgresError`]; [`NotMigrated`](PostgresError::NotMigrated) until [`migrate`](crate::migrate) has run.
    pub fn open(options: &PostgresOptions) -> Result<Postgres, PostgresError> {
        let address = options.address()?;
        let id = on_a_thread(async {
            let client = connect(&address, &Handle::current()).await?;
            check(&client, &options.schema).await?;
            Ok(about(&client).await?.get::<_, String>(0))
        })?;
        let runtime = runtime()?;
        let thread = runtime.handle().clone();
        let (queue, jobs) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared::new(id, options));
        let keeper = Keeper::new(Arc::clone(&shared), address.clone(), thread.clone(), jobs);
        let pool = Pool::new(address, thread, options.connections);
        std::thread::Builder::new()
            .name("tamtam-postgres".to_owned())
            .spawn(move || runtime.block_on(keeper.run()))
            .map_err(|error| PostgresError::Unreachable { message: format!("no thread for connections: {error}") })?;
        Ok(Postgres { node: Arc::new(Node::new(shared, pool, queue)) })
    }

    pub(crate) fn sql(&self, sql: &str) -> String {
        in_schema(sql, &self.node.shared.schema)
    }
}

impl TapeStore for Postgres {
    fn begin(
        &self,
        session: &SessionId,
        after: Option<&Position>,
        notify: Notify,
    ) -> Result<Box<dyn TapeWriter>, TapeError> {
        self.begin_tape(session, after, notify)
    }

    fn claim(&self, session: &SessionId, notify: Notify) -> Result<LoadedTape, TapeError> {
        self.claim_tape(session, notify)
    }

    fn range(&self, session: &SessionId, from: Seq, through: Seq) -> Result<Vec<TapeEntry>, TapeError> {
        self.node.pool.run("read a tape", async |client| {
            // In pieces, because a statement has a time limit; all of them see one moment.
            let transaction =
                client.build_transaction().isolation_level(RepeatableRead).read_only(true).start().await?;
            let (mut first, last, mut entries) = (int(from), int(through), Vec::new());
            let mut piece = PIECE;
            loop {
                let end = last.min(first.saturating_add(piece - 1));
                let place = self.read(transaction.client(), session, (first, end), &mut entries).await?;
                // Where there are no rows yet, the place is that which a fork continues from.
                let next = int(place.seq().next());
                if end == last || next > last {
                    break;
                }
                // Behind the end there is nothing; rows behind a gap are found there, and refused.
                piece = if next > end { PIECE } else { i64::MAX };
                first = next.max(first);
            }
            transaction.commit().await?;
            entries.retain(|entry| (from..=through).contains(&entry.seq));
            Ok(entries)
        })
    }

    fn position(&self, session: &SessionId, at: Seq) -> Result<Option<Position>, TapeError> {
        self.node.pool.run("find an entry", async |client| {
            let Some(row) = client.query_opt(&self.sql(POSITION), &[&session.as_str(), &int(at)]).await? else {
                self.holder(client, session).await?;
                return Ok(None);
            };
            let part = anchor(row.get(3), row.get(4), row.get(5));
            let more = u64::try_from(row.get::<_, i64>(1)).unwrap_or_default();
            Ok(Some(Position::new(at, millis(row.get(0)), more, row.get::<_, String>(2), part)))
        })
    }

    fn parts(&self, session: &SessionId) -> Result<Vec<Anchor>, TapeError> {
        self.node.pool.run("list the parts of a tape", async |client| {
            let sql = "select anchor, seq, time from $schema.entries where session = $1 and begins order by seq";
            let rows = client.query(&self.sql(sql), &[&session.as_str()]).await?;
            if rows.is_empty() {
                self.holder(client, session).await?;
            }
            Ok(rows.iter().map(|row| anchor(row.get(0), row.get(1), row.get(2))).collect())
        })
    }

    fn names(&self) -> Result<Vec<SessionId>, TapeError> {
        self.node.pool.run("list the sessions", async |client| {
            let rows = client.query(&self.sql("select session from $schema.sessions order by session"), &[]).await?;
            Ok(rows.iter().filter_map(|row| row.get::<_, &str>(0).parse().ok()).collect())
        })
    }

    fn summary(&self, session: &SessionId) -> Result<SessionSummary, TapeError> {
        self.read_summary(session)
    }

    fn summaries(&self) -> Result<Vec<SessionSummary>, TapeError> {
        self.read_summaries()
    }

    fn erase(&self, session: &SessionId, last: Option<Seq>, unless: &[Mark]) -> Result<Option<Mark>, TapeError> {
        let _reserved = self.node.shared.reserve(session)?;
        // Not tried again on another connection: a session that is gone would be reported as one that never was.
        self.node.pool.run_once("erase a session", async |client| {
            let transaction = client.transaction().await?;
            self.lock_free(&transaction, session).await?;
            for mark in unless {
                let sql = self.sql("select from $schema.marks where session = $1 and mark = $2 limit 1");
                if transaction.query_opt(&sql, &[&session.as_str(), &word(*mark)?]).await?.is_some() {
                    return Ok(Some(*mark));
                }
            }
            let sql = self.sql("select coalesce(max(seq), 0) from $schema.entries where session = $1");
            let now = seq(transaction.query_one(&sql, &[&session.as_str()]).await?.get(0));
            if let Some(expected) = last.filter(|last| *last != now) {
                return Err(TapeError::GoneOn { session: session.clone(), expected, last: now }.into());
            }
            for table in ["words", "indexed", "entries", "marks", "inbox", "sessions"] {
                let sql = self.sql(&format!("delete from $schema.{table} where session = $1"));
                transaction.execute(&sql, &[&session.as_str()]).await?;
            }
            transaction.commit().await?;
            Ok(None)
        })
    }

    fn mark(&self, session: &SessionId, mark: Mark, about: &str) -> Result<(), TapeError> {
        if mark == Mark::Open {
            return self.node.push(Job::MarkOpen { session: session.clone(), about: about.to_owned(), set: true });
        }
        let word = word(mark)?;
        self.node.pool.run("set a mark", async |client| {
            let transaction = client.transaction().await?;
            match mark {
                Mark::Hidden => {
                    self.lock_free(&transaction, session).await?;
                    // A put of words that waits for the lock is for another epoch then.
                    let sql = "update $schema.sessions set epoch = nextval('$schema.epochs'), node = '', expires = '-infinity'
                        where session = $1";
                    transaction.execute(&self.sql(sql), &[&session.as_str()]).await?;
                    for table in ["words", "indexed"] {
                        let sql = self.sql(&format!("delete from $schema.{table} where session = $1"));
                        transaction.execute(&sql, &[&session.as_str()]).await?;
                    }
                }
                // Either before an erasure looks at the marks, or not at all.
                _ => {
                    let lock = self.sql("select from $schema.sessions where session = $1 for share");
                    let is_there = transaction.query_opt(&lock, &[&session.as_str()]).await?.is_some();
                    if !is_there && mark != Mark::Parked {
                        return Err(TapeError::Missing { session: session.clone() }.into());
                    }
                }
            }
            let sql = "insert into $schema.marks (mark, session, fork, about) values ($1, $2, $3, $4)
                on conflict (mark, session, fork) do update set about = excluded.about";
            transaction.execute(&self.sql(sql), &[&word, &session.as_str(), &fork(mark, about), &about]).await?;
            transaction.commit().await?;
            Ok(())
        })
    }

    fn unmark(&self, session: &SessionId, mark: Mark, about: &str) -> Result<(), TapeError> {
        if mark == Mark::Open {
            return self.node.push(Job::MarkOpen { session: session.clone(), about: about.to_owned(), set: false });
        }
        let word = word(mark)?;
        self.node.pool.run("remove a mark", async |client| {
            client.execute(&self.sql(UNMARK), &[&word, &session.as_str(), &fork(mark, about)]).await?;
            Ok(())
        })
    }

    fn marks(&self, mark: Mark, of: Option<&SessionId>) -> Result<Vec<(SessionId, String)>, TapeError> {
        let of = of.map(SessionId::as_str);
        self.node.pool.run("read marks", async |client| {
            let rows = if mark == Mark::Claimed {
                let sql = "select s.session, '' from $schema.sessions s
                    where not $free and ($1::text is null or s.session = $1) order by s.session";
                client.query(&self.sql(sql), &[&of]).await?
            } else {
                let sql = "select session, about from $schema.marks
                    where mark = $2 and ($1::text is null or session = $1) order by session, fork";
                client.query(&self.sql(sql), &[&of, &word(mark)?]).await?
            };
            Ok(rows.iter().filter_map(|row| Some((row.get::<_, &str>(0).parse().ok()?, row.get(1)))).collect())
        })
    }

    fn ends(&self, session: &SessionId, through: Seq) -> Result<Vec<Seq>, TapeError> {
        self.node.pool.run("find the ends of appends", async |client| {
            let sql = "select seq from $schema.entries where session = $1 and seq <= $2 and more = 0 order by seq";
            let rows = client.query(&self.sql(sql), &[&session.as_str(), &int(through)]).await?;
            Ok(rows.iter().map(|row| seq(row.get(0))).collect())
        })
    }

    fn take_in(
        &self,
        session: &SessionId,
        pieces: &mut dyn Iterator<Item = Result<TapePiece, TapeError>>,
    ) -> Result<(), TapeError> {
        self.write_whole(session, pieces)
    }

    fn unread_words(&self, after: Option<&SessionId>, most: usize) -> Result<Vec<UnreadTape>, TapeError> {
        self.unread(after, most)
    }

    fn put_words(&self, tape: &UnreadTape, words: &[EntryWords], labels: Option<&Labels>) -> Result<(), TapeError> {
        self.put(tape, words, labels)
    }

    fn find_words(&self, wanted: &WantedWords) -> Result<Vec<FoundEntry>, TapeError> {
        self.find(wanted)
    }

    fn output_copies(&self) -> Option<PathBuf> {
        self.node.shared.output_copies.clone()
    }

    fn put_output(&self, session: &SessionId, name: &str, file: &File) -> Result<(), TapeError> {
        self.keep_output(session, name, file)
    }

    fn get_output(&self, session: &SessionId, name: &str, to: &mut dyn Write) -> Result<bool, TapeError> {
        self.write_output(session, name, to)
    }

    fn outputs(&self, session: &SessionId) -> Result<Vec<(String, u64)>, TapeError> {
        self.list_outputs(session)
    }

    fn settle(&self, limit: Duration) -> bool {
        self.node.shared.settle(limit)
    }
}

/// The name of a mark in its table.
pub(crate) fn word(mark: Mark) -> Result<&'static str, TapeError> {
    Ok(match mark {
        Mark::Open => "open",
        Mark::Parked => "parked",
        Mark::Protected => "protected",
        Mark::Hidden => "hidden",
        Mark::Fork => "fork",
        Mark::Imported => "imported",
        other => return Err(TapeError::engine(format!("the mark {other:?} is not kept"))),
    })
}

/// There is one mark of a fork for each fork.
pub(crate) fn fork(mark: Mark, about: &str) -> &str {
    if mark == Mark::Fork { about } else { "" }
}
