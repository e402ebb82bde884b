//! The errors of opencode as errors of a turn. The class comes from names and status codes, never from prose.
//! The time to try again comes from the provider's headers.

use super::info::AgentError;
use serde_json::Value;
use turnstream_model::event::{ErrorClass, TurnError};
use turnstream_model::time::Time;

/// The most characters of an error message that are kept.
const SHOWN: usize = 200;

/// An error of opencode as the error of a turn. It holds the provider's headers: of those only the request
/// id is kept, and after a limit the time to try again.
pub(crate) fn turn_error(error: &AgentError) -> TurnError {
    let AgentError { name, data } = error;
    let status = data.get("statusCode").and_then(Value::as_u64).and_then(|status| u16::try_from(status).ok());
    let said = data.get("message").and_then(Value::as_str).filter(|said| !said.is_empty()).unwrap_or(name);
    let mut turn_error = TurnError::new(class(name, status), shorten(said));
    turn_error.status = status;
    let headers = data.get("responseHeaders");
    turn_error.request_id = request_id(headers);
    if matches!(
        turn_error.class,
        ErrorClass::RateLimited | ErrorClass::Overloaded | ErrorClass::QuotaExhausted
    ) {
        turn_error.retry_at = retry_at(headers);
    }
    turn_error.extra.insert("name".to_owned(), Value::from(name.as_str()));
    turn_error
}

/// The beginning of a foreign text.
pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn class(name: &str, status: Option<u16>) -> ErrorClass {
    match name {
        "MessageAbortedError" => ErrorClass::Cancelled,
        "ProviderAuthError" => ErrorClass::Auth,
        "MessageOutputLengthError" => ErrorClass::OutputLimit,
        "ContextOverflowError" => ErrorClass::ContextOverflow,
        "ContentFilterError" => ErrorClass::Refused,
        "ProviderModelNotFoundError" => ErrorClass::ModelUnavailable,
        "APIError" => status.map_or(ErrorClass::ProviderError, class_of_status),
        _ => ErrorClass::AgentError,
    }
}

/// The class of an HTTP status of a provider or of opencode.
pub(crate) fn class_of_status(status: u16) -> ErrorClass {
    match status {
        401 | 403 => ErrorClass::Auth,
        402 => ErrorClass::QuotaExhausted,
        408 | 504 => ErrorClass::Timeout,
        413 => ErrorClass::ContextOverflow,
        429 => ErrorClass::RateLimited,
        503 | 529 => ErrorClass::Overloaded,
        400..=499 => ErrorClass::InvalidRequest,
        _ => ErrorClass::ProviderError,
    }
}

fn request_id(headers: Option<&Value>) -> Option<String> {
    let headers = headers?.as_object()?;
    let names = ["x-request-id", "request-id", "x-amzn-requestid", "cf-ray"];
    names.iter().find_map(|name| headers.get(*name)?.as_str()).map(str::to_owned)
}

/// When to try again: the provider's own time with what it asks to wait, or the time that it names. So no
/// clock is needed here, and a late reader of the error gets the same time.
fn retry_at(headers: Option<&Value>) -> Option<Time> {
    let headers = headers?.as_object()?;
    let header = |name: &str| headers.get(name)?.as_str().map(str::trim);
    let after = |millis: u64| Some(http_date(header("date")?)?.plus_millis(millis));
    if let Some(millis) = header("retry-after-ms").and_then(|text| text.parse::<f64>().ok()) {
        // A cast saturates, and not-a-number becomes zero.
        return after(millis as u64);
    }
    let told = header("retry-after")?;
    match told.parse::<u64>() {
        Ok(seconds) => after(seconds.saturating_mul(1_000)),
        Err(_) => http_date(told),
    }
}

/// A date like `Sun, 15 Nov 2026 19:47:36 GMT`, the only form that HTTP allows to be sent.
fn http_date(text: &str) -> Option<Time> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut words = text.split_once(", ")?.1.split(' ');
    let day: u64 = words.next()?.parse().ok().filter(|day| (1..=31).contains(day))?;
    let name = words.next()?;
    let month = MONTHS.iter().position(|month| *month == name)? as u64 + 1;
    let year: u64 = words.next()?.parse().ok().filter(|year| (1970..=9999).contains(year))?;
    let mut clock = words.next()?.split(':').map(|part| part.parse::<u64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    if words.next() != Some("GMT") || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Days since 1970, counted in years that begin in March.
    let (years, months) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = years * 365 + years / 4 - years / 100 + years / 400 + (months * 153 + 2) / 5 + day - 1;
    let days = days.checked_sub(719_468)?;
    Some(Time(((days * 24 + hour) * 60 + minute) * 60_000 + second * 1_000))
}

#[cfg(test)]
mod tests {
    use super::{http_date, turn_error};
    use crate::info::AgentError;
    use serde_json::json;
    use turnstream_model::time::Time;

    #[test]
    fn dates_of_headers_are_times() {
        for (text, told) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", "1970-01-01T00:00:00.000Z"),
            ("Tue, 29 Feb 2000 23:59:59 GMT", "2000-02-29T23:59:59.000Z"),
            ("Sun, 15 Nov 2026 19:47:36 GMT", "2026-11-15T19:47:36.000Z"),
            ("Mon, 01 Mar 2100 00:00:00 GMT", "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(http_date(text).map(Time::to_iso).as_deref(), Some(told));
        }
        for text in
            ["", "soon", "Sun, 15 Nov 2026", "Sun, 15 Foo 2026 19:47:36 GMT", "Sun, 15 Nov 2026 25:00:00 GMT"]
        {
            assert_eq!(http_date(text), None, "{text}");
        }
    }

    #[test]
    fn a_limit_has_the_time_that_the_provider_told() {
        let error = |status: u16, headers: serde_json::Value| {
            let data = json!({"message": "m", "statusCode": status, "responseHeaders": headers});
            let error: AgentError =
                serde_json::from_value(json!({"name": "APIError", "data": data})).unwrap();
            turn_error(&error).retry_at.map(Time::to_iso)
        };
        let date = "Sun, 15 Nov 2026 19:47:36 GMT";
        let at = |text: &str| Some(text.to_owned());
        assert_eq!(error(429, json!({"date": date, "retry-after": "7200"})), at("2026-11-15T21:47:36.000Z"));
        assert_eq!(
            error(529, json!({"date": date, "retry-after-ms": "1500"})),
            at("2026-11-15T19:47:37.500Z")
        );
        assert_eq!(error(429, json!({"retry-after": date})), at("2026-11-15T19:47:36.000Z"));
        assert_eq!(
            error(429, json!({"retry-after": "7200"})),
            None,
            "without a date nobody knows when that was"
        );
        assert_eq!(error(500, json!({"date": date, "retry-after": "7200"})), None, "it is no limit");
    }
}
