// A session that a view follows: its newest page, what the log adds to it, and then every event.

import { Problem } from "./client.js";
import type { Connection } from "./connection.js";
import { SessionFold } from "./fold.js";
import { Store } from "./store.js";
import type { ItemsPage } from "./values.js";
import type { Event } from "./wire.js";

/** Items of the first page. */
const FIRST = 60;
/** Events that are searched for notices and superseded attempts, which pages of items leave out. */
const LOG_EVENTS = 500;

/** Of an older page, no more events are searched. */
const OLDER_EVENTS = 2_000;

/** Of a session that is read backwards, no more is kept. */
const MOST_ITEMS = 5_000;

export type Reading = "reading" | "here" | "gone" | { problem: string };

export class FollowedSession extends Store {
  reading: Reading = "reading";
  fold: SessionFold | undefined;
  isReadingOlder = false;
  /** Why the last older page could not be read. */
  olderProblem: string | undefined;
  #stop: (() => void) | undefined;
  #ended = false;
  #read = 0;

  constructor(
    readonly id: string,
    readonly connection: Connection,
  ) {
    super();
    void this.#begin();
  }

  /** As many items are here as the page holds. Older ones are in the log. */
  get isFull(): boolean {
    return (this.fold?.items.size ?? 0) >= MOST_ITEMS;
  }

  end(): void {
    this.#ended = true;
    this.#stop?.();
  }

  async #begin(): Promise<void> {
    this.#read += 1;
    const read = this.#read;
    const isOld = () => this.#ended || read !== this.#read;
    this.#stop?.();
    const signal = this.connection.untilCut;
    try {
      const [session, page] = await Promise.all([
        this.connection.client.session(this.id, signal),
        this.connection.client.items(this.id, { limit: FIRST, signal }),
      ]);
      if (isOld()) return;
      this.fold = SessionFold.of(session, page);
      this.reading = "here";
      this.#follow(this.fold);
      this.changed();
      await this.#addLog(page, isOld);
    } catch (error) {
      if (isOld()) return;
      if (error instanceof Problem) {
        this.reading = error.name === "unknown-session" ? "gone" : { problem: error.message };
        this.changed();
        return;
      }
      // Without a connection, or when it was cut: again when there is one.
      const stop = this.connection.subscribe(() => {
        if (!this.connection.isLive) return;
        stop();
        if (!isOld()) void this.#begin();
      });
    }
  }

  async #addLog(page: ItemsPage, isOld: () => boolean): Promise<void> {
    const from = Math.max(page.oldest, page.head - LOG_EVENTS + 1);
    if (from > page.head || this.fold === undefined) return;
    const { fold } = this;
    const { events } = await this.connection.client.log(this.id, {
      from: `${page.generation}:${from}`,
      limit: LOG_EVENTS,
      signal: this.connection.untilCut,
    });
    if (isOld() || this.fold !== fold) return;
    fold.addFromLog(events.filter((event) => event.seq <= page.head));
    this.changed();
  }

  /** The same for an older page: its turns are found in the log by their time. */
  async #addOlderLog(fold: SessionFold, page: ItemsPage): Promise<void> {
    const [newest, oldest] = [page.turns[0], page.turns.at(-1)];
    if (newest === undefined || oldest === undefined) return;
    const end = newest.ended ?? Number.POSITIVE_INFINITY;
    const { client, untilCut: signal } = this.connection;
    const found: Event[] = [];
    let where: { at: number } | { from: string } = { at: oldest.started };
    while (found.length < OLDER_EVENTS) {
      const { events, next } = await client.log(this.id, { ...where, limit: LOG_EVENTS, signal });
      found.push(...events.filter((event) => event.time <= end));
      if (next === undefined || (events.at(-1)?.time ?? 0) > end) break;
      where = { from: next };
    }
    if (this.#ended || this.fold !== fold) return;
    fold.addFromLog(found);
  }

  #follow(fold: SessionFold): void {
    this.#stop = this.connection.follow(this.id, {
      cursor: () => fold.cursor,
      event: (event) => {
        // An earlier subscription may still be told of it.
        if (event.seq <= fold.head) return;
        fold.apply(event);
        this.changed();
      },
      reset: () => void this.#begin(),
      gone: () => this.#gone(),
      refused: (problem) => {
        this.reading = { problem };
        this.changed();
      },
    });
  }

  #gone(): void {
    this.reading = "gone";
    this.changed();
  }

  /** Reads the page before the oldest item that is here. */
  async readOlder(): Promise<void> {
    const { fold } = this;
    if (fold?.next === undefined || this.isReadingOlder || this.isFull) return;
    this.isReadingOlder = true;
    this.olderProblem = undefined;
    this.changed();
    try {
      const page = await this.connection.client.items(this.id, {
        limit: FIRST,
        before: fold.next,
        signal: this.connection.untilCut,
      });
      if (this.fold !== fold) return;
      fold.addOlder(page);
      this.changed();
      await this.#addOlderLog(fold, page);
    } catch (error) {
      this.olderProblem = error instanceof Problem ? error.message : "The gateway did not answer";
      if (!(error instanceof Problem)) this.#forgetProblemAfterCut();
    } finally {
      this.isReadingOlder = false;
      this.changed();
    }
  }

  /** What a cut ended can be asked for again when the connection is back. */
  #forgetProblemAfterCut(): void {
    let wasCut = !this.connection.isLive;
    const stop = this.connection.subscribe(() => {
      const { isLive } = this.connection;
      wasCut ||= !isLive;
      if (!this.#ended && !(wasCut && isLive)) return;
      stop();
      this.olderProblem = undefined;
      this.changed();
    });
  }
}
