// Every event of the native wire. Written by a test of crates/model from its table of events; do not edit:
// TURNSTREAM_UPDATE=1 cargo nextest run -p turnstream-model --test typescript

import type {
  ApprovalOption, Budget, Caps, ContentBlock, Context, Cost, Question, Tool, TurnError, Usage, Used,
} from "./values.js";

export type Activity =
  | "idle"
  | "busy"
  | "waiting"
  | "recovering"
  | "retrying";

export type ApprovalOutcome =
  | "allow_once"
  | "allow_always"
  | "reject"
  | "cancelled"
  | "expired"
  | "lost";

export type By =
  | "client"
  | "policy"
  | "agent"
  | "gateway";

export type Cap =
  | "steps"
  | "time"
  | "tokens"
  | "cost";

export type ErrorClass =
  | "cancelled"
  | "unreachable"
  | "transport_lost"
  | "stalled"
  | "stream_corrupt"
  | "stream_spliced"
  | "incomplete"
  | "empty_output"
  | "not_a_stream"
  | "rate_limited"
  | "quota_exhausted"
  | "overloaded"
  | "provider_error"
  | "context_overflow"
  | "output_limit"
  | "refused"
  | "auth"
  | "model_unavailable"
  | "invalid_request"
  | "budget"
  | "not_started"
  | "agent_exited"
  | "agent_error"
  | "timeout"
  | "internal";

export type Field =
  | "text"
  | "input"
  | "output";

export type ItemKind =
  | "message"
  | "reasoning"
  | "tool"
  | "plan"
  | "file"
  | "compaction";

export type ItemState =
  | "completed"
  | "failed"
  | "abandoned"
  | "unknown";

export type NoticeCode =
  | "gap"
  | "repaired"
  | "corrupt"
  | "degraded"
  | "healed"
  | "unexpected_permission"
  | "budget"
  | "late"
  | "unknown_event"
  | "forgotten";

export type Origin =
  | "prompt"
  | "agent"
  | "foreign";

export type Outcome =
  | "completed"
  | "cancelled"
  | "failed"
  | "lost";

export type Permissions =
  | "ask"
  | "allow"
  | "deny";

export type QuestionOutcome =
  | "answered"
  | "rejected"
  | "cancelled"
  | "expired"
  | "lost";

export type ResumeAs =
  | "fresh"
  | "transcript";

export type Role =
  | "user"
  | "assistant";

export type Scope =
  | "turn"
  | "session";

export type StopReason =
  | "end_turn"
  | "max_tokens"
  | "max_turn_requests"
  | "refusal"
  | "rejected";

/** Members that every event may have. */
export interface Envelope {
  seq: number;
  time: number;
  turn?: string;
  attempt?: string;
  item?: string;
  parent?: string;
  native?: string;
  actor?: string;
}

/** A session begins. */
export interface SessionCreated extends Envelope {
  type: "session.created";
  session: string;
  agent: string;
  cwd: string;
  title?: string;
  key?: string;
}

/** Members of the session changed. Those that are present replace. */
export interface SessionUpdated extends Envelope {
  type: "session.updated";
  title?: string;
  model?: string;
  mode?: string;
  native_id?: string;
  context?: Context;
  permissions?: Permissions;
  redact_prompts?: boolean;
  mcp?: string[];
}

/** What the agent is doing changed. */
export interface SessionStatus extends Omit<Envelope, "attempt"> {
  type: "session.status";
  status: Activity;
  attempt?: number;
  reason?: ErrorClass;
  until?: number;
  message?: string;
}

/** The agent had forgotten the session, and a client chose how it goes on. The agent's id of it is void. */
export interface SessionResumed extends Envelope {
  type: "session.resumed";
  as: ResumeAs;
  forgot?: string;
}

/** A prompt is in the queue. */
export interface PromptAccepted extends Envelope {
  type: "prompt.accepted";
  prompt: string;
  key?: string;
  content: ContentBlock[];
}

/** A prompt is about to leave for the agent. */
export interface PromptSent extends Envelope {
  type: "prompt.sent";
  prompt: string;
  native_id?: string;
  bare?: boolean;
}

/** A turn took a prompt. */
export interface PromptTaken extends Envelope {
  type: "prompt.taken";
  turn: string;
  prompt: string;
}

/** A prompt left the queue without being sent. */
export interface PromptWithdrawn extends Envelope {
  type: "prompt.withdrawn";
  prompt: string;
}

/** A turn begins. */
export interface TurnStarted extends Envelope {
  type: "turn.started";
  turn: string;
  origin: Origin;
  prompts?: string[];
  native_id?: string;
}

/** A model call begins. */
export interface AttemptStarted extends Envelope {
  type: "attempt.started";
  turn: string;
  attempt: string;
  step: number;
  model?: string;
  native_id?: string;
}

/** An item begins. */
export interface ItemStarted extends Envelope {
  type: "item.started";
  item: string;
  kind: ItemKind;
  role?: Role;
  synthetic?: boolean;
  text?: string;
  tool?: Tool;
  native_id?: string;
}

/** A text of an item grew. */
export interface ItemDelta extends Envelope {
  type: "item.delta";
  item: string;
  field?: Field;
  text: string;
}

/** A text of an item was replaced. */
export interface ItemReplaced extends Envelope {
  type: "item.replaced";
  item: string;
  field?: Field;
  text: string;
}

/** Members of a tool call changed. The envelope's `parent` may set the parent of the item later. */
export interface ItemUpdated extends Envelope {
  type: "item.updated";
  item: string;
  tool?: Tool;
}

/** An item ended. */
export interface ItemEnded extends Envelope {
  type: "item.ended";
  item: string;
  state: ItemState;
  reason?: string;
  incomplete?: boolean;
  caused_by?: string;
}

/** An ended item was corrected; `late` when its turn had ended too. */
export interface ItemRevised extends Envelope {
  type: "item.revised";
  item: string;
  late?: boolean;
  state?: ItemState;
  text?: string;
  tool?: Tool;
}

/** The agent took an item back. */
export interface ItemRemoved extends Envelope {
  type: "item.removed";
  item: string;
}

/** A model call ended. */
export interface AttemptEnded extends Envelope {
  type: "attempt.ended";
  turn: string;
  attempt: string;
  finish?: string;
  usage?: Usage;
  cost?: Cost;
}

/** A model call was repeated by another one. The items it names are void. */
export interface AttemptSuperseded extends Envelope {
  type: "attempt.superseded";
  turn: string;
  attempt: string;
  by: string;
  items: string[];
}

/** The agent waits for a permission. */
export interface ApprovalRequested extends Envelope {
  type: "approval.requested";
  approval: string;
  tool?: Tool;
  options?: ApprovalOption[];
  native_id?: string;
}

/** A permission was settled. */
export interface ApprovalResolved extends Envelope {
  type: "approval.resolved";
  approval: string;
  outcome: ApprovalOutcome;
  by: By;
  option?: string;
  message?: string;
  key?: string;
}

/** The agent waits for an answer. */
export interface QuestionAsked extends Envelope {
  type: "question.asked";
  question: string;
  questions: Question[];
  native_id?: string;
}

/** A question was settled. */
export interface QuestionAnswered extends Envelope {
  type: "question.answered";
  question: string;
  outcome: QuestionOutcome;
  answers?: Record<string, string[]>;
  key?: string;
}

/** A turn ended; `summed` when `usage` and `cost` are at least the sums of the turn's attempts. */
export interface TurnEnded extends Envelope {
  type: "turn.ended";
  turn: string;
  outcome: Outcome;
  stop_reason?: StopReason;
  usage?: Usage;
  cost?: Cost;
  summed?: boolean;
  error?: TurnError;
}

/** Something a person should know. */
export interface Notice extends Envelope {
  type: "notice";
  code: NoticeCode;
  message: string;
  detail?: unknown;
}

/** The session ended. */
export interface SessionEnded extends Envelope {
  type: "session.ended";
  reason: string;
}

/** Somebody wants a sent prompt to stop. Its turn is still to come, and ends `cancelled`. */
export interface PromptCancelling extends Envelope {
  type: "prompt.cancelling";
  prompt: string;
  by: By;
}

/** Somebody wants the turn to end. Its end is still to come. */
export interface TurnCancelling extends Envelope {
  type: "turn.cancelling";
  turn: string;
  by: By;
}

/** The caps of the session, or of the turn of one prompt. They replace the earlier ones as a whole. */
export interface BudgetSet extends Envelope {
  type: "budget.set";
  prompt?: string;
  budget: Budget;
  by: By;
}

/** A cap is reached. After that of a session no prompt is sent until the session's caps are set again. */
export interface BudgetReached extends Envelope {
  type: "budget.reached";
  scope: Scope;
  cap: Cap;
  used: Used;
  caps: Caps;
}

/** What the turn that has just ended used, and all turns together, with the caps of the session. */
export interface BudgetUsed extends Envelope {
  type: "budget.used";
  last: Used;
  used: Used;
  caps: Caps;
}

/** Another session goes on from this one's finished items. */
export interface SessionHandedOver extends Envelope {
  type: "session.handed_over";
  to: string;
  agent: string;
}

/** The session goes on from the finished items of another one: the text that its first prompt carries. */
export interface SessionInherited extends Envelope {
  type: "session.inherited";
  from: string;
  agent: string;
  cwd: string;
  text: string;
  entries: number;
  left_out?: number;
}

/** How the session goes on after a limit or a failure. It replaces what was set earlier as a whole. */
export interface UnattendedSet extends Envelope {
  type: "unattended.set";
  unattended: unknown;
  by: By;
}

/** A turn has failed, and the session waits to continue it. No prompt is sent until it waits no more. */
export interface UnattendedParked extends Envelope {
  type: "unattended.parked";
  until: number;
  of: string;
  because: string;
  reason: string;
  failures?: number;
  limits?: number;
  since?: number;
}

/** The session waits no more. After `due` and `woken` a prompt continues the turn. */
export interface UnattendedReleased extends Envelope {
  type: "unattended.released";
  of: string;
  outcome: string;
  by: By;
}

/** The prompt continues a turn. The gateway made it, and it is the next one to be sent. */
export interface PromptContinues extends Envelope {
  type: "prompt.continues";
  prompt: string;
  of: string;
  because: string;
  reason: string;
  failures?: number;
  limits?: number;
  since?: number;
}

/** The turn continues another one: it took the prompt that was made for that. */
export interface TurnContinues extends Envelope {
  type: "turn.continues";
  turn: string;
  of: string;
  because: string;
  reason: string;
  failures?: number;
  limits?: number;
  since?: number;
}

/** Types of the table's first part: a reader decides about each of them. */
export type Shown =
  | SessionCreated
  | SessionUpdated
  | SessionStatus
  | SessionResumed
  | PromptAccepted
  | PromptSent
  | PromptTaken
  | PromptWithdrawn
  | TurnStarted
  | AttemptStarted
  | ItemStarted
  | ItemDelta
  | ItemReplaced
  | ItemUpdated
  | ItemEnded
  | ItemRevised
  | ItemRemoved
  | AttemptEnded
  | AttemptSuperseded
  | ApprovalRequested
  | ApprovalResolved
  | QuestionAsked
  | QuestionAnswered
  | TurnEnded
  | Notice
  | SessionEnded;

/** Types of the second part: a reader that has not asked for one of them skips it. */
export type Aside =
  | PromptCancelling
  | TurnCancelling
  | BudgetSet
  | BudgetReached
  | BudgetUsed
  | SessionHandedOver
  | SessionInherited
  | UnattendedSet
  | UnattendedParked
  | UnattendedReleased
  | PromptContinues
  | TurnContinues;

export type Event = Shown | Aside;
