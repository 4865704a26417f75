//! `tamtam doctor` and `tamtam postgres migrate` over a database that encrypts: what is said of one that cannot be used, and that no
//! line has its password.

use std::net::TcpListener;

use super::{
    lab::{Ended, Lab, Live},
    nodes::server::{Server, sql},
};

/// In no output, wherever it came from.
const PASSWORD: &str = "hunter2-hunter2";

fn doctor(lab: &Lab, database: &str) -> Ended {
    let mut command = lab.command(&["doctor"]);
    command.env("TAMTAM_SERVE_POSTGRES", database).env("PGPASSWORD", PASSWORD);
    Live::start(command).end()
}

/// The line about the database, after `database`; a line that begins with `no` makes the command fail, and no other does.
fn said(ended: &Ended) -> String {
    assert!(!format!("{ended:?}").contains(PASSWORD), "{ended:?}");
    let line = ended.stdout.lines().find_map(|line| line.strip_prefix("database  ")).expect("a line").to_owned();
    assert_eq!(ended.code, i32::from(line.starts_with("no: ")), "{ended:?}");
    line
}

#[test]
fn the_doctor_says_what_a_database_lacks_and_what_mends_it() {
    let lab = Lab::new();
    let certificates = concat!(env!("CARGO_MANIFEST_DIR"), "/../tamtam-postgres/tests/postgres/certificates");
    let signed = std::fs::read_to_string(format!("{certificates}/signed.pem")).unwrap();
    let server = Server::start_encrypted(&signed);
    sql(&server.address(), "create role strict superuser login; create role app login");
    let database = format!("{} sslmode=verify-full sslrootcert={certificates}/authority.pem", server.network());
    let role = |role: &str| database.replace("user=strict", &format!("user={role}"));
    let look = |database: &str| said(&doctor(&lab, database));

    let none = lab.run(&["doctor"]);
    assert!(none.code == 0 && !none.stdout.contains("\ndatabase"), "{none:?}");
    assert!(look("host=/nowhere user=app").contains("host=/nowhere user=app: PostgreSQL cannot be reached: "));
    let hidden = look(&format!("host=/nowhere user=app password={PASSWORD}"));
    assert!(hidden.starts_with("no: host=… user=… dbname=…: PostgreSQL cannot be reached: "), "{hidden}");
    assert!(look("host=db").ends_with("the connection string names no user: add user=…"));
    let unknown = look(&format!("{} sslmode=verify-full", server.network()));
    assert!(unknown.ends_with("name the file with the certificate of its authority: sslrootcert=FILE"), "{unknown}");

    let old = look(&database);
    let mend = "encrypted (TLSv1.3): schema tamtam is of version 0, this tamtam needs 7: run `tamtam postgres migrate` as its owner";
    assert!(old.starts_with("no: ") && old.ends_with(mend), "{old}");
    let made = lab.run(&["postgres", "migrate", "--postgres", &database]);
    assert!(made.code == 0 && made.stdout.contains("the tables are made"), "{made:?}");
    let good = look(&database);
    assert!(good.ends_with(", encrypted (TLSv1.3), schema tamtam is up to date"), "{good}");
    let plain = look(&format!("{} sslmode=disable", server.network().replace("user=strict", "user=postgres")));
    assert!(plain.ends_with(", not encrypted, schema tamtam is up to date"), "{plain}");
    let refused = look(&format!("{} sslmode=disable", server.network()));
    assert!(refused.ends_with("the server may want an encrypted connection, see sslmode"), "{refused}");

    let refused = look(&role("app"));
    assert!(refused.contains("permission denied for schema tamtam"), "{refused}");
    let some = "grant usage on schema tamtam to app; grant select on all tables in schema tamtam to app;
        grant insert, update, delete on tamtam.sessions, tamtam.marks, tamtam.inbox, tamtam.nodes, tamtam.indexed, tamtam.outputs to app;
        grant insert on tamtam.entries, tamtam.words, tamtam.output_pieces to app";
    sql(&server.address(), some);
    let lacks = look(&role("app"));
    let grant = "grant it usage on sequence tamtam.epochs; delete on tamtam.entries; delete on tamtam.words; \
                 delete on tamtam.output_pieces";
    assert!(lacks.ends_with(grant), "{lacks}");
    sql(
        &server.address(),
        "grant usage on sequence tamtam.epochs to app; grant delete on tamtam.entries, tamtam.words, tamtam.output_pieces to app",
    );
    assert!(look(&role("app")).ends_with("is up to date"));
    sql(&server.address(), "alter role app set default_transaction_read_only = on");
    assert!(look(&role("app")).ends_with("it only reads: name all servers, with target_session_attrs=read-write"));

    sql(&server.address(), "create database letters encoding 'SQL_ASCII' locale 'C' template template0");
    let letters = look(&database.replace("dbname=postgres", "dbname=letters"));
    assert!(letters.contains("the database is in SQL_ASCII: make one in UTF8"), "{letters}");

    sql(&server.address(), "insert into tamtam.migrations (version) values (99)");
    let newer = look(&database);
    assert!(newer.ends_with("schema tamtam is of version 99, this library knows up to 7: update this host"), "{newer}");
}

/// The one in the configuration is looked at, and one that takes connections and says nothing holds the command up for seconds.
#[test]
fn the_doctor_does_not_wait_for_a_database_that_says_nothing() {
    let lab = Lab::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let setting = format!("postgres = 'postgresql://app:{PASSWORD}@127.0.0.1:{port}/app'\n");
    lab.put("home/.config/tamtam/config.toml", &setting);
    let ended = lab.run(&["doctor"]);
    let line = said(&ended);
    let expected =
        format!("no: postgresql://app@127.0.0.1:{port}/app: PostgreSQL cannot be reached: no answer for 5 s; ");
    assert!(line.starts_with(&expected), "{line}");
}
