//! The exporters' requests, over the library's one HTTP client.

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpError, Request, Response};
use tamtam::model::{HttpClient, HttpRequest};

/// The client of the exporters. Their threads have no tokio runtime, so the requests run on the host's.
#[derive(Clone)]
pub(super) struct Client {
    pub(super) client: HttpClient,
    pub(super) tokio: tokio::runtime::Handle,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

#[async_trait]
impl opentelemetry_http::HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (head, body) = request.into_parts();
        let mut post = HttpRequest::post(head.uri.to_string(), body.to_vec());
        for (name, value) in &head.headers {
            post = post.header(name.as_str(), value.to_str()?);
        }
        let client = self.client.clone();
        let sent = self.tokio.spawn(async move {
            let answer = client.send(post).await?;
            let status = answer.status();
            answer.text().await.map(|text| (status, text))
        });
        let (status, text) = sent.await??;
        Ok(Response::builder().status(status).body(Bytes::from(text))?)
    }
}
