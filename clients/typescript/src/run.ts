// One prompt and its turn: the shortest way from a question to its answer.

import type { Client, KeyOptions } from "./client.js";
import { type EventsOptions, events } from "./events.js";
import type { Budget, ContentBlock } from "./values.js";
import type { Event } from "./wire.js";

export type RunOptions = KeyOptions & Pick<EventsOptions, "onLink" | "silence"> & { budget?: Budget };

/**
 * Sends a prompt, and gives the events from its acceptance to the end of its turn. With a given key it is sent
 * once, also if this is called again. It also ends when the prompt is withdrawn. Stopping early leaves the turn
 * running: `client.cancel(session)` ends it.
 */
export async function* run(
  client: Client,
  session: string,
  content: string | ContentBlock[],
  { onLink, silence, ...options }: RunOptions = {},
): AsyncGenerator<Event, void, void> {
  const { signal } = options;
  // A prompt with a known key may have been accepted long ago: its turn is searched for in the whole log.
  const before = options.key === undefined ? await client.session(session, signal) : undefined;
  const { prompt } = await client.prompt(session, content, options);
  let turn: string | undefined;
  let isSeen = false;
  const after = before && `${before.generation}:${before.head}`;
  const stream = {
    signal,
    ...(after && { after }),
    ...(onLink && { onLink }),
    ...(silence !== undefined && { silence }),
  };
  for await (const event of events(client, session, stream)) {
    isSeen ||= event.type === "prompt.accepted" && event.prompt === prompt;
    if (!isSeen) continue;
    if (event.type === "prompt.taken" && event.prompt === prompt) turn = event.turn;
    yield event;
    if (event.type === "turn.ended" && event.turn === turn) return;
    if (event.type === "prompt.withdrawn" && event.prompt === prompt) return;
  }
}
