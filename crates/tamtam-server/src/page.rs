//! The page: its files, as they were when the program was built. They hold no data, so they need no token.

use axum::{
    extract::{OriginalUri, Path},
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};

use crate::{
    answer::Bytes,
    problem::{Answered, Problem},
};

/// What a browser may do with the page: load the files next to it and ask this server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file with its content type.
macro_rules! files {
    ($($name:literal),* $(,)?) => { &[$(($name, include_bytes!(concat!("../page/", $name)))),*] };
}

/// Each file by its name. A test compares the list with the folder.
const FILES: &[(&str, &[u8])] = files![
    "actorview.js",
    "api.js",
    "askview.js",
    "call.js",
    "composer.js",
    "dom.js",
    "format.js",
    "icon.svg",
    "index.html",
    "levers.js",
    "main.js",
    "nodesview.js",
    "sessionview.js",
    "sse.js",
    "style.css",
    "talk.js",
    "talkview.js",
    "tree.js",
    "treeview.js",
];

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

/// The page itself. Where a host mounts the router under a path, the page's files are under that path too.
pub(crate) async fn index(OriginalUri(asked): OriginalUri) -> Bytes {
    let prefix = asked.path().trim_end_matches('/');
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'_' | b'.' | b'~' | b'%');
    let mut page = served("index.html");
    // A path with other characters could end the attribute that it is put into.
    if !prefix.is_empty() && prefix.bytes().all(is_plain) {
        let text = String::from_utf8_lossy(include_bytes!("../page/index.html"));
        *page.body_mut() = text.replace("=\"/page/", &format!("=\"{prefix}/page/")).into();
        page.headers_mut().remove(header::CONTENT_LENGTH);
    }
    Bytes(page)
}

pub(crate) async fn file(Path(name): Path<String>) -> Answered<Bytes> {
    match FILES.iter().any(|(file, _)| *file == name) {
        true => Ok(Bytes(served(&name))),
        false => Err(Problem::not_found("the page has no such file")),
    }
}

fn served(name: &str) -> Response {
    let Some((name, bytes)) = FILES.iter().find(|(file, _)| *file == name) else {
        return Problem::not_found("the page has no such file").into_response();
    };
    let headers = [
        (header::CONTENT_TYPE, content_type(name)),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-cache"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    let mut response = (headers, *bytes).into_response();
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_file_of_the_page_is_served_with_its_type() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
        let there = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        let there: std::collections::BTreeSet<String> = there.collect();
        let served: std::collections::BTreeSet<String> = FILES.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(there, served);
        assert!(served.iter().all(|name| content_type(name) != "application/octet-stream"));
    }
}
