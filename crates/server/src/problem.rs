//! Errors as clients get them: `application/problem+json` (RFC 9457) with a stable `type`.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

/// Defines the kinds of problems: name on the wire, status, title.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal, $status:ident, $title:literal;)+) => {
        /// What kind of problem it is. The names are part of the wire: they stay.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind { $($(#[$doc])* $kind),+ }

        impl Kind {
            /// Every kind, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$kind),+];

            /// The last part of its `type`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name),+ }
            }

            /// Its status.
            pub const fn status(self) -> u16 {
                self.code().as_u16()
            }

            const fn code(self) -> StatusCode {
                match self { $(Self::$kind => StatusCode::$status),+ }
            }

            /// The same words each time.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$kind => $title),+ }
            }
        }
    };
}

kinds! {
    /// The body is no JSON.
    BadJson = "bad-json", BAD_REQUEST, "The body is not JSON";
    /// The body has a member that the request does not know.
    UnknownField = "unknown-field", BAD_REQUEST, "The body has a member that this request does not know";
    /// A member is missing or is something else than it must be.
    BadBody = "bad-body", BAD_REQUEST, "The body does not fit the request";
    /// The prompt has no content, or content that is none.
    BadContent = "bad-content", BAD_REQUEST, "The content of the prompt cannot be used";
    /// The answer does not fit what was asked.
    BadAnswer = "bad-answer", BAD_REQUEST, "The answer does not fit what was asked";
    /// A query parameter is not known or not usable.
    BadQuery = "bad-query", BAD_REQUEST, "The query cannot be used";
    /// A part of the path cannot be read.
    BadPath = "bad-path", BAD_REQUEST, "The path cannot be read";
    /// The cursor is none.
    BadCursor = "bad-cursor", BAD_REQUEST, "The cursor cannot be read";
    /// The route is for WebSockets.
    NoWebSocket = "no-websocket", BAD_REQUEST, "This route speaks WebSocket";
    /// There is no such agent.
    UnknownAgent = "unknown-agent", BAD_REQUEST, "There is no such agent";
    /// The agent has no such model.
    UnknownModel = "unknown-model", BAD_REQUEST, "The agent has no such model";
    /// The working directory is none.
    NoDirectory = "no-directory", BAD_REQUEST, "The working directory cannot be used";
    /// The file cannot be imported.
    BadImport = "bad-import", BAD_REQUEST, "The file cannot be imported";
    /// The token is missing or wrong.
    Unauthorized = "unauthorized", UNAUTHORIZED, "A token is needed";
    /// The request names a host that is not this one.
    ForeignHost = "foreign-host", FORBIDDEN, "The request is for another host";
    /// The request comes from a page of another site.
    ForeignOrigin = "foreign-origin", FORBIDDEN, "The request comes from a page of another site";
    /// The working directory is where no session may work.
    OutsideRoots = "outside-roots", FORBIDDEN, "Sessions may not work in this directory";
    /// Nothing is served there.
    UnknownRoute = "unknown-route", NOT_FOUND, "There is nothing at this path";
    /// There is no such session.
    UnknownSession = "unknown-session", NOT_FOUND, "There is no such session";
    /// There is no such approval.
    UnknownApproval = "unknown-approval", NOT_FOUND, "There is no such approval";
    /// There is no such question.
    UnknownQuestion = "unknown-question", NOT_FOUND, "There is no such question";
    /// The path is served, the method is not.
    WrongMethod = "wrong-method", METHOD_NOT_ALLOWED, "This path does not take this method";
    /// The body did not come in time.
    SlowBody = "slow-body", REQUEST_TIMEOUT, "The body did not come in time";
    /// The key was used for something else.
    KeyReused = "key-reused", CONFLICT, "The key was used for another request";
    /// The agent cannot be used at the moment.
    AgentUnusable = "agent-unusable", CONFLICT, "The agent cannot be used";
    /// There is a session of that id.
    SessionExists = "session-exists", CONFLICT, "There is a session of that id";
    /// Nothing of the session can be exported yet.
    NothingSettled = "nothing-settled", CONFLICT, "Nothing of the session can be exported yet";
    /// The session has ended.
    SessionEnded = "session-ended", CONFLICT, "The session has ended";
    /// The prompt is no longer in the queue.
    PromptNotWaiting = "prompt-not-waiting", CONFLICT, "The prompt is not waiting";
    /// The prompt is not at the agent, or has its turn.
    PromptNotSent = "prompt-not-sent", CONFLICT, "The prompt is not at the agent";
    /// That turn is not open.
    TurnNotOpen = "turn-not-open", CONFLICT, "The turn is not open";
    /// Somebody else answered first.
    ApprovalSettled = "approval-settled", CONFLICT, "The approval was settled before";
    /// Somebody else answered first.
    QuestionSettled = "question-settled", CONFLICT, "The question was settled before";
    /// The body is too large.
    TooLarge = "too-large", PAYLOAD_TOO_LARGE, "The body is too large";
    /// The body is not said to be JSON.
    NotJson = "not-json", UNSUPPORTED_MEDIA_TYPE, "The body must be JSON";
    /// Too many others ask for the same kind of work.
    Busy = "busy", SERVICE_UNAVAILABLE, "Too many others search at the moment";
    /// The session is settling what a crash left.
    Recovering = "recovering", SERVICE_UNAVAILABLE, "The session is recovering";
    /// The disk takes nothing at the moment.
    Degraded = "degraded", SERVICE_UNAVAILABLE, "Nothing can be kept at the moment";
    /// The gateway is shutting down.
    Closing = "closing", SERVICE_UNAVAILABLE, "The gateway is shutting down";
    /// The data directory does not take the file.
    NoRoom = "no-room", INSUFFICIENT_STORAGE, "The data directory does not take the file";
    /// The log failed.
    LogFailed = "log-failed", INTERNAL_SERVER_ERROR, "The log failed";
    /// The gateway did something it never should.
    Internal = "internal", INTERNAL_SERVER_ERROR, "The gateway made a mistake";
}

/// One problem with one request.
#[derive(Debug)]
pub(crate) struct Problem {
    kind: Kind,
    detail: String,
    members: Map<String, Value>,
    /// Seconds after which it makes sense to ask again.
    retry_after: Option<u64>,
}

impl Problem {
    /// The detail says what was wrong, which value, and what to do.
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), members: Map::new(), retry_after: None }
    }

    /// With what an HTTP client can do about it. Other clients find what was wrong, without this, in
    /// `reason`.
    pub(crate) fn advice(mut self, advice: &str) -> Self {
        let reason = std::mem::take(&mut self.detail);
        self.detail = format!("{reason}; {advice}");
        self.with("reason", reason)
    }

    #[cfg(test)]
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// With another member, for programs.
    pub(crate) fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.members.insert(member.to_owned(), value.into());
        self
    }

    /// With the time after which it makes sense to ask again.
    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }
}

impl Problem {
    /// The object that a client reads.
    pub(crate) fn body(&self) -> Value {
        let Self { kind, detail, members, retry_after: _ } = self;
        let mut body = json!({
            "type": format!("urn:turnstream:problem:{}", kind.name()),
            "title": kind.title(),
            "status": kind.status(),
            "detail": detail,
        });
        if let Value::Object(object) = &mut body {
            object.extend(members.clone());
        }
        body
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = self.body();
        let Self { kind, retry_after, .. } = self;
        let mut response = (kind.code(), body.to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if kind == Kind::Unauthorized {
            let challenge = "Bearer realm=\"turnstream\", Basic realm=\"turnstream\"";
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        response
    }
}
