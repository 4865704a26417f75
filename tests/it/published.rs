//! What is covered is published, row by row, and not promised as a number.

use std::collections::BTreeSet;

fn rows(list: &str) -> BTreeSet<&str> {
    list.lines().skip(1).filter_map(|line| line.split('\t').next()).collect()
}

/// C-20: the pages that a run writes name every row of the lists once, and say of how many.
#[test]
fn every_row_stands_on_its_page_and_the_count_is_that_of_the_run() {
    let lists = [
        (include_str!("../coverage/scenarios.tsv"), include_str!("../../docs/SCENARIOS.md"), "scenarios"),
        (include_str!("../coverage/checklist.tsv"), include_str!("../../docs/COVERAGE.md"), "rows"),
    ];
    for (list, page, what) in lists {
        let told: Vec<&str> = page
            .lines()
            .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next())
            .filter(|id| id.contains('-'))
            .collect();
        let all = rows(list);
        assert_eq!(told.len(), all.len(), "{what}");
        assert_eq!(told.into_iter().collect::<BTreeSet<_>>(), all, "{what}");
        let covered = page.lines().filter(|line| line.contains(" | `") || line.contains(" | bdd ")).count();
        assert!(page.contains(&format!("\n{covered} of {} {what} are covered.\n", all.len())), "{covered} {what}");
    }
}
