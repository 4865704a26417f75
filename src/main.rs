//! The `tamtam` binary. All its code is in `cli`; nothing belongs here but the call of it.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
