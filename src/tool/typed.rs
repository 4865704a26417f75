//! Tools that are made from a closure and the type of its arguments: [`typed`], [`typed_blocking`], [`typed_streaming`].
//!
//! The schema that the model is shown comes from the type, and so does the error for arguments that do not fit it. The runtime
//! asks for that error before it asks for permission ([`Tool::check`]). The closure returns a type that implements
//! [`IntoToolResult`]. A result without text and attachments gets words instead, such as "(no output)".
//!
//! The rest is as for a tool that implements [`Tool`] by hand: the worker of the call catches a panic, and ends a call that does
//! not stop. A streaming call that does not stop ends itself a second before that, so that its text is not lost.
//!
//! A change must keep that `access`, `check` and `run` read arguments with the same function (`TypedTool::parse`). Otherwise a
//! call could be judged by other arguments than it runs with, or fail over arguments that were let through.
//!
//! Rejected: a macro that makes a tool from a function. It needs a separate crate, and hides the type of the tool.

mod into_result;
mod sink;

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

pub use into_result::{IntoToolResult, Json};
pub use sink::{STREAM_BYTES_MAX, TextSink};

use crate::{
    model::BoxFuture,
    tool::{
        Access, CALL_LIMIT, Effect, Tool, ToolContext, ToolResult, arguments::schema_of, blocking, parse_arguments,
        truncate::CutLimits,
    },
    words::message::ErrorReason,
};

/// How long a streaming call that must stop may tidy up before it is answered with the text that it has written. It is shorter than
/// the two seconds after which the worker drops a call, because the worker does not know that text.
const TIDY_UP: Duration = Duration::from_secs(1);

/// The arguments of a tool that takes none. Fields that the model still sends are ignored.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[non_exhaustive]
pub struct NoArguments {}

// Written out, because a build without tools of ours has no derive of schemars.
impl JsonSchema for NoArguments {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "NoArguments".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "object" })
    }
}

/// A tool from an async closure, which gets the arguments of the call as a type of the host, and the context of the call.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use tamtam::tool;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Primes {
///     /// Primes below this number are listed.
///     below: u32,
/// }
///
/// let primes = tool::typed("primes", "Lists prime numbers.", |Primes { below }, _cx| async move {
///     let primes: Vec<_> = (2..below).filter(|n| (2..*n).all(|d| n % d != 0)).collect();
///     tool::Json(primes)
/// });
/// let runtime = tamtam::Runtime::builder().tool(primes);
/// # drop(runtime);
/// ```
///
/// The closure is called once for each call of the model; several calls may run at the same time, in other sessions or with
/// [`TypedTool::parallel`]. Its future is dropped two seconds after the call's stop; [`ToolContext::cancelled`] resolves earlier.
/// A panic is the error result of its call. Code that blocks its thread belongs in [`typed_blocking`].
///
/// # What does not compile
///
/// Arguments without `Deserialize` or `JsonSchema`:
///
/// ```compile_fail,E0277
/// #[derive(serde::Deserialize)]
/// struct Primes {
///     below: u32,
/// }
/// let tool = tamtam::tool::typed("primes", "Lists prime numbers.", |_: Primes, _cx| async {});
/// ```
///
/// ```compile_fail,E0277
/// #[derive(schemars::JsonSchema)]
/// struct Primes {
///     below: u32,
/// }
/// let tool = tamtam::tool::typed("primes", "Lists prime numbers.", |_: Primes, _cx| async {});
/// ```
///
/// A future that cannot go from one thread to another:
///
/// ```compile_fail
/// use tamtam::tool::{NoArguments, typed};
/// let tool = typed("primes", "Lists prime numbers.", |_: NoArguments, cx| async move {
///     let counted = std::rc::Rc::new(1);
///     cx.cancelled().await;
///     counted.to_string()
/// });
/// ```
///
/// A result that says nothing to a model:
///
/// ```compile_fail,E0277
/// use tamtam::tool::{NoArguments, typed};
/// let tool = typed("primes", "Lists prime numbers.", |_: NoArguments, _cx| async { vec![2, 3, 5] });
/// ```
pub fn typed<A, F, W>(name: impl Into<String>, description: impl Into<String>, run: F) -> TypedTool<A>
where
    A: DeserializeOwned + JsonSchema + 'static,
    F: Fn(A, ToolContext) -> W + Send + Sync + 'static,
    W: Future + Send + 'static,
    W::Output: IntoToolResult,
{
    TypedTool::new(name.into(), description.into(), move |arguments, context| {
        let work = run(arguments, context.clone());
        Box::pin(async move { work.await.into_tool_result() })
    })
}

/// A tool from a closure that blocks its thread. Each call has a thread to itself while it runs: see [`blocking`].
///
/// A call that must stop is answered after about two seconds at the latest. Its thread cannot be ended from outside, so long loops
/// ask [`ToolContext::is_cancelled`].
///
/// ```
/// use tamtam::tool::{self, Effect, NoArguments};
///
/// let load = tool::typed_blocking("load", "Tells the load of the machine.", |_: NoArguments, _cx| {
///     std::fs::read_to_string("/proc/loadavg")
/// })
/// .effect(Effect::Read);
/// # drop(load);
/// ```
pub fn typed_blocking<A, F, R>(name: impl Into<String>, description: impl Into<String>, run: F) -> TypedTool<A>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(A, &ToolContext) -> R + Send + Sync + 'static,
    R: IntoToolResult,
{
    let run = Arc::new(run);
    TypedTool::new(name.into(), description.into(), move |arguments, context| {
        let run = run.clone();
        Box::pin(blocking(context, move |context| run(arguments, context).into_tool_result()))
    })
}

/// A tool from an async closure that writes its result piece by piece into a [`TextSink`].
///
/// Each piece is shown to listeners as progress of the call while the call runs. The model is given all pieces together, followed
/// by what the closure returns: `()` adds nothing, an error adds its text and makes the result an error.
///
/// A stopped call that does not return within a second is answered with the text that it has written so far.
///
/// ```
/// use tamtam::tool::{self, NoArguments};
///
/// let count = tool::typed_streaming("count", "Counts to three.", |_: NoArguments, _cx, out| async move {
///     for n in 1..=3 {
///         out.write(format!("{n}\n"));
///         tokio::task::yield_now().await;
///     }
/// });
/// # drop(count);
/// ```
pub fn typed_streaming<A, F, W>(name: impl Into<String>, description: impl Into<String>, run: F) -> TypedTool<A>
where
    A: DeserializeOwned + JsonSchema + 'static,
    F: Fn(A, ToolContext, TextSink) -> W + Send + Sync + 'static,
    W: Future + Send + 'static,
    W::Output: IntoToolResult,
{
    TypedTool::new(name.into(), description.into(), move |arguments, context| {
        let sink = TextSink::new(context.progress.clone(), context.filter());
        let work = run(arguments, context.clone(), sink.clone());
        Box::pin(async move {
            let overdue = async {
                context.cancelled().await;
                tokio::time::sleep(TIDY_UP).await;
            };
            let result = tokio::select! {
                biased;
                result = work => result.into_tool_result(),
                () = overdue => ToolResult::failed(ErrorReason::Aborted, "Stopped while it was running."),
            };
            sink.end(result)
        })
    })
}

/// A tool that was made from a closure. Its setters say what else the runtime must know of it; if a setter is not used, the
/// default of the method of the same name of [`Tool`] holds. ([`TypedTool::permissions`] names the one exception.)
///
/// ```
/// use std::time::Duration;
/// use tamtam::tool::{self, Access, Effect};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Look {
///     city: String,
/// }
///
/// let weather = tool::typed("weather", "Tells the weather.", |Look { city }, _cx| async move { format!("{city}: rain") })
///     .effect(Effect::Read)
///     .parallel()
///     .limit(Duration::from_secs(10))
///     .access(|look| vec![Access::new("weather", &look.city)])
///     .alias("get_weather");
/// # drop(weather);
/// ```
pub struct TypedTool<A> {
    name: String,
    description: String,
    schema: Value,
    aliases: Vec<&'static str>,
    effect: Effect,
    parallel: bool,
    limit: Duration,
    output: CutLimits,
    access: Option<Box<AccessOf<A>>>,
    permissions: Option<Vec<String>>,
    pollable: bool,
    run: Box<Run<A>>,
}

type AccessOf<A> = dyn Fn(&A) -> Vec<Access> + Send + Sync;
type Run<A> = dyn for<'a> Fn(A, &'a ToolContext) -> BoxFuture<'a, ToolResult> + Send + Sync;

impl<A: DeserializeOwned + JsonSchema + 'static> TypedTool<A> {
    fn new(
        name: String,
        description: String,
        run: impl for<'a> Fn(A, &'a ToolContext) -> BoxFuture<'a, ToolResult> + Send + Sync + 'static,
    ) -> TypedTool<A> {
        TypedTool {
            name,
            description,
            schema: schema_of::<A>(),
            aliases: Vec::new(),
            effect: Effect::default(),
            parallel: false,
            limit: CALL_LIMIT,
            output: CutLimits::default(),
            access: None,
            permissions: None,
            pollable: false,
            run: Box::new(run),
        }
    }

    fn parse(&self, arguments: Value) -> Result<A, String> {
        parse_arguments(arguments).map_err(|error| error.to_string())
    }
}

impl<A> TypedTool<A> {
    /// What may be done about a call that was cut off by a crash: see [`Tool::effect`].
    #[must_use]
    pub fn effect(mut self, effect: Effect) -> TypedTool<A> {
        self.effect = effect;
        self
    }

    /// Calls of the tool may run at the same time as other calls: see [`Tool::parallel`].
    #[must_use]
    pub fn parallel(mut self) -> TypedTool<A> {
        self.parallel = true;
        self
    }

    /// How long one call may take: see [`Tool::limit`].
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> TypedTool<A> {
        self.limit = limit;
        self
    }

    /// How much of a result a model is given: see [`Tool::output`].
    #[must_use]
    pub fn output(mut self, limits: CutLimits) -> TypedTool<A> {
        self.output = limits;
        self
    }

    /// What a call with these arguments wants to do: see [`Tool::access`]. A pure function.
    #[must_use]
    pub fn access(mut self, access: impl Fn(&A) -> Vec<Access> + Send + Sync + 'static) -> TypedTool<A> {
        self.access = Some(Box::new(access));
        self
    }

    /// The permissions that decide whether the model sees the tool: see [`Tool::permissions`]. Without this setter, a tool that
    /// has [`TypedTool::access`] names none, and is always offered.
    #[must_use]
    pub fn permissions<P: Into<String>>(mut self, permissions: impl IntoIterator<Item = P>) -> TypedTool<A> {
        self.permissions = Some(permissions.into_iter().map(Into::into).collect());
        self
    }

    /// Calls of the tool are meant to be repeated, and are never taken for a loop: see [`Tool::pollable`].
    #[must_use]
    pub fn pollable(mut self) -> TypedTool<A> {
        self.pollable = true;
        self
    }

    /// Another name, in lower case, that models use for the tool: see [`Tool::aliases`].
    #[must_use]
    pub fn alias(mut self, alias: &'static str) -> TypedTool<A> {
        self.aliases.push(alias);
        self
    }
}

impl<A: DeserializeOwned + JsonSchema + 'static> Tool for TypedTool<A> {
    fn name(&self) -> &str {
        &self.name
    }

    fn aliases(&self) -> &[&str] {
        &self.aliases
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn schema(&self) -> Value {
        self.schema.clone()
    }

    fn effect(&self) -> Effect {
        self.effect
    }

    fn parallel(&self) -> bool {
        self.parallel
    }

    fn limit(&self, _: &Value) -> Duration {
        self.limit
    }

    fn output(&self) -> CutLimits {
        self.output
    }

    fn access(&self, arguments: &Value) -> Vec<Access> {
        // `check` refuses arguments that do not fit the type, so the answer here does not matter for them.
        let judged = self.access.as_ref().zip(self.parse(arguments.clone()).ok());
        judged.map_or_else(|| vec![Access::new(&self.name, "*")], |(access, arguments)| access(&arguments))
    }

    fn permissions(&self) -> Vec<String> {
        // What the host's closure names is not known before there are arguments.
        let by_default = || if self.access.is_some() { Vec::new() } else { vec![self.name.clone()] };
        self.permissions.clone().unwrap_or_else(by_default)
    }

    fn pollable(&self, _: &Value) -> bool {
        self.pollable
    }

    fn check(&self, arguments: &Value) -> Result<(), String> {
        self.parse(arguments.clone()).map(drop)
    }

    fn run<'a>(&'a self, arguments: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        match self.parse(arguments) {
            Ok(arguments) => {
                let work = (self.run)(arguments, context);
                Box::pin(async { never_empty(work.await) })
            }
            Err(error) => Box::pin(async { ToolResult::error(error) }),
        }
    }
}

/// Says in words that there is nothing to say, because an empty result reads like a fault to a model.
fn never_empty(mut result: ToolResult) -> ToolResult {
    if result.content.is_empty() && result.attachments.is_empty() {
        result.content = match result.error {
            None => "(no output)".to_owned(),
            Some(_) => "The tool failed and did not say why.".to_owned(),
        };
    }
    result
}

impl<A> std::fmt::Debug for TypedTool<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TypedTool").field(&self.name).finish()
    }
}
