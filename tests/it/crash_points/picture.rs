//! The disk as a `kill -9` at some moment leaves it.

use std::path::Path;

use super::world::{Outside, World};

pub(crate) use crate::support::copied::copy;
use crate::support::taped;

/// A store as a `kill -9` at that moment leaves it, and what was outside then.
pub(crate) struct Picture {
    pub(crate) place: String,
    pub(crate) folder: taped::Folder,
    pub(crate) outside: Outside,
}

/// Copies what the kernel has of the store. What others write meanwhile may be there or not, as with a real kill.
pub(crate) fn picture(place: &str, store: &Path, world: &World) -> Picture {
    let outside = {
        let now = world.look();
        Outside {
            ran: now.ran.clone(),
            ran_as: now.ran_as.clone(),
            failed: now.failed.clone(),
            acked: now.acked.clone(),
            requests: now.requests.clone(),
            ..Outside::default()
        }
    };
    let folder = taped::folder();
    copy(store, &folder.path().join("store"));
    Picture { place: place.to_owned(), folder, outside }
}
