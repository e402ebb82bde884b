// All sessions: those that wait for a person come first.

import { useEffect, useMemo, useState } from "preact/hooks";
import type { Connection, SessionState } from "turnstream";
import { useActivity } from "./activity";
import { request } from "./api";
import { useIsWide, WaitingColumn } from "./beside";
import { Empty } from "./empty";
import { plain } from "./event_words";
import { ago, count, startOfDay } from "./format";
import { useNow, useStore } from "./hooks";
import { Icon } from "./icons";
import { link } from "./route";
import { isLost, isWorking, type Row, SessionRow, Title } from "./rows";

interface Group {
  name: string;
  detail?: string;
  rows: Row[];
}

/** Rows that are shown at first, and with each "Show more". */
const STEP = 200;
const DAY = 86_400_000;
/** Working sessions that say what they do. */
const NEAR_ROWS = 20;

function groups(rows: Row[], now: number): Group[] {
  const today = startOfDay(now);
  const of = (name: string, test: (row: Row) => boolean, detail?: string): Group => ({
    name,
    rows: rows.filter(test),
    ...(detail !== undefined && { detail }),
  });
  const idle = (row: Row) => row.status === "idle" && !isLost(row);
  const active = (row: Row) => row.active ?? 0;
  const waiting = of("Waiting for you", (row) => row.status === "waiting", "the longest wait first");
  waiting.rows.reverse();
  return [
    waiting,
    of("Working", isWorking),
    of("Lost", isLost),
    of("Idle today", (row) => idle(row) && active(row) >= today),
    of("Idle yesterday", (row) => idle(row) && active(row) < today && active(row) >= today - DAY),
    of("Earlier", (row) => idle(row) && active(row) < today - DAY),
  ].filter((group) => group.rows.length > 0);
}

type Filter = "all" | "waiting" | "working" | "idle" | "lost";

const FILTERS: { filter: Filter; name: string; test: (row: Row) => boolean }[] = [
  { filter: "all", name: "All", test: () => true },
  { filter: "waiting", name: "Waiting", test: (row) => row.status === "waiting" },
  { filter: "working", name: "Working", test: isWorking },
  { filter: "idle", name: "Idle", test: (row) => row.status === "idle" && !isLost(row) },
  { filter: "lost", name: "Lost", test: isLost },
];

export function SessionsView({ connection }: { connection: Connection }) {
  useStore(connection);
  const now = useNow(10_000);
  const isWide = useIsWide();
  const active = useActivity(connection);
  const [text, setText] = useState("");
  const [filter, setFilter] = useState<Filter>("all");
  const [most, setMost] = useState(STEP);
  const rows = [...connection.states.values()]
    .map((state): Row => ({ ...state, active: state.changed ?? active.get(state.session) }))
    .sort((a, b) => (b.active ?? 0) - (a.active ?? 0) || (a.session < b.session ? 1 : -1));
  const wanted = text.trim().toLowerCase();
  const test = FILTERS.find((one) => one.filter === filter)?.test ?? (() => true);
  const named = (row: Row) =>
    `${row.title ?? ""} ${row.agent} ${row.cwd} ${row.session}`.toLowerCase().includes(wanted);
  const matching = rows.filter((row) => test(row) && (wanted === "" || named(row)));
  const shown = matching.slice(0, most);
  if (!connection.known)
    return (
      <main class="narrow">
        <h1 class="sr">Sessions</h1>
        <p class="faint">Reading the sessions.</p>
      </main>
    );
  if (rows.length === 0) return <Empty />;
  const waiting = rows.filter((row) => row.status === "waiting").reverse();
  return (
    <div class={isWide ? "sessions-columns" : ""}>
      <main id="main" class="sessions" tabIndex={-1}>
        <h1 class="sr">Sessions</h1>
        <div class="filters">
          <label class="search">
            <Icon name="search" />
            <span class="sr">Search titles and everything said</span>
            <input
              type="search"
              placeholder="Search titles and everything said"
              value={text}
              onInput={(event) => setText(event.currentTarget.value)}
            />
            <kbd>/</kbd>
          </label>
          <div class="chips" role="group" aria-label="State">
            {FILTERS.filter((one) => one.filter !== "lost" || rows.some(isLost)).map((one) => (
              <button
                key={one.filter}
                type="button"
                aria-pressed={filter === one.filter}
                onClick={() => setFilter(one.filter)}
              >
                {one.name} <span class="faint">{count(rows.filter(one.test).length)}</span>
              </button>
            ))}
          </div>
        </div>
        <div class="row columns" aria-hidden="true">
          <span>State</span>
          <span>Session</span>
          <span class="agent">Agent</span>
          <span class="directory">Directory</span>
          <span class="cost">Cost</span>
          <span class="when">Active</span>
        </div>
        {groups(shown, now).map((group) => (
          <section key={group.name}>
            <h2 class="group">
              {group.name} <span class="faint">{group.detail ?? count(group.rows.length)}</span>
            </h2>
            <ul class="rows">
              {group.rows.map((row, place) => (
                <SessionRow
                  key={row.session}
                  row={row}
                  now={now}
                  isLive={connection.isLive}
                  isNear={place < NEAR_ROWS}
                />
              ))}
            </ul>
          </section>
        ))}
        {matching.length > shown.length && (
          <button type="button" class="link earlier" onClick={() => setMost(most + STEP)}>
            Show {count(Math.min(STEP, matching.length - shown.length))} more of {count(matching.length)}
          </button>
        )}
        {matching.length === 0 && (
          <p class="faint nothing">No session has this in its title, agent or directory.</p>
        )}
        {wanted.length > 1 && <Hits query={wanted} titles={connection.states} />}
      </main>
      {isWide && <WaitingColumn states={waiting} isLive={connection.isLive} />}
    </div>
  );
}

interface Hit {
  session: string;
  agent: string;
  kind: string;
  time: number;
  item?: string;
  prompt?: string;
  snippet: { text: string; hit?: boolean }[];
}

/** What was said, in all sessions. */
function Hits({ query, titles }: { query: string; titles: Map<string, SessionState> }) {
  const [found, setFound] = useState<{ query: string; hits: Hit[]; problem?: string }>();
  const now = useMemo(() => Date.now(), [query]);
  useEffect(() => {
    const gone = new AbortController();
    const timer = setTimeout(() => {
      request<{ hits: Hit[] }>(`/v1/search?limit=20&q=${encodeURIComponent(query)}`, { signal: gone.signal })
        .then(({ hits }) => setFound({ query, hits }))
        .catch((error: Error) => {
          if (!gone.signal.aborted) setFound({ query, hits: [], problem: error.message });
        });
    }, 200);
    return () => {
      clearTimeout(timer);
      gone.abort();
    };
  }, [query]);
  if (found === undefined || found.query !== query) return null;
  return (
    <section>
      <h2 class="group">
        Said{" "}
        <span class="faint">
          {found.problem ??
            (found.hits.length === 0 ? "nothing that is finished has these words" : "the newest first")}
        </span>
      </h2>
      <ul class="rows">
        {found.hits.map((hit) => (
          <li key={`${hit.session}-${hit.item ?? hit.prompt}`}>
            <a class="row hit" href={link.session(hit.session, hit.item ?? hit.prompt)}>
              <span class="title ellipsis">
                <Title session={hit.session} title={titles.get(hit.session)?.title} isNear />
              </span>
              <span class="what">
                <span class="ellipsis">
                  {hit.snippet.map((part, place) =>
                    part.hit ? <mark key={place}>{plain(part.text)}</mark> : plain(part.text),
                  )}
                </span>
              </span>
              <span class="agent">{hit.agent}</span>
              <span class="when">{ago(hit.time, now)}</span>
            </a>
          </li>
        ))}
      </ul>
    </section>
  );
}
