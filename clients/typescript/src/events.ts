// The events of one session as an async iterator, over server-sent events. After a cut it reconnects with
// backoff and jitter, and continues after the last event: none is lost, and none comes twice.

import { delay, sleep } from "./backoff.js";
import { type Client, Problem, sessionPath } from "./client.js";
import { serverSentEvents } from "./sse.js";
import type { Event } from "./wire.js";

/** Without a byte for so long the connection is dead: the gateway sends a heartbeat every 15 s. */
const SILENCE_MS = 45_000;

export interface EventsOptions {
  /** Continue after this cursor (`g1:41`, or a seq). Without it the log comes from its first event. */
  after?: string | number;
  /** Ends the iterator: it throws the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Told when the connection is there, and when it is lost. */
  onLink?: (link: StreamLink) => void;
  /** Milliseconds without a sign of life after which a connection counts as dead. */
  silence?: number;
}

export type StreamLink =
  { state: "live" } | { state: "disconnected"; error: unknown; retryIn: number; failures: number };

/** The cursor is void: what was seen so far is no longer the session's history. Read it anew. */
export class CursorReset extends Error {
  override readonly name = "CursorReset";

  constructor(
    readonly reason: string,
    readonly generation: string,
    readonly oldest: number,
    readonly head: number,
  ) {
    super(`the cursor is void (${reason}); the log of generation ${generation} begins at ${oldest}`);
  }
}

/** Events that came together, and the cursor after them. */
export interface Batch {
  events: Event[];
  cursor: string | undefined;
}

interface StreamFrame {
  type: "stream";
  outcome: string;
  generation?: string;
  reason?: string;
  oldest?: number;
  head?: number;
}

/**
 * Every event of a session, in order. It ends when the session is deleted. It throws a `Problem` that no
 * repetition helps against (no such session, wrong token), and a `CursorReset` if the cursor is void.
 */
export async function* events(
  client: Client,
  session: string,
  options: EventsOptions = {},
): AsyncGenerator<Event, void, void> {
  for await (const batch of batches(client, session, options)) yield* batch.events;
}

/** The same in the pieces in which they came, for readers that apply many at once. */
export async function* batches(
  client: Client,
  session: string,
  { after, signal, onLink, silence = SILENCE_MS }: EventsOptions = {},
): AsyncGenerator<Batch, void, void> {
  let cursor = after === undefined ? undefined : String(after);
  let failures = 0;
  for (;;) {
    signal?.throwIfAborted();
    const connection = new Heartbeat(silence, signal);
    try {
      const query = cursor === undefined ? "" : `?after=${encodeURIComponent(cursor)}`;
      const answer = await client.open(sessionPath(session, `/events${query}`), {
        signal: connection.signal,
      });
      if (answer.body === null) throw new Error("the answer has no body");
      for await (const piece of serverSentEvents(answer.body)) {
        connection.heard();
        const found: Event[] = [];
        let isGone = false;
        for (const frame of piece) {
          const value = JSON.parse(frame.data) as Event | StreamFrame;
          if (frame.id !== undefined) {
            cursor = frame.id;
            found.push(value as Event);
          } else if (value.type === "stream") {
            const { outcome } = value as StreamFrame;
            if (outcome === "reset") throw resetOf(value as StreamFrame);
            if (outcome === "gone") isGone = true;
            if (outcome === "caught_up" || outcome === "replayed") {
              failures = 0;
              onLink?.({ state: "live" });
            }
          }
        }
        // While the reader works, nobody hears the heartbeat.
        connection.pause();
        if (found.length > 0) yield { events: found, cursor };
        if (isGone) return;
        connection.heard();
      }
      throw new Error("the gateway closed the stream");
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof CursorReset || (error instanceof Problem && !error.isPassing)) throw error;
      const asked = error instanceof Problem ? (error.retryAfter ?? 0) : 0;
      const retryIn = Math.max(asked, delay(failures, Math.random()));
      failures += 1;
      onLink?.({ state: "disconnected", error, retryIn, failures });
      await sleep(retryIn, signal);
    } finally {
      connection.end();
    }
  }
}

function resetOf({ reason = "", generation = "", oldest = 1, head = 0 }: StreamFrame): CursorReset {
  return new CursorReset(reason, generation, oldest, head);
}

/** Ends a connection that is silent for too long, or whose owner is done. */
class Heartbeat {
  readonly #controller = new AbortController();
  readonly #abort: () => void;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    readonly silence: number,
    readonly outer: AbortSignal | undefined,
  ) {
    this.#abort = () => this.#controller.abort(outer?.reason);
    outer?.addEventListener("abort", this.#abort, { once: true });
    this.heard();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  heard(): void {
    this.pause();
    const dead = () => this.#controller.abort(new Error(`nothing was heard for ${this.silence} ms`));
    this.#timer = setTimeout(dead, this.silence);
  }

  pause(): void {
    clearTimeout(this.#timer);
  }

  end(): void {
    this.pause();
    this.outer?.removeEventListener("abort", this.#abort);
    this.#controller.abort();
  }
}
