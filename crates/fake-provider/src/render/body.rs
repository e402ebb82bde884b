//! JSON bodies that more than one wire format needs.

use crate::reply::ErrorBody;
use crate::wire::WireFormat;
use serde::Serialize;
use serde_json::{Value, json};

/// The error body of a wire format.
pub(crate) fn error_body(format: WireFormat, error: &ErrorBody, request_id: &str) -> Value {
    let ErrorBody { kind, message, code } = error;
    match format {
        WireFormat::Chat | WireFormat::Responses => {
            json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
        }
        WireFormat::Messages => {
            json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id})
        }
    }
}

/// Compact JSON.
pub(super) fn json(value: &impl Serialize) -> String {
    // What is rendered has string keys and no custom serialiser, the only ways in which this could fail.
    serde_json::to_string(value).unwrap_or_default()
}
