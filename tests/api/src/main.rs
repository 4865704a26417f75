//! Prints each public item of the crate whose rustdoc JSON is given, one a line, sorted. `tests/api.py` runs it.

use std::{collections::HashSet, error::Error, process::ExitCode};

fn listing(json: &str) -> Result<Vec<String>, Box<dyn Error>> {
    // What follows from a type's fields or from a trait of another crate says nothing that another line does not say. Of the impl of
    // a trait its own line is enough, for the trait's lines name its members; of the other impls the lines of their members are.
    let all = public_api::Builder::from_rustdoc_json(json).omit_blanket_impls(true).omit_auto_trait_impls(true);
    let written = all.clone().omit_auto_derived_impls(true).build()?;
    let impls = all.build()?;
    let impls = impls.items().map(ToString::to_string).filter(|line| line.starts_with("impl"));
    let blocks: HashSet<_> = written.items().filter(|item| is_of_trait(&item.to_string())).map(|item| item.id()).collect();
    let own = written.items().filter(|item| item.parent_id().is_none_or(|parent| !blocks.contains(&parent)));
    let own = own.map(ToString::to_string).filter(|line| !line.starts_with("impl"));
    let mut lines: Vec<String> = own.chain(impls.filter(|line| is_of_trait(line))).collect();
    lines.sort();
    lines.dedup();
    Ok(lines)
}

/// Whether the line is the impl of a trait.
fn is_of_trait(line: &str) -> bool {
    line.starts_with("impl") && line.contains(" for ")
}

fn main() -> ExitCode {
    let Some(json) = std::env::args().nth(1) else {
        eprintln!("usage: api-listing JSON");
        return ExitCode::from(2);
    };
    match listing(&json) {
        Ok(lines) => {
            println!("{}", lines.join("\n"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
