//! Errors on the wire: `application/problem+json` (RFC 9457) with a stable `type`.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

/// Defines the kinds of problems: name on the wire, status, title.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal, $status:ident, $title:literal;)+) => {
        /// The kind of a problem. The names are part of the wire and stay.
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

            /// Its title, the same for every problem of this kind.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$kind => $title),+ }
            }
        }
    };
}

kinds! {
    /// The body is not JSON.
    BadJson = "bad-json", BAD_REQUEST, "The body is not JSON";
    /// The body has a member that the request does not have.
    UnknownField = "unknown-field", BAD_REQUEST, "The body has an unknown member";
    /// A member is missing or has the wrong type.
    BadBody = "bad-body", BAD_REQUEST, "The body is invalid";
    /// The prompt has no content, or content that cannot be used.
    BadContent = "bad-content", BAD_REQUEST, "The content of the prompt is invalid";
    /// The answer does not fit the approval or question.
    BadAnswer = "bad-answer", BAD_REQUEST, "The answer does not fit the approval or question";
    /// A query parameter is unknown or invalid.
    BadQuery = "bad-query", BAD_REQUEST, "The query is invalid";
    /// A part of the path cannot be decoded.
    BadPath = "bad-path", BAD_REQUEST, "The path is invalid";
    /// The cursor is invalid.
    BadCursor = "bad-cursor", BAD_REQUEST, "The cursor is invalid";
    /// The route needs a WebSocket upgrade.
    NoWebSocket = "no-websocket", BAD_REQUEST, "This route needs a WebSocket";
    /// There is no such agent.
    UnknownAgent = "unknown-agent", BAD_REQUEST, "There is no such agent";
    /// The agent has no such model.
    UnknownModel = "unknown-model", BAD_REQUEST, "The agent has no such model";
    /// The agent does not take the session's MCP servers.
    McpRefused = "mcp-refused", BAD_REQUEST, "The agent cannot use the MCP servers";
    /// The working directory cannot be used.
    NoDirectory = "no-directory", BAD_REQUEST, "The working directory cannot be used";
    /// A title, a name, a key or another short text is too long.
    TooLong = "too-long", BAD_REQUEST, "A text is too long";
    /// The file cannot be imported.
    BadImport = "bad-import", BAD_REQUEST, "The file cannot be imported";
    /// The token is missing or wrong.
    Unauthorized = "unauthorized", UNAUTHORIZED, "A token is required";
    /// The token is right, and does not allow this.
    Forbidden = "forbidden", FORBIDDEN, "This token does not allow it";
    /// The request names another host.
    ForeignHost = "foreign-host", FORBIDDEN, "The request is for another host";
    /// The request comes from a page of another origin.
    ForeignOrigin = "foreign-origin", FORBIDDEN, "The request comes from a page of another origin";
    /// The working directory is outside the roots.
    OutsideRoots = "outside-roots", FORBIDDEN, "Sessions may not work in this directory";
    /// There is no such route.
    UnknownRoute = "unknown-route", NOT_FOUND, "There is nothing at this path";
    /// There is no such session.
    UnknownSession = "unknown-session", NOT_FOUND, "There is no such session";
    /// There is no such approval.
    UnknownApproval = "unknown-approval", NOT_FOUND, "There is no such approval";
    /// There is no such question.
    UnknownQuestion = "unknown-question", NOT_FOUND, "There is no such question";
    /// The route does not support the method.
    WrongMethod = "wrong-method", METHOD_NOT_ALLOWED, "This path does not support this method";
    /// The body did not arrive in time.
    SlowBody = "slow-body", REQUEST_TIMEOUT, "The body did not arrive in time";
    /// The key was used for another request.
    KeyReused = "key-reused", CONFLICT, "The key was used for another request";
    /// The agent cannot be used at the moment.
    AgentUnusable = "agent-unusable", CONFLICT, "The agent cannot be used";
    /// The agent has forgotten the session, and a client has to choose how it goes on.
    AgentForgot = "agent-forgot", CONFLICT, "The agent has forgotten the session";
    /// The session has used up its budget, and a client has to raise it.
    Budget = "budget", CONFLICT, "The session has used up its budget";
    /// There is nothing to continue: the session does not wait for that.
    NotParked = "not-parked", CONFLICT, "The session does not wait to continue a turn";
    /// There is nothing to resume: the agent has the session.
    NotForgotten = "not-forgotten", CONFLICT, "The agent has not forgotten the session";
    /// A session has this id.
    SessionExists = "session-exists", CONFLICT, "A session has this id";
    /// Nothing of the session can be exported yet.
    NothingSettled = "nothing-settled", CONFLICT, "Nothing of the session can be exported yet";
    /// The session has ended.
    SessionEnded = "session-ended", CONFLICT, "The session has ended";
    /// The prompt is no longer in the queue.
    PromptNotWaiting = "prompt-not-waiting", CONFLICT, "The prompt is not waiting";
    /// The prompt was not sent yet, or already has a turn.
    PromptNotSent = "prompt-not-sent", CONFLICT, "The prompt is not at the agent";
    /// That turn is not open.
    TurnNotOpen = "turn-not-open", CONFLICT, "The turn is not open";
    /// Another answer came first.
    ApprovalSettled = "approval-settled", CONFLICT, "The approval was already answered";
    /// Another answer came first.
    QuestionSettled = "question-settled", CONFLICT, "The question was already answered";
    /// The body is too large.
    TooLarge = "too-large", PAYLOAD_TOO_LARGE, "The body is too large";
    /// The content type of the body is missing or another one.
    NotJson = "not-json", UNSUPPORTED_MEDIA_TYPE, "The body has the wrong content type";
    /// Too many prompts wait in the session, or too large ones.
    QueueFull = "queue-full", TOO_MANY_REQUESTS, "The queue of the session is full";
    /// The client sends requests too fast.
    TooManyRequests = "too-many-requests", TOO_MANY_REQUESTS, "Too many requests";
    /// The gateway has as many sessions as it may have.
    TooManySessions = "too-many-sessions", SERVICE_UNAVAILABLE, "There are too many sessions";
    /// As many agents work as may work at the same time.
    TooManyAgents = "too-many-agents", SERVICE_UNAVAILABLE, "Too many agents are working";
    /// There is no place for another connection.
    TooManyConnections = "too-many-connections", SERVICE_UNAVAILABLE, "Too many connections are open";
    /// There is no place for another stream.
    TooManyFollowers = "too-many-followers", SERVICE_UNAVAILABLE, "Too many event streams are open";
    /// There is no memory for the body.
    BodyMemory = "body-memory", SERVICE_UNAVAILABLE, "Too many bodies arrive at once";
    /// Another import runs.
    ImportBusy = "import-busy", SERVICE_UNAVAILABLE, "Another import is running";
    /// Too many searches run.
    Busy = "busy", SERVICE_UNAVAILABLE, "Too many searches are running";
    /// The session is being recovered after a restart.
    Recovering = "recovering", SERVICE_UNAVAILABLE, "The session is being recovered";
    /// The disk refuses writes.
    Degraded = "degraded", SERVICE_UNAVAILABLE, "The log cannot be written at the moment";
    /// The gateway is shutting down.
    Closing = "closing", SERVICE_UNAVAILABLE, "The gateway is shutting down";
    /// The file cannot be written to the data directory.
    NoRoom = "no-room", INSUFFICIENT_STORAGE, "The file cannot be stored in the data directory";
    /// The log failed.
    LogFailed = "log-failed", INTERNAL_SERVER_ERROR, "The log failed";
    /// A bug in the gateway.
    Internal = "internal", INTERNAL_SERVER_ERROR, "Internal error";
}

/// The error of one request.
#[derive(Debug)]
pub(crate) struct Problem {
    kind: Kind,
    detail: String,
    members: Map<String, Value>,
    /// Seconds after which a retry makes sense.
    retry_after: Option<u64>,
}

impl Problem {
    /// The detail names the value that is wrong, and what to do.
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), members: Map::new(), retry_after: None }
    }

    /// Adds advice for HTTP clients to the detail. The detail without it is in `reason`, for other clients.
    pub(crate) fn advice(mut self, advice: &str) -> Self {
        let reason = std::mem::take(&mut self.detail);
        self.detail = format!("{reason}; {advice}");
        self.with("reason", reason)
    }

    #[cfg(test)]
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// Adds a member for programs.
    pub(crate) fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.members.insert(member.to_owned(), value.into());
        self
    }

    /// Sets the header `Retry-After`.
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
