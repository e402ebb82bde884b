// One session: its head, its transcript, what it used, and the box for prompts.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import {
  type Cap,
  type Connection,
  FollowedSession,
  type SessionFold,
  type SessionInfo,
  type Turn,
  type Usage,
} from "turnstream";
import { Announce } from "./announce";
import { BudgetForm, CapLines, capWords } from "./budget";
import { Dock } from "./dock";
import { clockSeconds, count, duration, moment, money, plural, shortPath, sum, tokens } from "./format";
import { useNow, useStore } from "./hooks";
import { Icon, StateIcon, type StateName } from "./icons";
import { Kept } from "./kept";
import { SessionMenu } from "./menu";
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

interface SessionProps {
  id: string;
  /** An item or a prompt that is looked for, for example by a search. */
  place: string | undefined;
  connection: Connection;
}

export function SessionView({ id, place, connection }: SessionProps) {
  const followed = useSession(id, connection);
  useStore(connection);
  const { fold } = followed;
  const [hasNewBelow, setNewBelow] = useState(false);
  const follows = useRef(true);
  const column = useRef<HTMLDivElement>(null);
  const head = useRef(0);
  const [kept] = useState(() => new Map<string, unknown>());
  // The tail is followed only if it was in view. Only a person scrolls up.
  useEffect(() => {
    let last = scrollY;
    const scrolled = () => {
      if (scrollY + innerHeight >= document.documentElement.scrollHeight - 80) {
        follows.current = true;
        setNewBelow(false);
      } else if (scrollY < last - 2) follows.current = false;
      last = scrollY;
      if (followed.fold !== undefined) followed.fold.isReadBack = !follows.current;
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
  // The browser stops where the end was when the key was pressed. Parts that come into view may be longer.
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const hasModifier = event.ctrlKey || event.metaKey || event.altKey || event.shiftKey;
      const isElsewhere = (event.target as HTMLElement).closest("input, textarea, select, dialog, .drawer");
      if (event.key !== "End" || hasModifier || isElsewhere || event.defaultPrevented) return;
      event.preventDefault();
      toBottom();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
  const readOlder = () => {
    const isShort = document.documentElement.scrollHeight < 1.5 * innerHeight;
    const isTried = followed.olderProblem !== undefined;
    if (connection.isLive && !isTried && (isShort || !follows.current)) void followed.readOlder();
  };
  // Older pages are read until the place is here.
  useEffect(() => {
    if (place === undefined || fold === undefined || fold.items.has(place) || fold.prompts.has(place)) return;
    if (connection.isLive && followed.olderProblem === undefined) void followed.readOlder();
  }, [place, fold === undefined, fold?.next, followed.isReadingOlder, connection.isLive]);
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
            {fold.next !== undefined && followed.isFull && (
              <p class="faint earlier">
                The page holds no more than {count(fold.items.size)} items. Older ones are in the{" "}
                <a href={link.timeline(id)}>timeline</a>.
              </p>
            )}
            {followed.olderProblem !== undefined && <p class="problem earlier">{followed.olderProblem}.</p>}
            {fold.next !== undefined && !followed.isFull && (
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
            <Kept.Provider value={kept}>
              <Transcript
                fold={fold}
                session={fold.session}
                isLive={connection.isLive}
                follows={follows}
                sought={place}
                nearTop={readOlder}
              />
            </Kept.Provider>
          </div>
          <Dock
            key={id}
            fold={fold}
            isLive={connection.isLive}
            hasNewBelow={hasNewBelow}
            toBottom={toBottom}
          />
        </main>
        <Rail fold={fold} isLive={connection.isLive} />
        <Announce key={`said ${id}`} fold={fold} />
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
  view: "session" | "timeline" | "replay";
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
    session.created === undefined ? undefined : `created ${moment(session.created, Date.now())}`,
  ];
  return (
    <section class="session-head" aria-label="Session">
      <a class="icon-button" href={link.sessions} aria-label="All sessions">
        <Icon name="back" />
      </a>
      <div class="grow min0">
        <div class="title-line">
          <h1 class="ellipsis">{title}</h1>
          {view === "replay" ? (
            <span class="badge">
              <Icon name="play" /> Replay
            </span>
          ) : (
            <span class={isLive ? `badge s-${state}` : "badge"} data-status={session.status}>
              <StateIcon state={state} /> {words}
              {!isLive && " when last seen"}
            </span>
          )}
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
      <SessionMenu session={session} isLive={isLive} />
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

function Rail({ fold, isLive }: { fold: SessionFold; isLive: boolean }) {
  const now = useNow(1000);
  const [isSetting, setSetting] = useState(false);
  const { session } = fold;
  const { budget, context } = session;
  const turns = [...fold.turns.values()];
  const current = turns.at(-1);
  const part =
    context?.used === undefined || context.size === undefined || context.size === 0
      ? undefined
      : context.used / context.size;
  const lasted = current === undefined ? undefined : (current.ended ?? now) - current.started;
  const used = turnTokens(current);
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
            <dd>{ofCap(money(cost), budget?.turn?.cost, "cost")}</dd>
            <dt>Model calls</dt>
            <dd>
              {ofCap(
                current.attempts.length === 0 ? "—" : count(current.attempts.length),
                budget?.turn?.steps,
                "steps",
              )}
            </dd>
            <dt>Tokens</dt>
            <dd>{ofCap(used === undefined ? "—" : tokens(used), budget?.turn?.tokens, "tokens")}</dd>
          </dl>
        </section>
      )}
      <section>
        <h2>Session</h2>
        <dl>
          <dt>{isWhole ? `Cost, ${plural(turns.length, "turn")}` : "Cost of all turns"}</dt>
          <dd>{money(session.cost ?? sum(turns.map((turn) => turn.cost)))}</dd>
          {allTokens(session.usage) !== undefined && (
            <>
              <dt>Tokens</dt>
              <dd>{tokens(allTokens(session.usage) ?? 0)}</dd>
            </>
          )}
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
      <section class="budget">
        <h2>
          Budget
          {!isSetting && (
            <button type="button" class="link" disabled={!isLive} onClick={() => setSetting(true)}>
              {budget === undefined ? "Set" : "Change"}
            </button>
          )}
        </h2>
        {isSetting ? (
          <BudgetForm session={session} done={() => setSetting(false)} />
        ) : Object.keys(budget?.session ?? {}).length === 0 ? (
          <p class="faint">No limit for all turns together.</p>
        ) : (
          <dl>
            <CapLines caps={budget?.session ?? {}} used={budget?.used ?? {}} />
          </dl>
        )}
      </section>
      <Turns fold={fold} />
      <Handovers session={session} />
    </aside>
  );
}

function ofCap(used: string, cap: number | undefined, kind: Cap): string {
  return cap === undefined ? used : `${used} of ${capWords(kind, cap)}`;
}

function turnTokens(turn: Turn | undefined): number | undefined {
  const whole = allTokens(turn?.usage);
  if (whole !== undefined || turn === undefined) return whole;
  const calls = turn.attempts.map((attempt) => allTokens(attempt.usage)).filter((used) => used !== undefined);
  return calls.length === 0 ? undefined : calls.reduce((all, used) => all + used, 0);
}

/** More are in the transcript. */
const MOST_TURNS = 12;

/** The newest turns that are here, with what each cost. Each leads to its prompt. */
function Turns({ fold }: { fold: SessionFold }) {
  const turns = [...fold.turns.values()].reverse().slice(0, MOST_TURNS);
  if (turns.length < 2) return null;
  return (
    <section class="turns">
      <h2>Turns</h2>
      <ul>
        {turns.map((turn) => {
          const prompt = fold.prompts.get(turn.prompts[0] ?? "");
          return (
            <li key={turn.turn}>
              <TurnIcon turn={turn} />
              <a class="ellipsis grow" href={link.session(fold.session.id, prompt?.prompt)}>
                {prompt === undefined ? `Begun ${clockSeconds(turn.started)}` : promptText(prompt)}
              </a>
              <span class="faint">{money(turn.cost)}</span>
            </li>
          );
        })}
      </ul>
    </section>
  );
}

function TurnIcon({ turn: { outcome } }: { turn: Turn }) {
  if (outcome === undefined) return <StateIcon state="busy" />;
  if (outcome === "completed") return <Icon name="check" />;
  return <Icon name={outcome === "cancelled" ? "stop" : "cross"} />;
}

/** The sessions that this one came from or went on to. */
function Handovers({ session }: { session: SessionInfo }) {
  const { from, handed_over = [] } = session;
  return (
    <section class="handovers">
      <h2>Other agents</h2>
      {from !== undefined && (
        <p>
          Handed over from <a href={link.session(from.session)}>{from.agent}</a>
          {from.pending && <span class="faint">. The next prompt carries what was said there.</span>}
        </p>
      )}
      {handed_over.map((id) => (
        <p key={id}>
          Handed over to{" "}
          <a class="mono" href={link.session(id)}>
            {id}
          </a>
        </p>
      ))}
      <p>
        <a href={link.newFrom(session.id)}>Go on with another agent</a>
      </p>
    </section>
  );
}
