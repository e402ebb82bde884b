// Rows of sessions: what each of them is doing, what it waits for, and how its last turn ended.

import { useEffect, useState } from "preact/hooks";
import type { Approval, Asked, Item, SessionState } from "turnstream";
import { client } from "./api";
import { ago, fullDate, money, plural, shortPath } from "./format";
import { StateIcon, type StateName } from "./icons";
import { link } from "./route";
import { promptText } from "./transcript";
import { classWords, doing, stateWords, target, verb } from "./words";

export interface Row extends SessionState {
  active: number | undefined;
}

export function isLost(row: SessionState): boolean {
  return row.status === "idle" && row.last?.outcome === "lost";
}

export function isWorking(row: SessionState): boolean {
  return row.status === "busy" || row.status === "retrying" || row.status === "recovering";
}

export function stateOf(row: SessionState): StateName {
  return isLost(row) ? "lost" : row.status;
}

export function rowWords(row: SessionState): string {
  return isLost(row) ? "Lost" : stateWords(row.status, row.retry);
}

/** How the last turn of an idle session ended, if not well. */
export function lastWords({ status, last }: SessionState): string | undefined {
  if (status !== "idle" || last === undefined) return undefined;
  const why = last.class === undefined ? "" : `: ${classWords(last.class)}`;
  switch (last.outcome) {
    case "cancelled":
      return "Last turn cancelled";
    case "failed":
      return last.class === "budget" ? "Stopped at its budget" : `Last turn failed${why}`;
    case "lost":
      return `How far its last turn came is not known${why}`;
  }
}

/** How often it is asked what a session is doing. States do not say it. */
const LOOK_MS = 5_000;

/** What a working session does, in a few words. */
function Doing({ session }: { session: string }) {
  const [words, setWords] = useState<string>();
  useEffect(() => {
    const gone = new AbortController();
    const look = async () => {
      if (document.hidden) return;
      const { items } = await client.items(session, { limit: 1, signal: gone.signal });
      const [item] = items as (Item | undefined)[];
      setWords(item === undefined ? undefined : doing(item));
    };
    const ask = () => void look().catch(() => undefined);
    ask();
    const timer = setInterval(ask, LOOK_MS);
    return () => {
      clearInterval(timer);
      gone.abort();
    };
  }, [session]);
  return words === undefined ? null : <span class="faint ellipsis">{words}</span>;
}

/** The first words of a prompt of sessions without a title, as far as they were asked for. */
const prompts = new Map<string, string>();

interface TitleProps {
  session: string;
  title: string | undefined;
  isNear: boolean;
  /** With each change it is looked again, until there is a prompt. */
  status?: string;
}

/** The title of a session. One without a title is called by what was asked of it. */
export function Title({ session, title, isNear, status }: TitleProps) {
  const [, setKnown] = useState(0);
  const isWanted = title === undefined && isNear && !prompts.has(session);
  useEffect(() => {
    if (!isWanted) return;
    const gone = new AbortController();
    client
      .items(session, { limit: 1, signal: gone.signal })
      .then(({ prompts: [prompt] }) => {
        if (prompt === undefined) return;
        prompts.set(session, promptText(prompt).split("\n")[0]!.slice(0, 120));
        setKnown((known) => known + 1);
      })
      .catch(() => undefined);
    return () => gone.abort();
  }, [session, isWanted, status]);
  const words = prompts.get(session);
  return <>{title ?? (words === undefined ? "Untitled" : `“${words}”`)}</>;
}

interface Waits {
  approvals: Approval[];
  questions: Asked[];
}

/** What a session waits for. It is asked again with each change of the session. */
export function useWaits(session: string, version: unknown): Waits | undefined {
  const [page, setPage] = useState<Waits>();
  useEffect(() => {
    const gone = new AbortController();
    client
      .items(session, { limit: 1, signal: gone.signal })
      .then(({ approvals = [], questions = [] }) =>
        setPage({
          approvals: approvals.filter((one) => one.outcome === undefined),
          questions: questions.filter((one) => one.outcome === undefined),
        }),
      )
      .catch(() => undefined);
    return () => gone.abort();
  }, [session, version]);
  return page;
}

function WaitsFor({ row }: { row: Row }) {
  const waits = useWaits(row.session, row.changed);
  const tool = waits?.approvals[0]?.tool;
  const questions = waits?.questions.length ?? 0;
  return (
    <span class="dim ellipsis">
      {questions > 0 && plural(questions, "question")}
      {tool !== undefined && (
        <>
          {questions > 0 ? ", and to " : "To "}
          {verb(tool).toLowerCase()} <span class="mono">{target(tool)}</span>
        </>
      )}
    </span>
  );
}

/** How long a session waits, in a few words. */
function since(time: number, now: number): string {
  const minutes = Math.floor(Math.max(0, now - time) / 60_000);
  return minutes < 1
    ? "less than a minute"
    : minutes < 120
      ? `${minutes} min`
      : `${Math.floor(minutes / 60)} h`;
}

interface SessionRowProps {
  row: Row;
  now: number;
  isLive: boolean;
  /** Only the first rows ask what their session does. */
  isNear: boolean;
}

export function SessionRow({ row, now, isLive, isNear }: SessionRowProps) {
  const waits = row.status === "waiting";
  const last = lastWords(row);
  return (
    <li>
      <a
        class={waits && isLive ? "row waits" : "row"}
        href={link.session(row.session)}
        data-session={row.session}
        data-status={row.status}
      >
        <span class={`state s-${stateOf(row)}`} title={row.status === "retrying" ? rowWords(row) : undefined}>
          <StateIcon state={stateOf(row)} />{" "}
          <span>
            {rowWords(row)}
            {!isLive && row.status !== "idle" && " when last seen"}
            {waits && isLive && row.active !== undefined && (
              <span class="since">for {since(row.active, now)}</span>
            )}
          </span>
        </span>
        <span class="what">
          <span class="title ellipsis">
            <Title session={row.session} title={row.title} isNear={isNear} status={row.status} />
          </span>
          {waits && <WaitsFor row={row} />}
          {row.status === "retrying" && row.retry !== undefined && (
            <span class="faint ellipsis">
              {row.retry.reason === undefined ? row.retry.message : classWords(row.retry.reason)}
            </span>
          )}
          {row.status === "busy" && isLive && isNear && <Doing session={row.session} />}
          {last !== undefined && <span class="faint ellipsis">{last}</span>}
        </span>
        <span class="agent ellipsis">{row.agent}</span>
        <span class="directory ellipsis" title={row.cwd}>
          <bdi>{shortPath(row.cwd)}</bdi>
        </span>
        <span class="cost">{money(row.cost)}</span>
        <span class="when" title={row.active === undefined ? undefined : fullDate(row.active)}>
          {waits && isLive ? (
            <span class="button">Answer</span>
          ) : row.active === undefined ? (
            ""
          ) : (
            ago(row.active, now)
          )}
        </span>
      </a>
    </li>
  );
}
