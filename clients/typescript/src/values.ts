// Values inside events, and the state of a session as pages of history show it. The same as `values.rs` and
// `fold/state.rs` in crates/model.

import type {
  Activity,
  ApprovalOutcome,
  By,
  Cap,
  ErrorClass,
  Event,
  ItemKind,
  ItemState,
  Origin,
  Outcome,
  Permissions,
  QuestionOutcome,
  Role,
  StopReason,
} from "./wire.js";

export interface ContentBlock {
  type: string;
  text?: string;
  name?: string;
  uri?: string;
  mimeType?: string;
  /** Base64. */
  data?: string;
  /** What is inside a block of type `resource`; `blob` is base64. */
  resource?: { uri: string; mimeType?: string; text?: string; blob?: string };
}

/** ACP's content of a tool call: a block, a diff or a terminal. */
export interface ToolContent {
  type: string;
  content?: ContentBlock;
  path?: string;
  oldText?: string | null;
  newText?: string;
}

export interface Tool {
  name?: string;
  kind?: string;
  title?: string;
  status?: "pending" | "in_progress" | "completed" | "failed";
  input?: unknown;
  output?: unknown;
  content?: ToolContent[];
  locations?: { path?: string; line?: number }[];
}

export interface Usage {
  input?: number;
  output?: number;
  reasoning?: number;
  cache_read?: number;
  cache_write?: number;
}

export interface Cost {
  amount: number;
  currency: string;
}

/** Caps on what an agent may use; `time` in milliseconds, `cost` in dollars. */
export interface Caps {
  steps?: number;
  time?: number;
  tokens?: number;
  cost?: number;
}

export interface Budget {
  turn?: Caps;
  session?: Caps;
}

/** What was used. What is absent was not told by the agent. */
export interface Used {
  steps?: number;
  time: number;
  tokens?: number;
  cost?: number;
}

/** The caps of a session, and what its ended turns used of them. */
export interface Meter extends Budget {
  used: Used;
  /** The cap that the session has reached: it takes no prompt until its caps are changed. */
  reached?: Cap;
}

export interface Context {
  used?: number;
  size?: number;
}

export interface TurnError {
  class: ErrorClass;
  message: string;
  status?: number;
  retry_at?: number;
}

export interface ApprovalOption {
  id: string;
  kind: "allow_once" | "allow_always" | "reject_once" | "reject_always";
  name: string;
}

export interface Question {
  id: string;
  text: string;
  options?: { label: string; description?: string }[];
  multiple?: boolean;
  custom?: boolean;
}

export interface Item {
  item: string;
  turn?: string;
  attempt?: string;
  parent?: string;
  kind: ItemKind;
  role?: Role;
  synthetic?: boolean;
  text?: string;
  input?: string;
  output?: string;
  tool?: Tool;
  state: ItemState | "streaming";
  reason?: string;
  incomplete?: boolean;
  late?: boolean;
  time: number;
  /** When it ended, if that was seen. */
  ended?: number;
  /** The attempt that repeated the one of this item. */
  voidBy?: string;
}

export interface Attempt {
  attempt: string;
  step: number;
  model?: string;
  ended?: boolean;
  finish?: string;
  usage?: Usage;
  cost?: Cost;
  superseded_by?: string;
}

export interface Turn {
  turn: string;
  origin: Origin;
  prompts: string[];
  started: number;
  attempts: Attempt[];
  cancelling?: By;
  ended?: number;
  outcome?: Outcome;
  stop_reason?: StopReason;
  usage?: Usage;
  cost?: Cost;
  error?: TurnError;
}

/** Why the gateway continues a turn: which one, and what ended it. */
export interface Continuation {
  of: string;
  because: "limit" | "failure";
  reason: ErrorClass;
}

export interface Prompt {
  prompt: string;
  /** The gateway made it, to continue a turn. */
  continues?: Continuation;
  content: ContentBlock[];
  state: "waiting" | "sent" | "taken" | "withdrawn";
  actor?: string;
  cancelling?: By;
  turn?: string;
  time: number;
}

export interface Approval {
  approval: string;
  turn?: string;
  item?: string;
  tool?: Tool;
  options: ApprovalOption[];
  outcome?: ApprovalOutcome;
  by?: By;
  actor?: string;
  option?: string;
  message?: string;
  time: number;
  resolved?: number;
}

export interface Asked {
  question: string;
  turn?: string;
  item?: string;
  questions: Question[];
  outcome?: QuestionOutcome;
  actor?: string;
  answers?: Record<string, string[]>;
  time: number;
}

export interface Retry {
  attempt?: number;
  reason?: ErrorClass;
  until?: number;
  message?: string;
}

/** How a turn ended that was not completed. */
export interface BadEnd {
  outcome: Exclude<Outcome, "completed">;
  class?: ErrorClass;
}

/** A session as the routes show it. */
export interface SessionInfo {
  id: string;
  agent: string;
  cwd: string;
  title?: string;
  model?: string;
  mode?: string;
  context?: Context;
  permissions?: Permissions;
  status: Activity;
  retry?: Retry;
  /** What its ended turns have used and cost together. */
  usage?: Usage;
  cost?: Cost;
  /** How its last turn ended, if not well. */
  last?: BadEnd;
  created?: number;
  ended?: string;
  /** The session from whose finished items it goes on. */
  from?: { session: string; agent: string; pending?: boolean };
  /** The sessions that go on from it. */
  handed_over?: string[];
  budget?: Meter;
  /** Rules for unattended runs, of which a page shows only the wait. */
  unattended?: { parked?: Continuation & { until: number } };
  generation: string;
  head: number;
  /** The time of the last event; only in pages of the list. */
  active?: number;
}

/** A session that is to be made. */
export interface NewSession {
  agent: string;
  /** May only be left out with `from`. */
  cwd?: string;
  model?: string;
  title?: string;
  permissions?: Permissions;
  redact_prompts?: boolean;
  /** The session from whose finished items the new one goes on. */
  from?: string;
  budget?: Budget;
}

/** An MCP server that the agent uses in this session. */
export type McpServer =
  | {
      type?: "stdio";
      name: string;
      command: string;
      args?: string[];
      env?: { name: string; value: string }[];
    }
  | { type: "http" | "sse"; name: string; url: string; headers?: { name: string; value: string }[] };

/** An accepted prompt, and how many are before it. */
export interface Prompted {
  prompt: string;
  position: number;
}

export interface LogPage {
  generation: string;
  oldest: number;
  head: number;
  events: Event[];
  next?: string;
}

export interface ItemsPage {
  generation: string;
  oldest: number;
  head: number;
  items: Item[];
  turns: Turn[];
  prompts: Prompt[];
  approvals?: Approval[];
  questions?: Asked[];
  queue?: Prompt[];
  next?: string;
}

export interface Agent {
  name: string;
  kind: string;
  about: string;
  version?: string;
  problem?: string;
  fix?: string;
  notice?: string;
  path?: string;
  login?: string;
  models?: { id: string; about?: string }[];
  modes?: { id: string; about?: string }[];
  /** What it takes in prompts: types of content blocks, and `pdf`. */
  takes?: string[];
  scripted?: boolean;
}
