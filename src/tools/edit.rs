//! edit
mod diff;
mod matching;
mod nearest;
mod patch;
mod view;
