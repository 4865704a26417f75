//! Drivers of requests to servers that are no models, against one on loopback that counts what it reads.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tamtam::model::{HttpAnswer, HttpClient, HttpOptions, HttpRequest};

use super::{
    matrix::{Driver, go},
    world::World,
};

/// A server with two events for everybody. It ends with the value.
struct Served {
    at: SocketAddr,
    requests: Arc<AtomicUsize>,
    client: HttpClient,
}

impl Served {
    fn start() -> Served {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (at, requests) = (listener.local_addr().unwrap(), Arc::<AtomicUsize>::default());
        let count = requests.clone();
        std::thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                match answer(connection) {
                    Some(true) => return,
                    Some(false) => {}
                    None => drop(count.fetch_add(1, Ordering::SeqCst)),
                }
            }
        });
        Served { at, requests, client: HttpClient::new(HttpOptions::default()) }
    }

    fn request(&self) -> HttpRequest {
        HttpRequest::post(format!("http://{}/", self.at), "x")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(TcpStream::connect(self.at).and_then(|mut stream| stream.write_all(b"END")));
    }
}

/// Reads the head of a request and answers it. `None` if there was one; otherwise whether the server is to end.
fn answer(mut connection: TcpStream) -> Option<bool> {
    let (mut head, mut piece) = (Vec::new(), [0; 1024]);
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        match connection.read(&mut piece) {
            Ok(0) | Err(_) => return Some(head == b"END"),
            Ok(count) => head.extend_from_slice(&piece[..count]),
        }
        if head == b"END" {
            return Some(true);
        }
    }
    let body = "data: 1\n\ndata: 2\n\n";
    let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    drop(connection.write_all((head + body).as_bytes()));
    None
}

async fn answered(w: &mut World) {
    let served = Served::start();
    let answer = served.client.send(served.request()).await.unwrap();
    w.keep(served);
    w.keep(answer);
}

pub(super) fn drivers() -> Vec<Driver> {
    vec![
        Driver::new(
            "HttpClient::send",
            go!(w, {
                let served = w.kept::<Served>();
                drop(served.client.send(served.request()).await.unwrap());
            }),
        )
        .given(go!(w, w.keep(Served::start())))
        .effect(go!(w, w.kept::<Served>().requests.load(Ordering::SeqCst)))
        .then(go!(w, drop(w.take::<Served>())))
        .in_real_time(),
        Driver::new(
            "HttpAnswer::text",
            go!(w, {
                if let Some(answer) = w.take::<HttpAnswer>() {
                    assert_eq!(answer.text().await.unwrap(), "data: 1\n\ndata: 2\n\n");
                }
            }),
        )
        .given(go!(w, answered(w).await))
        .then(go!(w, drop(w.take::<Served>())))
        .in_real_time(),
        // What a dropped call has not given, the next one gives.
        Driver::new("HttpAnswer::event", go!(w, drop(w.kept::<HttpAnswer>().event().await.unwrap())))
            .given(go!(w, answered(w).await))
            .then(go!(w, {
                let mut last = None;
                while let Some(event) = w.kept::<HttpAnswer>().event().await.unwrap() {
                    last = Some(event.data);
                }
                assert_eq!(last.as_deref(), Some("2"));
                drop(w.take::<Served>());
            }))
            .in_real_time(),
    ]
}
