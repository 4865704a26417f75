//! The statements of the connection that writes. `$schema` stands for the schema.
//!
//! A change must keep: what writes checks the epoch in the same statement; rows of sessions are locked in the order of their names, so
//! that no two statements of this library wait for each other in a circle; no time but `clock_timestamp()` decides; and time alone
//! changes no row of `sessions`, because each append looks at one (decision 0063).

/// Inserts the rows of all sessions whose epoch is that of the claim, and whose last line is the one that the rows continue; returns
/// these sessions. A line that was acknowledged is missing only where the database went back. It is looked up with `limit 1`: of an
/// `exists` here, the planner makes one read of the whole table for each append.
pub(crate) const APPEND: &str = "
with asked as materialized (
    select * from unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[]) as a(session, epoch, last, sum)),
held as materialized (
    select s.session from $schema.sessions s join asked a on s.session = a.session and s.epoch = a.epoch
    where a.last = s.after_seq or (
        select true from $schema.entries e where e.session = a.session and e.seq = a.last and e.sum = a.sum limit 1)
    order by s.session for share of s),
taken as (
    insert into $schema.entries (session, seq, time, more, anchor, begins, sum, bytes, line)
    select r.* from unnest($5::text[], $6::bigint[], $7::bigint[], $8::bigint[], $9::text[], $10::boolean[], $11::text[],
        $12::bigint[], $13::text[]) as r(session, seq, time, more, anchor, begins, sum, bytes, line)
    join held h on h.session = r.session)
select session from held";

/// A lease of this node that ends `$4` seconds from now; `$5`: whether it is in a cluster, null to leave that as it is. Returns whether
/// its lease was over, or nearly: others may have taken what it has by the time that this is committed. The row is locked before it is
/// written: the statement would not see its own.
pub(crate) const BEAT: &str = "
with before as materialized (select expires from $schema.nodes where node = $1 for no key update),
beat as (
    insert into $schema.nodes as n (node, host, pid, since, expires)
    select $1, $2, $3, case when $5::boolean then clock_timestamp() end, clock_timestamp() + make_interval(secs => $4::float8)
    from (select count(*) from before) one
    on conflict (node) do update
    set expires = excluded.expires,
        since = case when $5 then coalesce(n.since, excluded.since) when $5 is null then n.since end)
select coalesce((select expires <= clock_timestamp() + make_interval(secs => $4 / 4) from before), true)";

/// Removes nodes that died more than a day ago, or left.
pub(crate) const BURY: &str = "delete from $schema.nodes where expires < clock_timestamp() - interval '1 day'";

/// Those of these sessions whose epoch is that of the claim.
pub(crate) const HELD: &str = "
select s.session from unnest($1::text[], $2::bigint[]) as a(session, epoch)
join $schema.sessions s on s.session = a.session and s.epoch = a.epoch";

/// Frees what this node has by the rows and not by what it knows (`$2`), claimed before the epoch `$3`: what it could not give back, or
/// claimed without an answer.
pub(crate) const FREE: &str = "
with held as materialized (
    select session from $schema.sessions
    where node = $1 and expires = 'infinity' and epoch < $3 and session <> all($2::text[])
    order by session for no key update)
update $schema.sessions s set expires = '-infinity' from held h where s.session = h.session";

/// Gives back those sessions whose epoch is that of the claim. Where messages or an open turn wait in one of them, the nodes
/// are told (`$3`), so that another one takes it at once. What comes between this statement's look and its commit is not seen: the
/// next look of a node finds that.
pub(crate) const RELEASE: &str = "
with asked as materialized (select * from unnest($1::text[], $2::bigint[]) as a(session, epoch)),
held as materialized (
    select s.session from $schema.sessions s join asked a on s.session = a.session and s.epoch = a.epoch
    order by s.session for no key update of s),
freed as (
    update $schema.sessions s set expires = '-infinity' from held h where s.session = h.session returning s.session)
select count(pg_notify($3, '')) from (
    select f.session from freed f
    where exists (select from $schema.inbox i where i.session = f.session and i.refused is null)
        or exists (select from $schema.marks m where m.session = f.session and m.mark = 'open')) waits";

/// New epochs for what this node still has: `$2` is its name.
pub(crate) const FENCE: &str = "
with held as materialized (
    select s.session from $schema.sessions s where s.session = any($1::text[]) and s.node = $2
    order by s.session for no key update of s)
update $schema.sessions s set epoch = nextval('$schema.epochs'), expires = 'infinity'
from held h where s.session = h.session returning s.session, s.epoch";

/// Sets and clears marks of open turns; of a session that is not there, none, and none of one that another node than `$4` has by now.
pub(crate) const MARK_OPEN: &str = "
with asked as materialized (select * from unnest($1::text[], $2::text[], $3::boolean[]) as a(session, about, wanted)),
held as materialized (
    select s.session, s.node <> $4 as is_anothers
    from $schema.sessions s join asked a on s.session = a.session order by s.session for share of s),
cleared as (
    delete from $schema.marks m using asked a where m.mark = 'open' and m.session = a.session and not a.wanted
        and not exists (select from held h where h.session = a.session and h.is_anothers))
insert into $schema.marks (mark, session, fork, about)
select 'open', a.session, '', a.about from asked a join held h on h.session = a.session where a.wanted and not h.is_anothers
on conflict (mark, session, fork) do update set about = excluded.about";

/// Which of these last rows of appends are there.
pub(crate) const WRITTEN: &str = "
select e.session from $schema.entries e
join unnest($1::text[], $2::bigint[], $3::text[]) as a(session, seq, sum)
on e.session = a.session and e.seq = a.seq and e.sum = a.sum";

/// Who has these sessions.
pub(crate) const HOLDERS: &str =
    "select session, node, pid, host from $schema.sessions where session = any($1::text[])";
