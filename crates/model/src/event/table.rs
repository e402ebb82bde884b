//! Every event type of the native wire, described once.
//!
//! These are made from this table, by the macro in `describe.rs`:
//!
//! - [`Body`] and [`Aside`], and their JSON in both directions;
//! - [`Known`], the names of the types, and [`Shown`], those of the first part;
//! - the weight of an event, and the redaction of its body;
//! - the table of events in `docs/wire.md`.
//!
//! The machine, the fold and the checker are written by hand. The checker has a table of its own, so that it
//! can judge this one.
//!
//! One entry reads:
//!
//! ```text
//! /// What the event says.
//! "type.name" Variant { member: Type = PRESENCE KIND REDACTION, … } EFFECT SUBJECT needs ENVELOPE-ID …;
//! ```
//!
//! The members of an entry may also be those of one value, `Variant(name: Type = KIND REDACTION)`. An event
//! without members of its own has neither: `Variant EFFECT SUBJECT`.
//!
//! | column | words |
//! |---|---|
//! | presence | `must`; `may` (an `Option`); `or_default` (left out when it is the default); `list` (always written, may be absent when read); `flat` (a value whose members stand in the event itself) |
//! | kind | `id` (also names and keys that programs compare), `word` (of a closed list), `number`, `flag`, `text`, `json` |
//! | redaction | `plain` (holds no prose), `before` (redacted before the machine saw it), `here` (redacted when the event is logged) |
//! | effect | what the event does to its subject, see [`Effect`] |
//! | subject | what the event is about, see [`Subject`] |
//! | needs | ids of the envelope without which the event cannot be read |
//!
//! Members are written in the order of this table.
//!
//! The table has two parts. Readers in other crates decide about each type of the first part, `shown`: the
//! dialects, spans, metrics and the views of the command line. The compiler names them for a new type. The
//! types of the second part, `asides`, are one variant of [`Body`] to those readers, which skip it. A reader
//! that wants one of them asks for it by name.
//!
//! A new event type belongs to the second part, unless dialects have to show it. It needs:
//!
//! - an entry here;
//! - its place in the machine, and an arm in `fold/apply.rs`;
//! - its rules in the checker, in the file of its family (`check/`);
//! - an example in `docs/wire.md`. The test of that page updates its table with `TURNSTREAM_UPDATE=1`, and so
//!   does the test of the client's types (`clients/typescript/src/wire.ts`).
//!
//! A member of a new type also needs that type in `values.rs` or `vocabulary.rs`, its weight in `weight.rs`,
//! and its redaction in `redact.rs`.
//!
//! Readers that treat many types alike go by [`Subject`] and [`Effect`], so they need no change. A type of
//! the first part also needs its arm in:
//!
//! - the ACP dialect (`acp/encoder.rs` and `acp/items.rs` in the dialects; see also `docs/acp.md`);
//! - the opencode dialect (`opencode/encoder.rs`);
//! - spans and metrics (`keeper/spans.rs` and `event_counts.rs` in the gateway);
//! - the views of the command line (`show/mod.rs`);
//! - the fold of the page (`clients/typescript/src/fold.ts`).
//!
//! The views of the command line read JSON and ignore types that they do not know.
//!
//! [`Subject`]: super::Subject
//! [`Effect`]: super::Effect

use super::describe::events;
use super::{
    ApprovalOption, Budget, By, Cap, Caps, Continuation, Cost, Field, ItemKind, ItemState, NoticeCode,
    Origin, Outcome, Question, QuestionOutcome, Released, Resolution, ResumeAs, Role, Scope, SessionPatch,
    Status, StopReason, Tool, TurnError, Unattended, Usage, Used,
};
use crate::id::{ApprovalId, AttemptId, ItemId, PromptId, QuestionId, SessionId, TurnId};
use crate::time::Time;
use serde_json::{Map, Value};

events! { shown {
    /// A session begins.
    "session.created" SessionCreated {
        session: SessionId = must id plain,
        agent: String = must id plain,
        cwd: String = must id plain,
        title: Option<String> = may text before,
        key: Option<String> = may id plain,
    } Begins Session;

    /// Members of the session changed. Those that are present replace.
    "session.updated" SessionUpdated(patch: Box<SessionPatch> = json before) Changes Session;

    /// What the agent is doing changed.
    "session.status" SessionStatus(status: Status = json here) Changes Session;

    /// The agent had forgotten the session, and a client chose how it goes on. The agent's id of it is void.
    "session.resumed" SessionResumed {
        r#as: ResumeAs = must word plain,
        forgot: Option<String> = may id plain,
    } Changes Session;

    /// A prompt is in the queue.
    "prompt.accepted" PromptAccepted {
        prompt: PromptId = must id plain,
        key: Option<String> = may id plain,
        content: Vec<Value> = must json before,
    } Begins Prompt;

    /// A prompt is about to leave for the agent.
    "prompt.sent" PromptSent {
        prompt: PromptId = must id plain,
        native_id: Option<String> = may id plain,
        bare: bool = or_default flag plain,
    } Changes Prompt;

    /// A turn took a prompt.
    "prompt.taken" PromptTaken { prompt: PromptId = must id plain } Ends Prompt needs turn;

    /// A prompt left the queue without being sent.
    "prompt.withdrawn" PromptWithdrawn { prompt: PromptId = must id plain } Ends Prompt;

    /// A turn begins.
    "turn.started" TurnStarted {
        origin: Origin = must word plain,
        prompts: Vec<PromptId> = list id plain,
        native_id: Option<String> = may id plain,
    } Begins Turn needs turn;

    /// A model call begins.
    "attempt.started" AttemptStarted {
        step: u32 = must number plain,
        model: Option<String> = may text here,
        native_id: Option<String> = may id plain,
    } Begins Attempt needs turn attempt;

    /// An item begins.
    "item.started" ItemStarted {
        kind: ItemKind = must word plain,
        role: Option<Role> = may word plain,
        synthetic: bool = or_default flag plain,
        text: Option<String> = may text before,
        tool: Option<Box<Tool>> = may json before,
        native_id: Option<String> = may id plain,
    } Begins Item needs item;

    /// A text of an item grew.
    "item.delta" ItemDelta {
        field: Field = or_default word plain,
        text: String = must text before,
    } Changes Item needs item;

    /// A text of an item was replaced.
    "item.replaced" ItemReplaced {
        field: Field = or_default word plain,
        text: String = must text before,
    } Changes Item needs item;

    /// Members of a tool call changed. The envelope's `parent` may set the parent of the item later.
    "item.updated" ItemUpdated { tool: Option<Box<Tool>> = may json before } Changes Item needs item;

    /// An item ended.
    "item.ended" ItemEnded {
        state: ItemState = must word plain,
        reason: Option<String> = may text here,
        incomplete: bool = or_default flag plain,
        caused_by: Option<String> = may text here,
    } Ends Item needs item;

    /// An ended item was corrected; `late` when its turn had ended too.
    "item.revised" ItemRevised {
        late: bool = or_default flag plain,
        state: Option<ItemState> = may word plain,
        text: Option<String> = may text before,
        tool: Option<Box<Tool>> = may json before,
    } Changes Item needs item;

    /// The agent took an item back.
    "item.removed" ItemRemoved Ends Item needs item;

    /// A model call ended.
    "attempt.ended" AttemptEnded {
        finish: Option<String> = may text here,
        usage: Option<Box<Usage>> = may json here,
        cost: Option<Cost> = may json here,
    } Ends Attempt needs turn attempt;

    /// A model call was repeated by another one. The items it names are void.
    "attempt.superseded" AttemptSuperseded {
        by: AttemptId = must id plain,
        items: Vec<ItemId> = must id plain,
    } Ends Attempt needs turn attempt;

    /// The agent waits for a permission.
    "approval.requested" ApprovalRequested {
        approval: ApprovalId = must id plain,
        tool: Option<Box<Tool>> = may json before,
        options: Vec<ApprovalOption> = list json here,
        native_id: Option<String> = may id plain,
    } Begins Approval;

    /// A permission was settled.
    "approval.resolved" ApprovalResolved {
        approval: ApprovalId = must id plain,
        resolution: Box<Resolution> = flat json before,
    } Ends Approval;

    /// The agent waits for an answer.
    "question.asked" QuestionAsked {
        question: QuestionId = must id plain,
        questions: Vec<Question> = must json before,
        native_id: Option<String> = may id plain,
    } Begins Question;

    /// A question was settled.
    "question.answered" QuestionAnswered {
        question: QuestionId = must id plain,
        outcome: QuestionOutcome = must word plain,
        answers: Option<Map<String, Value>> = may json before,
        key: Option<String> = may id plain,
    } Ends Question;

    /// A turn ended; `summed` when `usage` and `cost` are at least the sums of the turn's attempts.
    "turn.ended" TurnEnded {
        outcome: Outcome = must word plain,
        stop_reason: Option<StopReason> = may word plain,
        usage: Option<Box<Usage>> = may json here,
        cost: Option<Cost> = may json here,
        summed: bool = or_default flag plain,
        error: Option<Box<TurnError>> = may json here,
    } Ends Turn needs turn;

    /// Something a person should know.
    "notice" Notice {
        code: NoticeCode = must word plain,
        message: String = must text here,
        detail: Option<Value> = may json here,
    } Changes Notice;

    /// The session ended.
    "session.ended" SessionEnded { reason: String = must text here } Ends Session;
} asides {
    /// Somebody wants a sent prompt to stop. Its turn is still to come, and ends `cancelled`.
    "prompt.cancelling" PromptCancelling {
        prompt: PromptId = must id plain,
        by: By = must word plain,
    } Cancels Prompt;

    /// Somebody wants the turn to end. Its end is still to come.
    "turn.cancelling" TurnCancelling { by: By = must word plain } Cancels Turn needs turn;

    /// The caps of the session, or of the turn of one prompt. They replace the earlier ones as a whole.
    "budget.set" BudgetSet {
        prompt: Option<PromptId> = may id plain,
        budget: Box<Budget> = must json here,
        by: By = must word plain,
    } Changes Session;

    /// A cap is reached. After that of a session no prompt is sent until the session's caps are set again.
    "budget.reached" BudgetReached {
        scope: Scope = must word plain,
        cap: Cap = must word plain,
        used: Used = must json here,
        caps: Caps = must json here,
    } Changes Session;

    /// What the turn that has just ended used, and all turns together, with the caps of the session.
    "budget.used" BudgetUsed {
        last: Used = must json here,
        used: Used = must json here,
        caps: Caps = must json here,
    } Changes Session;

    /// Another session goes on from this one's finished items.
    "session.handed_over" SessionHandedOver {
        to: SessionId = must id plain,
        agent: String = must id plain,
    } Changes Session;

    /// The session goes on from the finished items of another one: the text that its first prompt carries.
    "session.inherited" SessionInherited {
        from: SessionId = must id plain,
        agent: String = must id plain,
        cwd: String = must id plain,
        text: String = must text before,
        entries: u32 = must number plain,
        left_out: u32 = or_default number plain,
    } Changes Session;

    /// How the session goes on after a limit or a failure. It replaces what was set earlier as a whole.
    "unattended.set" UnattendedSet {
        unattended: Box<Unattended> = must json here,
        by: By = must word plain,
    } Changes Session;

    /// A turn has failed, and the session waits to continue it. No prompt is sent until it waits no more.
    "unattended.parked" UnattendedParked {
        until: Time = must number plain,
        continuation: Box<Continuation> = flat json plain,
    } Changes Session;

    /// The session waits no more. After `due` and `woken` a prompt continues the turn.
    "unattended.released" UnattendedReleased {
        of: TurnId = must id plain,
        outcome: Released = must word plain,
        by: By = must word plain,
    } Changes Session;

    /// The prompt continues a turn. The gateway made it, and it is the next one to be sent.
    "prompt.continues" PromptContinues {
        prompt: PromptId = must id plain,
        continuation: Box<Continuation> = flat json plain,
    } Changes Prompt;

    /// The turn continues another one: it took the prompt that was made for that.
    "turn.continues" TurnContinues {
        continuation: Box<Continuation> = flat json plain,
    } Changes Turn needs turn;
} }
