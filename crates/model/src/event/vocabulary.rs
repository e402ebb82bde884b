//! The closed word lists of the native wire.

use crate::words::words;

words! {
    /// Who made a turn start.
    pub enum Origin {
        /// A prompt that was sent by Turnstream.
        Prompt = "prompt",
        /// The agent by itself, for example when background work finished.
        Agent = "agent",
        /// Another client that uses the same agent.
        Foreign = "foreign",
    }
}

words! {
    /// How a turn ended.
    pub enum Outcome {
        /// The agent finished; see the stop reason.
        Completed = "completed",
        /// A person or product asked for it.
        Cancelled = "cancelled",
        /// It failed; see the error.
        Failed = "failed",
        /// Nobody can know any more how it ended.
        Lost = "lost",
    }
}

words! {
    /// Why a completed turn stopped.
    pub enum StopReason {
        /// The model was done.
        EndTurn = "end_turn",
        /// The output limit.
        MaxTokens = "max_tokens",
        /// The limit of model calls in a turn.
        MaxTurnRequests = "max_turn_requests",
        /// The model refused.
        Refusal = "refusal",
        /// A person refused a permission and the agent stopped there.
        Rejected = "rejected",
    }
}

words! {
    /// What an item is.
    pub enum ItemKind {
        /// Text of the user or the assistant.
        Message = "message",
        /// The model's thinking.
        Reasoning = "reasoning",
        /// A tool call.
        Tool = "tool",
        /// A plan or to-do list.
        Plan = "plan",
        /// A file.
        File = "file",
        /// The history was summarised.
        Compaction = "compaction",
    }
}

words! {
    /// Whose message it is.
    pub enum Role {
        /// The person's, or written in their name.
        User = "user",
        /// The agent's.
        Assistant = "assistant",
    }
}

words! {
    /// How an item ended.
    pub enum ItemState {
        /// Whole.
        Completed = "completed",
        /// It reported a failure.
        Failed = "failed",
        /// Cut off: some of it is missing.
        Abandoned = "abandoned",
        /// It may or may not have happened.
        Unknown = "unknown",
    }
}

words! {
    /// The text of an item that grows or is replaced.
    pub enum Field {
        /// What a person reads.
        Text = "text",
        /// A tool's arguments, as the model writes them.
        Input = "input",
        /// A tool's output, as it appears.
        Output = "output",
    }
}

words! {
    /// What a tool does, in ACP's words.
    pub enum ToolKind {
        /// Reads files or data.
        Read = "read",
        /// Changes files.
        Edit = "edit",
        /// Removes files or data.
        Delete = "delete",
        /// Moves or renames files.
        Move = "move",
        /// Searches.
        Search = "search",
        /// Runs commands or code.
        Execute = "execute",
        /// Thinks or plans.
        Think = "think",
        /// Gets something from outside.
        Fetch = "fetch",
        /// Changes the session's mode.
        SwitchMode = "switch_mode",
        /// Anything else.
        Other = "other",
    }
}

words! {
    /// How far a tool call has come, in ACP's words.
    pub enum ToolStatus {
        /// Not yet running.
        Pending = "pending",
        /// Running.
        InProgress = "in_progress",
        /// Done.
        Completed = "completed",
        /// Done with an error.
        Failed = "failed",
    }
}

words! {
    /// What an offered answer to an approval does, in ACP's words.
    pub enum OptionKind {
        /// Allows this one call.
        AllowOnce = "allow_once",
        /// Allows this call and similar ones.
        AllowAlways = "allow_always",
        /// Refuses this one call.
        RejectOnce = "reject_once",
        /// Refuses this call and similar ones.
        RejectAlways = "reject_always",
    }
}

words! {
    /// How an approval was settled.
    pub enum ApprovalOutcome {
        /// This one call may run.
        AllowOnce = "allow_once",
        /// This call and similar ones may run.
        AllowAlways = "allow_always",
        /// Refused.
        Reject = "reject",
        /// The turn was cancelled, or the agent withdrew the ask.
        Cancelled = "cancelled",
        /// Nobody answered in time.
        Expired = "expired",
        /// The agent that asked is gone.
        Lost = "lost",
    }
}

words! {
    /// Who did it.
    pub enum By {
        /// A person or product.
        Client = "client",
        /// A rule of the session.
        Policy = "policy",
        /// The agent itself.
        Agent = "agent",
        /// The gateway, at the end of a turn.
        Gateway = "gateway",
    }
}

words! {
    /// How permission requests of an agent are handled.
    pub enum Permissions {
        /// A person decides.
        Ask = "ask",
        /// All are allowed.
        Allow = "allow",
        /// All are refused.
        Deny = "deny",
    }
}

words! {
    /// How a question was settled.
    pub enum QuestionOutcome {
        /// With answers.
        Answered = "answered",
        /// The person declined to answer.
        Rejected = "rejected",
        /// The turn was cancelled, or the agent withdrew the question.
        Cancelled = "cancelled",
        /// Nobody answered in time.
        Expired = "expired",
        /// The agent that asked is gone.
        Lost = "lost",
    }
}

words! {
    /// How a session goes on whose agent has forgotten it.
    pub enum ResumeAs {
        /// The agent begins anew and knows nothing of what was said before.
        Fresh = "fresh",
        /// The agent begins anew and is given the conversation so far, as text before the next prompt.
        Transcript = "transcript",
    }
}

words! {
    /// What a notice is about.
    pub enum NoticeCode {
        /// Something may have been missed.
        Gap = "gap",
        /// Damage was repaired without loss.
        Repaired = "repaired",
        /// Damage that could not be repaired.
        Corrupt = "corrupt",
        /// Durability or another promise is weakened for now.
        Degraded = "degraded",
        /// The weakened promise holds again.
        Healed = "healed",
        /// The agent asked for a permission although all are allowed.
        UnexpectedPermission = "unexpected_permission",
        /// A limit was reached.
        Budget = "budget",
        /// Something came after the end of what it belongs to.
        Late = "late",
        /// The agent sent something that this version does not know.
        UnknownEvent = "unknown_event",
        /// The agent no longer has the conversation so far.
        Forgotten = "forgotten",
    }
}

words! {
    /// The classes of errors.
    pub enum ErrorClass {
        /// Asked for by a person or product.
        Cancelled = "cancelled",
        /// No connection could be made.
        Unreachable = "unreachable",
        /// A connection broke.
        TransportLost = "transport_lost",
        /// No data came for too long.
        Stalled = "stalled",
        /// Bytes were damaged.
        StreamCorrupt = "stream_corrupt",
        /// Two answers were joined into one.
        StreamSpliced = "stream_spliced",
        /// The end of an answer is missing.
        Incomplete = "incomplete",
        /// An answer without content.
        EmptyOutput = "empty_output",
        /// The response is not a stream.
        NotAStream = "not_a_stream",
        /// Too many requests.
        RateLimited = "rate_limited",
        /// The quota is used up.
        QuotaExhausted = "quota_exhausted",
        /// The provider is overloaded.
        Overloaded = "overloaded",
        /// The provider failed.
        ProviderError = "provider_error",
        /// The input is too long for the model.
        ContextOverflow = "context_overflow",
        /// The output limit cut the answer.
        OutputLimit = "output_limit",
        /// Refused by policy.
        Refused = "refused",
        /// Credentials are missing or wrong.
        Auth = "auth",
        /// The model cannot be used.
        ModelUnavailable = "model_unavailable",
        /// The request was malformed.
        InvalidRequest = "invalid_request",
        /// A limit of Turnstream was reached.
        Budget = "budget",
        /// The agent took the prompt and never began.
        NotStarted = "not_started",
        /// The agent's process ended.
        AgentExited = "agent_exited",
        /// The agent reported an error of its own.
        AgentError = "agent_error",
        /// A deadline passed.
        Timeout = "timeout",
        /// A bug in Turnstream.
        Internal = "internal",
    }
}

/// Most deltas are of `text`, so the wire leaves that word out.
impl Default for Field {
    fn default() -> Self {
        Self::Text
    }
}
