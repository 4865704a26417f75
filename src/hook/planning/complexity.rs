//! How large a request looks, by its words alone: a guess with a confidence, for a hint. English and Chinese words; a text that no
//! rule knows gets none. A pure function of the text.
//!
//! The rules, the first that fits: a word such as "refactor" or 重构, three lines of a list, or two steps joined by "then" or 然后,
//! are complex; a text that begins with "create", "write", 创建 or 写 (behind "please" or 请) is simple if it has at most 160
//! characters and names at most one file, else moderate; a text with a word such as "fix", "add", 修复 or 添加 is moderate, unless
//! it is a question. The confidence grows with the marks that agree, and falls with those that do not. No decision of the core may
//! rest on the guess.

use std::collections::BTreeSet;

/// The size of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Complexity {
    Simple,
    Moderate,
    Complex,
}

/// A guess at the size of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Guess {
    pub(super) size: Complexity,
    /// In percent, from 50 to 95.
    pub(super) confidence: u8,
}

/// The longest text that counts as short, in characters.
const SHORT_MAX: usize = 160;

const COMPLEX: [&str; 7] = ["refactor", "migrate", "migration", "redesign", "rearchitect", "rewrite", "overhaul"];
const COMPLEX_CHINESE: [&str; 7] = ["重构", "迁移", "重新设计", "重写", "改造", "整个项目", "架构"];
const MODERATE: [&str; 7] = ["add", "feature", "fix", "bug", "implement", "extend", "support"];
const MODERATE_CHINESE: [&str; 9] = ["添加", "增加", "新增", "修复", "修改", "实现", "支持", "扩展", "缺陷"];
const CREATE: [&str; 4] = ["create", "write", "make", "build"];
const CREATE_CHINESE: [&str; 7] = ["创建", "新建", "写一", "写个", "做一", "做个", "生成"];
/// What may stand before the word that matters.
const POLITE: [&str; 10] =
    ["please", "can you", "could you", "i want you to", "help me", "请", "帮我", "麻烦", "给我", "我想"];

/// The guess at the size of a request; `None` if its words do not tell.
pub(super) fn complexity(text: &str) -> Option<Guess> {
    let lower = text.to_lowercase();
    let words: BTreeSet<&str> = lower.split(|c: char| !c.is_alphanumeric()).collect();
    let count = |marks: &[&str], chinese: &[&str]| {
        let english = marks.iter().filter(|mark| words.contains(**mark)).count();
        english + chinese.iter().filter(|mark| lower.contains(**mark)).count()
    };
    let (complex, moderate) = (count(&COMPLEX, &COMPLEX_CHINESE), count(&MODERATE, &MODERATE_CHINESE));
    let is_question = lower.trim_end().ends_with(['?', '？', '吗', '呢']);
    let (steps, creates) = (steps(&lower), creates(&lower));
    let guess = |size, confidence: usize| {
        let confidence = if is_question { confidence.saturating_sub(20) } else { confidence };
        Some(Guess { size, confidence: u8::try_from(confidence.clamp(50, 95)).unwrap_or(50) })
    };
    if complex > 0 || steps {
        let against = usize::from(creates) * 10;
        return guess(Complexity::Complex, 65 + 10 * complex.min(2) + 15 * usize::from(steps) - against);
    }
    let (length, files) = (text.chars().count(), files(&lower));
    if creates && length <= SHORT_MAX && files <= 1 {
        return guess(Complexity::Simple, 85 + 5 * usize::from(files == 1) - 10 * moderate.min(2));
    }
    if creates {
        return guess(Complexity::Moderate, 65);
    }
    (moderate > 0 && !is_question).then(|| guess(Complexity::Moderate, 65 + 10 * moderate.min(3))).flatten()
}

/// Whether the text begins with a word that makes something, behind polite words.
fn creates(lower: &str) -> bool {
    let mut rest = lower.trim_start();
    while let Some(behind) = POLITE.iter().find_map(|word| rest.strip_prefix(word)) {
        rest = behind.trim_start_matches([' ', ',', '，', '您', '你']);
    }
    let is_word = |word: &&str| rest.strip_prefix(*word).is_some_and(|behind| behind.starts_with(' '));
    CREATE.iter().any(is_word) || CREATE_CHINESE.iter().any(|word| rest.starts_with(word))
}

/// Whether the text names several steps.
fn steps(lower: &str) -> bool {
    let is_item = |line: &str| {
        let line = line.trim_start();
        let behind = line.trim_start_matches(|c: char| c.is_ascii_digit());
        line.starts_with("- ")
            || line.starts_with("* ")
            || (behind.len() < line.len() && behind.starts_with([' ', '.', ')', '、', '）', '．']))
            || line.starts_with("第一步")
            || line.starts_with("第二步")
            || line.starts_with("第三步")
    };
    let joins = [" then ", "然后", "接着", "最后"].iter().map(|join| lower.matches(join).count()).sum::<usize>();
    lower.lines().filter(|line| is_item(line)).count() >= 3 || joins >= 2
}

/// How many files the text names: words with a point between letters.
fn files(lower: &str) -> usize {
    let is_file = |word: &&str| {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
        word.rsplit_once('.').is_some_and(|(name, ending)| !name.is_empty() && (1..=5).contains(&ending.len()))
    };
    lower.split_whitespace().filter(is_file).collect::<BTreeSet<_>>().len()
}

impl Guess {
    /// The hint for the model, after the request.
    pub(super) fn hint(self) -> String {
        let (size, advice) = match self.size {
            Complexity::Simple => ("SIMPLE", "Do it at once, without a plan: 1 to 3 calls should be enough."),
            Complexity::Moderate => ("MODERATE", "Note 3 to 5 steps first; 5 to 10 calls should be enough."),
            Complexity::Complex => {
                ("COMPLEX", "Write a whole plan first, and work through it; 10 to 30 calls or more are to be expected.")
            }
        };
        format!("[Hint of the runtime: this looks {size} ({} % sure). {advice}]", self.confidence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// V-01, V-02, V-03: the marks of each size in both languages, what no mark is in, and how sure the guess is.
    #[test]
    fn a_request_is_sized_by_its_words() {
        use Complexity::{Complex, Moderate, Simple};
        let long = format!("Create a page about {}", "cranes ".repeat(40));
        for (text, expected) in [
            ("Create a file hello.txt", Some((Simple, 90))),
            ("create snake game", Some((Simple, 85))),
            ("create a function that adds two numbers", Some((Simple, 85))),
            ("Please write a poem", Some((Simple, 85))),
            ("创建贪吃蛇游戏", Some((Simple, 85))),
            ("请帮我写一个贪吃蛇游戏", Some((Simple, 85))),
            ("Create a client.rs and a server.rs", Some((Moderate, 65))),
            (long.as_str(), Some((Moderate, 65))),
            ("Add a feature: dark mode", Some((Moderate, 85))),
            ("Please fix the bug in the parser.", Some((Moderate, 85))),
            ("修复登录的缺陷", Some((Moderate, 85))),
            ("给设置页面添加深色模式", Some((Moderate, 75))),
            ("Refactor the parser", Some((Complex, 75))),
            ("重构解析器", Some((Complex, 75))),
            ("把项目迁移到新的架构", Some((Complex, 85))),
            ("create a plan to migrate to v2", Some((Complex, 65))),
            ("先读代码，然后修改，然后测试", Some((Complex, 80))),
            ("Do this:\n1. read it\n2. change it\n10. test it", Some((Complex, 80))),
            ("请完成：\n1、读\n2、改\n3、测", Some((Complex, 80))),
            ("Do this:\n- read it\n- change it", None),
            ("Read it, and then change it, and then test it.", Some((Complex, 80))),
            ("What does this feature do?", None),
            ("这个功能支持什么？", None),
            ("Hello", None),
            ("你好", None),
            ("The address is prefixed", None),
            ("", None),
        ] {
            let guess = complexity(text).map(|guess| (guess.size, guess.confidence));
            assert_eq!(guess, expected, "{text}");
        }
    }
}
