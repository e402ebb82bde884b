// One session: its head, its transcript, what it used, and the box for prompts.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Connection } from "../client/connection";
import type { SessionFold } from "../client/fold";
import { FollowedSession } from "../client/follow";
import type { Usage } from "../client/values";
import { Dock } from "./dock";
import { clock, count, duration, money, plural, shortPath, sum, tokens } from "./format";
import { useNow, useStore } from "./hooks";
import { Icon, StateIcon, type StateName } from "./icons";
import { link } from "./route";
import { promptText, Transcript } from "./transcript";
import { stateWords } from "./words";

/** Follows a session as long as a view shows it. */
export function useSession(id: string, connection: Connection): FollowedSession {
  const [followed, setFollowed] = useState(() => new FollowedSession(id, connection));
  useEffect(() => {
    let current = followed;
    if (current.id !== id) {
      current = new FollowedSession(id, connection);
      setFollowed(current);
    }
    return () => current.end();
  }, [id, connection]);
  useStore(followed);
  return followed;
}

export function SessionView({ id, connection }: { id: string; connection: Connection }) {
  const followed = useSession(id, connection);
  useStore(connection);
  const { fold } = followed;
  const [hasNewBelow, setNewBelow] = useState(false);
  const follows = useRef(true);
  const column = useRef<HTMLDivElement>(null);
  const head = useRef(0);
  // The tail is followed only if it was in view. Only a person scrolls up.
  useEffect(() => {
    let last = scrollY;
    const scrolled = () => {
      if (scrollY + innerHeight >= document.documentElement.scrollHeight - 80) {
        follows.current = true;
        setNewBelow(false);
      } else if (scrollY < last - 2) follows.current = false;
      last = scrollY;
    };
    const grown = new ResizeObserver(() => {
      if (follows.current) scrollTo({ top: document.documentElement.scrollHeight });
    });
    if (column.current !== null) grown.observe(column.current);
    addEventListener("scroll", scrolled, { passive: true });
    return () => {
      grown.disconnect();
      removeEventListener("scroll", scrolled);
    };
  }, [fold === undefined]);
  // Otherwise the page says that something is new.
  useLayoutEffect(() => {
    const now = fold?.head ?? 0;
    if (head.current !== 0 && now > head.current && !follows.current) setNewBelow(true);
    head.current = now;
  }, [fold?.head]);
  const toBottom = () => {
    follows.current = true;
    scrollTo({ top: document.documentElement.scrollHeight });
  };
  if (followed.reading === "gone") return <Gone />;
  if (typeof followed.reading === "object")
    return (
      <main class="narrow">
        <h1>This session cannot be shown</h1>
        <p class="reading">{followed.reading.problem}</p>
      </main>
    );
  if (fold === undefined)
    return (
      <main class="narrow">
        <h1>Session</h1>
        <p class="faint">Reading the newest part of the session.</p>
      </main>
    );
  return (
    <>
      <SessionHead fold={fold} isLive={connection.isLive} view="session" />
      <div class="session-columns">
        <main id="main" tabIndex={-1}>
          <div class="column" ref={column}>
            {fold.next !== undefined && (
              <button
                type="button"
                class="link earlier"
                disabled={followed.isReadingOlder || !connection.isLive}
                onClick={() => followed.readOlder()}
              >
                <Icon name="up" /> {followed.isReadingOlder ? "Reading earlier turns" : "Earlier turns"}
              </button>
            )}
            {fold.turns.size === 0 && fold.items.size === 0 && (
              <p class="reading faint">
                Nothing was said yet. Write a prompt below, and {fold.session.agent} begins to work in{" "}
                <span class="mono">{fold.session.cwd}</span>.
              </p>
            )}
            <Transcript fold={fold} session={fold.session} isLive={connection.isLive} />
          </div>
          <Dock
            key={id}
            fold={fold}
            isLive={connection.isLive}
            hasNewBelow={hasNewBelow}
            toBottom={toBottom}
          />
        </main>
        <Rail fold={fold} />
      </div>
    </>
  );
}

function Gone() {
  return (
    <main class="narrow">
      <h1>This session is gone</h1>
      <p class="reading">
        It was deleted, or it never existed here. <a href={link.sessions}>All sessions</a>
      </p>
    </main>
  );
}

export function SessionHead({
  fold,
  isLive,
  view,
}: {
  fold: SessionFold;
  isLive: boolean;
  view: "session" | "timeline";
}) {
  const { session } = fold;
  const cancelling = fold.openTurn?.cancelling !== undefined;
  const last = [...fold.turns.values()].at(-1);
  const state: StateName = cancelling
    ? "cancelling"
    : session.status === "idle" && last?.outcome === "lost"
      ? "lost"
      : session.status;
  const words =
    state === "cancelling"
      ? "Cancelling"
      : state === "lost"
        ? "Lost"
        : stateWords(session.status, session.retry);
  const title = session.title ?? untitled(fold);
  const facts = [
    session.agent,
    session.model,
    session.created === undefined ? undefined : `created ${clock(session.created)}`,
  ];
  return (
    <section class="session-head" aria-label="Session">
      <a class="icon-button" href={link.sessions} aria-label="All sessions">
        <Icon name="back" />
      </a>
      <div class="grow min0">
        <div class="title-line">
          <h1 class="ellipsis">{title}</h1>
          <span class={isLive ? `badge s-${state}` : "badge"} data-status={session.status}>
            <StateIcon state={state} /> {words}
            {!isLive && " when last seen"}
          </span>
        </div>
        <p class="faint ellipsis">
          {facts.filter((fact) => fact !== undefined).join(" · ")} ·{" "}
          <span title={session.cwd}>{shortPath(session.cwd)}</span> · <span class="mono">{session.id}</span>
        </p>
      </div>
      <nav class="segments" aria-label="Views of the session">
        <a href={link.session(session.id)} aria-current={view === "session" ? "page" : undefined}>
          Transcript
        </a>
        <a href={link.timeline(session.id)} aria-current={view === "timeline" ? "page" : undefined}>
          Timeline
        </a>
      </nav>
    </section>
  );
}

/** A session without a title is called by its first prompt that is here. */
function untitled(fold: SessionFold): string {
  const first = [...fold.prompts.values()].sort((a, b) => a.time - b.time)[0];
  return first === undefined ? "Untitled" : promptText(first).split("\n")[0]!.slice(0, 120);
}

function allTokens(usage: Usage | undefined): number | undefined {
  if (usage === undefined) return undefined;
  const known = [usage.input, usage.output, usage.reasoning, usage.cache_read, usage.cache_write].filter(
    (number) => number !== undefined,
  );
  return known.length === 0 ? undefined : known.reduce((all, number) => all + number, 0);
}

function Rail({ fold }: { fold: SessionFold }) {
  const now = useNow(1000);
  const turns = [...fold.turns.values()];
  const current = turns.at(-1);
  const context = fold.session.context;
  const part =
    context?.used === undefined || context.size === undefined || context.size === 0
      ? undefined
      : context.used / context.size;
  const lasted = current === undefined ? undefined : (current.ended ?? now) - current.started;
  const usage = current?.usage ?? current?.attempts.at(-1)?.usage;
  const used = allTokens(usage);
  const cost = current?.cost ?? sum(current?.attempts.map((attempt) => attempt.cost) ?? []);
  const repeated = turns
    .flatMap((turn) => turn.attempts)
    .filter((attempt) => attempt.superseded_by !== undefined).length;
  const isWhole = fold.next === undefined;
  return (
    <aside class="rail" aria-label="Usage">
      {current !== undefined && (
        <section>
          <h2>
            {current.outcome === undefined ? "This turn" : "Last turn"}{" "}
            <span class="faint">{lasted === undefined ? "" : duration(lasted)}</span>
          </h2>
          <dl>
            <dt>Cost</dt>
            <dd>{money(cost)}</dd>
            <dt>Model calls</dt>
            <dd>{current.attempts.length === 0 ? "—" : count(current.attempts.length)}</dd>
            <dt>Tokens</dt>
            <dd>{used === undefined ? "—" : tokens(used)}</dd>
          </dl>
        </section>
      )}
      <section>
        <h2>Session</h2>
        <dl>
          <dt>
            {isWhole
              ? `Cost, ${plural(turns.length, "turn")}`
              : `Cost of the last ${plural(turns.length, "turn")}`}
          </dt>
          <dd>{money(sum(turns.map((turn) => turn.cost)))}</dd>
          {repeated > 0 && (
            <>
              <dt>Attempts repeated</dt>
              <dd>{count(repeated)}</dd>
            </>
          )}
          {context?.used !== undefined && (
            <>
              <dt>Context</dt>
              <dd>
                {tokens(context.used)}
                {context.size === undefined ? "" : ` of ${tokens(context.size)}`}
              </dd>
            </>
          )}
        </dl>
        {part !== undefined && (
          <meter class={part >= 0.8 ? "full" : ""} min={0} max={1} value={part} aria-label="Context in use">
            {Math.round(part * 100)} %
          </meter>
        )}
      </section>
    </aside>
  );
}
