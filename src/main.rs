//! The `tamtam` binary: the command line of the library. All its code is in `cli`.
//!
//! This file only calls `cli::main`; put no other code here.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
