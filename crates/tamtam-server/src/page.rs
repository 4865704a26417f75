//! The page: its files, as they were when the program was built. They hold no data, so they need no token.

use axum::{
    extract::Path,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};

use crate::problem::Problem;

/// What a browser may do with the page: load the files next to it and ask this server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";

/// Each file with its content type.
const FILES: &[(&str, &str, &[u8])] = &[("index.html", HTML, include_bytes!("../page/index.html"))];

pub(crate) async fn index() -> Response {
    served("index.html")
}

pub(crate) async fn file(Path(name): Path<String>) -> Response {
    served(&name)
}

fn served(name: &str) -> Response {
    let Some((_, kind, bytes)) = FILES.iter().find(|(file, ..)| *file == name) else {
        return Problem::not_found("the page has no such file").into_response();
    };
    let headers = [
        (header::CONTENT_TYPE, *kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-cache"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    let mut response = (headers, *bytes).into_response();
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
