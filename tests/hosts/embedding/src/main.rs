//! What a host's own crates and its process do. With the feature `tamtam` a runtime is started first, and has answered a prompt; what is
//! printed must be the same without.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Counts the events of the host's own subscriber that have the host's target.
struct Counts(Arc<AtomicUsize>);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Counts {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        if event.metadata().target() == "embedding" {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// The signals that the process catches, ignores and blocks.
fn signals() -> Vec<String> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().filter(|line| line.starts_with("Sig")).map(str::to_owned).collect()
}

#[cfg(feature = "tamtam")]
async fn embed() -> tamtam::Runtime {
    use tamtam::model::{Reply, Scripted};
    let folder = std::env::args().nth(1).expect("a folder for the store");
    let model = Arc::new(Scripted::new([Reply::text("Hello.")]));
    let runtime = tamtam::Runtime::builder().store(&folder).model(model).start().await.expect("it starts");
    let session = runtime.create(tamtam::SessionOptions::new(&folder)).await.expect("a session");
    let answer = session.prompt("Say hello.").await.expect("sent").wait().await.expect("answered");
    assert_eq!(answer.text, "Hello.");
    // A client of tamtam's own wires is made, too: no server listens there.
    let endpoint = tamtam::model::Endpoint::new(tamtam::model::Api::OpenAiChat, "p", "https://127.0.0.1:1/v1", "m");
    let model = tamtam::model::HttpModel::new(endpoint, Default::default()).expect("a model");
    let request = tamtam::model::Request::new(Default::default());
    let refused = tamtam::model::Model::stream(&model, &request, &mut |_: tamtam::model::Delta| {}).await;
    assert!(refused.is_err());
    runtime
}

async fn serve() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}").await;
        }
    });
    format!("http://{address}/")
}

fn main() {
    let events = Arc::new(AtomicUsize::new(0));
    let panics = Arc::new(AtomicUsize::new(0));
    let seen = panics.clone();
    std::panic::set_hook(Box::new(move |_| {
        let _ = seen.fetch_add(1, Ordering::SeqCst);
    }));
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("tokio");
    let before = (std::env::vars_os().count(), std::env::current_dir().ok(), signals());
    tokio.block_on(async {
        #[cfg(feature = "tamtam")]
        let runtime = embed().await;
        let url = serve().await;
        let status = reqwest::Client::new().get(&url).send().await.expect("an answer").status();
        println!("reqwest 0.13: {status}");
        let status = reqwest12::Client::new().get(&url).send().await.expect("an answer").status();
        println!("reqwest 0.12: {status}");
        println!("a provider for the process: {}", rustls::crypto::CryptoProvider::get_default().is_some());
        let database = rusqlite::Connection::open_in_memory().expect("a database");
        let sum: i64 = database.query_row("select 1 + 1", [], |row| row.get(0)).expect("a row");
        println!("rusqlite: {sum}, limit {:?}", database.limit(rusqlite::limits::Limit::SQLITE_LIMIT_LENGTH));
        let subscriber =
            tracing_subscriber::layer::SubscriberExt::with(tracing_subscriber::registry(), Counts(events.clone()));
        println!("the subscriber is the host's: {}", tracing::subscriber::set_global_default(subscriber).is_ok());
        tracing::info!("one");
        let panicked = tokio::spawn(async { panic!("the host's own") }).await.is_err();
        println!("panicked: {panicked}, seen by the host's hook: {}", panics.load(Ordering::SeqCst));
        println!("events seen: {}", events.load(Ordering::SeqCst));
        let after = (std::env::vars_os().count(), std::env::current_dir().ok(), signals());
        println!("environment, folder and signals are as before: {}", before == after);
        #[cfg(feature = "tamtam")]
        assert!(runtime.shutdown().await.is_empty());
    });
}
