//! [`ClusterTree`]: every node of a cluster with its sessions, and what waits for a node, read from the rows.
//!
//! No node is asked, so it tells of those that are gone as well, and a node that stands still holds nobody up. It reads the whole
//! table of sessions once: for people, and not for a loop.

use std::{fmt, time::Duration};

use tamtam::SessionId;
use tokio_postgres::{Client, Row};

use crate::{Postgres, pool::Failure};

/// How many sessions a node shows, and how many those that wait and those that are parked.
const SHOWN_MAX: i64 = 20;

/// Nodes that joined, and others that have sessions.
const NODES: &str = "
select node, host, pid, expires > clock_timestamp(),
    extract(epoch from clock_timestamp() - since)::float8, extract(epoch from clock_timestamp() - expires)::float8
from $schema.nodes n
where expires > clock_timestamp() - interval '1 day'
    and (since is not null or exists (select from $schema.sessions s where s.node = n.node and s.expires = 'infinity'))
order by host, node";

/// Sessions with an owner, whether it lives or not, those that any node may take, and those that are parked: `$1` of each node and
/// kind, with how many there are in all. What a node had that died more than a day ago has no owner.
const SESSIONS: &str = "
with inbox as materialized (
    select session, count(*) as messages from $schema.inbox where refused is null group by session),
all_of_them as (
    select case when p.session is not null then 'parked'
            when s.expires > '-infinity' and n.node is not null then 'owned'
            when i.session is not null or o.session is not null then 'waiting' end as kind,
        s.node, s.session, o.session is not null as is_open, coalesce(i.messages, 0) as messages
    from $schema.sessions s
    left join $schema.nodes n on n.node = s.node and n.expires > clock_timestamp() - interval '1 day'
    left join inbox i on i.session = s.session
    left join $schema.marks o on o.mark = 'open' and o.session = s.session
    left join $schema.marks p on p.mark = 'parked' and p.session = s.session
    where not exists (select from $schema.marks h where h.mark = 'hidden' and h.session = s.session)),
counted as (
    select *, count(*) over w as count, row_number() over (w order by session) as place from all_of_them
    where kind is not null window w as (partition by kind, case when kind = 'owned' then node end))
select kind, node, session, is_open, messages, count from counted where place <= $1 order by kind, node, session";

/// The nodes of a cluster at one moment, as its rows say. As text through `Display`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ClusterTree {
    /// The nodes that joined, by name, and others that have sessions. One that died is shown for a day, one that left in order is not.
    pub nodes: Vec<ClusterNode>,
    /// Sessions without an owner that have messages or an open turn: any node with room may take them.
    pub waiting: ClusterSessions,
    /// Sessions that are kept stopped, on all nodes.
    pub parked: ClusterSessions,
}

/// A node of a [`ClusterTree`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ClusterNode {
    /// What tells it from every other one.
    pub id: String,
    /// Its [name](crate::PostgresOptions::node).
    pub name: String,
    /// Its OS process, on whatever machine it runs.
    pub pid: u32,
    /// How long ago it joined; `None` if it has sessions and did not join.
    pub joined: Option<Duration>,
    /// How long ago its lease was over; `None` while it lives.
    pub gone: Option<Duration>,
    /// What it has; of a node that is gone, what nobody has taken since.
    pub sessions: ClusterSessions,
}

/// Some sessions of a [`ClusterTree`].
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ClusterSessions {
    /// The first 20, by name.
    pub shown: Vec<ClusterSession>,
    /// How many there are in all.
    pub count: u64,
}

/// A session of a [`ClusterTree`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ClusterSession {
    /// Its name.
    pub session: SessionId,
    /// Whether a turn of it is open.
    pub in_turn: bool,
    /// How many messages wait in the inbox for it.
    pub messages: u64,
}

impl ClusterTree {
    pub(crate) async fn read(postgres: &Postgres, client: &Client) -> Result<ClusterTree, Failure> {
        let seconds = |row: &Row, at: usize| {
            row.get::<_, Option<f64>>(at).map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default())
        };
        let nodes = client.query(&postgres.sql(NODES), &[]).await?;
        let mut nodes: Vec<ClusterNode> = nodes
            .iter()
            .map(|row| ClusterNode {
                id: row.get(0),
                name: row.get(1),
                pid: u32::try_from(row.get::<_, i64>(2)).unwrap_or_default(),
                joined: seconds(row, 4),
                gone: seconds(row, 5).filter(|_| !row.get::<_, bool>(3)),
                sessions: ClusterSessions::default(),
            })
            .collect();
        let (mut waiting, mut parked) = (ClusterSessions::default(), ClusterSessions::default());
        for row in client.query(&postgres.sql(SESSIONS), &[&SHOWN_MAX]).await? {
            let node: &str = row.get(1);
            let group = match row.get(0) {
                "parked" => &mut parked,
                "waiting" => &mut waiting,
                // The owner may have changed between the two statements.
                _ => match nodes.iter_mut().find(|known| known.id == node) {
                    Some(node) => &mut node.sessions,
                    None => continue,
                },
            };
            group.count = count(row.get(5));
            let Ok(session) = row.get::<_, &str>(2).parse() else { continue };
            group.shown.push(ClusterSession { session, in_turn: row.get(3), messages: count(row.get(4)) });
        }
        Ok(ClusterTree { nodes, waiting, parked })
    }
}

fn count(rows: i64) -> u64 {
    u64::try_from(rows).unwrap_or_default()
}

/// ```text
/// cluster                        1 of 2 nodes live, 3 sessions
/// ├─ anna         node     live  up 31 s, pid 4711, 2 sessions
/// │  ├─ ticket-1  session  turn  1 message waits
/// │  └─ ticket-2  session  idle
/// ├─ bert         node     gone  for 4 s, pid 4712, 1 session
/// │  └─ ticket-3  session  turn
/// └─ no node      waiting        1 session
///    └─ ticket-4  session  idle  2 messages wait
/// ```
impl fmt::Display for ClusterTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut groups: Vec<([String; 4], &ClusterSessions)> = Vec::new();
        for node in &self.nodes {
            let joined =
                node.joined.map_or_else(|| "did not join".to_owned(), |joined| format!("up {} s", joined.as_secs()));
            let (status, time) = match node.gone {
                None => ("live", joined),
                Some(gone) => ("gone", format!("for {} s", gone.as_secs())),
            };
            let facts = format!("{time}, pid {}, {}", node.pid, sessions(node.sessions.count));
            groups.push(([plain(&node.name), "node".to_owned(), status.to_owned(), facts], &node.sessions));
        }
        for (name, group) in [("waiting", &self.waiting), ("parked", &self.parked)] {
            if group.count > 0 {
                groups.push((["no node".to_owned(), name.to_owned(), String::new(), sessions(group.count)], group));
            }
        }
        let live = self.nodes.iter().filter(|node| node.gone.is_none());
        let of_all = self.nodes.iter().map(|node| node.sessions.count).sum();
        let facts = format!("{} of {} nodes live, {}", live.count(), self.nodes.len(), sessions(of_all));
        let mut lines = vec![["cluster".to_owned(), String::new(), String::new(), facts]];
        let groups_count = groups.len();
        for (n, ([name, kind, status, facts], group)) in groups.into_iter().enumerate() {
            let (branch, below) = if n + 1 == groups_count { ("└─", "  ") } else { ("├─", "│ ") };
            lines.push([format!("{branch} {name}"), kind, status, facts]);
            let more = group.count.saturating_sub(group.shown.len() as u64);
            for (n, one) in group.shown.iter().enumerate() {
                let branch = if n + 1 == group.shown.len() && more == 0 { "└─" } else { "├─" };
                let status = if one.in_turn { "turn" } else { "idle" };
                let facts = match one.messages {
                    0 => String::new(),
                    1 => "1 message waits".to_owned(),
                    many => format!("{many} messages wait"),
                };
                lines.push([
                    format!("{below} {branch} {}", one.session),
                    "session".to_owned(),
                    status.to_owned(),
                    facts,
                ]);
            }
            if more > 0 {
                lines.push([format!("{below} └─ … {more} more"), String::new(), String::new(), String::new()]);
            }
        }
        let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
        let (first, second, third) = (width(0), width(1), width(2));
        for [name, kind, status, facts] in &lines {
            let line = format!("{name:first$}  {kind:second$}  {status:third$}  {facts}");
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

fn sessions(count: u64) -> String {
    if count == 1 { "1 session".to_owned() } else { format!("{count} sessions") }
}

/// A name that a host gave, on one line and without orders to a terminal.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
