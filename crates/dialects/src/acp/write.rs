//! An ACP event as one JSON-RPC message: no tree is built, and a chunk of text costs no allocation.

use super::asks::Question;
use super::event::{AcpEvent, Chunk, ToolText};
use super::params::{Members, NoMembers, Params, SingleMember, TurnEnded};
use super::tag::{KEY, Tag};
use agent_client_protocol_schema::v1::{ContentBlock, PromptResponse, RequestId, StopReason};
use serde::Serialize;
use turnstream_model::id::PromptId;

/// The id of a request for an approval or a question. It is made from their ids, so that a client that
/// reconnects gets the same request id.
pub fn request_id(session: &str, wait: &str) -> RequestId {
    RequestId::Str(format!("{session}/{wait}"))
}

impl AcpEvent {
    /// The message as one line of JSON, without a line feed.
    pub fn to_json(&self, session: &str) -> String {
        let mut out = Vec::new();
        self.write_json(session, &mut out);
        // serde_json writes UTF-8, and so do we.
        String::from_utf8(out).unwrap_or_default()
    }

    /// Adds the message to a buffer. A terminator becomes the notification `_turnstream/turn_ended`, for
    /// clients that did not send the prompt. [`AcpEvent::write_response`] answers the one that did.
    pub fn write_json(&self, session: &str, out: &mut Vec<u8>) {
        match self {
            Self::Chunk(chunk) => write_chunk(chunk, session, out),
            Self::ToolText(text) => write_tool_text(text, session, out),
            Self::Prompt { prompt, block } => write_prompt(prompt, block, session, out),
            Self::Update { update, .. } => {
                open_update(session, out);
                json(update, out);
                out.extend_from_slice(b"}}");
            }
            Self::Item(note) => notify("_turnstream/item", session, &**note, out),
            Self::Revised(revision) => notify("_turnstream/revised", session, &**revision, out),
            Self::Permission(ask) => {
                let id = request_id(session, ask.approval.as_str());
                request("session/request_permission", &id, &ask.to_request(session), out);
            }
            Self::PermissionSettled { approval, outcome } => {
                write_settled(session, approval.as_str(), outcome.as_str(), out);
            }
            Self::Question(question) => {
                let id = request_id(session, question.question.as_str());
                let params = Params { session, rest: &**question };
                request("_turnstream/question", &id, &params, out);
            }
            Self::QuestionSettled { question, outcome } => {
                write_settled(session, question.as_str(), outcome.as_str(), out);
            }
            Self::End(end) => {
                let (turn, prompts) = (Some(&end.turn), &end.prompts);
                let ended = TurnEnded { turn, prompts, member: "result", value: &end.response };
                notify("_turnstream/turn_ended", session, &ended, out);
            }
            Self::Error(fault) => {
                let (turn, prompts) = (fault.turn.as_ref(), &fault.prompts);
                let ended = TurnEnded { turn, prompts, member: "error", value: &fault.to_error() };
                notify("_turnstream/turn_ended", session, &ended, out);
            }
            Self::Withdrawn(prompt) => {
                notify(
                    "_turnstream/prompt_withdrawn",
                    session,
                    &SingleMember("prompt", prompt.as_str()),
                    out,
                );
            }
            Self::Status(status) => notify("_turnstream/status", session, status, out),
            Self::Notice(notice) => notify("_turnstream/notice", session, &**notice, out),
            Self::SessionEnded { reason } => {
                notify("_turnstream/session_ended", session, &SingleMember("reason", reason), out);
            }
            Self::KeepAlive => notify("_turnstream/keep_alive", session, &NoMembers, out),
        }
    }

    /// Adds the answer to the `session/prompt` with this id. Returns false and adds nothing if the message
    /// does not end a prompt. A turn that took several prompts answers each of them.
    pub fn write_response(&self, id: &RequestId, out: &mut Vec<u8>) -> bool {
        match self {
            Self::End(end) => respond(id, "result", &end.response, out),
            Self::Error(fault) => respond(id, "error", &fault.to_error(), out),
            Self::Withdrawn(_) => respond(id, "result", &PromptResponse::new(StopReason::Cancelled), out),
            Self::Chunk(_)
            | Self::ToolText(_)
            | Self::Prompt { .. }
            | Self::Update { .. }
            | Self::Item(_)
            | Self::Revised(_)
            | Self::Permission(_)
            | Self::PermissionSettled { .. }
            | Self::Question(_)
            | Self::QuestionSettled { .. }
            | Self::Status(_)
            | Self::Notice(_)
            | Self::SessionEnded { .. }
            | Self::KeepAlive => return false,
        }
        true
    }
}

impl Question {
    /// Adds the question as `elicitation/create`, under the same request id. Only for clients that announced
    /// `elicitation.form`.
    pub fn write_elicitation(&self, session: &str, out: &mut Vec<u8>) {
        let id = request_id(session, self.question.as_str());
        request("elicitation/create", &id, &self.to_elicitation(session), out);
    }
}

// === frequent messages, written without a JSON tree ===

fn open_update(session: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"#);
    json(session, out);
    out.extend_from_slice(br#","update":"#);
}

fn write_chunk(chunk: &Chunk, session: &str, out: &mut Vec<u8>) {
    let Chunk { kind, item, text, tag } = chunk;
    open_update(session, out);
    out.extend_from_slice(br#"{"sessionUpdate":""#);
    out.extend_from_slice(kind.as_str().as_bytes());
    out.extend_from_slice(br#"","content":{"type":"text","text":"#);
    json(text, out);
    out.extend_from_slice(br#"},"messageId":"#);
    json(item, out);
    write_meta(tag, out);
    out.extend_from_slice(b"}}}");
}

fn write_tool_text(text: &ToolText, session: &str, out: &mut Vec<u8>) {
    let ToolText { item, tag } = text;
    open_update(session, out);
    out.extend_from_slice(br#"{"sessionUpdate":"tool_call_update","toolCallId":"#);
    json(item, out);
    write_meta(tag, out);
    out.extend_from_slice(b"}}}");
}

fn write_meta(tag: &Tag, out: &mut Vec<u8>) {
    if !tag.is_empty() {
        out.extend_from_slice(br#","_meta":{""#);
        out.extend_from_slice(KEY.as_bytes());
        out.extend_from_slice(br#"":"#);
        json(tag, out);
        out.push(b'}');
    }
}

fn write_prompt(prompt: &PromptId, block: &ContentBlock, session: &str, out: &mut Vec<u8>) {
    open_update(session, out);
    out.extend_from_slice(br#"{"sessionUpdate":"user_message_chunk","content":"#);
    json(block, out);
    out.extend_from_slice(br#","messageId":"#);
    json(prompt, out);
    out.extend_from_slice(b"}}}");
}

/// Cancels the request. The outcome is in `_meta`, for clients that show it.
fn write_settled(session: &str, wait: &str, outcome: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"#);
    json(&request_id(session, wait), out);
    out.extend_from_slice(br#","_meta":{""#);
    out.extend_from_slice(KEY.as_bytes());
    out.extend_from_slice(br#"":{"outcome":"#);
    json(outcome, out);
    out.extend_from_slice(b"}}}}");
}

// === JSON-RPC ===

fn json<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    let written = serde_json::to_writer(out, value);
    debug_assert!(written.is_ok(), "a Vec takes every byte, and the keys of all maps are strings");
}

fn notify<T: Members>(method: &str, session: &str, rest: &T, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","method":""#);
    out.extend_from_slice(method.as_bytes());
    out.extend_from_slice(br#"","params":"#);
    json(&Params { session, rest }, out);
    out.push(b'}');
}

fn request<T: Serialize>(method: &str, id: &RequestId, params: &T, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    json(id, out);
    out.extend_from_slice(br#","method":""#);
    out.extend_from_slice(method.as_bytes());
    out.extend_from_slice(br#"","params":"#);
    json(params, out);
    out.push(b'}');
}

fn respond<T: Serialize>(id: &RequestId, member: &str, value: &T, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    json(id, out);
    out.extend_from_slice(br#",""#);
    out.extend_from_slice(member.as_bytes());
    out.extend_from_slice(br#"":"#);
    json(value, out);
    out.push(b'}');
}
