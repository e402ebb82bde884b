//! The parsed error of a provider: its words, its status, its message. One parser for all shapes in use.

use serde_json::Value;

/// The longest word. Longer text, or text with spaces, is prose.
const WORD: usize = 80;

/// An error body or error event of a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Its code, type and status words, the most specific first.
    pub words: Vec<String>,
    /// An HTTP status inside the body.
    pub status: Option<u16>,
    /// The message for people.
    pub message: Option<String>,
    /// Whether it names a quota per day.
    pub is_quota_of_a_day: bool,
}

impl Report {
    /// Parses any of the shapes in which providers send errors; `None` if this is not an error.
    ///
    /// - `{"error":{"type":…,"code":…,"message":…}}`, also in `{"type":"error", …}` or in a list;
    /// - `{"type":"error","code":…,"message":…}` and `{"type":"response.failed","response":{"error":{…}}}`;
    /// - `{"error":"message"}`, and `{"code":…,"message":…}` of gateways.
    pub fn of(json: &Value) -> Option<Self> {
        let json = match json {
            Value::Array(list) => list.first()?,
            other => other,
        };
        let object = json.as_object()?;
        let nested = object.get("response").and_then(|response| response.get("error"));
        let error = object.get("error").or(nested).filter(|error| !error.is_null());
        let code = |of: &Value| ["code", "__type", "error_type"].iter().any(|name| of.get(name).is_some());
        match error {
            Some(Value::Object(_)) => error.map(Self::of_error),
            Some(other) => {
                let message = Some(other.as_str().map_or_else(|| other.to_string(), str::to_owned));
                let Self { words, status, .. } = Self::of_error(json);
                Some(Self { words, status, message, is_quota_of_a_day: false })
            }
            None if object.get("choices").is_some() => None,
            None if object.get("type").and_then(Value::as_str) == Some("error") => Some(Self::of_error(json)),
            None if code(json) && object.contains_key("message") => Some(Self::of_error(json)),
            None => None,
        }
    }

    /// A report of parts that are parsed already.
    pub fn of_parts(kind: Option<&str>, code: Option<&str>, message: Option<&str>) -> Self {
        let mut report = Self { message: message.map(str::to_owned), ..Self::default() };
        for word in [code, kind].into_iter().flatten() {
            report.add(word);
        }
        report
    }

    /// The code comes first: `model_not_found` is a code under the type `invalid_request_error`.
    fn of_error(error: &Value) -> Self {
        let text = |name: &str| error.get(name).and_then(Value::as_str);
        let mut report = Self { message: text("message").map(str::to_owned), ..Self::default() };
        // Google's `ErrorInfo` is more specific than its `INVALID_ARGUMENT`.
        let details = error.get("details").and_then(Value::as_array).into_iter().flatten();
        let infos = details.filter(|detail| is_kind(detail, ".ErrorInfo"));
        infos.filter_map(|info| info["reason"].as_str()).for_each(|reason| report.add(reason));
        // OpenRouter lists what its moderation found, under a 403.
        if error["metadata"]["reasons"].is_array() && error["metadata"].get("flagged_input").is_some() {
            report.add("moderation_blocked");
        }
        for name in ["code", "type", "__type", "error_type", "status", "name"] {
            match error.get(name) {
                Some(Value::String(word)) => report.add(word),
                Some(Value::Number(number)) => report.add(&number.to_string()),
                Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) | None => {}
            }
        }
        report.is_quota_of_a_day = is_quota_of_a_day(error);
        report
    }

    fn add(&mut self, word: &str) {
        if let Ok(status @ 400..=599) = word.parse() {
            self.status = self.status.or(Some(status));
        } else if !word.is_empty() && word.len() <= WORD && !word.contains(char::is_whitespace) {
            self.words.push(word.to_owned());
        }
    }
}

/// Whether an entry of Google's `details` is of this kind.
fn is_kind(detail: &Value, suffix: &str) -> bool {
    detail["@type"].as_str().is_some_and(|kind| kind.ends_with(suffix))
}

/// Google's `QuotaFailure` names the quota by an id such as
/// `GenerateRequestsPerDayPerProjectPerModel-FreeTier`.
fn is_quota_of_a_day(error: &Value) -> bool {
    let details = error.get("details").and_then(Value::as_array).into_iter().flatten();
    let violations = details
        .filter(|detail| is_kind(detail, ".QuotaFailure"))
        .filter_map(|detail| detail["violations"].as_array())
        .flatten();
    violations.filter_map(|violation| violation["quotaId"].as_str()).any(|id| id.contains("PerDay"))
}
