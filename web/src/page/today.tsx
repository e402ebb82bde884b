// What happened today that a person may want to know: turns that ended badly, and the start of the gateway.

import { useEffect, useState } from "preact/hooks";
import type { Connection, Turn } from "turnstream";
import { useActivity } from "./activity";
import { client } from "./api";
import { clock, fullDate, startOfDay } from "./format";
import { link } from "./route";
import { type Row, Title } from "./rows";
import { endWords } from "./words";

/** More are in the list of sessions. */
const MOST = 20;

interface TodayProps {
  connection: Connection;
  started: number | undefined;
  now: number;
}

export function Today({ connection, started, now }: TodayProps) {
  const active = useActivity(connection);
  const today = startOfDay(now);
  const ended = [...connection.states.values()]
    .map((state): Row => ({ ...state, active: state.changed ?? active.get(state.session) }))
    .filter(({ status, last }) => status === "idle" && last !== undefined && last.outcome !== "cancelled")
    .filter((row) => (row.active ?? 0) >= today)
    .sort((a, b) => (b.active ?? 0) - (a.active ?? 0));
  const hasStarted = started !== undefined && started >= today;
  // What was said before the start stands below it.
  const at = ended.slice(0, MOST).findIndex((row) => started !== undefined && (row.active ?? 0) < started);
  const rows = ended.slice(0, MOST).map((row) => <EndedBadly key={row.session} row={row} today={today} />);
  if (hasStarted) rows.splice(at === -1 ? rows.length : at, 0, <Started key="started" time={started} />);
  return (
    <section>
      <h2>Today</h2>
      {rows.length === 0 ? (
        <p class="card note dim">No turn failed or was lost.</p>
      ) : (
        <ul class="card agents today">{rows}</ul>
      )}
    </section>
  );
}

function Started({ time }: { time: number }) {
  return (
    <li>
      <time class="faint" title={fullDate(time)}>
        {clock(time)}
      </time>
      <span>The gateway was started.</span>
    </li>
  );
}

/** How the last turn of a session ended. States do not say when, so it is asked. */
function EndedBadly({ row, today }: { row: Row; today: number }) {
  const [turn, setTurn] = useState<Turn>();
  useEffect(() => {
    const gone = new AbortController();
    client
      .items(row.session, { limit: 1, signal: gone.signal })
      .then(({ turns }) => setTurn(turns[0]))
      .catch(() => undefined);
    return () => gone.abort();
  }, [row.session, row.changed]);
  // Something else may have happened to the session since, for example a new title.
  if (turn?.ended === undefined || turn.ended < today) return null;
  return (
    <li>
      <time class="faint" title={fullDate(turn.ended)}>
        {clock(turn.ended)}
      </time>
      <span>
        <span class={turn.outcome === "lost" ? "c-lost" : ""}>{endWords(turn) ?? "The turn ended"}.</span>{" "}
        <a href={link.session(row.session)}>
          <Title session={row.session} title={row.title} isNear />
        </a>
      </span>
    </li>
  );
}
