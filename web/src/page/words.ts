// The words for states, errors and tools.

import type { Activity, ErrorClass, Item, Retry, Tool, Turn } from "turnstream";
import { moment, shortPath } from "./format";

export function stateWords(status: Activity, retry: Retry | undefined): string {
  switch (status) {
    case "idle":
      return "Idle";
    case "busy":
      return "Generating";
    case "waiting":
      return "Waiting for you";
    case "recovering":
      return "Recovering";
    case "retrying": {
      const parts = [
        retry?.attempt === undefined ? undefined : `attempt ${retry.attempt}`,
        retry?.until === undefined ? undefined : `until ${moment(retry.until, Date.now())}`,
      ].filter((part) => part !== undefined);
      return parts.length === 0 ? "Retrying" : `Retrying (${parts.join(", ")})`;
    }
  }
}

const CLASSES: Record<ErrorClass, string> = {
  cancelled: "cancelled",
  unreachable: "the provider or agent could not be reached",
  transport_lost: "the connection was lost",
  stalled: "nothing came for too long",
  stream_corrupt: "the stream was damaged",
  stream_spliced: "two answers were mixed",
  incomplete: "the answer was cut off",
  empty_output: "the answer was empty",
  not_a_stream: "the answer was not a stream",
  rate_limited: "rate limited",
  quota_exhausted: "the quota is used up",
  overloaded: "overloaded",
  provider_error: "an error of the provider",
  context_overflow: "the context is full",
  output_limit: "the output limit was reached",
  refused: "refused",
  auth: "not logged in",
  model_unavailable: "the model is not available",
  invalid_request: "the request was not valid",
  budget: "the budget was reached",
  not_started: "the agent did not begin",
  agent_exited: "the agent's process ended",
  agent_error: "an error of the agent",
  timeout: "it took too long",
  internal: "an error of the gateway",
};

export function classWords(error: ErrorClass): string {
  return CLASSES[error] ?? error;
}

/** How the last turn ended, if not well. */
export function endWords(turn: Turn): string | undefined {
  switch (turn.outcome) {
    case "failed":
      return `Turn failed: ${turn.error === undefined ? "no reason was given" : classWords(turn.error.class)}`;
    case "lost":
      return "Turn lost: how far it came is not known";
    case "cancelled":
      return "Turn cancelled";
    case "completed":
    case undefined:
      break;
  }
  switch (turn.stop_reason) {
    case "max_tokens":
      return "Stopped: the reply reached its token limit";
    case "max_turn_requests":
      return "Stopped: the turn reached its limit of model calls";
    case "refusal":
      return "The model refused to answer";
    case "rejected":
      return "Stopped, because a request was rejected";
    case "end_turn":
    case undefined:
      return undefined;
  }
}

const VERBS: Record<string, string> = {
  read: "Read",
  edit: "Edit",
  write: "Write",
  delete: "Delete",
  move: "Move",
  search: "Search",
  execute: "Run",
  fetch: "Fetch",
  think: "Think",
  switch_mode: "Change mode",
};

export function verb(tool: Tool): string {
  // An agent that tells no kind may still call its tool `read`.
  const known = VERBS[tool.kind ?? tool.name?.toLowerCase() ?? ""];
  if (known === undefined && inputText(tool, ["command", "cmd"]) !== undefined) return "Run";
  return known ?? tool.name ?? tool.title ?? "Tool";
}

const DOING: Record<string, string> = {
  Read: "Reading",
  Edit: "Editing",
  Write: "Writing",
  Delete: "Deleting",
  Move: "Moving",
  Search: "Searching",
  Run: "Running",
  Fetch: "Fetching",
  Think: "Thinking",
};

/** What an agent does while this is its newest item. */
export function doing(item: Item): string | undefined {
  if (item.kind === "tool" && item.tool !== undefined) {
    const name = verb(item.tool);
    return item.state === "streaming" ? `${DOING[name] ?? name} ${target(item.tool)}` : "Thinking";
  }
  if (item.kind === "message" && item.role !== "user")
    return item.state === "streaming" ? "Writing" : "Thinking";
  return "Thinking";
}

/** What a tool call is about, in one line: the command, the path, or its title. */
export function target(tool: Tool): string {
  const command = inputText(tool, ["command", "cmd"]);
  if (command !== undefined) return command.split("\n")[0] ?? "";
  const path = tool.locations?.[0]?.path ?? inputText(tool, ["file_path", "path", "filePath"]);
  if (path !== undefined) return shortPath(path);
  const asked = inputText(tool, ["pattern", "query", "url", "description"]);
  return asked ?? (tool.title === verb(tool) ? "" : (tool.title ?? ""));
}

export function inputText(tool: Tool, names: string[]): string | undefined {
  const input = tool.input;
  if (typeof input !== "object" || input === null) return undefined;
  for (const name of names) {
    const value = (input as Record<string, unknown>)[name];
    if (typeof value === "string") return value;
  }
  return undefined;
}
