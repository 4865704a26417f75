//! Prints each public item of the crate whose rustdoc JSON is given, one a line, sorted. `tests/api.py` runs it.

use std::{error::Error, process::ExitCode};

fn listing(json: &str) -> Result<Vec<String>, Box<dyn Error>> {
    // What follows from a type's fields or from a trait of another crate says nothing that another line does not say. Of a derived
    // impl its own line is enough.
    let all = public_api::Builder::from_rustdoc_json(json).omit_blanket_impls(true).omit_auto_trait_impls(true);
    let written = all.clone().omit_auto_derived_impls(true).build()?;
    let impls = all.build()?;
    let impls = impls.items().map(ToString::to_string).filter(|line| line.starts_with("impl"));
    let mut lines: Vec<String> = written.items().map(ToString::to_string).chain(impls).collect();
    lines.sort();
    lines.dedup();
    Ok(lines)
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
