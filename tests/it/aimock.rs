//! `tamtam run --json` against a mock server that we did not write, over both wires, judged by what the server was sent:
//! the server's journal says which requests there were and that each had its fixture, and a tap on the line what their bytes
//! were (the journal shows a Messages request rewritten as a Chat Completions one, with its blocks in another order).

mod heart;
mod steering;

use std::path::{Path, PathBuf};

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
        Lab::with_hook(wire, fixtures, |_, _| {})
    }

    /// With a function that is called with the number of each request, before the server gets it.
    fn with_hook(wire: Wire, fixtures: &[Value], hook: impl Fn(&Mark, usize) + Send + Sync + 'static) -> Lab {
        let folder = taped::folder();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        let server = Aimock::start(folder.path(), fixtures);
        let mark = Mark::new();
        let marked = mark.clone();
        let tap = Tap::start(server.address(), move |number| hook(&marked, number));
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
        let address = self.tap.address();
        let (model, url) = match self.wire {
            Wire::OpenAi => ("openai/gpt-4o", format!("http://{address}/v1")),
            Wire::Anthropic => ("anthropic/claude-sonnet-4-5", format!("http://{address}")),
        };
        // Both folders are named as one would type them.
        let arguments = ["run", "--json", "--permission", "auto", "--workspace", "work", "--store", "store"];
        let arguments = [&arguments[..], &["--model", model, "--base-url", &url, prompt]].concat();
        Tamtam::start(&arguments, self.home(), &self.mark, &[])
    }

    /// What each request said.
    fn requests(&self) -> Vec<Vec<Said>> {
        self.asked().iter().map(|asked| said(self.wire, &asked.json())).collect()
    }

    /// The requests as bytes, with the journal as the witness that they are all there were, and that none went unmatched.
    fn asked(&self) -> Vec<Asked> {
        let (asked, journal) = (self.tap.asked(), self.server.journal());
        let path = if self.wire == Wire::OpenAi { "/v1/chat/completions" } else { "/v1/messages" };
        assert_eq!(journal.len(), asked.len());
        for (entry, asked) in journal.iter().zip(&asked) {
            assert_eq!(entry["path"], path);
            assert_eq!(asked.line, format!("POST {path} HTTP/1.1"));
            assert!(entry["response"]["fixture"].is_object(), "no fixture for {entry:#}");
            if self.wire == Wire::OpenAi {
                assert_eq!(entry["body"]["messages"], asked.json()["messages"]);
            }
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

/// Runs a test over both wires.
macro_rules! over_both_wires {
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
            fn anthropic() {
                super::$name(Wire::Anthropic);
            }
        })*
    };
}
use over_both_wires;
