// The gateway itself: whether it is sound, agents and their processes, routes to providers, disk, followers.

import { useEffect, useState } from "preact/hooks";
import type { Agent, Connection } from "turnstream";
import { request } from "./api";
import { count, duration, fullDate, plural, size } from "./format";
import { useNow, useStore } from "./hooks";
import { Icon, StateIcon, type StateName } from "./icons";
import { Unusable, useAgents } from "./new";
import { isLost } from "./rows";
import { Today } from "./today";

/** `GET /v1/gateway` (docs/http.md). */
interface GatewayInfo {
  status: "sound" | "degraded" | "failed";
  problem?: string;
  version: string;
  started: number;
  recovering: number;
  events: number;
  live_agents: number;
  agents: { name: string; processes: number; memory: number; cpu: number }[];
  turns: Record<string, number>;
  streams: { sse: number; websocket: number; board: number };
  connections: { open: number; most: number };
  disk?: { used: number; free: number; size: number };
  routes?: RouteInfo[];
}

interface RouteInfo {
  name: string;
  open: number;
  attempts: number;
  fallbacks: number;
  reattached: number;
  ended: Record<"complete" | "failed" | "broken" | "cancelled", number>;
}

const HEADINGS = {
  sound: "The gateway is sound",
  degraded: "The gateway is degraded",
  failed: "The gateway has failed",
} as const;

const MEANING = {
  sound: "Everything that agents say is on disk before anybody sees it.",
  degraded:
    "The log cannot be written. Sessions can be read; new prompts and answers are refused until the disk works again.",
  failed: "The log cannot be written any more. Start the gateway again.",
} as const;

/** How often it is asked. */
const LOOK_MS = 5_000;

function useGateway(isLive: boolean): { info: GatewayInfo | undefined; isOld: boolean } {
  const [info, setInfo] = useState<GatewayInfo>();
  useEffect(() => {
    if (!isLive) return;
    const gone = new AbortController();
    const look = () => {
      if (document.hidden) return;
      request<GatewayInfo>("/v1/gateway", { signal: gone.signal })
        .then(setInfo)
        .catch(() => undefined);
    };
    look();
    const timer = setInterval(look, LOOK_MS);
    return () => {
      clearInterval(timer);
      gone.abort();
    };
  }, [isLive]);
  return { info, isOld: !isLive };
}

export function GatewayView({ connection }: { connection: Connection }) {
  useStore(connection);
  const now = useNow(1_000);
  const { found, problem, look } = useAgents();
  const { info, isOld } = useGateway(connection.isLive);
  const states = [...connection.states.values()];
  const unusable = (found?.agents ?? []).filter((agent) => agent.problem !== undefined).length;
  const heading =
    isOld || info === undefined
      ? connection.isLive
        ? "Asking the gateway"
        : "The gateway does not answer"
      : HEADINGS[info.status];
  const said = [
    info === undefined ? undefined : MEANING[info.status],
    info?.problem,
    info !== undefined && info.recovering > 0
      ? `${plural(info.recovering, "session")} ${info.recovering === 1 ? "is" : "are"} being recovered.`
      : undefined,
    unusable > 0 ? `${plural(unusable, "agent")} cannot be used.` : undefined,
  ];
  return (
    <main id="main" class="gateway" tabIndex={-1}>
      <section class={`card health ${isOld ? "failed" : (info?.status ?? "")}`}>
        <Icon name={info === undefined ? "pulse" : info.status === "sound" && !isOld ? "check" : "cross"} />
        <div>
          <h1>{heading}</h1>
          <p class="dim">
            {isOld
              ? "What is below was seen before the connection was lost."
              : said.filter(Boolean).join(" ")}
          </p>
        </div>
      </section>
      <div class="gateway-columns">
        <div class="gateway-main">
          <section>
            <h2>Agents and their processes</h2>
            {problem !== undefined && (
              <p class="problem" role="alert">
                {problem}
              </p>
            )}
            <ul class="card agents">
              {(found?.agents ?? []).map((agent) => (
                <AgentLine
                  key={agent.name}
                  agent={agent}
                  states={states.filter((state) => state.agent === agent.name)}
                  used={info?.agents.find((one) => one.name === agent.name)}
                  look={look}
                />
              ))}
              {found === undefined && problem === undefined && (
                <li class="faint">Asking which agents can be used.</li>
              )}
            </ul>
          </section>
          <Routes routes={info?.routes} />
          {connection.known && <Today connection={connection} started={info?.started} now={now} />}
        </div>
        <div class="gateway-side">
          {info?.disk !== undefined && <Disk disk={info.disk} />}
          <section>
            <h2>Followers</h2>
            <dl class="card facts-card">
              <dt>Pages, and others that watch all sessions</dt>
              <dd>{info === undefined ? "—" : count(info.streams.board)}</dd>
              <dt>Streams of one session</dt>
              <dd>{info === undefined ? "—" : count(info.streams.sse + info.streams.websocket)}</dd>
              <dt>Connections</dt>
              <dd>
                {info === undefined
                  ? "—"
                  : `${count(info.connections.open)} of ${count(info.connections.most)}`}
              </dd>
            </dl>
          </section>
          <section>
            <h2>This gateway</h2>
            <dl class="card facts-card">
              <dt>Version</dt>
              <dd>{info?.version ?? "—"}</dd>
              <dt>Address</dt>
              <dd class="mono">{location.host}</dd>
              <dt>Up</dt>
              <dd title={info === undefined ? undefined : fullDate(info.started)}>
                {info === undefined ? "—" : duration(now - info.started)}
              </dd>
              <dt>Sessions</dt>
              <dd>{count(states.length)}</dd>
              <dt>Waiting for you</dt>
              <dd>{count(states.filter((state) => state.status === "waiting").length)}</dd>
              <dt>Lost</dt>
              <dd>{count(states.filter(isLost).length)}</dd>
              <dt>Events since the start</dt>
              <dd>{info === undefined ? "—" : count(info.events)}</dd>
              {Object.entries(info?.turns ?? {}).map(([outcome, number]) => (
                <TurnCount key={outcome} outcome={outcome} number={number} />
              ))}
            </dl>
          </section>
        </div>
      </div>
      <p class="faint">
        {info === undefined ? "" : `Asked every ${LOOK_MS / 1000} s. `}
        More numbers are at <span class="mono">/metrics</span>.
      </p>
    </main>
  );
}

function TurnCount({ outcome, number }: { outcome: string; number: number }) {
  return (
    <>
      <dt>Turns {outcome}</dt>
      <dd>{count(number)}</dd>
    </>
  );
}

interface AgentLineProps {
  agent: Agent;
  states: { status: string }[];
  used: GatewayInfo["agents"][number] | undefined;
  look: () => void;
}

function AgentLine({ agent, states, used, look }: AgentLineProps) {
  const state: StateName = states.some((one) => one.status === "recovering")
    ? "recovering"
    : states.some((one) => one.status !== "idle")
      ? "busy"
      : "idle";
  const words = { busy: "Working", idle: "Idle", recovering: "Recovering" }[
    state as "busy" | "idle" | "recovering"
  ];
  const processes =
    used === undefined
      ? agent.scripted
        ? "Inside the gateway"
        : undefined
      : used.processes === 0
        ? "No process runs"
        : `${plural(used.processes, "process", "processes")}, ${size(used.memory)} memory, ${duration(used.cpu)} CPU`;
  return (
    <li data-agent={agent.name}>
      <div class="agent-line">
        <b>{agent.name}</b> <span class="faint">{agent.version}</span>
        <span class="grow" />
        {agent.problem === undefined && (
          <span class={`state s-${state}`}>
            <StateIcon state={state} /> {words}
          </span>
        )}
        <span class="faint">{plural(states.length, "session")}</span>
      </div>
      <p class="dim">
        {agent.about}
        {agent.path !== undefined && (
          <>
            {" "}
            · <span class="mono">{agent.path}</span>
          </>
        )}
      </p>
      {agent.problem === undefined && processes !== undefined && <p class="dim">{processes}</p>}
      {agent.notice !== undefined && <p class="dim">{agent.notice}</p>}
      {agent.problem !== undefined && <Unusable agent={agent} look={look} />}
    </li>
  );
}

/** Routes to model providers through the gateway's proxy. */
function Routes({ routes }: { routes: RouteInfo[] | undefined }) {
  return (
    <section>
      <h2>Provider routes, since the start</h2>
      {routes === undefined || routes.length === 0 ? (
        <p class="card note dim">
          No route is configured. With one, agents call their model provider through the gateway, which
          repeats failed calls. See <span class="mono">[llm.routes]</span> in the configuration.
        </p>
      ) : (
        <div class="card table-card">
          <table class="figures">
            <thead>
              <tr>
                <th scope="col">Route</th>
                <th scope="col">State</th>
                <th scope="col">Requests</th>
                <th scope="col">Attempts</th>
                <th scope="col">Repeated</th>
                <th scope="col">Failed</th>
                <th scope="col">Broken</th>
              </tr>
            </thead>
            <tbody>
              {routes.map((route) => (
                <RouteLine key={route.name} route={route} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function RouteLine({ route }: { route: RouteInfo }) {
  const { complete, failed, broken, cancelled } = route.ended;
  const requests = complete + failed + broken + cancelled + route.open;
  const repeated = Math.max(0, route.attempts - requests);
  const isOpen = route.open > 0;
  return (
    <tr data-route={route.name}>
      <th scope="row">{route.name}</th>
      <td>
        <span class={`state s-${isOpen ? "busy" : "idle"}`}>
          <StateIcon state={isOpen ? "busy" : "idle"} /> {isOpen ? `${count(route.open)} running` : "Idle"}
        </span>
      </td>
      <td>{count(requests)}</td>
      <td>{count(route.attempts)}</td>
      <td>{count(repeated)}</td>
      <td class={failed > 0 ? "c-lost" : ""}>{count(failed)}</td>
      <td class={broken > 0 ? "c-lost" : ""}>{count(broken)}</td>
    </tr>
  );
}

function Disk({ disk }: { disk: { used: number; free: number; size: number } }) {
  const part = disk.size === 0 ? 0 : 1 - disk.free / disk.size;
  return (
    <section>
      <h2>Disk</h2>
      <div class="card disk">
        <dl class="facts-card">
          <dt>Logs</dt>
          <dd>{size(disk.used)}</dd>
          <dt>Free</dt>
          <dd>
            {size(disk.free)} of {size(disk.size)}
          </dd>
        </dl>
        <meter class={part >= 0.8 ? "full" : ""} min={0} max={1} value={part} aria-label="Disk in use">
          {Math.round(part * 100)} %
        </meter>
      </div>
    </section>
  );
}
