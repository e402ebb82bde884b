// The state of one session as an async iterator: its newest page, and then the state after each change.

import type { Client } from "./client.js";
import { batches, CursorReset, type EventsOptions } from "./events.js";
import { SessionFold } from "./fold.js";

/** Items of the first page. */
const FIRST = 100;

/**
 * The folded state of a session: first as it is now, then after each change. The same object is given again,
 * with new values in it. A slow reader gets fewer, later states; none of them lacks an event. It ends when
 * the session is deleted. After a `reset` the state is read anew.
 */
export async function* follow(
  client: Client,
  session: string,
  options: Omit<EventsOptions, "after"> = {},
): AsyncGenerator<SessionFold, void, void> {
  const { signal } = options;
  for (;;) {
    const info = await client.session(session, signal);
    const page = await client.items(session, { limit: FIRST, signal });
    const fold = SessionFold.of(info, page);
    yield fold;
    try {
      for await (const { events } of batches(client, session, { ...options, after: fold.cursor })) {
        for (const event of events) fold.apply(event);
        yield fold;
      }
      return;
    } catch (error) {
      if (!(error instanceof CursorReset)) throw error;
    }
  }
}
