//! The last line of a turn: how it ended, its tokens and its cost.

use crate::escape::{Safe, safe};
use crate::record::Record;

/// One line: the outcome, the reason, tokens and cost. Unknown values are left out.
pub(super) fn ending(event: Record<'_>) -> Safe {
    let mut parts = vec![event.text("outcome").line()];
    let stop = event.some_text("stop_reason").filter(|stop| stop.exact() != "end_turn");
    parts.extend(stop.map(|stop| stop.spaced()));
    if event.has("error") {
        let error = event.member("error");
        parts.push(safe![error.text("class"), ": ", error.text("message")]);
    }
    let counted = [
        ("input", "in"),
        ("output", "out"),
        ("reasoning", "reasoning"),
        ("cache_read", "from cache"),
        ("cache_write", "to cache"),
    ];
    let usage = event.member("usage");
    let tokens = counted.iter().filter_map(|(member, word)| Some(safe![usage.number(member)?, " ", *word]));
    let tokens: Vec<Safe> = tokens.collect();
    if !tokens.is_empty() {
        parts.push(safe!["tokens: ", joined(&tokens, ", ")]);
    }
    let cost = event.member("cost");
    if let (Some(amount), Some(currency)) = (cost.0["amount"].as_f64(), cost.some_text("currency")) {
        parts.push(safe![amount, " ", currency.preview(8)]);
    }
    joined(&parts, " \u{b7} ")
}

fn joined(parts: &[Safe], between: &'static str) -> Safe {
    let mut text = Safe::default();
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            text.push(between);
        }
        text.push(part);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::ending;
    use crate::record::Record;
    use serde_json::json;

    #[test]
    fn an_ending_says_what_is_known_and_nothing_else() {
        let ended = json!({"outcome": "completed", "stop_reason": "end_turn", "usage": {"input": 10, "output": 3},
            "cost": {"amount": 0.01, "currency": "USD"}});
        assert_eq!(ending(Record(&ended)).as_str(), "completed · tokens: 10 in, 3 out · 0.01 USD");
        let failed =
            json!({"outcome": "failed", "error": {"class": "overloaded", "message": "busy\u{1b}[2J"}});
        assert_eq!(ending(Record(&failed)).as_str(), "failed · overloaded: busy\\u{1b}[2J");
        assert_eq!(ending(Record(&json!({"outcome": "lost"}))).as_str(), "lost");
    }
}
