// A session that a view follows: its newest page, what the log adds to it, and then every event.

import { Problem, request, sessionPath } from "./api";
import type { Connection } from "./connection";
import { SessionFold } from "./fold";
import { Store } from "./store";
import type { ItemsPage, SessionInfo } from "./values";
import type { Event } from "./wire";

/** Items of the first page. */
const FIRST = 60;
/** Events that are searched for notices and superseded attempts, which pages of items leave out. */
const LOG_EVENTS = 500;

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
        request<SessionInfo>(sessionPath(this.id), { signal }),
        request<ItemsPage>(sessionPath(this.id, `/items?limit=${FIRST}`), { signal }),
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
    const path = sessionPath(this.id, `/log?from=${page.generation}:${from}&limit=${LOG_EVENTS}`);
    const { events } = await request<{ events: Event[] }>(path);
    if (isOld() || this.fold !== fold) return;
    fold.addFromLog(events.filter((event) => event.seq <= page.head));
    this.changed();
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
      const page = await request<ItemsPage>(
        sessionPath(this.id, `/items?limit=${FIRST}&before=${fold.next}`),
        { signal: this.connection.untilCut },
      );
      if (this.fold === fold) fold.addOlder(page);
    } catch (error) {
      this.olderProblem = error instanceof Problem ? error.message : "The gateway did not answer";
    } finally {
      this.isReadingOlder = false;
      this.changed();
    }
  }
}
