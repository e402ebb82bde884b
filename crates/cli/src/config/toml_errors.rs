//! Rewrites errors of the TOML parser in words for users of the file, without names of Rust types.

use super::source_line::SourceLine;
use std::ops::Range;
use toml::de::Error;
use turnstream_json::FormatWords;

/// The error, below the line of the file that it is about. Secrets are in neither.
pub(super) fn of_file(text: &str, error: &Error) -> String {
    let Some(span) = error.span() else { return of_value(error.message()) };
    let (start, end) = bounds(text, &span);
    let line = SourceLine::at(text, line_start(text, start));
    let problem = of_value(error.message());
    // A value of several lines is hidden with its first line.
    let hidden = if line.hidden.is_empty() { "" } else { &text[start..end] };
    let names_a_key =
        ["unknown field ", "missing field "].iter().any(|about| error.message().starts_with(about));
    let quotes_value = !names_a_key && (quotes(&problem, line.hidden) || quotes(&problem, hidden));
    let problem = if quotes_value { without_value(error.message()) } else { problem };
    format!("{}\n{problem}", place(text, &span))
}

/// The line of the file, with a mark below the value.
fn place(text: &str, span: &Range<usize>) -> String {
    let (start, end) = bounds(text, span);
    let begin = line_start(text, start);
    let number = text[..begin].matches('\n').count() + 1;
    let line = SourceLine::at(text, begin);
    let content = without_credentials(&line.display());
    let before = text[begin..start].chars().count();
    let meant = text[start..end].lines().next().unwrap_or_default().chars().count().max(1);
    let (before, meant) = line.mark(before, meant);
    let gutter = " ".repeat(number.to_string().len());
    let (pad, mark) = (" ".repeat(before), "^".repeat(meant));
    format!("line {number}, column {}\n{gutter} |\n{number} | {content}\n{gutter} | {pad}{mark}", before + 1)
}

/// The span, inside of the text and between characters.
fn bounds(text: &str, span: &Range<usize>) -> (usize, usize) {
    let start = text.floor_char_boundary(span.start);
    (start, text.floor_char_boundary(span.end).max(start))
}

/// Where the line with this byte begins.
fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |at| at + 1)
}

/// Whether the message has a word of the hidden text.
fn quotes(message: &str, hidden: &str) -> bool {
    /// Shorter words are in any message.
    const WORD: usize = 4;
    let mut words = hidden.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() >= WORD);
    // A number or a short string is quoted as a whole.
    let whole = hidden.trim();
    let is_quoted = !whole.is_empty()
        && [format!("`{whole}`"), format!("\"{}\"", whole.trim_matches(['"', '\'']))]
            .iter()
            .any(|quoted| message.contains(quoted));
    is_quoted || words.any(|word| message.contains(word))
}

/// The error without what is given.
fn without_value(said: &str) -> String {
    let expected = said.split_once(", expected ").map(|(_, expected)| FormatWords::TOML.kind(expected));
    expected.map_or("its value cannot be used".to_owned(), |expected| format!("it must be {expected}"))
}

/// The text with stars instead of the credentials in a URL: errors end up in logs. A URL may be written
/// without its slashes, so without them the whole word before the `@` is hidden.
pub(super) fn without_credentials(text: &str) -> String {
    let Some(end) = text.rfind('@') else { return text.to_owned() };
    let is_outside = |c: char| c.is_whitespace() || c == '"' || c == '\'';
    let begin = match text[..end].find("://") {
        Some(at) => at + "://".len(),
        None => text[..end].rfind(is_outside).map_or(0, |at| at + 1),
    };
    let stars = "*".repeat(text[begin..end].chars().count());
    format!("{}{stars}{}", &text[..begin], &text[end..])
}

fn of_value(said: &str) -> String {
    match said {
        "wanted string or table" => "it must be a string".to_owned(),
        said => FormatWords::TOML.explain(said),
    }
}

#[cfg(test)]
mod tests {
    use super::{of_file, place, without_credentials};
    use crate::config::file::File;

    fn told(text: &str) -> String {
        of_file(text, &toml::from_str::<File>(text).expect_err(text))
    }

    #[test]
    fn a_value_that_does_not_fit_is_told_of_without_words_of_rust() {
        let agent = |key: &str| format!("[agents.a]\nkind = \"opencode\"\n{key}");
        for (text, expected) in [
            (
                "import_mib = \"x\"".to_owned(),
                "string \"x\" is given, and it must be a whole number, 0 or more",
            ),
            (
                "import_mib = 1.5".to_owned(),
                "number `1.5` is given, and it must be a whole number, 0 or more",
            ),
            ("data = 5".to_owned(), "integer `5` is given, and it must be a string"),
            ("agents = 5".to_owned(), "it must be a table"),
            ("retention = 5".to_owned(), "integer `5` is given, and it must be a table"),
            ("lisen = 5".to_owned(), "there is no key `lisen` here; there is `listen`, `data`, "),
            (
                "listen = \"foo\"".to_owned(),
                "\"foo\" is no address to listen on; write it like 127.0.0.1:4180",
            ),
            ("roots = []".to_owned(), "an empty list leaves sessions no directory to work in"),
            ("[agents.a]".to_owned(), "the key `kind` is missing"),
            ("[agents.a]\nkind = 5".to_owned(), "it must be a string"),
            (
                "[agents.a]\nkind = \"b\"".to_owned(),
                "`b` is not known; it must be one of `scripted`, `opencode`, `claude`, `codex`, `acp`",
            ),
            ("[retention]\nmax_turns = \"0\"".to_owned(), "it must be a whole number, 0 or more"),
            ("[redaction]\nenabled = 1".to_owned(), "integer `1` is given, and it must be true or false"),
            ("[timeouts]\nstart = true".to_owned(), "it must be a time, for example \"500ms\""),
            ("[retention]\nmax_bytes = true".to_owned(), "it must be a size, for example \"500MB\""),
            (agent("command = 5"), "integer `5` is given, and it must be a string"),
            (agent("pass_env = \"A\""), "string \"A\" is given, and it must be a list"),
            (agent("budget.steps = \"a\""), "it must be a whole number from 0 to 4294967295"),
            (agent("budget.cost = \"a\""), "string \"a\" is given, and it must be a number"),
        ] {
            let told = told(&text);
            assert!(told.lines().last().unwrap().contains(expected), "{text}: {told}");
            for word in ["TOML", "expected", "field", "variant", "u32", "u64", "f64", "sequence", "map"] {
                assert!(!told.contains(word), "{word}: {told}");
            }
        }
    }

    #[test]
    fn an_error_shows_no_value_that_may_be_a_secret() {
        for (text, expected) in [
            (
                "token = 5550123",
                "line 1, column 9\n  |\n1 | token = ***\n  |         ^^^\nit must be a string",
            ),
            ("token = [\"sesame\"]", "1 | token = ***\n"),
            ("token = \"sesame", "1 | token = ***\n"),
            ("token: \"sesame\"", "1 | token***\n"),
            ("token sesame", "1 | token***\n"),
            ("sesame", "1 | ***\n"),
            ("log = \"info\" token = \"sesame\"", "1 | log =***\n"),
            ("log = \"info\"\rtoken = \"sesame\"\r", "1 | ***\n"),
            ("public_url = \"https://me:sesame@host\"", "1 | public_url"),
            ("toekn = \"sesame\"", "1 | toekn = ***\n"),
            ("token = \"\"\"\nsesame\\q\n\"\"\"", "2 | ***\n"),
            ("token = '''\nsesame", "***\n"),
            ("listen = \"\"\"here\ntoken = \"sesame\"", "2 | ***\n"),
            ("roots = [\n\"/a\",\ntoken = \"sesame\"", "3 | ***\n"),
            ("[agents.a]\nkind = \"opencode\"\nenv = \"sesame\"", "3 | env = ***\n"),
            ("[agents.a]\nkind = \"opencode\"\nenv = { KEY = 5, S = \"sesame\" }", "3 | env = ***\n"),
            (
                "[agents.a]\nkind = \"opencode\"\n[agents.a.env]\ncommand = [\"sesame\"]",
                "4 | command = ***\n",
            ),
            ("agents.a.env.command = [\"sesame\"]", "1 | agents.a.env.command = ***\n"),
            ("[[redaction.literals]]\nname = \"n\"\nvalue = [\"sesame\"]", "3 | value = ***\n"),
            (
                "redaction.literals = [{ name = \"n\", value = \"sesame\", x = 1 }]",
                "1 | redaction.literals = ***\n",
            ),
            ("listen = 5 # token sesame", "1 | listen = 5\n"),
        ] {
            let told = told(text);
            assert!(told.contains(expected), "{text}:\n{told}");
            assert!(!told.contains("sesame") && !told.contains("5550123"), "{text}:\n{told}");
        }
        let shown = told("roots = [\n\"/a\",\n5,\n]");
        assert!(shown.contains("line 3, column 1\n  |\n3 | 5,\n  | ^\n"), "{shown}");
    }

    #[test]
    fn the_place_of_a_value_is_its_own_line() {
        assert_eq!(
            told("[agents.a]\nkind = \"opencode\"\nurl = \"foo\"\n"),
            "line 3, column 7\n  |\n3 | url = \"foo\"\n  |       ^^^^^\n\
             it is not a URL; write it like http://127.0.0.1:4096"
        );
        let told_of_credentials =
            told("[agents.a]\nkind = \"opencode\"\nurl = \"http://me:sesame@localhost\"\n");
        assert!(
            told_of_credentials.contains("3 | url = \"http://*********@localhost\""),
            "{told_of_credentials}"
        );
        assert!(!told_of_credentials.contains("sesame"), "{told_of_credentials}");
        for (text, shown) in [
            ("http://me:sesame@host", "http://*********@host"),
            ("http:me:sesame@host", "**************@host"),
            ("url = 'me:sesame@host'", "url = '*********@host'"),
            ("no credentials", "no credentials"),
        ] {
            assert_eq!(without_credentials(text), shown);
        }
        // Columns count characters. A span outside of the text does no harm.
        assert_eq!(
            place("log = \"é\" x", &(11..12)),
            "line 1, column 11\n  |\n1 | log = \"é\" x\n  |           ^"
        );
        assert_eq!(place("log", &(9..12)), "line 1, column 4\n  |\n1 | log\n  |    ^");
    }
}
