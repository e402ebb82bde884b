//! A change of a text as a unified diff.

use crate::text_diff;

/// The patch from `old` to `new`, with the numbers of added and removed lines. The place in the file is not
/// known, so lines are counted from the beginning of the change.
pub(super) fn patch(file: &str, old: &str, new: &str) -> (String, (usize, usize)) {
    let lines = text_diff::lines(old, new);
    let count = |mark: char| lines.iter().filter(|line| line.starts_with(mark)).count();
    let (additions, deletions, same) = (count('+'), count('-'), count(' '));
    let start = |lines: usize| usize::from(lines > 0);
    let (before, after) = (deletions + same, additions + same);
    let head =
        format!("--- {file}\n+++ {file}\n@@ -{},{before} +{},{after} @@\n", start(before), start(after));
    let body: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
    (head + &body, (additions, deletions))
}

#[cfg(test)]
mod tests {
    use super::patch;

    #[test]
    fn a_patch_counts_the_lines_of_its_change() {
        let want = "--- a\n+++ a\n@@ -1,2 +1,2 @@\n x\n-o\n+n\n";
        assert_eq!(patch("a", "x\no\n", "x\nn\n"), (want.to_owned(), (1, 1)));
        assert_eq!(patch("a", "", "n"), ("--- a\n+++ a\n@@ -0,0 +1,1 @@\n+n\n".to_owned(), (1, 0)));
    }
}
