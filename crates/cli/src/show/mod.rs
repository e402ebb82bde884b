//! Events as a person reads them: the answer, and what is said about it on the side.

mod screen;
mod tool;
mod usage;

pub(crate) use screen::{Asides, Screen, Style};

use crate::escape::preview;
use serde_json::Value;
use std::collections::HashMap;
use std::io;

/// How much of a line is shown of things that are not the answer.
const LINE: usize = 160;

/// Whether prompts are shown: not to the person who just typed one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prompts {
    Shown,
    Hidden,
}

/// Shows one session's events, one after the other.
pub(crate) struct Show {
    prompts: Prompts,
    items: HashMap<String, Item>,
    /// The item whose text was written last.
    writing: Option<String>,
}

struct Item {
    kind: String,
    is_users: bool,
    title: String,
}

impl Show {
    pub(crate) fn new(prompts: Prompts) -> Self {
        Self { prompts, items: HashMap::new(), writing: None }
    }

    /// Shows one event. Types that say nothing to a person are passed over, and so are unknown ones.
    pub(crate) fn event(&mut self, event: &Value, screen: &mut Screen) -> io::Result<()> {
        let text = |member: &str| event[member].as_str().unwrap_or_default();
        match text("type") {
            "prompt.accepted" if self.prompts == Prompts::Shown => {
                let said = event["content"].as_array().into_iter().flatten();
                let said: Vec<&str> = said.filter_map(|block| block["text"].as_str()).collect();
                screen.line(Style::Strong, &format!("> {}", preview(&said.join(" "), LINE)))
            }
            "item.started" => self.started(event, screen),
            "item.delta" if matches!(text("field"), "" | "text") => {
                self.write(text("item"), text("text"), screen)
            }
            "item.replaced" if matches!(text("field"), "" | "text") => {
                screen.line(Style::Faint, "(what was shown of this is replaced by:)")?;
                self.write(text("item"), text("text"), screen)
            }
            "item.updated" => {
                if let (Some(item), Some(title)) =
                    (self.items.get_mut(text("item")), event["tool"]["title"].as_str())
                {
                    title.clone_into(&mut item.title);
                }
                Ok(())
            }
            "item.ended" => self.ended(event, screen),
            "item.revised" if !event["text"].is_null() => {
                screen.line(Style::Faint, "(an earlier text was corrected:)")?;
                self.write(text("item"), text("text"), screen)
            }
            "attempt.superseded" => screen.line(Style::Faint, "(begun again; what was shown of it is void)"),
            "approval.requested" => {
                let asked = self.asked(event);
                screen.line(Style::Strong, &format!("[ask] {asked} ({})", text("approval")))
            }
            "approval.resolved" => {
                let outcome = text("outcome").replace('_', " ");
                screen.line(Style::Faint, &format!("[{outcome}] by {} ({})", text("by"), text("approval")))
            }
            "question.asked" => {
                for question in event["questions"].as_array().into_iter().flatten() {
                    let asked = preview(question["text"].as_str().unwrap_or_default(), LINE);
                    screen.line(Style::Strong, &format!("[question] {asked} ({})", text("question")))?;
                }
                Ok(())
            }
            "question.answered" => {
                screen.line(Style::Faint, &format!("[{}] ({})", text("outcome"), text("question")))
            }
            "session.status" if text("status") == "retrying" => {
                let reason = event["reason"].as_str().unwrap_or("an error");
                screen.line(Style::Faint, &format!("waits to try again after {reason}"))
            }
            "notice" => {
                let told = format!("{}: {}", text("code"), text("message"));
                screen.line(Style::Warning, &preview(&told, LINE))
            }
            "turn.cancelling" | "prompt.cancelling" => {
                screen.line(Style::Faint, &format!("[cancelling] by {}", text("by")))
            }
            "turn.ended" => {
                self.writing = None;
                let style = if text("outcome") == "completed" { Style::Faint } else { Style::Warning };
                screen.line(style, &usage::ending(event))
            }
            "session.ended" => {
                screen.line(Style::Warning, &format!("the session has ended: {}", text("reason")))
            }
            _ => Ok(()),
        }
    }

    /// What an approval is about.
    pub(crate) fn asked(&self, event: &Value) -> String {
        let item = event["item"].as_str().and_then(|id| self.items.get(id));
        let own = tool::title(&event["tool"]);
        let title = own.or_else(|| item.map(|item| item.title.clone()));
        preview(&title.unwrap_or_else(|| "something it does not name".to_owned()), LINE)
    }

    /// What it is at, for a status line.
    pub(crate) fn activity(&self) -> Option<&str> {
        let tool = |item: &&Item| item.kind == "tool";
        self.items.values().find(tool).map(|item| item.title.as_str())
    }

    fn started(&mut self, event: &Value, screen: &mut Screen) -> io::Result<()> {
        let id = event["item"].as_str().unwrap_or_default().to_owned();
        let kind = event["kind"].as_str().unwrap_or_default().to_owned();
        let title = tool::title(&event["tool"]).unwrap_or_else(|| kind.clone());
        let is_users = event["role"] == "user";
        let shown = match kind.as_str() {
            "tool" => screen.line(Style::Plain, &format!("[run] {}", preview(&title, LINE))),
            "message" | "reasoning" => Ok(()),
            other => screen.line(Style::Faint, &format!("[{other}]")),
        };
        self.items.insert(id.clone(), Item { kind, is_users, title });
        shown?;
        self.write(&id, event["text"].as_str().unwrap_or_default(), screen)
    }

    fn write(&mut self, id: &str, text: &str, screen: &mut Screen) -> io::Result<()> {
        let Some(item) = self.items.get(id).filter(|item| !item.is_users && !text.is_empty()) else {
            return Ok(());
        };
        if self.writing.as_deref() != Some(id) {
            screen.end_line()?;
            self.writing = Some(id.to_owned());
        }
        match item.kind.as_str() {
            "message" => screen.answer(text),
            _ => screen.aside(text),
        }
    }

    fn ended(&mut self, event: &Value, screen: &mut Screen) -> io::Result<()> {
        let id = event["item"].as_str().unwrap_or_default();
        let Some(item) = self.items.remove(id) else { return Ok(()) };
        let state = event["state"].as_str().unwrap_or_default();
        if self.writing.as_deref() == Some(id) {
            self.writing = None;
            screen.end_line()?;
        }
        let reason = event["reason"].as_str().map(|reason| format!(": {reason}")).unwrap_or_default();
        match (item.kind.as_str(), state) {
            ("tool", "completed") => {
                screen.line(Style::Good, &format!("[ok] {}", preview(&item.title, LINE)))
            }
            ("tool", state) => {
                let told = format!("{}{reason}", item.title);
                screen.line(Style::Warning, &format!("[{state}] {}", preview(&told, LINE)))
            }
            (_, "completed") => Ok(()),
            (kind, state) => {
                let told = format!("the {kind} is not whole: {state}{reason}");
                screen.line(Style::Warning, &preview(&told, LINE))
            }
        }
    }
}
