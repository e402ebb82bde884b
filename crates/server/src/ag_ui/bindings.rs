//! What TanStack AI needs to answer an interrupt: a binding that names the run which was interrupted, and the
//! hash of the schema of its answer. Other clients ignore it.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// The member of an interrupt's metadata. `@tanstack/ai` 0.33 reads it.
const MEMBER: &str = "tanstack:interruptBinding";

/// Binds interrupts to the run, by the id that the client has for it.
pub(super) fn bind(interrupts: &mut [Value], run: &str) {
    for interrupt in interrupts {
        interrupt["metadata"][MEMBER] = json!({
            "v": 1,
            "kind": "generic",
            "interruptId": interrupt["id"],
            "interruptedRunId": run,
            "generation": 0,
            "responseSchemaHash": hash(&interrupt["responseSchema"]),
        });
    }
}

/// The hash of a schema, whose members are sorted by name.
fn hash(schema: &Value) -> String {
    let digest = Sha256::digest(canonical(schema));
    digest.iter().fold("sha256:".to_owned(), |mut hash, byte| {
        let written = write!(hash, "{byte:02x}");
        debug_assert!(written.is_ok(), "writing to a String does not fail");
        hash
    })
}

fn canonical(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by(|(one, _), (other, _)| one.encode_utf16().cmp(other.encode_utf16()));
            let member = |(name, value): (&String, &Value)| format!("{}:{}", json!(name), canonical(value));
            format!("{{{}}}", members.into_iter().map(member).collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(","))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}
