// Pages of a session's log: those around what is looked at, and no more.

import { type Connection, type Event, sessionPath } from "turnstream";
import { problemWords } from "./answer";
import { request } from "./api";

/** Events of a page of the log, and pages that are kept. */
const PAGE = 200;
const MOST_PAGES = 60;

export class LogPages {
  pages = new Map<number, Event[] | "reading">();
  problem: string | undefined;
  /** Pages that could not be read. They are asked for again after a reconnect. */
  failed = new Set<number>();

  constructor(
    readonly session: string,
    readonly generation: string,
    readonly connection: Connection,
    readonly changed: () => void,
  ) {}

  at(seq: number): Event | undefined {
    const page = this.pages.get(Math.floor((seq - 1) / PAGE));
    // The events of a page follow each other without a hole.
    return page === undefined || page === "reading" ? undefined : page[seq - (page[0]?.seq ?? seq)];
  }

  /** Reads the pages of these events, unless they are here and whole. */
  want(first: number, last: number, oldest: number, head: number): void {
    for (let page = Math.floor((first - 1) / PAGE); page <= Math.floor((last - 1) / PAGE); page += 1) {
      const has = this.pages.get(page);
      const end = Math.min((page + 1) * PAGE, head);
      const isWhole = has === "reading" || (has !== undefined && has.at(-1)?.seq === end);
      if (!isWhole && !this.failed.has(page))
        void this.#read(page, Math.max(page * PAGE + 1, oldest), has === undefined ? [] : has);
    }
    for (const page of this.pages.keys()) {
      if (this.pages.size <= MOST_PAGES) break;
      if ((page + 1) * PAGE < first || page * PAGE > last) this.pages.delete(page);
    }
  }

  async #read(page: number, from: number, had: Event[]): Promise<void> {
    this.pages.set(page, "reading");
    const events = [...had];
    const last = (page + 1) * PAGE;
    const signal = this.connection.untilCut;
    try {
      // Large events come on pages of their own.
      for (
        let next = (had.at(-1)?.seq ?? from - 1) + 1;
        next <= last;
        next = (events.at(-1)?.seq ?? last) + 1
      ) {
        const query = `/log?from=${this.generation}:${next}&limit=${last - next + 1}`;
        const path = sessionPath(this.session, query);
        const more = await request<{ events: Event[]; next?: string }>(path, { signal });
        events.push(...more.events);
        if (more.next === undefined || more.events.length === 0) break;
      }
      this.problem = undefined;
    } catch (error) {
      // After a cut it is read again, and the page says that it is disconnected.
      if (!signal.aborted) this.problem = problemWords(error);
      this.failed.add(page);
    }
    if (events.length > 0) this.pages.set(page, events);
    else this.pages.delete(page);
    this.changed();
  }
}
