//! `tamtam run --json` against a mock server that we did not write, over each wire, judged by the requests: the
//! server's journal shows which came and that each had its fixture, and a tap on the line shows their bytes (the
//! journal shows a Messages request rewritten as a Chat Completions one, with its blocks in another order).

mod delegation;
mod heart;
mod socket;
mod steering;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::support::{
    aimock::Aimock,
    http::Asked,
    marked::Mark,
    said::{Said, Wire, said},
    tamtam::{Ended, Tamtam, once},
    tap::Tap,
    taped,
};

/// A request on its way to the server.
struct OnItsWay<'a> {
    mark: &'a Mark,
    server: SocketAddr,
    /// From 0, in the order in which requests came.
    number: usize,
    asked: &'a Asked,
}

/// One run of the binary in folders of its own.
struct Lab {
    wire: Wire,
    server: Aimock,
    tap: Tap,
    mark: Mark,
    // Last, so that it goes when nothing uses it any more.
    folder: taped::Folder,
}

impl Lab {
    fn new(wire: Wire, fixtures: &[Value]) -> Lab {
        Lab::with_hook(wire, fixtures, |_| {})
    }

    /// With a function that is called with each request, before the server gets it.
    fn with_hook(wire: Wire, fixtures: &[Value], hook: impl Fn(&OnItsWay<'_>) + Send + Sync + 'static) -> Lab {
        let folder = taped::folder();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        let server = Aimock::start(folder.path(), &placed(wire, fixtures));
        let (address, mark) = (server.address(), Mark::new());
        let marked = mark.clone();
        let tap = Tap::start(address, move |number, asked| {
            hook(&OnItsWay { mark: &marked, server: address, number, asked });
        });
        Lab { wire, server, tap, mark, folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join("work").join(name)
    }

    fn put(&self, name: &str, text: &str) {
        std::fs::write(self.file(name), text).unwrap();
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn home(&self) -> &Path {
        self.folder.path()
    }

    /// Starts `tamtam run --json` with a prompt, where everything that stays in the workspace is allowed.
    fn run(&self, prompt: &str) -> Tamtam {
        self.run_with(&[], prompt)
    }

    /// The same with more arguments.
    fn run_with(&self, more: &[&str], prompt: &str) -> Tamtam {
        let address = self.tap.address();
        let (model, url) = match self.wire {
            Wire::OpenAi | Wire::Responses => ("openai/gpt-4o", format!("http://{address}/v1")),
            Wire::Anthropic => ("anthropic/claude-sonnet-4-5", format!("http://{address}")),
            Wire::Gemini => ("gemini/gemini-2.5-flash", format!("http://{address}/v1beta")),
        };
        let api: &[&str] = if self.wire == Wire::Responses { &["--api", "responses"] } else { &[] };
        // Both folders are named as one would type them.
        let arguments = ["run", "--json", "--permission", "auto", "--workspace", "work", "--store", "store"];
        let arguments = [&arguments[..], more, api, &["--model", model, "--base-url", &url, prompt]].concat();
        Tamtam::start(&arguments, self.home(), &self.mark, &[])
    }

    /// What each request said.
    fn requests(&self) -> Vec<Vec<Said>> {
        self.asked().iter().map(|asked| said(self.wire, &asked.json())).collect()
    }

    /// The requests as bytes, with the journal as the witness that they are all there were, and that none went unmatched.
    fn asked(&self) -> Vec<Asked> {
        let (asked, journal) = (self.tap.asked(), self.server.journal());
        let path = match self.wire {
            Wire::OpenAi => "/v1/chat/completions",
            Wire::Responses => "/v1/responses",
            Wire::Anthropic => "/v1/messages",
            Wire::Gemini => "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse",
        };
        assert_eq!(journal.len(), asked.len());
        for (entry, asked) in journal.iter().zip(&asked) {
            assert_eq!(entry["path"], path);
            assert_eq!(asked.line, format!("POST {path} HTTP/1.1"));
            assert!(entry["response"]["fixture"].is_object(), "no fixture for {entry:#}");
        }
        if self.wire == Wire::OpenAi {
            // Requests of sessions that work side by side may reach the server in another order than the tap.
            let mut known: Vec<_> = journal.iter().map(|entry| entry["body"]["messages"].to_string()).collect();
            let mut sent: Vec<_> = asked.iter().map(|asked| asked.json()["messages"].to_string()).collect();
            known.sort();
            sent.sort();
            assert_eq!(known, sent);
        }
        asked
    }

    /// Ends as it should: done, with that last text, and an undamaged tape.
    fn done(&self, ended: &Ended, text: &str) {
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{:#?}", ended.lines);
        let last = ended.lines.last().unwrap();
        assert_eq!(json!([last["result"]["outcome"], last["result"]["text"]]), json!(["done", text]));
        let (code, said) = once(&["tape", "verify", "--store", "store"], self.home(), &self.mark);
        assert_eq!(code, Some(0), "{said}");
    }
}

/// The fixtures with their places as the server counts them: with the Responses API, where each text and each call is an item, it
/// takes each for an answer.
fn placed(wire: Wire, fixtures: &[Value]) -> Vec<Value> {
    let mut placed = fixtures.to_vec();
    if wire == Wire::Responses {
        let items = |fixture: &Value| {
            let response = &fixture["response"];
            u64::from(response["content"].is_string()) + response["toolCalls"].as_array().map_or(0, Vec::len) as u64
        };
        for fixture in &mut placed {
            let Some(nth) = fixture["match"]["turnIndex"].as_u64() else { continue };
            // Of several answers to one request, the last is the one that was given.
            let given = (0..nth).filter_map(|of| fixtures.iter().rfind(|before| before["match"]["turnIndex"] == of));
            fixture["match"]["turnIndex"] = given.map(items).sum::<u64>().into();
        }
    }
    placed
}

/// Runs a test over each wire.
macro_rules! over_each_wire {
    ($($(#[$about:meta])* $name:ident;)*) => {
        $(mod $name {
            use crate::support::said::Wire;

            $(#[$about])*
            #[test]
            fn openai() {
                super::$name(Wire::OpenAi);
            }

            $(#[$about])*
            #[test]
            fn responses() {
                super::$name(Wire::Responses);
            }

            $(#[$about])*
            #[test]
            fn gemini() {
                super::$name(Wire::Gemini);
            }

            $(#[$about])*
            #[test]
            fn anthropic() {
                super::$name(Wire::Anthropic);
            }
        })*
    };
}
use over_each_wire;
