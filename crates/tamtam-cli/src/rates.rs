//! The most that goes to a provider with one key, in the words of a flag (`--rate-limit NAME=NUMBER`) and of a file
//! (`[rate_limits]`).
//!
//! Each word is a field of [`tamtam::model::RateLimits`]. A change that adds a field adds a row in [`ALL`] and an arm in
//! [`RateLimit::put`].

use std::str::FromStr;

use tamtam::model::RateLimits;

/// The names.
const ALL: [&str; 3] = ["requests", "requests_per_minute", "tokens_per_minute"];

/// What each takes.
pub(super) const TAKES: &str = "a number, 1 or more";

/// One limit, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RateLimit {
    name: &'static str,
    most: u64,
}

impl RateLimit {
    /// The limit of that name; the error says what may be written.
    fn new(name: &str, text: &str) -> Result<RateLimit, String> {
        let Some(name) = ALL.iter().find(|known| **known == name) else {
            return Err(format!("unknown limit {name:?}: use one of {}", ALL.join(", ")));
        };
        let most = text.trim().replace('_', "").parse().ok().filter(|most| *most > 0);
        let limit = most.map(|most| RateLimit { name, most });
        let limit = limit.filter(|limit| limit.put(&mut RateLimits::default()).is_some());
        limit.ok_or_else(|| format!("{text:?} is not {TAKES}"))
    }

    /// Puts it into a record; `None` if the number is too large.
    fn put(self, limits: &mut RateLimits) -> Option<()> {
        match self.name {
            "requests" => limits.requests = Some(u32::try_from(self.most).ok()?),
            "requests_per_minute" => limits.requests_per_minute = Some(u32::try_from(self.most).ok()?),
            _ => limits.tokens_per_minute = Some(self.most),
        }
        Some(())
    }
}

impl FromStr for RateLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<RateLimit, String> {
        let (name, most) = text.split_once('=').ok_or("write NAME=NUMBER")?;
        RateLimit::new(name.trim(), most)
    }
}

/// Puts all of them into the record of a provider. The last of several of a name holds.
pub(super) fn put(given: &[RateLimit], limits: &mut RateLimits) {
    for limit in given {
        // It was checked when it was made.
        let _ = limit.put(limits);
    }
}

/// Adds one that was not given, from a file; returns whether it did.
pub(super) fn fill(name: &str, text: &str, given: &mut Vec<RateLimit>) -> Result<bool, String> {
    let limit = RateLimit::new(name, text)?;
    let is_free = !given.iter().any(|known| known.name == limit.name);
    given.extend(is_free.then_some(limit));
    Ok(is_free)
}

/// The value of one, where it is given.
pub(super) fn get(name: &str, given: &[RateLimit]) -> Option<String> {
    given.iter().rev().find(|limit| limit.name == name).map(|limit| limit.most.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_limit_is_a_field_and_a_wrong_one_is_refused() {
        let mut given = vec!["requests=4".parse().unwrap(), "requests = 5".parse().unwrap()];
        assert!(!fill("requests", "9", &mut given).unwrap(), "a flag wins over a file");
        assert!(fill("requests_per_minute", "60", &mut given).unwrap());
        assert!(fill("tokens_per_minute", "5_000_000_000", &mut given).unwrap());
        let mut limits = RateLimits::default();
        put(&given, &mut limits);
        let expected = RateLimits::default().requests(5).requests_per_minute(60).tokens_per_minute(5_000_000_000);
        assert_eq!(limits, expected);
        assert_eq!(ALL.map(|name| get(name, &given).unwrap()), ["5", "60", "5000000000"]);
        for (text, why) in [
            ("requests", "write NAME=NUMBER"),
            ("requests=0", "\"0\" is not a number, 1 or more"),
            ("requests=5000000000", "\"5000000000\" is not a number, 1 or more"),
            ("calls=1", "unknown limit \"calls\": use one of requests, requests_per_minute, tokens_per_minute"),
        ] {
            assert_eq!(text.parse::<RateLimit>().unwrap_err(), why);
        }
    }
}
