//! Text of people and models. It is Markdown and stays so, but it must not swallow what follows it or close
//! what encloses it. HTML tags are escaped. A block that may not end by itself is put into a quotation,
//! whose end also ends the block.

use super::text::visible;

/// Block tags and comments. They are escaped even inside what looks like code, because line by line that
/// cannot be told reliably.
const STRONG: &[&str] =
    &["details", "summary", "script", "style", "pre", "textarea", "table", "div", "iframe"];

/// A fence that is open.
struct Fence {
    mark: char,
    length: usize,
    indent: usize,
}

/// The text as blocks of a page.
pub(super) fn prose(text: &str) -> String {
    let text = visible(text);
    let mut out: Vec<String> = Vec::new();
    let mut fence: Option<Fence> = None;
    let mut is_doubtful = false;
    for line in text.trim_end().lines() {
        let indent = line.len() - line.trim_start_matches(' ').len();
        match &fence {
            Some(open) if open.is_closed_by(line) => {
                fence = None;
                out.push(line.to_owned());
            }
            // A fence in a list ends with the list: whether this line is still inside is not known here.
            Some(open) if indent < open.indent && !line.trim().is_empty() => {
                is_doubtful = true;
                fence = None;
                out.push(tame(line));
            }
            Some(_) => out.push(line.to_owned()),
            None => {
                fence = Fence::opened_by(line);
                out.push(if fence.is_some() { line.to_owned() } else { tame(line) });
            }
        }
    }
    if is_doubtful || fence.is_some() {
        // The end of a quotation ends everything in it.
        let quoted =
            out.iter().map(|line| if line.is_empty() { ">".to_owned() } else { format!("> {line}") });
        return quoted.collect::<Vec<_>>().join("\n");
    }
    out.join("\n")
}

impl Fence {
    fn opened_by(line: &str) -> Option<Self> {
        let indent = line.len() - line.trim_start_matches(' ').len();
        let rest = &line[indent..];
        let mark = rest.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let length = rest.chars().take_while(|character| *character == mark).count();
        let info = &rest[length..];
        // With a backtick in what follows it is code in a line.
        let is_fence = indent <= 3 && length >= 3 && !(mark == '`' && info.contains('`'));
        is_fence.then_some(Self { mark, length, indent })
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let rest = line.trim_end();
        let indent = rest.len() - rest.trim_start_matches(' ').len();
        let rest = &rest[indent..];
        indent <= 3 && rest.len() >= self.length && rest.chars().all(|character| character == self.mark)
    }
}

/// A line with its tags escaped. Tags in inline code stay where they are harmless.
fn tame(line: &str) -> String {
    let code = code_spans(line);
    let mut tamed = String::with_capacity(line.len());
    for (at, character) in line.char_indices() {
        let rest = &line[at + character.len_utf8()..];
        let is_tag = character == '<'
            && rest.starts_with(|next: char| next.is_ascii_alphabetic() || matches!(next, '/' | '!' | '?'));
        let is_code = code.iter().any(|(start, end)| (*start..*end).contains(&at));
        if is_tag && (!is_code || is_strong(rest)) && !is_autolink(rest) {
            tamed.push_str("&lt;");
        } else {
            tamed.push(character);
        }
    }
    tamed
}

fn is_strong(rest: &str) -> bool {
    let name = rest.strip_prefix('/').unwrap_or(rest);
    let name: String = name.chars().take_while(char::is_ascii_alphanumeric).collect();
    name.is_empty() || STRONG.contains(&name.to_ascii_lowercase().as_str())
}

/// `<https://…>` is a link and no tag.
fn is_autolink(rest: &str) -> bool {
    let address = ["https://", "http://", "mailto:"].iter().any(|scheme| rest.starts_with(scheme));
    address && rest.split([' ', '<']).next().is_some_and(|word| word.contains('>'))
}

/// The parts of a line between runs of backticks of the same length.
fn code_spans(line: &str) -> Vec<(usize, usize)> {
    let mut runs = Vec::new();
    let mut at = 0;
    while let Some(start) = line[at..].find('`').map(|offset| at + offset) {
        let length = line[start..].len() - line[start..].trim_start_matches('`').len();
        runs.push((start, length));
        at = start + length;
    }
    let mut spans = Vec::new();
    let mut next = 0;
    while next < runs.len() {
        let (start, length) = runs[next];
        match runs[next + 1..].iter().position(|(_, other)| *other == length) {
            Some(offset) => {
                spans.push((start, runs[next + 1 + offset].0));
                next += offset + 2;
            }
            None => next += 1,
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::prose;

    #[test]
    fn tags_are_made_visible_and_code_stays_code() {
        assert_eq!(prose("a </details> b"), "a &lt;/details> b");
        assert_eq!(prose("`Vec<T>` and Vec<T>, 1 < 2"), "`Vec<T>` and Vec&lt;T>, 1 < 2");
        assert_eq!(prose("<!-- x"), "&lt;!-- x");
        assert_eq!(prose("`</details>`"), "`&lt;/details>`", "one that could end a fold is never left");
        assert_eq!(prose("see <https://a.example/x>."), "see <https://a.example/x>.");
        assert_eq!(prose("```html\n</details>\n```\n</details>"), "```html\n</details>\n```\n&lt;/details>");
    }

    #[test]
    fn what_does_not_end_by_itself_is_quoted() {
        assert_eq!(prose("```\ncut"), "> ```\n> cut");
        assert_eq!(prose("- a\n  ```\n</details>\n"), "> - a\n>   ```\n> &lt;/details>");
        assert_eq!(prose("- a\n  ```\n  </details>\n  ```\nb"), "- a\n  ```\n  </details>\n  ```\nb");
        assert_eq!(prose("    ```\n</details>"), "    ```\n&lt;/details>", "too far in to be a fence");
        assert_eq!(prose("``` a`b\n</details>"), "``` a`b\n&lt;/details>");
        assert_eq!(prose("~~~\n```\n~~~"), "~~~\n```\n~~~");
    }
}
