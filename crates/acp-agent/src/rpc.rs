//! JSON-RPC 2.0 messages of the editor.

use agent_client_protocol_schema::v1::{Error, RequestId};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The message has no meaning: it is not JSON.
const PARSE_ERROR: i32 = -32700;
/// The message is JSON, and no message of JSON-RPC 2.0, or comes at the wrong time.
pub(crate) const INVALID_REQUEST: i32 = -32600;
/// Nobody knows the method.
const METHOD_NOT_FOUND: i32 = -32601;
/// The parameters are wrong, or ask for something that cannot be done.
pub(crate) const INVALID_PARAMS: i32 = -32602;

/// One message of the editor.
#[derive(Debug, PartialEq)]
pub(crate) enum Incoming {
    /// It wants an answer.
    Request {
        id: RequestId,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// The answer to a request of ours: a result or an error.
    Response {
        id: RequestId,
        outcome: Result<Value, Value>,
    },
    /// What cannot be understood. The error is the answer.
    Invalid {
        id: RequestId,
        error: Error,
    },
}

/// Reads one line.
pub(crate) fn parse(line: &[u8]) -> Incoming {
    let invalid = |id, code, message: String| Incoming::Invalid { id, error: Error::new(code, message) };
    let message: Value = match turnstream_json::from_slice(line) {
        Ok(message) => message,
        Err(error) => return invalid(RequestId::Null, PARSE_ERROR, format!("this is not JSON: {error}")),
    };
    let Value::Object(mut members) = message else {
        let told = "a message is one JSON object on one line; batches are not supported";
        return invalid(RequestId::Null, INVALID_REQUEST, told.to_owned());
    };
    let id = match members.remove("id").map(serde_json::from_value::<RequestId>) {
        Some(Ok(id)) => Some(id),
        Some(Err(_)) => {
            let told = "the id of a request is a string or a whole number";
            return invalid(RequestId::Null, INVALID_REQUEST, told.to_owned());
        }
        None => None,
    };
    if members.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        let told = "`jsonrpc` must be \"2.0\"";
        return invalid(id.unwrap_or(RequestId::Null), INVALID_REQUEST, told.to_owned());
    }
    let params = members.remove("params").unwrap_or(Value::Null);
    match (members.remove("method"), id) {
        (Some(Value::String(method)), Some(id)) => Incoming::Request { id, method, params },
        (Some(Value::String(method)), None) => Incoming::Notification { method, params },
        (None, Some(id)) => match (members.remove("result"), members.remove("error")) {
            (_, Some(error)) => Incoming::Response { id, outcome: Err(error) },
            (Some(result), None) => Incoming::Response { id, outcome: Ok(result) },
            (None, None) => {
                let told = "a message has a `method`, a `result` or an `error`";
                invalid(id, INVALID_REQUEST, told.to_owned())
            }
        },
        (_, id) => {
            let told = "`method` must be a string";
            invalid(id.unwrap_or(RequestId::Null), INVALID_REQUEST, told.to_owned())
        }
    }
}

/// The parameters of a method, by the protocol's own types.
pub(crate) fn params<T: DeserializeOwned>(method: &str, params: &Value) -> Result<T, Error> {
    T::deserialize(params)
        .map_err(|error| Error::new(INVALID_PARAMS, format!("the parameters of {method}: {error}")))
}

pub(crate) fn method_not_found(method: &str) -> Error {
    Error::new(METHOD_NOT_FOUND, format!("there is no method {method}"))
}

#[cfg(test)]
mod tests {
    use super::{Incoming, parse};
    use agent_client_protocol_schema::v1::RequestId;
    use serde_json::{Value, json};

    #[test]
    fn messages_are_told_apart_and_an_id_keeps_its_type() {
        let request = |id| Incoming::Request { id, method: "m".to_owned(), params: json!({"a": 1}) };
        assert_eq!(
            parse(br#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":1}}"#),
            request(RequestId::Number(7))
        );
        assert_eq!(
            parse(br#"{"jsonrpc":"2.0","id":"7","method":"m","params":{"a":1}}"#),
            request(RequestId::Str("7".to_owned()))
        );
        assert_eq!(
            parse(br#"{"jsonrpc":"2.0","method":"m"}"#),
            Incoming::Notification { method: "m".to_owned(), params: Value::Null }
        );
        assert_eq!(
            parse(br#"{"jsonrpc":"2.0","id":"a","result":null}"#),
            Incoming::Response { id: RequestId::Str("a".to_owned()), outcome: Ok(Value::Null) }
        );
        assert_eq!(
            parse(br#"{"jsonrpc":"2.0","id":"a","error":{"code":1}}"#),
            Incoming::Response { id: RequestId::Str("a".to_owned()), outcome: Err(json!({"code": 1})) }
        );
    }

    #[test]
    fn what_is_no_message_is_answered_with_the_code_of_json_rpc() {
        for (line, code) in [
            (&b"{"[..], -32700),
            (b"[]", -32600),
            (b"7", -32600),
            (br#"{"id":1,"method":"m"}"#, -32600),
            (br#"{"jsonrpc":"2.0","id":1}"#, -32600),
            (br#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#, -32600),
            (br#"{"jsonrpc":"2.0","id":1,"method":7}"#, -32600),
        ] {
            match parse(line) {
                Incoming::Invalid { error, .. } => assert_eq!(i32::from(error.code), code),
                other => panic!("{other:?}"),
            }
        }
    }
}
