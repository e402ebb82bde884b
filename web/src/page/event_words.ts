// What an event says in one line, how large it is, and whether it is out of the ordinary.

import type { Event } from "turnstream";

const SIZES = new WeakMap<Event, number>();

/** The length of an event on the wire, computed once. */
export function sizeOf(event: Event): number {
  const known = SIZES.get(event) ?? JSON.stringify(event).length;
  SIZES.set(event, known);
  return known;
}

const ENVELOPE = new Set([
  "seq",
  "time",
  "type",
  "turn",
  "attempt",
  "item",
  "parent",
  "native",
  "id",
  "session",
]);

/** The members of an event that has no words of its own. */
function rest(event: Event): string {
  const own = Object.entries(event).filter(([name]) => !ENVELOPE.has(name));
  const text = own.map(
    ([name, value]) => `${name} ${typeof value === "string" ? value : JSON.stringify(value)}`,
  );
  return text.join(", ").slice(0, 200);
}

/** Colours and other sequences of a terminal, and line ends. */
const CONTROL = /\u001b\[[0-9;?]*[ -/]*[@-~]|[\u0000-\u001f]+/g;

/** A text for one line. */
export function plain(text: string): string {
  return text.replace(CONTROL, " ");
}

/** What an event says, in one line. */
export function what(event: Event): string {
  return plain(said(event).slice(0, MOST_SAID));
}

/** A row has room for less. */
const MOST_SAID = 400;

function said(event: Event): string {
  switch (event.type) {
    case "session.created":
      return `${event.agent} in ${event.cwd}`;
    case "session.updated":
      return rest(event);
    case "session.status":
      return event.message === undefined ? event.status : `${event.status}: ${event.message}`;
    case "session.resumed":
      return `as ${event.as}`;
    case "session.ended":
      return event.reason;
    case "prompt.accepted":
      return event.content.map((block) => block.text ?? block.type).join(" ");
    case "prompt.sent":
    case "prompt.taken":
    case "prompt.withdrawn":
      return event.prompt;
    case "prompt.cancelling":
    case "turn.cancelling":
      return `by ${event.by}`;
    case "turn.started":
      return `${event.turn}, origin ${event.origin}`;
    case "turn.ended":
      return [event.outcome, event.stop_reason, event.error?.message]
        .filter((part) => part !== undefined)
        .join(", ");
    case "attempt.started":
      return [event.attempt, `step ${event.step}`, event.model]
        .filter((part) => part !== undefined)
        .join(", ");
    case "attempt.ended":
      return event.finish ?? event.attempt;
    case "attempt.superseded":
      return `by ${event.by}`;
    case "item.started":
      return [event.item, event.kind, event.tool?.title ?? event.tool?.name ?? event.text]
        .filter((part) => part !== undefined && part !== "")
        .join(", ");
    case "item.delta":
    case "item.replaced":
      return `${event.item}, “${event.text.slice(0, 160)}”`;
    case "item.updated":
      return `${event.item}, ${event.tool?.status ?? Object.keys(event.tool ?? {}).join(", ")}`;
    case "item.ended":
      return `${event.item}, ${event.state}${event.incomplete ? ", incomplete" : ""}`;
    case "item.revised":
      return `${event.item}${event.late ? ", late" : ""}`;
    case "item.removed":
      return event.item;
    case "approval.requested":
      return `${event.approval}, ${event.tool?.title ?? event.tool?.name ?? ""}`;
    case "approval.resolved":
      return `${event.approval}, ${event.outcome} by ${event.by}`;
    case "question.asked":
      return event.questions.map((question) => question.text).join(" ");
    case "question.answered":
      return event.outcome;
    case "notice":
      return `${event.code}: ${event.message}`;
    default:
      return rest(event);
  }
}

/** Events that a person who looks for trouble wants to see. */
export function anomaly(event: Event): "gate" | "lost" | "you" | undefined {
  if (event.type === "attempt.superseded" || (event.type === "session.status" && event.status === "retrying"))
    return "gate";
  if (event.type === "notice")
    return event.code === "budget" ? "you" : event.code === "corrupt" ? "lost" : "gate";
  if (event.type === "turn.ended" && (event.outcome === "failed" || event.outcome === "lost")) return "lost";
  if (event.type === "item.ended" && event.state !== "completed") return "lost";
  return undefined;
}

/** Why an event is marked, in words. */
export function whyMarked(event: Event): string | undefined {
  switch (event.type) {
    case "attempt.superseded":
      return "This model call was repeated. What it had written does not count.";
    case "session.status":
      return event.status === "retrying" ? "The provider failed, and the call is repeated later." : undefined;
    case "notice":
      return event.message;
    case "turn.ended":
      return event.outcome === "failed" || event.outcome === "lost"
        ? "The turn did not end well."
        : undefined;
    case "item.ended":
      return event.state === "completed" ? undefined : `It ended ${event.state}.`;
    default:
      return undefined;
  }
}
