// The events of one turn, read from the log.

import type { Client } from "./client.js";
import type { Event } from "./wire.js";

const PAGE = 500;
/** Pages that are searched for the beginning of the turn. */
const MOST_BACK = 40;
/** A longer turn is cut: its rest is in the timeline. */
const MOST_EVENTS = 20_000;

export interface TurnEvents {
  turn: string;
  /** The prompts of the turn, and then its events. */
  events: Event[];
  /** The turn has more events than these. */
  isCut: boolean;
  /** It has not ended yet. */
  isOpen: boolean;
}

/** The turn that this event belongs to; undefined if there is none. */
export async function turnEvents(
  client: Client,
  session: string,
  seq: number,
): Promise<TurnEvents | undefined> {
  const { oldest } = await client.log(session, { limit: 1 });
  const before: Event[] = [];
  let started: Event | undefined;
  for (let [end, page] = [seq, 0]; end >= oldest && page < MOST_BACK && started === undefined; page += 1) {
    const from = Math.max(oldest, end - PAGE + 1);
    const { events } = await client.log(session, { from: from, limit: end - from + 1 });
    before.unshift(...events);
    started = events.findLast((event) => event.type === "turn.started");
    end = from - 1;
  }
  if (started?.type !== "turn.started") return undefined;
  const { turn, prompts = [] } = started;
  const first = started.seq;
  // A prompt may have waited for long: only those that are near are shown.
  const from = Math.max(oldest, first - PAGE);
  const { events: near } = await client.log(session, { from: from, limit: Math.max(1, first - from) });
  const events = near.filter(
    (event) => event.seq < first && event.type === "prompt.accepted" && prompts.includes(event.prompt),
  );
  let next = first;
  while (events.length < MOST_EVENTS) {
    const { events: more } = await client.log(session, { from: next, limit: PAGE });
    const end = more.findIndex((event) => event.type === "turn.ended" && event.turn === turn);
    events.push(...(end === -1 ? more : more.slice(0, end + 1)));
    if (end !== -1) return { turn, events, isCut: false, isOpen: false };
    const last = more.at(-1);
    if (last === undefined || more.length === 0) return { turn, events, isCut: false, isOpen: true };
    next = last.seq + 1;
  }
  return { turn, events, isCut: true, isOpen: false };
}
