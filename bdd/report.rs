//! What came of the run: lines for people, a file for the coverage tables, and a count that can be trusted.

use std::{collections::BTreeMap, path::Path};

use cucumber::{
    Event, Writer, cli,
    event::{Cucumber, Feature, Hook, RetryableScenario, Rule, Scenario, Step},
    gherkin, parser, writer,
};
use serde_json::json;

use crate::{lab::Lab, tape};

/// One scenario, or one row of an outline, by its feature's name and its line.
type Key = (String, usize);

/// Collects what came of each scenario.
#[derive(Debug, Default)]
pub(crate) struct Report {
    scenarios: BTreeMap<Key, Told>,
    unreadable: usize,
}

/// A scenario and what came of it.
#[derive(Debug)]
struct Told {
    name: String,
    ids: Vec<String>,
    failures: Vec<String>,
    is_over: bool,
}

impl Report {
    /// Prints the last line, writes the file, and says whether all is good.
    pub(crate) fn finish(&self, file: &Path) -> bool {
        let all: Vec<_> = self.scenarios.iter().map(|((feature, line), told)| told.to_json(feature, *line)).collect();
        let text = serde_json::to_string_pretty(&json!({ "scenarios": all })).unwrap();
        let written = std::fs::create_dir_all(file.parent().unwrap()).and_then(|()| std::fs::write(file, text + "\n"));
        if let Err(error) = &written {
            eprintln!("failed to write {}: {error}", file.display());
        }
        let passed = self.scenarios.values().filter(|told| told.passed()).count();
        let failed = self.scenarios.len() - passed + self.unreadable;
        println!("{}", tape::replayed());
        println!("{passed} passed, {failed} failed");
        failed == 0 && passed > 0 && written.is_ok()
    }

    fn told(&mut self, feature: &gherkin::Feature, scenario: &gherkin::Scenario) -> &mut Told {
        let key = (feature.name.clone(), scenario.position.line);
        self.scenarios.entry(key).or_insert_with(|| Told::new(scenario))
    }

    fn scenario(&mut self, feature: &gherkin::Feature, scenario: &gherkin::Scenario, event: Scenario<Lab>) {
        let told = self.told(feature, scenario);
        match event {
            Scenario::Background(step, Step::Failed(_, _, _, error))
            | Scenario::Step(step, Step::Failed(_, _, _, error)) => {
                told.failures.push(format!("{}{} (line {}): {error}", step.keyword, step.value, step.position.line));
            }
            Scenario::Hook(_, Hook::Failed(_, why)) => {
                let why = why.downcast_ref::<String>().cloned();
                told.failures.push(format!("at the end: {}", why.unwrap_or_else(|| "it panicked".to_owned())));
            }
            Scenario::Finished => {
                told.is_over = true;
                told.print(&feature.name);
            }
            _ => {}
        }
    }
}

impl Told {
    fn new(scenario: &gherkin::Scenario) -> Told {
        let name = scenario.name.clone();
        // In an outline each row has ids of its own, and so they stand at the head of the name; the tags are those of all rows.
        let in_name = name.split_once(": ").map(|(head, _)| head.split(' ').collect::<Vec<_>>());
        let in_name = in_name.filter(|ids| ids.iter().all(|id| is_id(id)));
        let tags = || scenario.tags.iter().map(String::as_str).filter(|tag| is_id(tag)).collect();
        let ids = in_name.unwrap_or_else(tags).into_iter().map(str::to_owned).collect();
        Told { name: name.clone(), ids, failures: Vec::new(), is_over: false }
    }

    fn passed(&self) -> bool {
        self.is_over && self.failures.is_empty()
    }

    fn print(&self, feature: &str) {
        let word = if self.passed() { "ok" } else { "FAILED" };
        println!("scenario {feature} / {} [{}] ... {word}", self.name, self.ids.join(" "));
        for failure in &self.failures {
            println!("    {}", failure.replace('\n', "\n    "));
        }
    }

    fn to_json(&self, feature: &str, line: usize) -> serde_json::Value {
        json!({ "feature": feature, "line": line, "scenario": self.name, "ids": self.ids, "passed": self.passed() })
    }
}

/// Whether a tag is the id of a scenario or of a row of the checklist: capitals, and a number at its end.
fn is_id(tag: &str) -> bool {
    let is_made_of = tag.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'-');
    is_made_of && tag.rsplit_once('-').is_some_and(|(_, number)| number.parse::<u32>().is_ok())
}

impl Writer<Lab> for Report {
    type Cli = cli::Empty;

    async fn handle_event(&mut self, event: parser::Result<Event<Cucumber<Lab>>>, _: &cli::Empty) {
        match event.map(|event| event.value) {
            Err(error) => {
                self.unreadable += 1;
                println!("a feature cannot be read: {error}");
            }
            Ok(Cucumber::Feature(feature, Feature::Scenario(scenario, told)))
            | Ok(Cucumber::Feature(feature, Feature::Rule(_, Rule::Scenario(scenario, told)))) => {
                let RetryableScenario { event, .. } = told;
                self.scenario(&feature, &scenario, event);
            }
            Ok(_) => {}
        }
    }
}

/// Each event names its scenario, so it does not matter how those of different scenarios are mixed.
impl writer::Normalized for Report {}
impl writer::NonTransforming for Report {}
