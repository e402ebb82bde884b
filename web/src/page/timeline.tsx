// The log itself: grouped by turn and item, or one row for each event. Rows of events have one height, so
// that row and seq are the same number, and a session of any length shows only the events in view.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Connection, Event } from "turnstream";
import { Coloured, useColours } from "./coloured";
import { CopyButton } from "./copy";
import { anomaly, sizeOf, what, whyMarked } from "./event_words";
import { clockMillis, count, duration, size } from "./format";
import { useStore } from "./hooks";
import { Icon } from "./icons";
import { LogPages } from "./log_pages";
import { link } from "./route";
import { SessionHead, useSession } from "./session";
import { After, EventGroups } from "./timeline_groups";

const ROW = 28;
const OVERSCAN = 20;
/** Browsers limit the height of an element. Logs with more events begin later. */
const MOST_ROWS = 1_000_000;

interface TimelineProps {
  id: string;
  seq: number | undefined;
  connection: Connection;
}

/** Events that are grouped at once, and with each "more". */
const WINDOW = 1_000;
/** More are not grouped at once: every event is in the other view. */
const MOST_WINDOW = 10_000;

type Mode = "groups" | "events";
const MODE = "turnstream.timeline";

export function TimelineView({ id, seq, connection }: TimelineProps) {
  const followed = useSession(id, connection);
  useStore(connection);
  const [, again] = useState(0);
  const pages = useRef<LogPages>(undefined);
  const rows = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [mode, setMode] = useState<Mode>(sessionStorage.getItem(MODE) === "events" ? "events" : "groups");
  const [onlyMarked, setOnlyMarked] = useState(false);
  const [part, setPart] = useState<{ from: number; to: number }>();
  const { fold } = followed;
  const head = fold?.head ?? 0;
  const first = Math.max(1, head - MOST_ROWS + 1);
  if (fold !== undefined && (pages.current?.session !== id || pages.current.generation !== fold.generation)) {
    pages.current = new LogPages(id, fold.generation, connection, () => again((version) => version + 1));
  }
  // The part that is grouped: the end of the log, or what is around the event of a deep link.
  const isFollowing = part === undefined;
  const from = part?.from ?? Math.max(first, head - WINDOW + 1);
  const to = Math.min(head, part?.to ?? head);
  useEffect(() => {
    if (seq === undefined || fold === undefined || (seq >= from && seq <= to)) return;
    setPart({ from: Math.max(first, seq - WINDOW / 2), to: seq + WINDOW / 2 });
  }, [seq, fold === undefined]);
  const choose = (mode: Mode) => {
    sessionStorage.setItem(MODE, mode);
    setMode(mode);
  };
  useEffect(() => {
    const scrolled = () => setTop(-(rows.current?.getBoundingClientRect().top ?? 0));
    scrolled();
    addEventListener("scroll", scrolled, { passive: true });
    addEventListener("resize", scrolled);
    return () => {
      removeEventListener("scroll", scrolled);
      removeEventListener("resize", scrolled);
    };
  }, [fold === undefined, mode]);
  useEffect(() => pages.current?.failed.clear(), [connection.isLive]);
  // A deep link shows its event in the middle of the screen, once.
  const shown = useRef<number>(undefined);
  useEffect(() => {
    if (fold === undefined || seq === undefined || shown.current === seq) return;
    if (mode === "groups") {
      const line = document.getElementById(`seq-${seq}`);
      if (line === null) return;
      shown.current = seq;
      line.scrollIntoView({ block: innerWidth < 1024 ? "start" : "center" });
      return;
    }
    if (rows.current === null) return;
    shown.current = seq;
    const row = rows.current.getBoundingClientRect().top + scrollY + (Math.min(seq, head) - first) * ROW;
    // On narrow screens the drawer covers the lower half.
    const free = innerWidth < 1024 ? innerHeight / 2 : innerHeight;
    if (row < scrollY + 160 || row > scrollY + free - 80) scrollTo({ top: Math.max(0, row - free / 2 - 40) });
  });
  const start = Math.max(first, first + Math.floor(top / ROW) - OVERSCAN);
  const end = Math.min(head, first + Math.ceil((top + innerHeight) / ROW) + OVERSCAN);
  useEffect(() => {
    if (!connection.isLive) return;
    if (mode === "groups" && to >= from) pages.current?.want(from, to, 1, head);
    else if (head > 0 && end >= start) pages.current?.want(start, end, 1, head);
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
  const events: Event[] = [];
  if (mode === "groups") {
    for (let at = from; at <= to; at += 1) {
      const event = pages.current?.at(at);
      if (event !== undefined) events.push(event);
    }
  }
  const marked = events.filter((event) => anomaly(event) !== undefined).length;
  const visible: number[] = [];
  for (let at = start; at <= end; at += 1) visible.push(at);
  return (
    <>
      <SessionHead fold={fold} isLive={connection.isLive} view="timeline" />
      <div class={seq === undefined ? "timeline" : "timeline with-drawer"}>
        <main id="main" tabIndex={-1}>
          <form class="timeline-bar" onSubmit={go}>
            <div class="segments" role="group" aria-label="How events are shown">
              <button type="button" aria-pressed={mode === "groups"} onClick={() => choose("groups")}>
                Grouped
              </button>
              <button type="button" aria-pressed={mode === "events"} onClick={() => choose("events")}>
                Every event
              </button>
            </div>
            {mode === "groups" && (
              <div class="chips">
                <button type="button" aria-pressed={onlyMarked} onClick={() => setOnlyMarked(!onlyMarked)}>
                  Anomalies <span class="faint">{count(marked)}</span>
                </button>
              </div>
            )}
            <span class="faint ellipsis">
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
          {mode === "groups" && (
            <div class="grouped" onKeyDown={keys}>
              {from > first && (
                <button
                  type="button"
                  class="link earlier"
                  disabled={!connection.isLive || to - from >= MOST_WINDOW}
                  onClick={() =>
                    setPart({ from: Math.max(first, from - WINDOW), to: isFollowing ? Infinity : to })
                  }
                >
                  <Icon name="up" />{" "}
                  {to - from >= MOST_WINDOW
                    ? `${count(from - first)} earlier events are under “Every event”`
                    : `${count(Math.min(WINDOW, from - first))} earlier events`}
                </button>
              )}
              <EventGroups id={id} events={events} seq={seq} onlyMarked={onlyMarked} />
              {to < head && (
                <button
                  type="button"
                  class="link earlier"
                  disabled={!connection.isLive}
                  onClick={() => setPart(to - from >= MOST_WINDOW ? undefined : { from, to: to + WINDOW })}
                >
                  <Icon name="down" />{" "}
                  {to - from >= MOST_WINDOW
                    ? "The newest events"
                    : `${count(Math.min(WINDOW, head - to))} later events`}
                </button>
              )}
            </div>
          )}
          {mode === "events" && (
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
          )}
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
      <span role="gridcell">
        <After ms={after} />
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
  const shown = json.slice(0, MOST_JSON);
  const colours = useColours("json", shown);
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
          <p class="buttons">
            <a href={link.replay(id, seq)}>Replay this turn</a>
            <CopyButton name="Copy the event" text={json} />
            <CopyButton name="Copy a link" text={location.href} />
          </p>
          <dl class="facts">
            <dt>When</dt>
            <dd>
              {clockMillis(event.time)}
              {before !== undefined && ` · ${duration(event.time - before.time)} after seq ${count(seq - 1)}`}
            </dd>
            {whyMarked(event) !== undefined && <dt>Why it is marked</dt>}
            {whyMarked(event) !== undefined && <dd>{whyMarked(event)}</dd>}
          </dl>
          <pre class="json" tabIndex={0} role="region" aria-label="Raw event">
            <Coloured text={shown} lines={colours} />
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
