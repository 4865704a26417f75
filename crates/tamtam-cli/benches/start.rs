//! How long the program takes from its start to its first request: `cargo bench --bench start`. `--short` runs it twice, to see that it
//! still works.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    process::{Command, Stdio},
    time::Instant,
};

#[path = "../../../benches/support/parts.rs"]
mod parts;

use parts::{distribution, scaled};

fn main() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", server.local_addr().unwrap());
    let starts = (0..scaled(50)).map(|_| {
        let folder = tempfile::tempdir().unwrap();
        let mut run = Command::new(env!("CARGO_BIN_EXE_tamtam"));
        run.args(["run", "--model", "local/m", "--store", "store", "--base-url", &url, "go"])
            .current_dir(folder.path());
        run.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let began = Instant::now();
        let mut run = run.spawn().unwrap();
        let (mut asking, _) = server.accept().unwrap();
        asking.read_exact(&mut [0; 4]).unwrap();
        let took = began.elapsed();
        asking.write_all(b"HTTP/1.1 400 no\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
        run.wait().unwrap();
        took
    });
    distribution("g: from the start of `tamtam run` to the first bytes of its request", starts.collect());
}
