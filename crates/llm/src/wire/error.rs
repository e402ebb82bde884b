//! Error objects, in the shapes that providers and proxies write.

use crate::attempt::{Body, ProfileRule, ProviderError};
use crate::profile::Profile;
use serde_json::Value;

/// Reads `raw`, an error object or a message. `around` is the whole payload, kept as evidence.
pub(crate) fn read(raw: &str, around: &str, profile: &Profile) -> ProviderError {
    let value: Value = turnstream_json::from_str(raw).unwrap_or_else(|_| Value::String(raw.to_owned()));
    of_value(&value, around, profile)
}

/// The error object of a whole body, if it has one.
pub(crate) fn of_body(body: &str, profile: &Profile) -> Option<ProviderError> {
    // An event stream under an error status has the object in its first data line.
    let data = body.lines().find_map(|line| line.strip_prefix("data:"));
    let text = data.unwrap_or(body);
    let value: Value = turnstream_json::from_str(text.trim()).ok()?;
    let object = match &value {
        // Google sends a list of one.
        Value::Array(list) => list.first()?,
        Value::Object(_) | Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => &value,
    };
    match (&object["error"], object["object"].as_str()) {
        (Value::Null, Some("error")) => Some(of_value(object, body, profile)),
        // FastAPI and others send only these members. A completion has neither.
        (Value::Null, _) => {
            let message = object["message"].as_str().or_else(|| object["detail"].as_str())?;
            Some(of_value(&Value::String(message.to_owned()), body, profile))
        }
        (error, _) => Some(of_value(error, body, profile)),
    }
}

fn of_value(value: &Value, around: &str, profile: &Profile) -> ProviderError {
    let word = |name: &str| value[name].as_str().filter(|word| !word.is_empty()).map(str::to_owned);
    // Google's `status` is a word, and its `code` a number.
    let kind = word("type").or_else(|| word("status"));
    let code = word("code").or_else(|| value["code"].as_i64().map(|code| code.to_string()));
    let number = |name: &str| value[name].as_u64().and_then(|status| u16::try_from(status).ok());
    let status = ["status", "status_code", "code"].into_iter().filter_map(number);
    let status = status.into_iter().find(|status| (400..600).contains(status));
    let message = match value {
        Value::String(message) => message.clone(),
        Value::Object(_) | Value::Array(_) | Value::Number(_) | Value::Bool(_) | Value::Null => {
            word("message").unwrap_or_default()
        }
    };
    let throttled = profile.throttles.iter().any(|throttle| {
        kind.as_deref() == Some(&*throttle.error_type) && message.contains(&*throttle.message_contains)
    });
    ProviderError {
        kind,
        code,
        message,
        status,
        profile: throttled.then_some(ProfileRule::Throttled),
        raw: beginning(around, Body::LIMIT).to_owned(),
    }
}

/// At most `limit` bytes of a text, cut between characters.
pub(crate) fn beginning(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}
