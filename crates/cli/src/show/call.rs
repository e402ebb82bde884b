//! A tool call that needs an approval: its whole input, and what "always" would cover.

use super::LINE;
use super::item::title;
use crate::escape::{Safe, Untrusted, safe};
use crate::record::Record;
use serde_json::Value;

/// Input with more lines is folded in its middle.
const MOST_LINES: usize = 40;
/// The prefix of each line of the input, so that none looks like a line of this program.
const GUTTER: &str = "  | ";
/// The further lines of a value are indented more.
const FURTHER: &str = "    ";

/// The tool call of an approval.
pub(crate) struct Call {
    title: Safe,
    /// Names and values of the input, as the agent gave them.
    input: Vec<(String, Value)>,
    always: Always,
}

/// What the answer "always" covers.
enum Always {
    /// It is not offered.
    NotOffered,
    /// In the agent's words.
    Covers(Vec<String>),
    /// The agent does not say.
    NotSaid,
}

impl Call {
    /// From the event, and from the tool call itself.
    pub(super) fn new(event: Record<'_>, call: Option<(Record<'_>, Untrusted<'_>)>) -> Self {
        let shown = event.member("tool");
        let own = call.map(|(tool, _)| tool);
        let title = title(shown).or_else(|| own.and_then(title));
        let title = title.unwrap_or(Untrusted("something it does not name")).preview(LINE);
        let mut input = own.map(|tool| members(&tool.0["input"])).unwrap_or_default();
        let written = call.map(|(_, written)| written).filter(|written| !written.is_empty());
        if let (true, Some(written)) = (input.is_empty(), written) {
            input.push(("input".to_owned(), Value::from(written.exact())));
        }
        // The ask can show more than the tool call, or other values.
        for (name, value) in members(&shown.0["input"]) {
            if !input.iter().any(|known| *known == (name.clone(), value.clone())) {
                input.push((name, value));
            }
        }
        Self { title, input, always: Always::of(event) }
    }

    pub(crate) fn title(&self) -> Safe {
        self.title.clone()
    }

    /// Whether the answer "always" is offered.
    pub(crate) fn offers_always(&self) -> bool {
        !matches!(self.always, Always::NotOffered)
    }

    /// Whether [`Call::folded`] leaves something out at this width.
    pub(crate) fn is_folded(&self, width: usize) -> bool {
        self.lines(width).len() > MOST_LINES
    }

    /// The input and what "always" covers. Long input is folded in its middle.
    pub(crate) fn folded(&self, width: usize) -> Vec<Safe> {
        let mut lines = self.lines(width);
        if lines.len() > MOST_LINES {
            let left_out = lines.len() - MOST_LINES;
            let fold = safe![GUTTER, "\u{2026} ", left_out, " more lines; v shows all \u{2026}"];
            lines.splice(MOST_LINES / 2..MOST_LINES / 2 + left_out, [fold]);
        }
        self.with_always(lines, width)
    }

    /// The whole input and what "always" covers.
    pub(crate) fn whole(&self, width: usize) -> Vec<Safe> {
        self.with_always(self.lines(width), width)
    }

    fn with_always(&self, mut lines: Vec<Safe>, width: usize) -> Vec<Safe> {
        let width = width.saturating_sub(LABEL.len());
        match &self.always {
            Always::NotOffered => {}
            Always::NotSaid => lines.push(safe![LABEL, "what this covers, the agent does not say"]),
            Always::Covers(names) => {
                for (at, name) in names.iter().flat_map(|name| Untrusted(name).wrapped(width)).enumerate() {
                    lines.push(safe![if at == 0 { LABEL } else { UNDER_LABEL }, name]);
                }
            }
        }
        lines
    }

    fn lines(&self, width: usize) -> Vec<Safe> {
        if self.input.is_empty() {
            return vec![safe![GUTTER, "(the agent does not show what it is given)"]];
        }
        let width = width.saturating_sub(GUTTER.len() + FURTHER.len()).max(8);
        self.input.iter().flat_map(|(name, value)| member(name, value, width)).collect()
    }
}

const LABEL: &str = "  always: ";
const UNDER_LABEL: &str = "          ";

impl Always {
    fn of(event: Record<'_>) -> Self {
        if event.list("options").next().is_none() {
            return Self::NotSaid;
        }
        let names: Vec<String> = event
            .list("options")
            .filter(|option| option.is("kind", "allow_always"))
            .map(|option| option.text("name").exact().to_owned())
            .collect();
        if names.is_empty() { Self::NotOffered } else { Self::Covers(names) }
    }
}

/// The members of an object; anything else is one member.
fn members(input: &Value) -> Vec<(String, Value)> {
    match input {
        Value::Null => Vec::new(),
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            vec![("input".to_owned(), input.clone())]
        }
    }
}

/// A name and its value: on one line if they fit, else the value below.
fn member(name: &str, value: &Value, width: usize) -> Vec<Safe> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(_) | Value::Object(_) => serde_json::to_string_pretty(value).unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    };
    let name = Untrusted(name).line();
    let lines = Untrusted(&text).wrapped(width);
    match lines.as_slice() {
        [] => vec![safe![GUTTER, name, ": (empty)"]],
        [one] if name.width() + one.width() + 2 <= width => vec![safe![GUTTER, name, ": ", one]],
        several => {
            let below = several.iter().map(|line| safe![GUTTER, FURTHER, line]);
            std::iter::once(safe![GUTTER, name, ":"]).chain(below).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Call;
    use crate::escape::Untrusted;
    use crate::record::Record;
    use serde_json::{Value, json};

    fn shown(event: &Value, call: &Value) -> Vec<String> {
        let call = Call::new(Record(event), Some((Record(call), Untrusted(""))));
        call.folded(60).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_ask_shows_everything_the_call_was_given_and_what_always_covers() {
        let call =
            json!({"title": "Run rm", "input": {"command": "rm -rf a\nrm -rf b\u{1b}[2J", "timeout": 5}});
        let event = json!({"tool": {"input": {"command": "rm -rf a\nrm -rf b\u{1b}[2J", "diff": "-x\n+y"}},
            "options": [{"kind": "allow_once", "name": "Once"}, {"kind": "allow_always", "name": "Always allow rm *"}]});
        let expected = [
            "  | command:",
            "  |     rm -rf a",
            "  |     rm -rf b\\u{1b}[2J",
            "  | timeout: 5",
            "  | diff:",
            "  |     -x",
            "  |     +y",
            "  always: Always allow rm *",
        ];
        assert_eq!(shown(&event, &call), expected);
    }

    #[test]
    fn a_long_line_is_wrapped_and_only_more_than_forty_lines_are_folded() {
        let once = json!({"options": [{"kind": "allow_once", "name": "Once"}]});
        let long = "x".repeat(100);
        let lines = shown(&once, &json!({"input": {"word": long}}));
        assert_eq!(lines.iter().map(|line| line.matches('x').count()).sum::<usize>(), 100);
        assert!(lines.iter().all(|line| line.len() <= 60), "{lines:?}");
        let rows = |count: usize| (1..=count).map(|at| format!("line {at}\n")).collect::<String>();
        assert_eq!(shown(&once, &json!({"input": {"text": rows(39)}})).len(), 40);
        let folded = shown(&once, &json!({"input": {"text": rows(99)}}));
        assert_eq!(folded.len(), 41);
        assert_eq!(folded[20], "  | \u{2026} 60 more lines; v shows all \u{2026}");
        assert_eq!(folded[40], "  |     line 99");
    }

    #[test]
    fn without_input_the_ask_says_so_and_always_is_not_offered_where_it_is_no_option() {
        let event = json!({"options": [{"kind": "allow_once", "name": "Once"}]});
        let call = Call::new(Record(&event), None);
        assert!(!call.offers_always());
        assert_eq!(call.whole(80)[0].to_string(), "  | (the agent does not show what it is given)");
        assert!(Call::new(Record(&json!({})), None).offers_always());
    }
}
