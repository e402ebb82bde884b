//! The difference of two texts, line by line.

/// With more lines than these the two texts are shown one after the other: comparing takes their product.
const MOST_LINES: usize = 1_000;

/// Lines that are the same at the beginning or end of a change and are shown.
const CONTEXT: usize = 3;

/// The lines of a diff, each with its mark, of the parts that differ.
pub(crate) fn lines(old: &str, new: &str) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same_before = old.iter().zip(&new).take_while(|(one, other)| one == other).count();
    let (old_rest, new_rest) = (&old[same_before..], &new[same_before..]);
    let same_after =
        old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(one, other)| one == other).count();
    let (gone, come) = (&old_rest[..old_rest.len() - same_after], &new_rest[..new_rest.len() - same_after]);
    let before = &old[same_before.saturating_sub(CONTEXT)..same_before];
    let after = &old_rest[old_rest.len() - same_after..];
    let mut lines: Vec<String> = marked(' ', before).collect();
    if gone.len() > MOST_LINES || come.len() > MOST_LINES {
        lines.extend(marked('-', gone).chain(marked('+', come)));
    } else {
        compared(gone, come, &mut lines);
    }
    lines.extend(marked(' ', &after[..after.len().min(CONTEXT)]));
    lines
}

fn marked<'a>(mark: char, lines: &'a [&'a str]) -> impl Iterator<Item = String> + 'a {
    lines.iter().map(move |line| format!("{mark}{line}"))
}

/// By the longest common subsequence.
fn compared(old: &[&str], new: &[&str], lines: &mut Vec<String>) {
    let width = new.len() + 1;
    // How many lines are common from here on.
    let mut common = vec![0_u16; (old.len() + 1) * width];
    for (row, one) in old.iter().enumerate().rev() {
        for (column, other) in new.iter().enumerate().rev() {
            let at = row * width + column;
            common[at] = if one == other {
                common[at + width + 1] + 1
            } else {
                common[at + width].max(common[at + 1])
            };
        }
    }
    let (mut row, mut column) = (0, 0);
    while row < old.len() || column < new.len() {
        let at = row * width + column;
        if row < old.len() && column < new.len() && old[row] == new[column] {
            lines.push(format!(" {}", old[row]));
            (row, column) = (row + 1, column + 1);
        } else if row < old.len() && (column == new.len() || common[at + width] >= common[at + 1]) {
            lines.push(format!("-{}", old[row]));
            row += 1;
        } else {
            lines.push(format!("+{}", new[column]));
            column += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::lines;

    #[test]
    fn only_what_differs_is_shown_with_a_little_around_it() {
        assert_eq!(lines("", "a\nb\n"), ["+a", "+b"]);
        assert_eq!(lines("a\nb\n", ""), ["-a", "-b"]);
        assert_eq!(
            lines("1\n2\n3\n4\n5\nx\n6\n", "1\n2\n3\n4\n5\ny\n6\n"),
            [" 3", " 4", " 5", "-x", "+y", " 6"]
        );
        assert_eq!(lines("a\nb\nc\nd", "b\nx\nd\ne"), ["-a", " b", "-c", "+x", " d", "+e"]);
        assert!(lines("a", "a").iter().all(|line| line.starts_with(' ')));
        let (old, new) = ("o\n".repeat(2_000), "n\n".repeat(2_000));
        assert_eq!(lines(&old, &new).len(), 4_000);
    }
}
