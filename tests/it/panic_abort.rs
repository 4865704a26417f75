//! Invariant 35: a program built so that a panic ends the process gets an error that says what to do.
//!
//! The crate's own refusal is built into a small program with each of the two settings, by the real compiler. A build of the
//! whole crate would show no more and take minutes.

use std::{path::Path, process::Command};

use crate::support::taped;

/// What a program says whose only work is the crate's own refusal.
fn says(setting: &str, folder: &Path) -> String {
    let refusal = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/supervisor/abort.rs");
    let source = format!(
        "#[path = {:?}] mod abort;\n\
         fn main() {{ match abort::refuse_panic_abort() {{ Ok(()) => println!(\"runs\"), Err(no) => println!(\"{{no}}\") }} }}",
        refusal.display().to_string()
    );
    let (main, program) = (folder.join("main.rs"), folder.join(setting));
    std::fs::write(&main, source).unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let built = Command::new(rustc)
        .args(["--edition", "2024", "-C", &format!("panic={setting}"), "-o"])
        .args([&program, &main])
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let ran = Command::new(program).output().unwrap();
    assert!(ran.status.success());
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
fn invariant_35_a_program_built_with_panic_abort_is_refused_with_a_clear_error() {
    let folder = taped::folder();
    assert_eq!(says("unwind", folder.path()), "runs\n");
    assert_eq!(
        says("abort", folder.path()),
        "this program is built with `panic = \"abort\"`, where no crash can be supervised: use `panic = \"unwind\"`\n"
    );
}
