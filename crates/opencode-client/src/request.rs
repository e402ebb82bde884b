//! What a prompt asks opencode for: an answer of the model, a command, a shorter conversation, or a shell
//! command.

use serde_json::Value;

/// The command that shortens the conversation. opencode has an operation of its own for it.
pub const COMPACT: &str = "compact";

/// Whether a prompt asks for an answer of the model. A command is one only if the server does not have it.
pub fn is_for_model(content: &[Value]) -> bool {
    Request::of(content) == Request::Prompt
}

/// What a prompt asks for, by its first block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// An answer.
    Prompt,
    /// A command, if the server has one of this name. Otherwise the text is a prompt.
    Command {
        /// Its name, without the slash.
        name: String,
        /// What follows the name.
        arguments: String,
    },
    /// A summary that takes the place of the conversation so far.
    Compact,
    /// A shell command of a person. Only a block that says so asks for it: texts of prompts come from
    /// anywhere.
    Shell(String),
}

impl Request {
    /// The request of these ACP content blocks.
    pub(super) fn of(content: &[Value]) -> Self {
        let Some(first) = content.first().filter(|block| block["type"] == "text") else {
            return Self::Prompt;
        };
        let text = first["text"].as_str().unwrap_or_default();
        if first["_meta"]["shell"] == true {
            return Self::Shell(text.strip_prefix('!').unwrap_or(text).to_owned());
        }
        let Some(named) = text.strip_prefix('/') else { return Self::Prompt };
        let (name, arguments) = named.split_once(char::is_whitespace).unwrap_or((named, ""));
        match name {
            "" => Self::Prompt,
            COMPACT if content.len() == 1 && arguments.trim().is_empty() => Self::Compact,
            _ => Self::Command { name: name.to_owned(), arguments: arguments.trim().to_owned() },
        }
    }

    /// Whether it may be sent again under its id, if the server has stored it: its parts have ids too.
    pub(super) fn is_repeatable(&self) -> bool {
        match self {
            Self::Prompt => true,
            Self::Command { .. } | Self::Compact | Self::Shell(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Request;
    use serde_json::json;

    #[test]
    fn a_slash_names_a_command_and_only_a_marked_block_is_a_shell_command() {
        let of = |text: &str| Request::of(&[json!({"type": "text", "text": text})]);
        let command = |name: &str, arguments: &str| Request::Command {
            name: name.to_owned(),
            arguments: arguments.to_owned(),
        };
        assert_eq!(of("/review the last commit "), command("review", "the last commit"));
        assert_eq!(of("/init"), command("init", ""));
        assert_eq!(of("/usr/bin/env is missing"), command("usr/bin/env", "is missing"));
        assert_eq!([of("/compact"), of("/compact ")], [Request::Compact, Request::Compact]);
        assert_eq!([of("/"), of("/ x"), of("Say /init"), of("!ls")], [const { Request::Prompt }; 4]);
        let marked = json!({"type": "text", "text": "!ls -l", "_meta": {"shell": true}});
        assert_eq!(Request::of(&[marked]), Request::Shell("ls -l".to_owned()));
        assert_eq!(Request::of(&[json!({"type": "image", "data": ""})]), Request::Prompt);
    }
}
