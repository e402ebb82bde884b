//! Events that the log would refuse for their size. Their texts are cut, so that the rest can be appended.

use serde_json::Value;
use std::cell::Cell;
use turnstream_log::Appender;
use turnstream_model::event::{Body, Draft, NoticeCode, Redact, Secrets, Weigh};

/// How many bytes of text stay in an event that was too large.
const KEPT: usize = 4 << 20;

/// The most that a value or a list may weigh in such an event. No event has more than six of them, so the log
/// accepts what is left.
const LARGEST_VALUE: usize = 2 * KEPT;

/// Texts of this length stay whole: types, names and titles, by which the rest is understood.
const SHORT: usize = 1 << 10;

/// Cuts the event if the log would refuse it, and returns a notice for the session. A delta is split instead.
pub(super) fn cut(draft: &mut Draft) -> Option<Draft> {
    if matches!(draft.body, Body::ItemDelta { .. }) {
        return None;
    }
    let bytes = draft.weight();
    if bytes <= Appender::MOST_BYTES {
        return None;
    }
    let budget = Budget { left: Cell::new(KEPT), unlisted: Cell::new(0), replaced: Cell::new(false) };
    // Redaction knows where the agent's texts are.
    draft.body.redact_all(&budget);
    let (kind, unlisted) = (draft.body.type_name(), budget.unlisted.get());
    tracing::warn!(event = kind, bytes, unlisted, "an event was too large and was cut");
    let mut message = format!("the event {kind} had about {bytes} bytes, which is too large; it was cut");
    if unlisted > 0 {
        message.push_str(&format!(", and {unlisted} values of its lists were left out"));
    }
    let body = Body::Notice { code: NoticeCode::Budget, message, detail: None };
    let (turn, item) = (draft.turn.clone(), draft.item.clone());
    Some(Draft { turn, item, ..Draft::new(body) })
}

/// What may still stay, and what did not.
struct Budget {
    /// Bytes of text that may still stay.
    left: Cell<usize>,
    /// Values that were left out of lists.
    unlisted: Cell<usize>,
    /// A value was replaced since this was last reset.
    replaced: Cell<bool>,
}

impl Budget {
    fn cut_strings(&self, value: &mut Value) {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) => self.redact_text(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.cut_strings(value)),
            Value::Object(members) => members.values_mut().for_each(|value| self.cut_strings(value)),
        }
    }
}

impl Secrets for Budget {
    fn redact_text(&self, text: &mut String) {
        let left = self.left.get();
        if text.len() > left.max(SHORT) {
            let kept = text.floor_char_boundary(left);
            let note = left_out(text.len() - kept);
            text.truncate(kept);
            text.push_str(&note);
        }
        self.left.set(left.saturating_sub(text.len()));
    }

    /// A value that is large without long texts is left out as a whole.
    fn redact_json(&self, value: &mut Value) {
        self.cut_strings(value);
        let weight = value.weight();
        if weight > LARGEST_VALUE {
            *value = Value::String(left_out(weight));
            self.replaced.set(true);
        }
    }

    /// Of a list of many small values the first ones stay. A value that is too large on its own goes too: the
    /// lists of an event hold objects, and a note in its place would be none.
    fn redact_list<T: Redact + Weigh>(&self, list: &mut Vec<T>) {
        let (all, mut weight) = (list.len(), 0);
        list.retain_mut(|value| {
            if weight > LARGEST_VALUE {
                return false;
            }
            self.replaced.set(false);
            value.redact(self);
            weight += value.weight();
            weight <= LARGEST_VALUE && !self.replaced.get()
        });
        self.unlisted.set(self.unlisted.get() + all - list.len());
    }
}

fn left_out(bytes: usize) -> String {
    format!("[{bytes} bytes left out]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use turnstream_model::event::Tool;

    fn updated(tool: Tool) -> Draft {
        Draft::new(Body::ItemUpdated { tool: Some(Box::new(tool)) })
    }

    #[test]
    fn an_event_that_the_log_accepts_stays_as_it_is() {
        let draft = updated(Tool { output: Some(json!("x".repeat(60 << 20))), ..Tool::default() });
        let mut same = draft.clone();
        assert_eq!(cut(&mut same), None);
        assert_eq!(same, draft);
    }

    #[test]
    fn long_texts_are_cut_and_the_shape_of_a_value_stays() {
        let long = "é".repeat(20 << 20);
        let block = || json!({"type": "text", "text": long.clone()});
        let mut draft = updated(Tool {
            title: Some("Read".to_owned()),
            content: Some(vec![block(), block()]),
            ..Tool::default()
        });
        let notice = cut(&mut draft).expect("it is too large");
        assert!(matches!(notice.body, Body::Notice { code: NoticeCode::Budget, .. }), "{notice:?}");
        assert!(draft.weight() < 2 * KEPT, "{}", draft.weight());
        let Body::ItemUpdated { tool: Some(tool) } = draft.body else { panic!("another event") };
        let content = tool.content.expect("the content stays");
        let text = content[0]["text"].as_str().expect("a text");
        assert!(text.starts_with("éé") && text.ends_with(" bytes left out]"));
        assert_eq!((content[1]["type"].as_str(), tool.title.as_deref()), (Some("text"), Some("Read")));
    }

    #[test]
    fn a_value_that_is_large_without_a_long_text_is_left_out() {
        let mut draft = updated(Tool { output: Some(json!(vec![0; 5 << 20])), ..Tool::default() });
        cut(&mut draft).expect("it is too large");
        let Body::ItemUpdated { tool: Some(tool) } = draft.body else { panic!("another event") };
        assert_eq!(tool.output, Some(json!(format!("[{} bytes left out]", (5 << 20) * 16 + 16))));
    }

    #[test]
    fn a_large_value_of_a_list_goes_and_the_others_stay() {
        let large = json!({"type": "table", "cells": vec![0; 5 << 20]});
        let small = json!({"type": "text", "text": "found"});
        let content = Some(vec![small.clone(), large, small.clone()]);
        let mut draft = updated(Tool { content, ..Tool::default() });
        cut(&mut draft).expect("it is too large");
        let Body::ItemUpdated { tool: Some(tool) } = draft.body else { panic!("another event") };
        assert_eq!(tool.content, Some(vec![small.clone(), small]));
    }

    #[test]
    fn a_list_of_millions_of_small_values_keeps_its_beginning() {
        let values = 5 << 20;
        let mut draft = updated(Tool { content: Some(vec![Value::Null; values]), ..Tool::default() });
        let notice = cut(&mut draft).expect("it is too large");
        assert!(draft.weight() < Appender::MOST_BYTES, "{}", draft.weight());
        let Body::ItemUpdated { tool: Some(tool) } = draft.body else { panic!("another event") };
        let kept = tool.content.expect("the list stays").len();
        assert!(kept > 100_000, "{kept}");
        let left_out = values - kept;
        let Body::Notice { message, .. } = notice.body else { panic!("another event") };
        assert!(
            message.ends_with(&format!(", and {left_out} values of its lists were left out")),
            "{message}"
        );
    }
}
