//! Rewrites serde's messages, which name Rust types, in the words of the format that a person wrote.

use std::borrow::Cow;

/// What a format calls its parts.
#[derive(Clone, Copy, Debug)]
pub struct FormatWords {
    /// A value with a name.
    member: &'static str,
    /// A set of such values, with its article.
    object: &'static str,
}

impl FormatWords {
    /// The words of JSON.
    pub const JSON: Self = Self { member: "member", object: "an object" };
    /// The words of TOML.
    pub const TOML: Self = Self { member: "key", object: "a table" };

    /// Says in this format's words why a value was refused. The message must not end with a place in the
    /// text. An unknown message stays as it is.
    pub fn explain(&self, message: &str) -> String {
        let member = self.member;
        if let Some(rest) = message.strip_prefix("unknown field ") {
            return match rest.split_once(", ") {
                Some((name, "there are no fields")) => {
                    format!("there is no {member} {name} here, and none is expected")
                }
                Some((name, known)) => {
                    let known = known.strip_prefix("expected ").unwrap_or(known);
                    let known = known.strip_prefix("one of ").unwrap_or(known);
                    format!("there is no {member} {name} here; there is {known}")
                }
                None => format!("there is no {member} {rest} here"),
            };
        }
        if let Some(name) = message.strip_prefix("missing field ") {
            return format!("the {member} {name} is missing");
        }
        if let Some(name) = message.strip_prefix("duplicate field ") {
            return format!("the {member} {name} is there twice");
        }
        if let Some(rest) = message.strip_prefix("unknown variant ") {
            return rest.replacen(", expected ", " is not known; it must be ", 1);
        }
        let unfit = ["invalid type: ", "invalid value: ", "invalid length "];
        let rest = unfit.iter().find_map(|beginning| message.strip_prefix(beginning));
        match rest.and_then(|rest| rest.split_once(", expected ")) {
            Some((given, expected)) => {
                format!("{} is given, and it must be {}", self.kind(given), self.kind(expected))
            }
            None => message.to_owned(),
        }
    }

    /// What this format calls a kind of value.
    pub fn kind<'a>(&self, said: &'a str) -> Cow<'a, str> {
        let known = match said {
            "map" | "a map" => self.object,
            "sequence" | "a sequence" => "a list",
            "path string" | "str" => "a string",
            "a boolean" | "bool" => "true or false",
            "unit" | "unit value" => "null",
            "u8" => "a whole number from 0 to 255",
            "u16" => "a whole number from 0 to 65535",
            "u32" => "a whole number from 0 to 4294967295",
            "u64" | "usize" => "a whole number, 0 or more",
            "i32" | "i64" => "a whole number",
            "f32" | "f64" => "a number",
            said if said.starts_with("struct ") || said.starts_with("enum ") => self.object,
            said => {
                return match said.strip_prefix("floating point ") {
                    Some(number) => format!("number {number}").into(),
                    None => said.into(),
                };
            }
        };
        known.into()
    }
}
