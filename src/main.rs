//! The `tamtam` binary: a thin door to the library. What it does is in `cli`.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
