//! The frame of the six file tools (read, write, edit, grep, find, ls): a [`FileWork`] provides the words, the arguments and the
//! work, and [`FileTool`] makes it a tool.
//!
//! A tool that only looks has the effect `Read` and runs alongside others; a tool that writes has the effect `Once` (a call that a
//! crash cut off does not run again) and runs alone. A change must keep effect, permission and parallelism tied to [`Touch`]: a
//! tool that writes and is declared as [`Touch::Reads`] would run again after a crash, and without the permission to edit. Every
//! path that a call names must come under one of [`FileWork::PATH_NAMES`], because no other argument is judged.

use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    model::BoxFuture,
    tool::{Access, Effect, Files, Tool, ToolContext, ToolResult, schema_of},
    tools::{
        arguments::parse,
        call::{self, Call, Shared},
        path,
    },
};

/// What a tool does to files.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Touch {
    /// The tool only reads: a call may run again after a crash, and alongside others.
    Reads,
    /// The tool writes: a call never runs again after a crash, and runs alone.
    Writes,
}

impl Touch {
    /// The permission that a call needs for the path that it names.
    fn permission(self) -> &'static str {
        match self {
            Touch::Reads => "read",
            Touch::Writes => "edit",
        }
    }
}

/// A tool that works on the files of the workspace. The implementing type holds the arguments of a call, and carries the call out.
pub(super) trait FileWork: DeserializeOwned + JsonSchema + 'static {
    const NAME: &'static str;
    const ALIASES: &'static [&'static str] = &[];
    const DESCRIPTION: &'static str;
    const TOUCH: Touch;
    /// The names of the argument that holds the path: its own name and all aliases that the type accepts.
    const PATH_NAMES: &'static [&'static str];

    /// Errors in the arguments alone. A pure function.
    fn check(&self) -> Result<(), ToolResult> {
        Ok(())
    }

    /// Why a tool that writes cannot carry the call out as the files are now. It looks at files, and changes nothing.
    fn foresee(&self, _: &Call) -> Result<(), ToolResult> {
        Ok(())
    }

    /// Carries out one call, on a thread that may block. Both sides of the `Result` are results for the model.
    fn work(&self, call: &Call) -> Result<ToolResult, ToolResult>;
}

/// A [`FileWork`] as a tool.
pub(super) struct FileTool<W> {
    shared: Shared,
    work: PhantomData<fn() -> W>,
}

impl<W: FileWork> FileTool<W> {
    pub(super) fn new(shared: Shared) -> FileTool<W> {
        FileTool { shared, work: PhantomData }
    }
}

impl<W: FileWork> Tool for FileTool<W> {
    fn name(&self) -> &'static str {
        W::NAME
    }

    fn aliases(&self) -> &[&str] {
        W::ALIASES
    }

    fn description(&self) -> &'static str {
        W::DESCRIPTION
    }

    fn schema(&self) -> Value {
        schema_of::<W>()
    }

    fn effect(&self) -> Effect {
        match W::TOUCH {
            Touch::Reads => Effect::Read,
            Touch::Writes => Effect::Once,
        }
    }

    fn parallel(&self) -> bool {
        W::TOUCH == Touch::Reads
    }

    fn access(&self, arguments: &Value) -> Vec<Access> {
        path::access(W::TOUCH.permission(), arguments, W::PATH_NAMES, self.shared.home.as_deref())
    }

    fn permissions(&self) -> Vec<String> {
        vec![W::TOUCH.permission().to_owned()]
    }

    fn check(&self, arguments: &Value) -> Result<(), String> {
        parse::<W>(arguments).and_then(|(work, _)| work.check()).map_err(|error| error.content)
    }

    fn foresee(&self, arguments: &Value, context: &ToolContext) -> Result<(), String> {
        if W::TOUCH == Touch::Reads {
            return Ok(());
        }
        let call = || Call::to_look(&self.shared, Touch::Reads.permission(), context);
        parse::<W>(arguments).and_then(|(work, _)| work.foresee(&call()?)).map_err(|error| error.content)
    }

    fn files(&self) -> Option<&Files> {
        (W::TOUCH == Touch::Writes).then_some(&self.shared.files)
    }

    fn run<'a>(&'a self, arguments: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        call::run(&self.shared, W::TOUCH.permission(), context, move |call| {
            if W::TOUCH == Touch::Writes {
                call.context.changes.begin();
            }
            let (work, repairs) = parse::<W>(&arguments)?;
            let mut result = work.work(call)?;
            // Repairs are for people: the model got what it meant.
            if let (false, Some(details)) = (repairs.is_empty(), result.details.as_object_mut()) {
                details.insert("repaired".to_owned(), json!(repairs));
            }
            Ok(result)
        })
    }
}
