//! The `tamtam` binary.

fn main() {}
