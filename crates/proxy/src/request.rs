//! What a client asks for.

use bytes::Bytes;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use turnstream_llm::Format;
use turnstream_provider::Operation;

/// A client's request, read as far as the proxy needs it.
#[derive(Clone, Debug)]
pub(crate) struct ClientRequest {
    pub(crate) operation: Operation,
    /// With its question mark; empty if there is none.
    pub(crate) query: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
    pub(crate) is_stream: bool,
    pub(crate) model: Option<String>,
}

/// The members of a body that matter here. All others pass unread.
#[derive(Deserialize)]
struct Members<'a> {
    #[serde(default)]
    stream: Option<bool>,
    #[serde(borrow, default, deserialize_with = "raw")]
    model: Option<&'a RawValue>,
    #[serde(default)]
    n: Option<u64>,
}

/// A member that is there, even if it is null.
fn raw<'a, D: Deserializer<'a>>(member: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(member).map(Some)
}

/// The operation of a path below a route, such as `v1/chat/completions`.
pub(crate) fn operation(format: Format, path: &str) -> Option<Operation> {
    let path = path.trim_matches('/');
    let path = path.strip_prefix("v1/").unwrap_or(path);
    match (path, format) {
        ("models", _) => Some(Operation::Models),
        ("chat/completions", Format::Chat)
        | ("responses", Format::Responses)
        | ("messages", Format::Messages) => Some(Operation::Generate),
        ("messages/count_tokens", Format::Messages) => Some(Operation::CountTokens),
        _ => None,
    }
}

impl ClientRequest {
    /// Reads the body of a request.
    pub(crate) fn new(
        operation: Operation,
        query: String,
        headers: Vec<(String, String)>,
        body: Bytes,
    ) -> Result<Self, String> {
        if operation == Operation::Models {
            return Ok(Self { operation, query, headers, body, is_stream: false, model: None });
        }
        if !body.trim_ascii_start().starts_with(b"{") {
            return Err("the body is not a JSON object of this format".to_owned());
        }
        let members: Members<'_> = serde_json::from_slice(&body)
            .map_err(|error| format!("the body is not a JSON object of this format: {error}"))?;
        if members.n.is_some_and(|n| n > 1) {
            return Err(
                "n is more than 1, and this proxy checks one answer per request; ask for one".to_owned()
            );
        }
        let model = members.model.and_then(|model| serde_json::from_str(model.get()).ok());
        let is_stream = operation == Operation::Generate && members.stream == Some(true);
        Ok(Self { operation, query, headers, body, is_stream, model })
    }

    /// The body with this model. All other bytes stay.
    pub(crate) fn body_for(&self, model: &str) -> Bytes {
        let Ok(members) = serde_json::from_slice::<Members<'_>>(&self.body) else { return self.body.clone() };
        let word = serde_json::Value::from(model).to_string();
        let body = &self.body[..];
        let spliced = match members.model {
            Some(raw) => {
                let begin = raw.get().as_ptr() as usize - body.as_ptr() as usize;
                [&body[..begin], word.as_bytes(), &body[begin + raw.get().len()..]].concat()
            }
            None => {
                let Some(open) = body.iter().position(|byte| *byte == b'{') else { return self.body.clone() };
                let rest = &body[open + 1..];
                let comma = if rest.trim_ascii_start().starts_with(b"}") { "" } else { "," };
                let member = format!("\"model\":{word}{comma}");
                [&body[..=open], member.as_bytes(), rest].concat()
            }
        };
        spliced.into()
    }
}

#[cfg(test)]
mod tests {
    use super::{ClientRequest, operation};
    use turnstream_llm::Format;
    use turnstream_provider::Operation;

    fn request(body: &str) -> Result<ClientRequest, String> {
        ClientRequest::new(Operation::Generate, String::new(), Vec::new(), body.to_owned().into())
    }

    #[test]
    fn only_the_model_changes_in_a_body() {
        let body = r#"{ "x" : 1.0e5, "model" : "a\u0062", "stream":true, "messages":[{"model":"in"}] }"#;
        let asked = request(body).unwrap();
        assert_eq!((asked.model.as_deref(), asked.is_stream), (Some("ab"), true));
        assert_eq!(&asked.body_for("other")[..], body.replace(r#""a\u0062""#, r#""other""#).as_bytes());
        assert_eq!(&request("{}").unwrap().body_for("m")[..], br#"{"model":"m"}"#);
        let null = request(r#"{"model":null,"a":1}"#).unwrap();
        assert_eq!((null.model.as_deref(), &null.body_for("m")[..]), (None, &br#"{"model":"m","a":1}"#[..]));
        assert_eq!(&request(r#"{"a":1}"#).unwrap().body_for("m")[..], br#"{"model":"m","a":1}"#);
    }

    #[test]
    fn what_cannot_be_checked_is_refused() {
        assert!(request("[]").is_err() && request("{").is_err());
        assert!(request(r#"{"n":2}"#).unwrap_err().contains("more than 1"));
        assert!(request(r#"{"n":1}"#).is_ok());
    }

    #[test]
    fn paths_with_and_without_a_version() {
        assert_eq!(operation(Format::Chat, "v1/chat/completions"), Some(Operation::Generate));
        assert_eq!(operation(Format::Messages, "/v1/messages"), Some(Operation::Generate));
        assert_eq!(operation(Format::Responses, "models"), Some(Operation::Models));
        assert_eq!(operation(Format::Chat, "v1/messages"), None);
        assert_eq!(operation(Format::Chat, "embeddings"), None);
    }
}
