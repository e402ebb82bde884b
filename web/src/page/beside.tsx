// What wide screens have beside a view: the waiting requests beside the list, and the list beside a session.

import { useEffect, useState } from "preact/hooks";
import type { Connection, SessionInfo, SessionState } from "turnstream";
import { ago, count } from "./format";
import { useNow, useStore } from "./hooks";
import { StateIcon } from "./icons";
import { link } from "./route";
import { isLost, isWorking, rowWords, stateOf, Title, useWaits } from "./rows";
import { ApprovalCard, QuestionCard } from "./waits";

/** From this width on there is room beside a view. */
const WIDE = "(min-width: 1600px)";

export function useIsWide(): boolean {
  const [isWide, setWide] = useState(() => matchMedia(WIDE).matches);
  useEffect(() => {
    const wide = matchMedia(WIDE);
    const changed = () => setWide(wide.matches);
    wide.addEventListener("change", changed);
    return () => wide.removeEventListener("change", changed);
  }, []);
  return isWide;
}

/** Requests that are shown beside the list. More are in it. */
const MOST_WAITING = 8;

/** What waits in all sessions, to be answered at once. */
export function WaitingColumn({ states, isLive }: { states: SessionState[]; isLive: boolean }) {
  return (
    <aside class="waiting-column" aria-label="Waiting for you">
      <h2>Waiting for you, across all sessions</h2>
      {states.length === 0 && <p class="faint">Nothing waits. Requests of agents can be answered here.</p>}
      {states.slice(0, MOST_WAITING).map((state) => (
        <WaitingSession key={state.session} state={state} isLive={isLive} />
      ))}
      {states.length > MOST_WAITING && (
        <p class="faint">{count(states.length - MOST_WAITING)} more wait in the list.</p>
      )}
    </aside>
  );
}

function WaitingSession({ state, isLive }: { state: SessionState; isLive: boolean }) {
  // Between two requests of one turn the state may not change.
  const now = useNow(5_000);
  const waits = useWaits(state.session, `${state.changed} ${Math.floor(now / 5_000)}`);
  const { session: id, agent, cwd, status } = state;
  const session: SessionInfo = { id, agent, cwd, status, generation: "", head: 0 };
  return (
    <section class="waiting-session">
      <p class="who">
        <a href={link.session(id)}>
          <b>
            <Title session={id} title={state.title} isNear />
          </b>
        </a>{" "}
        <span>{agent}</span>
      </p>
      {waits?.approvals.map((approval) => (
        <ApprovalCard
          key={approval.approval}
          approval={approval}
          item={undefined}
          session={session}
          isLive={isLive}
        />
      ))}
      {waits?.questions.map((asked) => (
        <QuestionCard key={asked.question} asked={asked} session={session} isLive={isLive} />
      ))}
    </section>
  );
}

/** Rows beside a session. All of them are in the list of sessions. */
const MOST_BESIDE = 100;
/** Those that are asked for their prompt, if they have no title. */
const MOST_TITLES = 20;

const rank = (state: SessionState) =>
  state.status === "waiting" ? 0 : isWorking(state) ? 1 : isLost(state) ? 2 : 3;

/** The sessions, beside one of them. */
export function SessionList({ connection, current }: { connection: Connection; current: string }) {
  useStore(connection);
  const now = useNow(10_000);
  const states = [...connection.states.values()].sort(
    (a, b) => rank(a) - rank(b) || (b.changed ?? 0) - (a.changed ?? 0) || (a.session < b.session ? 1 : -1),
  );
  return (
    <nav class="session-list" aria-label="Sessions">
      <ul>
        {states.slice(0, MOST_BESIDE).map((state, place) => (
          <li key={state.session}>
            <a
              href={link.session(state.session)}
              aria-current={state.session === current ? "page" : undefined}
            >
              <span class={`s-${stateOf(state)}`}>
                <StateIcon state={stateOf(state)} />
                <span class="sr">{rowWords(state)}</span>
              </span>
              <span class="ellipsis grow">
                <Title
                  session={state.session}
                  title={state.title}
                  isNear={place < MOST_TITLES}
                  status={state.status}
                />
              </span>
              <span class="faint">{state.changed === undefined ? "" : ago(state.changed, now)}</span>
            </a>
          </li>
        ))}
      </ul>
      {states.length > MOST_BESIDE && (
        <p class="faint">
          <a href={link.sessions}>All {count(states.length)} sessions</a>
        </p>
      )}
    </nav>
  );
}
