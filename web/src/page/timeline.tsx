// The log itself: one row for each event. Rows have one height, so that row and seq are the same number, and
// a session of any length shows only the events in view.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { request, sessionPath } from "../client/api";
import type { Connection } from "../client/connection";
import type { Aside, Event } from "../client/wire";
import { problemWords } from "./answer";
import { clockMillis, count, duration, size } from "./format";
import { useStore } from "./hooks";
import { Icon } from "./icons";
import { link } from "./route";
import { SessionHead, useSession } from "./session";

const ROW = 28;
/** Events of a page of the log, and pages that are kept. */
const PAGE = 200;
const MOST_PAGES = 50;
const OVERSCAN = 20;
/** Browsers limit the height of an element. Logs with more events begin later. */
const MOST_ROWS = 1_000_000;
const SLOW_MS = 2_000;

class LogPages {
  pages = new Map<number, Event[] | "reading">();
  problem: string | undefined;
  /** Pages that could not be read. They are asked for again after a reconnect. */
  failed = new Set<number>();

  constructor(
    readonly session: string,
    readonly generation: string,
    readonly changed: () => void,
  ) {}

  at(seq: number): Event | undefined {
    const page = this.pages.get(Math.floor((seq - 1) / PAGE));
    return page === undefined || page === "reading" ? undefined : page.find((event) => event.seq === seq);
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
    try {
      // Large events come on pages of their own.
      for (
        let next = (had.at(-1)?.seq ?? from - 1) + 1;
        next <= last;
        next = (events.at(-1)?.seq ?? last) + 1
      ) {
        const query = `/log?from=${this.generation}:${next}&limit=${last - next + 1}`;
        const more = await request<{ events: Event[]; next?: string }>(sessionPath(this.session, query));
        events.push(...more.events);
        if (more.next === undefined || more.events.length === 0) break;
      }
      this.problem = undefined;
    } catch (error) {
      this.problem = problemWords(error);
      this.failed.add(page);
    }
    if (events.length > 0) this.pages.set(page, events);
    else this.pages.delete(page);
    this.changed();
  }
}

const SIZES = new WeakMap<Event, number>();

/** The length of an event on the wire, computed once. */
function sizeOf(event: Event): number {
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
function rest(event: Aside): string {
  const own = Object.entries(event).filter(([name]) => !ENVELOPE.has(name));
  const text = own.map(
    ([name, value]) => `${name} ${typeof value === "string" ? value : JSON.stringify(value)}`,
  );
  return text.join(", ").slice(0, 200);
}

/** What an event says, in one line. */
function what(event: Event): string {
  switch (event.type) {
    case "session.created":
      return `${event.agent} in ${event.cwd}`;
    case "session.updated":
      return [event.title, event.model, event.mode].filter((part) => part !== undefined).join(", ");
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
function anomaly(event: Event): "gate" | "lost" | "you" | undefined {
  if (event.type === "attempt.superseded" || (event.type === "session.status" && event.status === "retrying"))
    return "gate";
  if (event.type === "notice")
    return event.code === "budget" ? "you" : event.code === "corrupt" ? "lost" : "gate";
  if (event.type === "turn.ended" && (event.outcome === "failed" || event.outcome === "lost")) return "lost";
  if (event.type === "item.ended" && event.state !== "completed") return "lost";
  return undefined;
}

interface TimelineProps {
  id: string;
  seq: number | undefined;
  connection: Connection;
}

export function TimelineView({ id, seq, connection }: TimelineProps) {
  const followed = useSession(id, connection);
  useStore(connection);
  const [, again] = useState(0);
  const pages = useRef<LogPages>(undefined);
  const rows = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const { fold } = followed;
  const head = fold?.head ?? 0;
  const first = Math.max(1, head - MOST_ROWS + 1);
  if (fold !== undefined && (pages.current?.session !== id || pages.current.generation !== fold.generation)) {
    pages.current = new LogPages(id, fold.generation, () => again((version) => version + 1));
  }
  useEffect(() => {
    const scrolled = () => setTop(-(rows.current?.getBoundingClientRect().top ?? 0));
    scrolled();
    addEventListener("scroll", scrolled, { passive: true });
    addEventListener("resize", scrolled);
    return () => {
      removeEventListener("scroll", scrolled);
      removeEventListener("resize", scrolled);
    };
  }, [fold === undefined]);
  useEffect(() => pages.current?.failed.clear(), [connection.isLive]);
  // A deep link shows its event in the middle of the screen, once.
  const shown = useRef<number>(undefined);
  useEffect(() => {
    if (fold === undefined || seq === undefined || shown.current === seq || rows.current === null) return;
    shown.current = seq;
    const row = rows.current.getBoundingClientRect().top + scrollY + (Math.min(seq, head) - first) * ROW;
    // On narrow screens the drawer covers the lower half.
    const free = innerWidth < 1024 ? innerHeight / 2 : innerHeight;
    if (row < scrollY + 160 || row > scrollY + free - 80) scrollTo({ top: Math.max(0, row - free / 2 - 40) });
  }, [seq, fold === undefined]);
  const start = Math.max(first, first + Math.floor(top / ROW) - OVERSCAN);
  const end = Math.min(head, first + Math.ceil((top + innerHeight) / ROW) + OVERSCAN);
  useEffect(() => {
    if (!connection.isLive) return;
    if (head > 0 && end >= start) pages.current?.want(start, end, 1, head);
    if (seq !== undefined && seq <= head) pages.current?.want(seq, seq, 1, head);
  });
  if (followed.reading === "gone")
    return (
      <main class="narrow">
        <h1>This session is gone</h1>
        <p class="reading">
          <a href={link.sessions}>All sessions</a>
        </p>
      </main>
    );
  if (fold === undefined)
    return (
      <main class="narrow">
        <h1>Timeline</h1>
        <p class="faint">Reading the log.</p>
      </main>
    );
  const open = seq === undefined ? undefined : pages.current?.at(seq);
  const go = (event: SubmitEvent) => {
    event.preventDefault();
    const asked = Number(new FormData(event.currentTarget as HTMLFormElement).get("seq"));
    if (Number.isSafeInteger(asked) && asked >= 1)
      location.hash = link.timeline(id, Math.min(asked, head)).slice(1);
  };
  const keys = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step === 0 || seq === undefined) return;
    event.preventDefault();
    const next = Math.min(head, Math.max(first, seq + step));
    location.hash = link.timeline(id, next).slice(1);
    requestAnimationFrame(() => document.getElementById(`seq-${next}`)?.focus());
  };
  const visible: number[] = [];
  for (let at = start; at <= end; at += 1) visible.push(at);
  return (
    <>
      <SessionHead fold={fold} isLive={connection.isLive} view="timeline" />
      <div class={seq === undefined ? "timeline" : "timeline with-drawer"}>
        <main id="main" tabIndex={-1}>
          <form class="timeline-bar" onSubmit={go}>
            <span class="faint">
              {count(head)} events{first > 1 ? `, from seq ${count(first)}` : ""}
            </span>
            <span class="grow" />
            <label>
              Go to seq <input name="seq" inputMode="numeric" autocomplete="off" placeholder={String(head)} />
            </label>
          </form>
          {pages.current?.problem !== undefined && (
            <p class="problem" role="alert">
              {pages.current.problem}
            </p>
          )}
          <div role="grid" aria-label="Events" aria-rowcount={head} aria-colcount={5} onKeyDown={keys}>
            <div role="row" class="event-row event-head" aria-rowindex={1}>
              <span role="columnheader">seq</span>
              <span role="columnheader">after</span>
              <span role="columnheader">type</span>
              <span role="columnheader">what</span>
              <span role="columnheader">size</span>
            </div>
            <div
              role="rowgroup"
              ref={rows}
              class="event-rows"
              style={{ height: `${(head - first + 1) * ROW}px` }}
            >
              {visible.map((at) => (
                <EventRow
                  key={at}
                  id={id}
                  at={at}
                  top={(at - first) * ROW}
                  event={pages.current?.at(at)}
                  before={pages.current?.at(at - 1)}
                  isOpen={seq === at}
                />
              ))}
            </div>
          </div>
        </main>
        {seq !== undefined && <Drawer id={id} seq={seq} event={open} before={pages.current?.at(seq - 1)} />}
      </div>
    </>
  );
}

interface EventRowProps {
  id: string;
  at: number;
  top: number;
  event: Event | undefined;
  before: Event | undefined;
  isOpen: boolean;
}

function EventRow({ id, at, top, event, before, isOpen }: EventRowProps) {
  const mark = event === undefined ? undefined : anomaly(event);
  const after = event === undefined || before === undefined ? undefined : event.time - before.time;
  return (
    <div
      role="row"
      aria-rowindex={at + 1}
      aria-selected={isOpen}
      class={`event-row ${mark === undefined ? "" : `mark-${mark}`}`}
      style={{ top: `${top}px` }}
    >
      <span role="gridcell">
        <a id={`seq-${at}`} href={link.timeline(id, at)} class="mono">
          {count(at)}
        </a>
      </span>
      <span role="gridcell" class={after !== undefined && after > SLOW_MS ? "c-you bold" : "faint"}>
        {after === undefined ? "" : duration(after)}
      </span>
      <span role="gridcell" class="mono">
        {event?.type ?? ""}
      </span>
      <span role="gridcell" class="ellipsis">
        {event === undefined ? "" : what(event)}
      </span>
      <span role="gridcell" class="faint">
        {event === undefined ? "" : size(sizeOf(event))}
      </span>
    </div>
  );
}

/** A larger event is cut in the drawer. */
const MOST_JSON = 100_000;

function Drawer({
  id,
  seq,
  event,
  before,
}: {
  id: string;
  seq: number;
  event: Event | undefined;
  before: Event | undefined;
}) {
  const json = useMemo(() => (event === undefined ? "" : JSON.stringify(event, null, 2)), [event]);
  return (
    <aside class="drawer" aria-label={`Event ${seq}`}>
      <header>
        <h2>
          seq {count(seq)} <span class="faint">{event === undefined ? "" : `· ${event.type}`}</span>
        </h2>
        <a class="icon-button" href={link.timeline(id)} aria-label="Close">
          <Icon name="cross" />
        </a>
      </header>
      {event === undefined ? (
        <p class="faint">Reading the event.</p>
      ) : (
        <>
          <p>
            <a href={link.replay(id, seq)}>Replay this turn</a>
          </p>
          <dl class="facts">
            <dt>When</dt>
            <dd>
              {clockMillis(event.time)}
              {before !== undefined && ` · ${duration(event.time - before.time)} after seq ${count(seq - 1)}`}
            </dd>
          </dl>
          <pre class="json" tabIndex={0} role="region" aria-label="Raw event">
            {json.slice(0, MOST_JSON)}
          </pre>
          {json.length > MOST_JSON && (
            <p class="more">
              The first {size(MOST_JSON)} of {size(json.length)}.
            </p>
          )}
        </>
      )}
    </aside>
  );
}
