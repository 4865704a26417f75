//! read
mod page;
