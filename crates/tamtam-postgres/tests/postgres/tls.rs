//! Connections that are encrypted, and servers that are not what they should be: each `sslmode` with each kind of server, and a node
//! all of whose connections are encrypted.

use std::{sync::OnceLock, time::Duration};

use tamtam::{Delivery, Outcome, tape::TapeStore as _};
use tamtam_postgres::{Postgres, PostgresError, PostgresOptions, migrate};

use crate::{
    cluster::{id, join, over},
    faults::{an_append_that_is_given_up_is_refused, no_append_is_lost_or_doubled},
    server::{Proxy, Server, comes_true, shared, sql},
};

const AUTHORITY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/postgres/certificates/authority.pem");
const OWN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/postgres/certificates/own.pem");

/// A server whose certificate an authority made.
fn signed() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| start(include_str!("certificates/signed.pem")))
}

/// A server whose certificate is its own authority, and has no alternative name.
fn own() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| start(include_str!("certificates/own.pem")))
}

fn start(certificate: &str) -> Server {
    let server = Server::start_encrypted(certificate);
    sql(&server.address(), "create role strict superuser login; create role secret superuser login password 'hunter2'");
    server
}

/// How a store comes to its database: `encrypted`, `plain`, or why not.
fn met(server: &Server, database: &PostgresOptions, address: &str, name: &str) -> String {
    let options = PostgresOptions::new(address).schema(&database.schema).node(name);
    let store = match Postgres::open(&options) {
        Ok(store) => store,
        Err(error) => return error.to_string(),
    };
    assert_eq!(store.names().unwrap(), []);
    let connected = format!(
        "select distinct ssl from pg_stat_ssl join pg_stat_activity using (pid) where application_name = '{name}'"
    );
    match sql(&server.address(), &connected)[..] {
        [ref ssl] if ssl == "t" => "encrypted".to_owned(),
        [ref ssl] if ssl == "f" => "plain".to_owned(),
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn each_mode_meets_each_server_as_it_says() {
    let (proxy, expired) = (Proxy::start(shared()), start(include_str!("certificates/expired.pem")));
    let network = |server: &Server| server.network().replace("user=strict", "user=postgres");
    let servers = [
        (shared(), shared().database(), proxy.address()),
        (signed(), signed().database(), network(signed())),
        (signed(), signed().database(), network(signed()).replace("localhost", "elsewhere.test")),
        (own(), own().database(), network(own())),
        (&expired, expired.database(), network(&expired)),
    ];
    let none = "no encrypted connection to PostgreSQL: the server does not encrypt; turn on ssl at the server";
    let unknown = "UnknownIssuer; name the file with the certificate of its authority: sslrootcert=FILE";
    let itself = "; the certificate is its own authority: name a file that has it with sslrootcert=FILE";
    let misnamed = "; set host to a name that is among the alternative names";
    let late = "; renew the certificate of the server, or correct the clock of this machine";
    let (encrypted, plain) = ("encrypted", "plain");
    let modes = [
        ("sslmode=disable".to_owned(), [plain, plain, plain, plain, plain]),
        (String::new(), [plain, encrypted, encrypted, encrypted, encrypted]),
        ("sslmode=prefer".to_owned(), [plain, encrypted, encrypted, encrypted, encrypted]),
        ("sslmode=require".to_owned(), [none, encrypted, encrypted, encrypted, encrypted]),
        (format!("sslmode=require sslrootcert={AUTHORITY}"), [none, encrypted, encrypted, itself, late]),
        (format!("sslmode=verify-ca sslrootcert={AUTHORITY}"), [none, encrypted, encrypted, itself, late]),
        (format!("sslmode=verify-full sslrootcert={AUTHORITY}"), [none, encrypted, misnamed, itself, late]),
        (format!("sslmode=verify-ca sslrootcert={OWN}"), [none, unknown, unknown, encrypted, late]),
        (format!("sslmode=verify-full sslrootcert={OWN}"), [none, unknown, unknown, misnamed, late]),
        ("sslmode=verify-full".to_owned(), [none, unknown, unknown, itself, late]),
    ];
    for (row, (mode, expected)) in modes.into_iter().enumerate() {
        for (n, ((server, database, address), expected)) in servers.iter().zip(expected).enumerate() {
            let met = met(server, database, &format!("{address} {mode} password=hunter2"), &format!("mode {row} {n}"));
            assert!(
                met == expected || !["encrypted", "plain"].contains(&expected) && met.contains(expected),
                "{mode:?} {n}: {met}"
            );
            assert!(!met.contains("hunter2"), "{met}");
        }
    }
}

/// As a role that the server refuses without encryption: the tables, what writes, what reads, and what listens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_connections_of_a_node_are_encrypted() {
    let address = signed().network();
    let url = format!(
        "postgresql://strict@localhost:5432/postgres?sslmode=verify-full&hostaddr={}&sslrootcert={}",
        address.split("hostaddr=").nth(1).unwrap().split(' ').next().unwrap(),
        AUTHORITY.replace('/', "%2F"),
    );
    let options = PostgresOptions::new(url).schema("encrypted");
    let refused = tokio::task::spawn_blocking(move || {
        let plain = PostgresOptions::new(format!("{address} sslmode=disable")).schema("encrypted");
        (migrate(&plain).unwrap_err(), plain)
    });
    let (refused, plain) = refused.await.unwrap();
    assert!(refused.to_string().ends_with("see sslmode"), "{refused}");
    let (made, options) = tokio::task::spawn_blocking(move || (migrate(&options), options)).await.unwrap();
    assert_eq!(made, Ok(0));
    let (one, two) = (join(&options, "tls one").await, join(&options, "tls two").await);
    one.runtime.create(one.engine.options()).await.unwrap();
    let sent = two.cluster.send(&id(), "hello", Delivery::Queue).await.unwrap();
    assert_eq!(over(&two.cluster, &sent).await, (Outcome::Done, "re hello".to_owned()));
    let listen = "select application_name, bool_and(ssl) from pg_stat_ssl join pg_stat_activity using (pid)
        where application_name like 'tls %' group by 1 having bool_or(query like 'listen %') and count(*) > 2 order by 1";
    let listening = || sql(&signed().address(), listen) == ["tls one t", "tls two t"];
    assert!(tokio::task::spawn_blocking(move || comes_true(listening)).await.unwrap());
    assert!(matches!(Postgres::open(&plain), Err(PostgresError::Refused { .. })));
}

#[test]
fn after_a_kill_of_the_server_connections_are_encrypted_again() {
    let server = start(include_str!("certificates/own.pem"));
    let schema = server.database().schema;
    let address = format!("{} sslmode=verify-ca sslrootcert={OWN}", server.network());
    no_append_is_lost_or_doubled(&server, &PostgresOptions::new(address).schema(schema), || {
        server.kill();
        server.start_again();
    });
}

#[test]
fn a_statement_is_given_up_over_an_encrypted_connection_too() {
    let schema = signed().database().schema;
    let address = format!("{} sslmode=verify-full sslrootcert={AUTHORITY}", signed().network());
    an_append_that_is_given_up_is_refused(signed(), &PostgresOptions::new(address).schema(schema));
}

/// A password is bound to the connection where it must be, and a connection that cannot be bound is refused before it is given.
#[test]
fn a_password_is_bound_to_the_connection() {
    // The one certificate is signed over SHA-256, and the other over SHA-384.
    for server in [signed(), own()] {
        let schema = server.database().schema;
        let address = server.network().replace("user=strict", "user=secret password=hunter2 channel_binding=require");
        let open = |mode: &str| Postgres::open(&PostgresOptions::new(format!("{address} {mode}")).schema(&schema));
        assert!(open("sslmode=require").unwrap().settle(Duration::from_secs(60)));
        let error = open("sslmode=disable").unwrap_err();
        assert!(matches!(error, PostgresError::Refused { .. }) && !error.to_string().contains("hunter2"), "{error}");
    }
}
