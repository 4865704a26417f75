//! The seven file and shell tools.
mod arguments;
mod edit;
mod locks;
mod names;
mod read;
mod text;
