//! Drivers of the processes of calls, and of what a tool and a test wait for.

use std::sync::Mutex;

use serde_json::{Value, json};
use tamtam::{
    model::{Barrier, BoxFuture},
    tool::{Question, Tool, ToolContext, ToolResult, blocking},
    tools::process::{Folder, Process, ProcessEvent, Processes, Spec, WatchBy},
};

use super::{
    matrix::{Driver, go},
    world::{World, threads},
};

pub(super) fn drivers() -> Vec<Driver> {
    [processes(), waits()].into_iter().flatten().collect()
}

fn processes() -> Vec<Driver> {
    vec![
        // Its effect is a process that somebody holds.
        Driver::new(
            "Processes::start",
            go!(w, {
                let processes = w.kept::<Processes>().clone();
                let started = processes.start(w.sleeps(&processes)).await.unwrap();
                w.keep(started);
            }),
        )
        .given(go!(w, w.processes()))
        .effect(go!(w, w.running()))
        .then(go!(w, w.end().await))
        .in_real_time(),
        Driver::new("Processes::close", go!(w, drop(w.kept::<Processes>().clone().close().await)))
            .given(go!(w, w.process().await))
            .effect(go!(w, 1 - w.running()))
            .then(go!(w, w.end().await))
            .in_real_time(),
        // What a dropped call has not given, the next one gives.
        Driver::new("Process::next", go!(w, drop(w.kept::<Process>().next().await)))
            .given(go!(w, w.process().await))
            .then(go!(w, {
                w.kept::<Process>().end().await;
                while !matches!(w.kept::<Process>().next().await, ProcessEvent::Closed) {}
                w.end().await;
            }))
            .in_real_time(),
        Driver::new("Process::ask_to_end", go!(w, w.kept::<Process>().ask_to_end().await))
            .given(go!(w, w.process().await))
            .effect(go!(w, 1 - w.running()))
            .once()
            .then(go!(w, w.end().await))
            .in_real_time(),
        Driver::new("Process::end", go!(w, drop(w.kept::<Process>().end().await)))
            .given(go!(w, w.process().await))
            .effect(go!(w, 1 - w.running()))
            .once()
            .then(go!(w, w.end().await))
            .in_real_time(),
    ]
}

fn waits() -> Vec<Driver> {
    vec![
        Driver::new("Barrier::reached", go!(w, w.kept::<Barrier>().clone().reached().await))
            .given(go!(w, w.keep(w.model.barrier("gate")))),
        Driver::new("Barrier::reached_times", go!(w, w.kept::<Barrier>().clone().reached_times(1).await)).given(go!(
            w,
            {
                w.hold().await;
                w.keep(w.model.barrier("gate"));
            }
        )),
        Driver::new("ToolContext::ask", go!(w, drop(w.kept::<ToolContext>().clone().ask(Question::new("?")).await)))
            .given(go!(w, w.staying().await))
            .effect(go!(w, w.count("ask")))
            .once()
            .then(go!(w, {
                drop(w.take::<ToolContext>());
                w.session.abort("enough").await.unwrap();
                w.session.wait().await.unwrap();
            })),
        Driver::new("ToolContext::cancelled", go!(w, w.kept::<ToolContext>().clone().cancelled().await))
            .given(go!(w, w.keep(w.context()))),
        Driver::new(
            "ToolContext::cancelled, of one that is",
            go!(w, w.kept::<ToolContext>().clone().cancelled().await),
        )
        .given(go!(w, {
            let context = w.context();
            context.cancel();
            w.keep(context);
        })),
        Driver::new(
            "tool::blocking",
            go!(w, {
                let context = w.context();
                let file = w.folder.path().join("made");
                drop(
                    blocking(&context, move |_| {
                        std::fs::write(&file, "made").unwrap();
                        ToolResult::ok("made")
                    })
                    .await,
                );
            }),
        )
        .effect(go!(w, usize::from(w.folder.path().join("made").exists())))
        .once()
        .in_real_time(),
    ]
}

/// A tool whose call stays until it is stopped. A call's context is found by its folder.
struct Stay;

static STAYING: Mutex<Vec<ToolContext>> = Mutex::new(Vec::new());

impl Tool for Stay {
    fn name(&self) -> &str {
        "stay"
    }

    fn description(&self) -> &str {
        "Stays."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn run<'a>(&'a self, _: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        STAYING.lock().unwrap().push(context.clone());
        Box::pin(async {
            context.cancelled().await;
            ToolResult::ok("stopped")
        })
    }
}

impl World {
    /// A turn whose call runs: keeps its context, and the events.
    async fn staying(&mut self) {
        self.restart(|builder| builder.tool(Stay)).await;
        self.keep(self.session.events());
        self.session.prompt("stay").await.unwrap();
        let work = self.folder.path().join("work");
        loop {
            threads().await;
            let mut all = STAYING.lock().unwrap();
            if let Some(at) = all.iter().position(|context| *context.workspace == work) {
                let context = all.remove(at);
                drop(all);
                return self.keep(context);
            }
        }
    }

    fn context(&self) -> ToolContext {
        ToolContext::detached(self.folder.path().join("work"), self.folder.path().join("spill"))
    }

    fn processes(&mut self) {
        let ledger = self.folder.path().join("ledger");
        self.keep(Processes::new(WatchBy::Shell, Some(ledger)));
    }

    /// A program that ends when it is asked to.
    fn sleeps(&self, of: &Processes) -> Spec {
        let path = self.folder.path().join("work");
        let folder = Folder::new(std::fs::File::open(&path).unwrap().into(), path);
        Spec::new("/bin/sleep", folder, of.tag()).arguments(["999"])
    }

    async fn process(&mut self) {
        self.processes();
        let processes = self.kept::<Processes>().clone();
        let started = processes.start(self.sleeps(&processes)).await.unwrap();
        self.keep(started);
    }

    /// How many programs of these processes run in the workspace of the world.
    fn running(&mut self) -> usize {
        let work = self.folder.path().join("work");
        let folders = std::fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
        let here = folders.filter(|process| std::fs::read_link(process.join("cwd")).is_ok_and(|at| at == work));
        here.filter(|process| std::fs::read_link(process.join("exe")).is_ok()).count()
    }

    /// The processes end, and nothing of them is left.
    async fn end(&mut self) {
        drop(self.take::<Process>());
        let swept = self.kept::<Processes>().clone().close().await;
        assert!(swept.left.is_empty(), "{swept:?}");
        let ledger = self.folder.path().join("ledger");
        let is_over = || std::fs::read_dir(&ledger).map_or(0, Iterator::count) == 0;
        for _ in 0..500 {
            if is_over() && self.running() == 0 {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("a process is left, or the ledger has not struck the owner out");
    }
}
