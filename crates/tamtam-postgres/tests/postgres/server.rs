//! A PostgreSQL server of the tests' own: started once for all tests, and apart for those that kill it.
//!
//! A shell starts it and reads words from a pipe: `kill`, `start`. When the pipe closes, because the tests ended in whatever way, the
//! shell ends the server and removes its folder. The server refuses to run as root; then it runs as `nobody`.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    os::unix::{fs::chown, net::UnixStream, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tamtam_postgres::{Postgres, PostgresOptions, migrate};

const NOBODY: u32 = 65_534;

const SHELL: &str = r#"
cd "$FOLDER"
"$BIN/initdb" -D data -U postgres -A trust -E UTF8 --no-locale --no-sync >log 2>&1 || { cat log >&2; exit 1; }
if [ $SSL = on ]; then
    mv server.crt server.key data/ && chmod 600 data/server.key
    {
        printf '%s\n' 'hostnossl all strict all reject' 'host all secret all scram-sha-256' 'host all all all trust'
        cat data/pg_hba.conf
    } >hba && mv hba data/pg_hba.conf
fi
start() {
    while :; do
        "$BIN/postgres" -D data -k "$FOLDER" -c listen_addresses="$LISTEN" -c ssl=$SSL -c fsync=$FSYNC -c max_connections=600 \
            -c deadlock_timeout=100ms -c dynamic_shared_memory_type=mmap >>log 2>&1 &
        pid=$!
        until "$BIN/pg_isready" -q -h "$FOLDER"; do
            # The last one may still hold the memory.
            kill -0 $pid 2>/dev/null || break
            sleep 0.02
        done
        kill -0 $pid 2>/dev/null && break
    done
    echo ready
}
start
while read -r word; do
    case $word in
        kill) kill -KILL $pid; wait $pid 2>/dev/null; echo killed ;;
        start) start ;;
    esac
done
kill -QUIT $pid 2>/dev/null
wait
cd / && rm -rf "$FOLDER"
"#;

pub(crate) struct Server {
    folder: PathBuf,
    /// Where it listens, if it does, beside the socket in its folder.
    listens: Option<Ipv4Addr>,
    shell: Child,
    pipes: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
    schemas: AtomicUsize,
}

impl Server {
    pub(crate) fn start() -> Server {
        Server::start_with("off")
    }

    /// With TLS, over a network too. Who is `strict` must be encrypted there, and who is `secret` has a password.
    pub(crate) fn start_encrypted(certificate: &str) -> Server {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        // An address that no other test has, so that the port is free: 22 bits of the process, 2 of the server.
        let nth = u32::try_from(STARTED.fetch_add(1, Ordering::SeqCst)).unwrap();
        assert!(nth < 4, "four servers with TLS at most");
        let number = nth << 22 | std::process::id();
        Server::start_at("off", Some((Ipv4Addr::from(127 << 24 | number), certificate)))
    }

    /// With `on`, it syncs each commit to the disk.
    pub(crate) fn start_with(fsync: &str) -> Server {
        Server::start_at(fsync, None)
    }

    fn start_at(fsync: &str, listens: Option<(Ipv4Addr, &str)>) -> Server {
        let folder = tempfile::Builder::new().prefix("tamtam-pg-").tempdir().unwrap().keep();
        let mut shell = Command::new("sh");
        let mut made = vec![folder.clone()];
        if let Some((_, certificate)) = listens {
            for (name, text) in [("server.crt", certificate), ("server.key", include_str!("certificates/server.key"))] {
                std::fs::write(folder.join(name), text).unwrap();
                made.push(folder.join(name));
            }
        }
        if std::fs::metadata("/proc/self").is_ok_and(|process| std::os::unix::fs::MetadataExt::uid(&process) == 0) {
            made.iter().for_each(|path| chown(path, Some(NOBODY), Some(NOBODY)).unwrap());
            shell.uid(NOBODY).gid(NOBODY);
        }
        let listens = listens.map(|(address, _)| address);
        shell.args(["-c", SHELL]).env("FOLDER", &folder).env("FSYNC", fsync).env("BIN", programs()).current_dir("/");
        shell.env("SSL", if listens.is_some() { "on" } else { "off" });
        shell.env("LISTEN", listens.map(|address| address.to_string()).unwrap_or_default());
        // Of its own group: who ends the tests with their group does not end it before it has ended the server.
        shell.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let pipes = (shell.stdin.take().unwrap(), BufReader::new(shell.stdout.take().unwrap()));
        let server = Server { folder, listens, shell, pipes: Mutex::new(pipes), schemas: AtomicUsize::new(0) };
        server.hear("ready");
        server
    }

    fn hear(&self, expected: &str) {
        let mut line = String::new();
        self.pipes.lock().unwrap().1.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), expected, "the server did not start");
    }

    fn say(&self, word: &str) {
        writeln!(self.pipes.lock().unwrap().0, "{word}").unwrap();
    }

    /// `kill -9` of the postmaster.
    pub(crate) fn kill(&self) {
        self.say("kill");
        self.hear("killed");
    }

    /// Starts it again; returns when it accepts connections.
    pub(crate) fn start_again(&self) {
        self.say("start");
        self.hear("ready");
    }

    pub(crate) fn address(&self) -> String {
        format!("host={} user=postgres dbname=postgres", self.folder.display())
    }

    /// Over a network, to where it is under the name that its certificate has.
    pub(crate) fn network(&self) -> String {
        let address = self.listens.expect("it listens");
        format!("host=localhost hostaddr={address} port=5432 user=strict dbname=postgres")
    }

    /// Tables that no other test has.
    pub(crate) fn database(&self) -> PostgresOptions {
        let number = self.schemas.fetch_add(1, Ordering::SeqCst);
        let options = PostgresOptions::new(self.address()).schema(format!("t{number}"));
        assert_eq!(migrate(&options).unwrap(), 0);
        options
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A pipe that says nothing more in place of the one that is closed.
        let silent = Command::new("true").stdin(Stdio::piped()).spawn().unwrap().stdin.take().unwrap();
        drop(std::mem::replace(&mut self.pipes.get_mut().unwrap().0, silent));
        self.shell.wait().unwrap();
    }
}

/// The server that tests share.
pub(crate) fn shared() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(Server::start)
}

/// A store over tables of its own.
pub(crate) fn store() -> Postgres {
    Postgres::open(&shared().database()).unwrap()
}

/// The newest server of the system, or the one that `TAMTAM_POSTGRES` names.
fn programs() -> PathBuf {
    if let Some(named) = std::env::var_os("TAMTAM_POSTGRES") {
        return named.into();
    }
    let version = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|entry| entry.path());
    let newest = versions.filter(|path| path.join("bin/initdb").exists()).max_by_key(|path| version(path));
    newest.expect("no PostgreSQL: install it, or run crates/tamtam-postgres/tests/server.sh").join("bin")
}

/// Asks the server itself, past the store.
pub(crate) fn sql(address: &str, sql: &str) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(address, tokio_postgres::NoTls).await.unwrap();
        let driven = tokio::spawn(connection);
        let said = client.simple_query(sql).await.unwrap();
        drop(client);
        let _ = tokio::time::timeout(Duration::from_secs(5), driven).await;
        let rows = said.iter().filter_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => {
                let fields = (0..row.len()).map(|n| row.get(n).unwrap_or("null"));
                Some(fields.collect::<Vec<_>>().join(" "))
            }
            _ => None,
        });
        rows.collect()
    })
}

/// Whether it comes to be true within a minute.
pub(crate) fn comes_true(mut holds: impl FnMut() -> bool) -> bool {
    let until = std::time::Instant::now() + Duration::from_secs(60);
    while std::time::Instant::now() < until {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

/// A network that can be cut: a port on loopback that passes everything on to the server.
pub(crate) struct Proxy {
    port: u16,
    statements: Arc<AtomicUsize>,
    wires: Arc<Mutex<Wires>>,
}

#[derive(Default)]
struct Wires {
    open: Vec<(TcpStream, UnixStream)>,
    is_cut: bool,
}

impl Wires {
    fn end_all(&mut self) {
        for (client, server) in self.open.drain(..) {
            let _ = client.shutdown(Shutdown::Both);
            let _ = server.shutdown(Shutdown::Both);
        }
    }
}

/// Passes on what a client says, message by message, and counts those that run a statement.
fn pass_on(from: &mut TcpStream, to: &mut UnixStream, statements: &AtomicUsize) -> io::Result<()> {
    let mut from = BufReader::new(from);
    // The first message of a connection has no kind, and there are two of them where the first one asks for TLS (8 bytes).
    let mut head = vec![0; 4];
    loop {
        from.read_exact(&mut head)?;
        let length = u32::from_be_bytes(*head.last_chunk().unwrap());
        if head.len() == 5 && [b'B', b'Q'].contains(&head[0]) {
            statements.fetch_add(1, Ordering::SeqCst);
        }
        to.write_all(&head)?;
        io::copy(&mut (&mut from).take(u64::from(length) - 4), to)?;
        if head != [0, 0, 0, 8] {
            head.resize(5, 0);
        }
    }
}

impl Proxy {
    pub(crate) fn start(server: &Server) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, to) = (listener.local_addr().unwrap().port(), server.folder.join(".s.PGSQL.5432"));
        let wires: Arc<Mutex<Wires>> = Arc::default();
        let passed = Arc::clone(&wires);
        let statements = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&statements);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), UnixStream::connect(&to).unwrap());
                let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let (mut from_server, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                let mut wires = passed.lock().unwrap();
                if wires.is_cut {
                    continue;
                }
                wires.open.push((client, server));
                drop(wires);
                let counted = Arc::clone(&counted);
                std::thread::spawn(move || pass_on(&mut from_client, &mut to_server, &counted));
                std::thread::spawn(move || io::copy(&mut from_server, &mut to_client));
            }
        });
        Proxy { port, statements, wires }
    }

    /// How many statements its clients have run.
    pub(crate) fn statements(&self) -> usize {
        self.statements.load(Ordering::SeqCst)
    }

    pub(crate) fn address(&self) -> String {
        format!("host=127.0.0.1 port={} user=postgres dbname=postgres", self.port)
    }

    /// Ends all connections, at both ends. New ones are passed on.
    pub(crate) fn cut(&self) {
        self.wires.lock().unwrap().end_all();
    }

    /// Ends all connections, and takes no new ones until it is mended.
    pub(crate) fn part(&self) {
        let mut wires = self.wires.lock().unwrap();
        wires.is_cut = true;
        wires.end_all();
    }

    pub(crate) fn mend(&self) {
        self.wires.lock().unwrap().is_cut = false;
    }
}

/// Tells threads to stop, also where the test fails: else it would wait for them.
pub(crate) struct StopAtEnd<'a>(pub(crate) &'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
