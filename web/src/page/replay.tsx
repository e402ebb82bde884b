// A finished turn, as it was at each moment. It snaps to events: nothing is shown that was not in the log.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import {
  type Connection,
  type Event,
  type ItemsPage,
  SessionFold,
  type SessionInfo,
  sessionPath,
  type TurnEvents,
  turnEvents,
} from "turnstream";
import { client, request } from "./api";
import { problemWords } from "./answer";
import { clockMillis, count, duration, plural } from "./format";
import { Icon } from "./icons";
import { Kept } from "./kept";
import { Replaying } from "./replaying";
import { link } from "./route";
import { SessionHead } from "./session";
import { Transcript } from "./transcript";

const SPEEDS = [1, 2, 4, 8, 16, 32];
/** From this speed on, longer gaps are skipped. */
const SKIPS_FROM = 8;
const LONG_GAP_MS = 5_000;

interface Read {
  session: SessionInfo;
  turn: TurnEvents;
}

async function readTurn(id: string, seq: number): Promise<Read | undefined> {
  const [session, turn] = await Promise.all([
    request<SessionInfo>(sessionPath(id)),
    turnEvents(client, id, seq),
  ]);
  return turn === undefined ? undefined : { session, turn };
}

const EMPTY: ItemsPage = { generation: "", oldest: 1, head: 0, items: [], turns: [], prompts: [] };

interface ReplayProps {
  id: string;
  seq: number;
  connection: Connection;
}

export function ReplayView({ id, seq, connection }: ReplayProps) {
  const [read, setRead] = useState<Read | "none" | { problem: string }>();
  useEffect(() => {
    let ended = false;
    readTurn(id, seq)
      .then((read) => read ?? ("none" as const))
      .catch((error) => ({ problem: problemWords(error) }))
      .then((read) => {
        if (!ended) setRead(read);
      });
    return () => {
      ended = true;
    };
  }, [id, seq, connection.isLive]);
  if (read === undefined) {
    return (
      <main class="narrow">
        <h1>Replay</h1>
        <p class="faint">Reading the turn.</p>
      </main>
    );
  }
  if (read === "none" || "problem" in read) {
    return (
      <main class="narrow">
        <h1>This turn cannot be replayed</h1>
        <p class="reading">
          {read === "none" ? `No turn begins before seq ${count(seq)}.` : read.problem}{" "}
          <a href={link.timeline(id, seq)}>Timeline</a>
        </p>
      </main>
    );
  }
  return <Player key={`${id} ${read.turn.turn}`} {...read} isLive={connection.isLive} />;
}

/** The state after so many events. Going on costs only the new events. */
function useFoldAt(session: SessionInfo, events: Event[], at: number): SessionFold {
  const last = useRef<{ fold: SessionFold; at: number }>(undefined);
  return useMemo(() => {
    let now = last.current;
    if (now === undefined || now.at > at) {
      const { retry: _, ...rest } = session;
      now = { fold: SessionFold.of({ ...rest, status: "busy" }, EMPTY), at: 0 };
      now.fold.isReadBack = true;
    }
    for (const event of events.slice(now.at, at)) now.fold.apply(event);
    last.current = { fold: now.fold, at };
    return now.fold;
  }, [session, events, at]);
}

function Player({ session, turn, isLive }: Read & { isLive: boolean }) {
  const { events } = turn;
  // Its prompts come before it, and are there from its first moment on.
  const least = events.findIndex((event) => event.type === "turn.started") + 1;
  const times = useMemo(() => events.map((event) => event.time), [events]);
  const [first = 0, last = 0] = [times[0], times.at(-1)];
  const [at, setAt] = useState(events.length);
  const [isPlaying, setPlaying] = useState(false);
  const [speed, setSpeed] = useState(1);
  const [skipped, setSkipped] = useState<number>();
  const fold = useFoldAt(session, events, at);
  const follows = useRef(true);
  const [kept] = useState(() => new Map<string, unknown>());
  const place = useRef(at);
  place.current = at;

  useEffect(() => {
    if (!isPlaying) return;
    let frame = 0;
    let before = performance.now();
    let time = times[Math.max(0, place.current - 1)] ?? first;
    const tick = (now: number) => {
      time += (now - before) * speed;
      before = now;
      let next = place.current;
      while (next < times.length && (times[next] ?? 0) <= time) next += 1;
      const gap = (times[next] ?? 0) - (times[next - 1] ?? first);
      if (next < times.length && speed >= SKIPS_FROM && gap > LONG_GAP_MS) {
        time = times[next] ?? time;
        setSkipped(gap);
      }
      setAt(next);
      if (next >= times.length) setPlaying(false);
      else frame = requestAnimationFrame(tick);
    };
    frame = requestAnimationFrame(tick);
    return () => cancelAnimationFrame(frame);
  }, [isPlaying, speed, times, first]);
  // The newest is in view while it plays.
  useEffect(() => {
    if (isPlaying) scrollTo({ top: document.documentElement.scrollHeight });
  }, [at, isPlaying]);

  const jump = (to: number) => {
    setPlaying(false);
    setSkipped(undefined);
    setAt(Math.min(events.length, Math.max(least, to)));
  };
  const play = () => {
    if (!isPlaying && at >= events.length) setAt(least);
    setSkipped(undefined);
    setPlaying(!isPlaying);
  };
  /** The next event of another item. */
  const item = (step: 1 | -1) => {
    const own = events[at - 1]?.item;
    let to = at + step;
    while (to > least && to < events.length && events[to - 1]?.item === own) to += step;
    jump(to);
  };
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const into = event.target as HTMLElement;
      if (
        event.ctrlKey ||
        event.metaKey ||
        event.altKey ||
        into.matches("button, input, textarea, select, a")
      )
        return;
      if (event.key === " ") play();
      else if (event.key === "ArrowRight") event.shiftKey ? item(1) : jump(at + 1);
      else if (event.key === "ArrowLeft") event.shiftKey ? item(-1) : jump(at - 1);
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  });
  const event = events[at - 1];
  const moment = event === undefined ? "" : clockMillis(event.time);
  const seq = event?.seq ?? 0;
  return (
    <>
      <SessionHead fold={fold} isLive={isLive} view="replay" />
      <main id="main" class="replay" tabIndex={-1}>
        <div class="column">
          <p class="notice plain-notice">
            <Icon name="play" />
            <span>
              <b>Replay.</b> This is the past, and nothing in it can be answered.
              {turn.isCut && ` The turn is longer: these are its first ${count(events.length)} events.`}
              {turn.isOpen && " The turn has not ended: this is what it had when you opened the replay."}
            </span>
          </p>
          <Kept.Provider value={kept}>
            <Replaying.Provider value={true}>
              <Transcript fold={fold} session={fold.session} isLive={false} follows={follows} />
            </Replaying.Provider>
          </Kept.Provider>
        </div>
        <div class="dock scrubber">
          <Lanes events={events} first={first} last={last} at={event?.time ?? first} />
          <input
            type="range"
            aria-label="Place in the turn"
            min={least}
            max={events.length}
            value={at}
            aria-valuetext={`${moment}, seq ${count(seq)}`}
            onInput={(input) => jump(Number(input.currentTarget.value))}
          />
          <div class="scrub-line">
            <button type="button" class="primary" onClick={play}>
              <Icon name={isPlaying ? "pause" : "play"} /> {isPlaying ? "Pause" : "Play"}
            </button>
            <span class="scrub-at">
              {moment} · <a href={link.timeline(session.id, seq)}>seq {count(seq)}</a>
              <span class="faint">
                {" "}
                · {plural(events.length, "event")} in {duration(last - first)}
              </span>
              {skipped !== undefined && <span class="faint"> · skipped {duration(skipped)}</span>}
            </span>
            <span class="grow" />
            <span class="legend faint">
              {LANES.map(({ lane, name }) => (
                <span key={lane} class={`lane-${lane}`}>
                  <i /> {name}
                </span>
              ))}
            </span>
            <div class="chips" role="group" aria-label="Speed">
              {SPEEDS.map((one) => (
                <button key={one} type="button" aria-pressed={speed === one} onClick={() => setSpeed(one)}>
                  {one}×
                </button>
              ))}
            </div>
          </div>
        </div>
      </main>
    </>
  );
}

type Lane = "text" | "tools" | "waiting";

interface Span {
  lane: Lane;
  from: number;
  to: number;
  isVoid: boolean;
}

/** When something was written, run or waited for. */
function spansOf(events: Event[], last: number): Span[] {
  const open = new Map<string, Span>();
  const spans: Span[] = [];
  const begin = (key: string, lane: Lane, from: number) => {
    const span = { lane, from, to: last, isVoid: false };
    open.set(key, span);
    spans.push(span);
  };
  const end = (key: string, to: number) => {
    const span = open.get(key);
    if (span !== undefined) span.to = to;
  };
  for (const event of events) {
    if (event.type === "item.started")
      begin(event.item, event.kind === "tool" ? "tools" : "text", event.time);
    else if (event.type === "item.ended") end(event.item, event.time);
    else if (event.type === "approval.requested") begin(event.approval, "waiting", event.time);
    else if (event.type === "approval.resolved") end(event.approval, event.time);
    else if (event.type === "question.asked") begin(event.question, "waiting", event.time);
    else if (event.type === "question.answered") end(event.question, event.time);
    else if (event.type === "attempt.superseded") {
      for (const item of event.items) {
        const span = open.get(item);
        if (span !== undefined) [span.isVoid, span.to] = [true, Math.min(span.to, event.time)];
      }
    }
  }
  return spans.slice(0, MOST_SPANS);
}

const LANES: { lane: Lane; name: string }[] = [
  { lane: "text", name: "text" },
  { lane: "tools", name: "tools" },
  { lane: "waiting", name: "waiting for you" },
];
const MOST_SPANS = 600;

function Lanes({ events, first, last, at }: { events: Event[]; first: number; last: number; at: number }) {
  const spans = useMemo(() => spansOf(events, last), [events, last]);
  const part = (time: number) => (last === first ? 0 : (100 * (time - first)) / (last - first));
  return (
    <div class="lanes" aria-hidden="true">
      {LANES.map(({ lane }) => (
        <div key={lane} class={`lane lane-${lane}`}>
          {spans
            .filter((span) => span.lane === lane)
            .map((span, place) => (
              <i
                key={place}
                class={span.isVoid ? "void" : ""}
                style={{
                  left: `${part(span.from)}%`,
                  width: `${Math.max(0.3, part(span.to) - part(span.from))}%`,
                }}
              />
            ))}
        </div>
      ))}
      <b style={{ left: `${part(at)}%` }} />
    </div>
  );
}
