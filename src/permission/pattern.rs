//! The two matchers of C-03: globs for paths, simple wildcards for everything else.
//!
//! A glob on a command is a known trap: there a `*` that stops at a slash lets `cat /etc/x` pass a rule meant for it.

use globset::GlobBuilder;

/// `*` matches any text, `?` one character; everything else matches itself.
pub(super) fn simple(pattern: &str, text: &str) -> bool {
    // Greedy with one point to fall back to: linear in practice, never exponential.
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((star_p, star_t)) => {
                    p = star_p + 1;
                    t = star_t + 1;
                    star = Some((star_p, t));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// A glob over a path; a bare `*` means all, as people write it. An illegal glob matches nothing but itself.
pub(super) fn path(pattern: &str, path: &str) -> bool {
    if pattern == "*" || pattern == "**" {
        return true;
    }
    match GlobBuilder::new(pattern).literal_separator(true).build() {
        Ok(glob) => glob.compile_matcher().is_match(path),
        Err(_) => pattern == path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simple_patterns_let_a_star_match_anything() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("git *", "git log --oneline", true),
            ("git *", "gitk", false),
            ("cat *", "cat /etc/passwd", true),
            ("mcp_*_read", "mcp_files_read", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*a*a*a*a*b", &"a".repeat(200), false),
        ] {
            assert_eq!(simple(pattern, text), expected, "{pattern} on {text}");
        }
    }

    #[test]
    fn path_patterns_stop_at_a_slash() {
        for (pattern, text, expected) in [
            ("*", "a/b", true),
            ("src/*", "src/a.rs", true),
            ("src/*", "src/a/b.rs", false),
            ("src/**", "src/a/b.rs", true),
            ("**/.env", ".env", true),
            ("[", "[", true),
        ] {
            assert_eq!(path(pattern, text), expected, "{pattern} on {text}");
        }
    }
}
