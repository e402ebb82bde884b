//! How a turn ended, and what it took.

use crate::escape::preview;
use serde_json::Value;

/// One line: the outcome, why, and what was counted. What is not known is not shown.
pub(super) fn ending(event: &Value) -> String {
    let mut parts = vec![event["outcome"].as_str().unwrap_or_default().to_owned()];
    let stop = event["stop_reason"].as_str().filter(|stop| *stop != "end_turn");
    parts.extend(stop.map(|stop| stop.replace('_', " ")));
    if let Some(error) = event["error"].as_object() {
        let text = |member: &str| error.get(member).and_then(Value::as_str).unwrap_or_default();
        parts.push(preview(&format!("{}: {}", text("class"), text("message")), usize::MAX));
    }
    let counted = [
        ("input", "in"),
        ("output", "out"),
        ("reasoning", "reasoning"),
        ("cache_read", "from cache"),
        ("cache_write", "to cache"),
    ];
    let tokens: Vec<String> = counted
        .iter()
        .filter_map(|(member, word)| Some(format!("{} {word}", event["usage"][member].as_u64()?)))
        .collect();
    if !tokens.is_empty() {
        parts.push(format!("tokens: {}", tokens.join(", ")));
    }
    let cost = &event["cost"];
    if let (Some(amount), Some(currency)) = (cost["amount"].as_f64(), cost["currency"].as_str()) {
        parts.push(format!("{amount} {}", preview(currency, 8)));
    }
    parts.join(" \u{b7} ")
}

#[cfg(test)]
mod tests {
    use super::ending;
    use serde_json::json;

    #[test]
    fn an_ending_says_what_is_known_and_nothing_else() {
        let ended = json!({"outcome": "completed", "stop_reason": "end_turn", "usage": {"input": 10, "output": 3},
            "cost": {"amount": 0.01, "currency": "USD"}});
        assert_eq!(ending(&ended), "completed · tokens: 10 in, 3 out · 0.01 USD");
        let failed =
            json!({"outcome": "failed", "error": {"class": "overloaded", "message": "busy\u{1b}[2J"}});
        assert_eq!(ending(&failed), "failed · overloaded: busy\\u{1b}[2J");
        assert_eq!(ending(&json!({"outcome": "lost"})), "lost");
    }
}
