//! The tools of plan mode: `plan_enter` has the session plan from the next step on, `plan_exit` asks a person whether the plan
//! may be carried out. Plan mode is the agent `plan`; its rules say what is allowed in it (`agent/built_in.rs`), and these tools
//! do not.
//!
//! A change must keep three things. `plan_exit` leaves plan mode only after a person has approved the plan, and shows that person
//! the whole plan: a plan that is too long to be shown is refused, and never cut. The model then gets the plan as the file has it
//! after the answer, because the person may have changed the file. A plan file that is a link, or is behind one, is refused, so
//! that nothing else is shown as a plan.

use std::path::Path;

use serde_json::{Value, json};

use crate::{
    model::BoxFuture,
    tool::{
        Access, Effect, Entered, Mode, Question, QuestionAnswer, Tool, ToolContext, ToolResult, blocking,
        workspace::Workspace,
    },
    words::message::ErrorReason,
};

/// The longest plan, in bytes and in lines: it is shown whole, and given to the model whole.
const PLAN_BYTES_MAX: u64 = 32 * 1_024;
const PLAN_LINES_MAX: usize = 1_000;

/// Enters plan mode.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlanEnter;

/// Asks whether the plan may be carried out, and leaves plan mode.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlanExit;

fn no_arguments() -> Value {
    json!({ "type": "object", "properties": {}, "additionalProperties": false })
}

fn denied(text: String) -> ToolResult {
    ToolResult::failed(ErrorReason::Denied, text)
}

impl Tool for PlanEnter {
    fn name(&self) -> &'static str {
        "plan_enter"
    }

    fn description(&self) -> &'static str {
        "Enters plan mode: from the next step on nothing may be edited but the file of the plan, and commands that do more than \
         report are asked about. For work that should be thought through and agreed on before it is begun."
    }

    fn schema(&self) -> Value {
        no_arguments()
    }

    /// A second run finds plan mode on, or enters it again: that changes nothing.
    fn effect(&self) -> Effect {
        Effect::Idempotent
    }

    fn access(&self, _: &Value) -> Vec<Access> {
        vec![Access::new("plan_enter", "*")]
    }

    fn run<'a>(&'a self, _: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            if let Some(file) = &context.modes.plan_file {
                return ToolResult::ok(format!("You are in plan mode already. The plan is in {file}."));
            }
            match context.modes.change(Mode::Plan).await {
                Ok(Entered { plan_file, .. }) => {
                    let file = plan_file.unwrap_or_default();
                    let text =
                        format!("Plan mode from the next step on. Write the plan to {file}, then call plan_exit.");
                    ToolResult::ok(text).with_details(json!({ "plan_file": file })).with_title("Plan mode")
                }
                Err(error) => ToolResult::error(error),
            }
        })
    }
}

impl Tool for PlanExit {
    fn name(&self) -> &'static str {
        "plan_exit"
    }

    fn description(&self) -> &'static str {
        "Ends plan mode, if the user approves the plan: the user reads the plan file, and may change it, approve it, or say what is \
         wrong with it. Call it when the plan is written."
    }

    fn schema(&self) -> Value {
        no_arguments()
    }

    /// A second run asks the same question, and gets the answer that a person gave to the first. About another plan it asks
    /// again.
    fn effect(&self) -> Effect {
        Effect::Idempotent
    }

    fn access(&self, _: &Value) -> Vec<Access> {
        vec![Access::new("plan_exit", "*")]
    }

    fn run<'a>(&'a self, _: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move { leave(context).await.unwrap_or_else(|result| result) })
    }
}

/// Both sides of the result are results for the model.
async fn leave(context: &ToolContext) -> Result<ToolResult, ToolResult> {
    let Some(file) = context.modes.plan_file.clone() else {
        return Err(ToolResult::error("There is no plan mode to leave."));
    };
    let asked = plan(context, &file).await?;
    let question = Question::new(format!("Plan ready ({file}). Carry it out?")).with_details(asked.clone());
    let answer = context.ask(question).await;
    if !answer.is_granted() {
        return Err(denied(still_planning(&answer)));
    }
    let approved = plan(context, &file).await?;
    let Entered { agent, .. } = context.modes.change(Mode::Own).await.map_err(ToolResult::error)?;
    let changed = if approved == asked { "" } else { " The user changed it before: this is the plan that holds." };
    let text = format!(
        "The user approved the plan.{changed} Plan mode is over from the next step on: carry out the plan as agent {agent}. When a \
         step is done, tick its item in {file}: \"- [ ]\" becomes \"- [x]\".\n\n{approved}"
    );
    Ok(ToolResult::ok(text).with_details(json!({ "plan_file": file })).with_title("The plan is approved"))
}

fn still_planning(answer: &QuestionAnswer) -> String {
    let then = match answer {
        QuestionAnswer::Rejected { .. } => "Change the plan, then call plan_exit again.",
        QuestionAnswer::Cancelled => "Read what the user says first.",
        _ => "Plan mode can only be left when a person has read the plan: say that it is ready, and end the turn.",
    };
    format!("{answer} You are still in plan mode. {then}")
}

/// The plan as the file has it, whole.
async fn plan(context: &ToolContext, file: &str) -> Result<String, ToolResult> {
    let file = file.to_owned();
    // A tool's result is what comes back from a thread.
    let read = blocking(context, move |context| match read(context, &file) {
        Ok(plan) => ToolResult::ok(plan),
        Err(error) => ToolResult::error(error),
    });
    let result = read.await;
    if result.is_error() { Err(result) } else { Ok(result.content.to_string()) }
}

fn read(context: &ToolContext, file: &str) -> Result<String, String> {
    let failed =
        |error: crate::tool::WorkspaceError| format!("The plan cannot be read: {error}. Write it to {file} first.");
    let workspace = Workspace::for_call(context).map_err(failed)?;
    let path = workspace.resolve(file).map_err(failed)?;
    if workspace.real(&path).map_err(failed)? != Path::new(file) {
        return Err(format!("The plan cannot be read: {file} is a link, or is behind one."));
    }
    let (content, _) = workspace.read(&path, PLAN_BYTES_MAX).map_err(failed)?;
    let plan = String::from_utf8(content).map_err(|_| format!("The plan cannot be read: {file} is not UTF-8."))?;
    if plan.trim().is_empty() {
        return Err(format!("The plan is empty: write it to {file} first."));
    }
    if plan.lines().count() > PLAN_LINES_MAX {
        return Err(format!(
            "The plan is longer than {PLAN_LINES_MAX} lines: a person must be able to read it. Shorten it."
        ));
    }
    Ok(plan)
}
