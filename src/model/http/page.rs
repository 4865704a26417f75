//! [`PageUrl`]: the address of a page, as a model names it, and where a redirect leads from it.

/// The longest address, in bytes.
const URL_BYTES_MAX: usize = 2_048;

/// An `http` or `https` address without credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageUrl(reqwest::Url);

impl PageUrl {
    /// Reads an address; the error says what is wrong with it, for the model.
    pub(crate) fn parse(text: &str) -> Result<PageUrl, String> {
        if text.len() > URL_BYTES_MAX {
            return Err(format!("the url has {} bytes: {URL_BYTES_MAX} are the most", text.len()));
        }
        let url = text.trim().parse().map_err(|error| format!("the url cannot be read: {error}"))?;
        PageUrl::of(url)
    }

    fn of(mut url: reqwest::Url) -> Result<PageUrl, String> {
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
            return Err(format!("the url begins with {}: use http://HOST or https://HOST", url.scheme()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("the url has a user or a password in it: leave them out".to_owned());
        }
        // It is for the reader of a page, and no server sees it.
        url.set_fragment(None);
        Ok(PageUrl(url))
    }

    /// Where a redirect from here leads.
    pub(crate) fn join(&self, location: &str) -> Result<PageUrl, String> {
        if location.len() > URL_BYTES_MAX {
            return Err(format!("it redirects to a url of {} bytes", location.len()));
        }
        let next = self.0.join(location).map_err(|error| format!("it redirects to what is no url: {error}"))?;
        PageUrl::of(next).map_err(|why| format!("it redirects, and {why}"))
    }

    /// The host, in lower case, without a port and without the dot behind it that means the same.
    pub(crate) fn host(&self) -> String {
        self.0.host_str().unwrap_or_default().trim_end_matches('.').to_owned()
    }

    /// Whether a redirect to that address stays with the server that was asked: the same scheme, host and port, or the same host over
    /// `https` in place of `http`, each at its usual port.
    pub(crate) fn leads_on_to(&self, next: &PageUrl) -> bool {
        let at = |url: &PageUrl| (url.0.scheme().to_owned(), url.0.port());
        let is_upgrade = (at(self), at(next)) == (("http".to_owned(), None), ("https".to_owned(), None));
        self.host() == next.host() && (at(self) == at(next) || is_upgrade)
    }

    pub(crate) fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

#[cfg(all(test, feature = "http"))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_address_is_read_or_refused_in_words() {
        for (text, host) in [
            ("https://Docs.RS/tokio?x=1#top", "docs.rs"),
            ("http://docs.rs.:8080/", "docs.rs"),
            ("http://0x7f.1/", "127.0.0.1"),
            ("http://[::1]:80/", "[::1]"),
            ("http://bücher.example/", "xn--bcher-kva.example"),
        ] {
            assert_eq!(PageUrl::parse(text).unwrap().host(), host, "{text}");
        }
        let long = format!("http://h/{}", "x".repeat(2_048));
        for (text, why) in [
            ("docs.rs/tokio", "the url cannot be read: relative URL without a base"),
            ("file:///etc/passwd", "the url begins with file: use http://HOST or https://HOST"),
            ("http://ada:secret@host/", "the url has a user or a password in it: leave them out"),
            (&long, "the url has 2057 bytes: 2048 are the most"),
        ] {
            assert_eq!(PageUrl::parse(text).unwrap_err(), why);
        }
        let leads = |from: &str, to: &str| PageUrl::parse(from).unwrap().leads_on_to(&PageUrl::parse(to).unwrap());
        assert!(
            leads("http://h/a", "http://h/b")
                && leads("http://h/", "https://h/")
                && leads("http://h:8/", "http://h:8/x")
        );
        for other in ["https://h:22/", "http://h/", "https://g/", "https://h.g/"] {
            assert!(!leads("https://h/", other), "{other}");
        }
        let page = PageUrl::parse("https://docs.rs/a/b").unwrap();
        assert_eq!(page.join("../c").unwrap().as_str(), "https://docs.rs/c");
        assert_eq!(page.join("//evil.example/").unwrap().host(), "evil.example");
        assert!(page.join("javascript:alert(1)").unwrap_err().starts_with("it redirects, and the url begins with"));
        assert!(page.join("http://u:p@h/").unwrap_err().contains("a user or a password"));
    }
}
