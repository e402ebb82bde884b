//! Errors of the JSON parser in terms of the body, without the names of Rust types.

use serde_json::Error;
use turnstream_json::FormatWords;

/// Why bytes are not JSON.
pub(crate) fn of_json(error: &Error) -> String {
    let message = error.to_string();
    match message.strip_prefix("EOF while parsing ") {
        Some(rest) => format!("it ends within {rest}"),
        None => message,
    }
}

/// Whether the error is about an unknown member.
pub(crate) fn is_unknown_field(error: &Error) -> bool {
    error.to_string().starts_with("unknown field")
}

/// Why a member is invalid.
pub(crate) fn of_member(error: &Error) -> String {
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let message = message.strip_suffix(&place).unwrap_or(&message);
    FormatWords::JSON.explain(message)
}

#[cfg(test)]
mod tests {
    use super::{of_json, of_member};
    use serde::Deserialize;
    use std::path::PathBuf;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only how it is refused is looked at")]
    struct Body {
        name: String,
        cwd: Option<PathBuf>,
        list: Option<Vec<u64>>,
        word: Option<Word>,
        inner: Option<Inner>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Word {
        One,
        Two,
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "only how it is refused is looked at")]
    struct Inner {
        flag: bool,
    }

    #[test]
    fn a_member_that_does_not_fit_is_told_of_without_words_of_rust() {
        let cases = [
            (r#"{"name":5}"#, "integer `5` is given, and it must be a string"),
            (r#"{"name":"x","cwd":{}}"#, "an object is given, and it must be a string"),
            (r#"{"name":"x","list":"y"}"#, "string \"y\" is given, and it must be a list"),
            (
                r#"{"name":"x","list":["y"]}"#,
                "string \"y\" is given, and it must be a whole number, 0 or more",
            ),
            (r#"{"name":"x","word":"three"}"#, "`three` is not known; it must be `one` or `two`"),
            (r#"{"name":"x","inner":5}"#, "integer `5` is given, and it must be an object"),
            (r#"{"name":"x","inner":{"flag":"no"}}"#, "string \"no\" is given, and it must be true or false"),
            (r#"{"cwd":"/"}"#, "the member `name` is missing"),
            (r#"{"name":"x","name":"y"}"#, "the member `name` is there twice"),
        ];
        for (body, expected) in cases {
            let error = serde_json::from_str::<Body>(body).expect_err(body);
            assert_eq!(of_member(&error), expected, "{body}");
        }
        let unknown = serde_json::from_str::<Body>(r#"{"colour":"red"}"#).expect_err("no such member");
        assert!(of_member(&unknown).starts_with("there is no member `colour` here; there is `name`, "));
        let cut = serde_json::from_str::<Body>("{").expect_err("no end");
        assert_eq!(of_json(&cut), "it ends within an object at line 1 column 1");
    }
}
