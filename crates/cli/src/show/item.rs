//! The state of one open item that is shown.

use super::{LINE, Screen, Style};
use crate::escape::{Safe, Untrusted, safe};
use crate::record::Record;
use serde_json::{Map, Value};
use std::io;

/// An open item.
pub(super) struct Item {
    kind: String,
    is_users: bool,
    /// It belongs to a subagent, so it is not the answer.
    is_below: bool,
    /// The tool call, with all updates so far.
    tool: Value,
    /// Its arguments, as the model writes them.
    input: String,
    /// Whether the line that it runs was shown.
    announced: bool,
}

impl Item {
    pub(super) fn new(event: Record<'_>) -> Self {
        let mut item = Self {
            kind: event.text("kind").exact().to_owned(),
            is_users: event.is("role", "user"),
            is_below: false,
            tool: Value::Object(Map::new()),
            input: event.text("input").exact().to_owned(),
            announced: false,
        };
        item.update(event);
        item
    }

    /// Applies an update.
    pub(super) fn update(&mut self, event: Record<'_>) {
        self.is_below |= event.has("parent");
        let newer = event.member("tool").0.as_object().into_iter().flatten();
        for (name, value) in newer.filter(|(_, value)| !value.is_null()) {
            self.tool[name] = value.clone();
        }
    }

    pub(super) fn kind(&self) -> Untrusted<'_> {
        Untrusted(&self.kind)
    }

    pub(super) fn is_tool(&self) -> bool {
        self.kind == "tool"
    }

    /// Whether it has text only.
    pub(super) fn is_text(&self) -> bool {
        self.kind == "message" || self.kind == "reasoning"
    }

    /// Whether it is a message of the main agent.
    pub(super) fn is_answer(&self) -> bool {
        self.kind == "message" && !self.is_users && !self.is_below
    }

    pub(super) fn is_users(&self) -> bool {
        self.is_users
    }

    pub(super) fn is_in_progress(&self) -> bool {
        self.is_tool() && self.tool["status"] == "in_progress"
    }

    pub(super) fn written_input(&mut self) -> &mut String {
        &mut self.input
    }

    /// The tool call and its arguments.
    pub(super) fn described(&self) -> (Record<'_>, Untrusted<'_>) {
        (Record(&self.tool), Untrusted(&self.input))
    }

    pub(super) fn title(&self) -> Untrusted<'_> {
        title(Record(&self.tool)).unwrap_or(Untrusted(&self.kind))
    }

    /// Shows once that it runs.
    pub(super) fn announce(&mut self, screen: &mut Screen) -> io::Result<()> {
        if std::mem::replace(&mut self.announced, true) || !self.is_tool() {
            return Ok(());
        }
        screen.line(Style::Plain, &safe!["[run] ", self.title().preview(LINE)])
    }

    /// How a tool call ended, and the reason if it failed.
    pub(super) fn ending(&self, event: Record<'_>) -> (Style, Safe) {
        let title = self.title().preview(LINE);
        if event.is("state", "completed") {
            return (Style::Good, safe!["[ok] ", title]);
        }
        let mut line = safe!["[", event.text("state"), "] ", title];
        if let Some(why) = event.some_text("reason").map(|reason| reason.preview(LINE)).or_else(|| self.why())
        {
            line.extend([safe![": ", why]]);
        }
        (Style::Warning, line)
    }

    /// The reason of a failure: an error, an exit code, or the last line of output.
    fn why(&self) -> Option<Safe> {
        let output = Record(&self.tool["output"]);
        let error = output.some_text("error").filter(|error| !error.is_empty());
        if let Some(error) = error {
            return Some(error.preview(LINE));
        }
        let exit = output.member("metadata").number("exit");
        let shown =
            Record(&self.tool).list("content").filter_map(|block| block.member("content").some_text("text"));
        let printed = output.some_text("output").or_else(|| output.as_text()).or_else(|| shown.last());
        let last = printed.and_then(|text| text.exact().lines().rfind(|line| !line.trim().is_empty()));
        let last = last.map(|line| Untrusted(line).preview(LINE));
        match (exit, last) {
            (Some(exit), Some(last)) => Some(safe!["exit code ", exit, ": ", last]),
            (Some(exit), None) => Some(safe!["exit code ", exit]),
            (None, last) => last,
        }
    }
}

/// The title of a tool call, or its name.
pub(super) fn title(tool: Record<'_>) -> Option<Untrusted<'_>> {
    tool.some_text("title").or_else(|| tool.some_text("name"))
}

#[cfg(test)]
mod tests {
    use super::Item;
    use crate::record::Record;
    use serde_json::json;

    #[test]
    fn a_failure_says_why_in_the_words_there_are() {
        let failed = json!({"state": "failed"});
        let ending = |tool| {
            let event = json!({"kind": "tool", "tool": tool});
            Item::new(Record(&event)).ending(Record(&failed)).1.to_string()
        };
        assert_eq!(ending(json!({"title": "T", "output": {"error": "no\u{1b}"}})), "[failed] T: no\\u{1b}");
        let command = json!({"name": "bash", "output": {"output": "a\nb\n", "metadata": {"exit": 2}}});
        assert_eq!(ending(command), "[failed] bash: exit code 2: b");
        let content = json!([{"type": "content", "content": {"type": "text", "text": "words"}}]);
        assert_eq!(ending(json!({"title": "T", "content": content})), "[failed] T: words");
        assert_eq!(ending(json!({"title": "T"})), "[failed] T");
    }
}
