// The frame of the page: the bar, the connection in words, the view, and the keys.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Connection } from "turnstream";
import { SessionList, useIsWide } from "./beside";
import { toWait } from "./dock";
import { clockSeconds, count, duration, moment, plural } from "./format";
import { GatewayView } from "./gateway";
import { useNow, useStore } from "./hooks";
import { Icon } from "./icons";
import { KeysDialog } from "./keys";
import { LoginView } from "./login";
import { NewView } from "./new";
import { NotifyButton, useNotifications } from "./notify";
import { link, useRoute } from "./route";
import { ReplayView } from "./replay";
import { SessionView } from "./session";
import { SessionsView } from "./sessions";
import { TimelineView } from "./timeline";

const THEME = "turnstream.theme";

export function applyTheme(): void {
  const theme = localStorage.getItem(THEME);
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
}

function otherTheme(): void {
  const isDark = getComputedStyle(document.documentElement).colorScheme === "dark";
  localStorage.setItem(THEME, isDark ? "light" : "dark");
  applyTheme();
}

export function App({ connection, problem }: { connection: Connection; problem: string | undefined }) {
  useStore(connection);
  const route = useRoute();
  const waiting = [...connection.states.values()].filter((state) => state.status === "waiting").length;
  const view = {
    sessions: "Sessions",
    session: "Session",
    timeline: "Timeline",
    replay: "Replay",
    new: "New session",
    gateway: "Gateway",
  }[route.view];
  const own =
    route.view === "session" || route.view === "timeline" || route.view === "replay"
      ? connection.states.get(route.session)?.title
      : undefined;
  useEffect(() => {
    document.title = `${waiting > 0 ? `(${waiting}) ` : ""}${own ?? view} · Turnstream`;
  }, [waiting, view, own]);
  useNotifications(connection);
  const isWide = useIsWide();
  const [hasKeys, setKeys] = useState(false);
  useKeys(connection, () => setKeys(true));
  if (connection.link.state === "signed_out") return <LoginView problem={problem} />;
  const owns = route.view === "session" || route.view === "timeline" || route.view === "replay";
  return (
    <div class={owns ? "app owned" : "app"}>
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          document.getElementById("main")?.focus();
        }}
      >
        Skip to the content
      </a>
      <header class="bar">
        <a class="brand" href={link.sessions}>
          <Icon name="logo" /> Turnstream
        </a>
        <nav aria-label="Main">
          <a href={link.sessions} aria-current={route.view === "sessions" ? "page" : undefined}>
            <span class="tab-icon">
              <Icon name="list" />
            </span>{" "}
            Sessions{" "}
            {waiting > 0 && (
              <span class="count" aria-label={`${waiting} waiting for you`}>
                {waiting}
              </span>
            )}
          </a>
          <a class="phone-only" href={link.new} aria-current={route.view === "new" ? "page" : undefined}>
            <span class="tab-icon">
              <Icon name="plus" />
            </span>{" "}
            New
          </a>
          <a href={link.gateway} aria-current={route.view === "gateway" ? "page" : undefined}>
            <span class="tab-icon">
              <Icon name="pulse" />
            </span>{" "}
            Gateway
          </a>
        </nav>
        <span class="grow" />
        <ConnectionWords connection={connection} />
        <NotifyButton />
        <button
          type="button"
          class="icon-button"
          aria-label="Change between light and dark"
          onClick={otherTheme}
        >
          <Icon name="theme" />
        </button>
        <a class="button new-button" href={link.new}>
          <Icon name="plus" /> New session
        </a>
      </header>
      <Banner connection={connection} />
      {route.view === "sessions" && <SessionsView connection={connection} />}
      {owns && (
        <div class={isWide ? "beside" : ""}>
          {isWide && <SessionList connection={connection} current={route.session} />}
          <div class="min0">
            {route.view === "session" && (
              <SessionView
                key={route.session}
                id={route.session}
                place={route.place}
                connection={connection}
              />
            )}
            {route.view === "timeline" && (
              <TimelineView key={route.session} id={route.session} seq={route.seq} connection={connection} />
            )}
            {route.view === "replay" && (
              <ReplayView key={route.session} id={route.session} seq={route.seq} connection={connection} />
            )}
          </div>
        </div>
      )}
      {route.view === "new" && (
        <NewView
          key={`${route.from} ${route.agent}`}
          from={route.from}
          agent={route.agent}
          connection={connection}
        />
      )}
      {route.view === "gateway" && <GatewayView connection={connection} />}
      {hasKeys && <KeysDialog close={() => setKeys(false)} />}
      <Announcer connection={connection} waiting={waiting} />
    </div>
  );
}

function ConnectionWords({ connection }: { connection: Connection }) {
  const { link: now } = connection;
  if (now.state === "live") {
    const toGo = connection.toGo;
    return (
      <span class="connection live">
        <i /> <b>live</b> · {toGo > 0 ? `catching up: ${count(toGo)} to go` : "caught up"}
      </span>
    );
  }
  if (now.state === "disconnected")
    return (
      <span class="connection cut">
        <i /> <b>disconnected</b> · since {moment(now.since, Date.now())}
      </span>
    );
  return (
    <span class="connection">
      <i /> connecting
    </span>
  );
}

/** How long the news of a reconnect stays. */
const BACK_MS = 10_000;

function Banner({ connection }: { connection: Connection }) {
  const now = useNow(250);
  const { link, back } = connection;
  useEffect(() => {
    if (back === undefined) return;
    const dismiss = () => connection.dismissBack();
    const timer = setTimeout(dismiss, BACK_MS);
    addEventListener("keydown", dismiss);
    return () => {
      clearTimeout(timer);
      removeEventListener("keydown", dismiss);
    };
  }, [back, connection]);
  if (link.state === "disconnected") {
    const left = link.retryAt === undefined ? undefined : Math.max(1, Math.ceil((link.retryAt - now) / 1000));
    return (
      <div class="banner cut">
        <p>
          <b>Disconnected since {moment(link.since, now)}</b> ·{" "}
          {left === undefined ? "reconnecting now" : `reconnecting in ${left} s`}
        </p>
        <button type="button" disabled={left === undefined} onClick={() => connection.tryNow()}>
          Try now
        </button>
      </div>
    );
  }
  if (back === undefined || link.state !== "live") return null;
  return (
    <div class="banner back">
      <p>
        <b>Caught up: {plural(back.events, "event")}</b> · disconnected from {clockSeconds(back.from)} to{" "}
        {clockSeconds(back.to)} ({duration(back.to - back.from)})
      </p>
    </div>
  );
}

/** Says whole events to screen readers; streamed text is never announced. */
function Announcer({ connection, waiting }: { connection: Connection; waiting: number }) {
  const [urgent, setUrgent] = useState("");
  const before = useRef(waiting);
  useEffect(() => {
    if (waiting > before.current) setUrgent(`Waiting for you: ${plural(waiting, "session")}`);
    before.current = waiting;
  }, [waiting]);
  const isCut = connection.link.state === "disconnected";
  return (
    <>
      <p class="sr" role="alert">
        {isCut ? "Disconnected" : urgent}
      </p>
      <p class="sr" role="status">
        {connection.back === undefined ? "" : `Caught up: ${plural(connection.back.events, "event")}`}
      </p>
    </>
  );
}

/** Goes to the turn before or after the one at the top of the screen. */
function toTurn(step: 1 | -1): void {
  const lines = [...document.querySelectorAll<HTMLElement>(".turn-line")];
  const tops = lines.map((line) => line.getBoundingClientRect().top - BARS);
  const at = step === 1 ? tops.findIndex((top) => top > 8) : tops.findLastIndex((top) => top < -8);
  if (at === -1) scrollBy({ top: (step * innerHeight) / 2 });
  else scrollBy({ top: tops[at] ?? 0 });
}

/** The height of the bars at the top, and some air. */
const BARS = 126;

function useKeys(connection: Connection, showKeys: () => void): void {
  useEffect(() => {
    let first = "";
    const pressed = (event: KeyboardEvent) => {
      const into = event.target as HTMLElement;
      if (event.ctrlKey && event.key === ".") {
        document.querySelector<HTMLButtonElement>(".dock-line button.c-lost")?.click();
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (into.matches("input, textarea, select")) {
        if (event.key === "Escape") into.blur();
        return;
      }
      const go = (hash: string) => {
        location.hash = hash.slice(1);
        event.preventDefault();
      };
      const two = first + event.key;
      first = event.key === "g" && first !== "g" ? "g" : "";
      if (two === "gs") go(link.sessions);
      else if (two === "gg") go(link.gateway);
      else if (event.key === "n") go(link.new);
      else if (event.key === "?") showKeys();
      else if (event.key === "[") toTurn(-1);
      else if (event.key === "]") toTurn(1);
      else if (event.key === "/") {
        document.querySelector<HTMLInputElement>("input[type=search]")?.focus();
        event.preventDefault();
      } else if (event.key === "w") {
        if (document.querySelector(".card.wait") !== null) toWait();
        else {
          const waits = [...connection.states.values()].find((state) => state.status === "waiting");
          if (waits !== undefined) go(link.session(waits.session));
        }
      } else if (event.key === "t") {
        const other = document.querySelector<HTMLAnchorElement>(".segments a:not([aria-current])");
        if (other !== null) go(other.hash);
      } else if (event.key === "j" || event.key === "k") {
        const rows = [...document.querySelectorAll<HTMLElement>("a.row")];
        const at = rows.indexOf(document.activeElement as HTMLElement);
        rows[
          at === -1 ? 0 : Math.min(rows.length - 1, Math.max(0, at + (event.key === "j" ? 1 : -1)))
        ]?.focus();
      }
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [connection]);
}
