//! A listener on the line between a client and a server: what the client sends is kept byte for byte, because the
//! server's own journal shows requests in another form.

use std::{
    io::{BufReader, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use super::http::{Asked, read_request};

/// Called with each request and its number, from 0, before the request goes on to the server.
type Hook = Box<dyn Fn(usize, &Asked) + Send + Sync>;

#[derive(Default)]
struct State {
    asked: Vec<Asked>,
    /// How many bytes of answers went to the client since the newest request.
    answered: usize,
    lines: Vec<TcpStream>,
}

/// The listener. Dropping it cuts its lines.
pub(crate) struct Tap {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    ended: Arc<AtomicBool>,
}

impl Tap {
    /// Listens in front of that server.
    pub(crate) fn start(server: SocketAddr, hook: impl Fn(usize, &Asked) + Send + Sync + 'static) -> Tap {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        let ended = Arc::new(AtomicBool::new(false));
        let (shared, over, hook) = (state.clone(), ended.clone(), Arc::new(Box::new(hook) as Hook));
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let server = TcpStream::connect(server).unwrap();
                shared.lock().unwrap().lines.extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                let (state, hook) = (shared.clone(), hook.clone());
                let (asking, answering) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || pass_on(asking, server, &state, &hook));
                let state = shared.clone();
                std::thread::spawn(move || pass_back(answering, client, &state));
            }
        });
        Tap { address, state, ended }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// All requests, in the order they came.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.state.lock().unwrap().asked.clone()
    }

    /// How many bytes of the answer to the newest request have come by now.
    pub(crate) fn answered(&self) -> usize {
        self.state.lock().unwrap().answered
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
        for line in &self.state.lock().unwrap().lines {
            let _ = line.shutdown(Shutdown::Both);
        }
    }
}

/// Keeps each request, and sends it on.
fn pass_on(client: TcpStream, mut server: TcpStream, state: &Mutex<State>, hook: &Hook) {
    let mut sent = BufReader::new(Copied { from: client, bytes: Vec::new() });
    while let Some(asked) = read_request(&mut sent) {
        let number = {
            let mut state = state.lock().unwrap();
            state.asked.push(asked.clone());
            state.answered = 0;
            state.asked.len() - 1
        };
        hook(number, &asked);
        let bytes = std::mem::take(&mut sent.get_mut().bytes);
        if server.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
}

fn pass_back(mut server: TcpStream, mut client: TcpStream, state: &Mutex<State>) {
    let mut bytes = [0; 4096];
    while let Ok(n) = server.read(&mut bytes) {
        if n == 0 || client.write_all(&bytes[..n]).is_err() {
            break;
        }
        state.lock().unwrap().answered += n;
    }
    let _ = client.shutdown(Shutdown::Both);
}

/// Keeps what is read, so that it can be sent on unchanged.
struct Copied {
    from: TcpStream,
    bytes: Vec<u8>,
}

impl std::io::Read for Copied {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let n = self.from.read(to)?;
        self.bytes.extend_from_slice(&to[..n]);
        Ok(n)
    }
}
