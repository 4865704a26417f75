//! What happens at crash points in these tests: they are counted, and one passing of one of them is struck.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use tamtam::runtime::Faults;

/// What the panics on purpose say.
pub(crate) const STRUCK: &str = "struck on purpose";

/// The names of all crash points of the library, read from its sources.
pub(crate) fn all_points() -> Vec<String> {
    let mut points = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("fault.rs") {
                points.extend(points_in(&path));
            }
        }
    }
    points.sort();
    points
}

fn points_in(path: &PathBuf) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let calls = text.split("fault!(").skip(1);
    calls.map(|call| call.split('"').nth(1).unwrap().to_owned()).collect()
}

type Deed = Box<dyn FnMut() + Send>;

#[derive(Default)]
struct Inner {
    passed: BTreeMap<String, u64>,
    /// At which passing of which point, and what.
    plans: Vec<(String, u64, Deed)>,
    struck: usize,
}

/// Counts the passings, and does what is planned for some of them.
#[derive(Clone, Default)]
pub(crate) struct Strike(Arc<Mutex<Inner>>);

impl Strike {
    /// For a runtime to be built with.
    pub(crate) fn faults(&self) -> Faults {
        let inner = self.0.clone();
        Faults::new(move |point, of| {
            let mut inner = inner.lock().unwrap_or_else(PoisonError::into_inner);
            // Supervisors have each their own points; sessions do not, for there is one.
            let name = if point.starts_with("supervisor.") { format!("{point} {of}") } else { point.to_owned() };
            let times = inner.passed.entry(name.clone()).or_default();
            *times += 1;
            let times = *times;
            let Some(at) = inner.plans.iter().position(|(point, nth, _)| *point == name && *nth == times) else {
                return;
            };
            let (_, _, mut deed) = inner.plans.swap_remove(at);
            inner.struck += 1;
            drop(inner);
            deed();
        })
    }

    /// Does that at the nth passing of that point, once.
    pub(crate) fn at(&self, point: &str, nth: u64, deed: impl FnMut() + Send + 'static) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.plans.push((point.to_owned(), nth, Box::new(deed)));
    }

    /// Panics there. Without a message on stderr: it is expected.
    pub(crate) fn panic_at(&self, point: &str, nth: u64) {
        self.at(point, nth, || std::panic::resume_unwind(Box::new(STRUCK)));
    }

    /// Panics at the next passing of that point, whoever passes it meanwhile.
    pub(crate) fn panic_at_next(&self, point: &str) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let nth = inner.passed.get(point).copied().unwrap_or(0) + 1;
        inner.plans.push((point.to_owned(), nth, Box::new(|| std::panic::resume_unwind(Box::new(STRUCK)))));
    }

    /// How often each point was passed.
    pub(crate) fn passed(&self) -> BTreeMap<String, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).passed.clone()
    }

    /// How many of the plans were carried out.
    pub(crate) fn struck(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).struck
    }
}
