// The gateway itself: whether it is sound, its agents, and what it serves.

import { useEffect, useState } from "preact/hooks";
import { Problem, request } from "../client/api";
import type { Connection } from "../client/connection";
import { count } from "./format";
import { useNow, useStore } from "./hooks";
import { Icon, StateIcon, type StateName } from "./icons";
import { Unusable, useAgents } from "./new";

interface Ready {
  status: "sound" | "degraded" | "failed";
  version?: string;
  recovering?: number;
  problem?: string;
}

const MEANING = {
  sound: "Everything that agents say is on disk before anybody sees it.",
  degraded:
    "The log cannot be written. Sessions can be read; new prompts and answers are refused until the disk works again.",
  failed: "The log cannot be written any more. Start the gateway again.",
} as const;

export function GatewayView({ connection }: { connection: Connection }) {
  useStore(connection);
  const now = useNow(10_000);
  const { found, problem, look } = useAgents();
  const [ready, setReady] = useState<Ready>();
  useEffect(() => {
    let ended = false;
    request<Ready>("/v1/ready")
      // 503 has the same members.
      .catch((error) =>
        error instanceof Problem && typeof error.body.status === "string"
          ? (error.body as unknown as Ready)
          : undefined,
      )
      .then((ready) => {
        if (!ended) setReady(ready);
      });
    return () => {
      ended = true;
    };
  }, [connection.isLive, Math.floor(now / 10_000)]);
  const states = [...connection.states.values()];
  const working = (agent: string): StateName => {
    const own = states.filter((state) => state.agent === agent);
    if (own.some((state) => state.status === "recovering")) return "recovering";
    return own.some((state) => state.status !== "idle") ? "busy" : "idle";
  };
  const words = { busy: "Working", idle: "Idle", recovering: "Recovering" } as Record<StateName, string>;
  return (
    <main id="main" class="gateway" tabIndex={-1}>
      <section class={`card health ${ready?.status ?? ""}`}>
        <Icon name={ready?.status === "sound" ? "check" : ready === undefined ? "pulse" : "cross"} />
        <div>
          <h1>
            {ready === undefined
              ? connection.isLive
                ? "Asking the gateway"
                : "The gateway does not answer"
              : ready.status === "sound"
                ? "The gateway is sound"
                : ready.status === "degraded"
                  ? "The gateway is degraded"
                  : "The gateway has failed"}
          </h1>
          <p class="dim">
            {ready === undefined ? "" : MEANING[ready.status]} {ready?.problem}
          </p>
        </div>
      </section>
      <div class="gateway-columns">
        <section>
          <h2>Agents</h2>
          {problem !== undefined && (
            <p class="problem" role="alert">
              {problem}
            </p>
          )}
          <ul class="card agents">
            {(found?.agents ?? []).map((agent) => {
              const state = working(agent.name);
              return (
                <li key={agent.name} data-agent={agent.name}>
                  <div class="agent-line">
                    <b>{agent.name}</b> <span class="faint">{agent.version}</span>
                    <span class="grow" />
                    {agent.problem === undefined && (
                      <span class={`state s-${state}`}>
                        <StateIcon state={state} /> {words[state]}
                      </span>
                    )}
                    <span class="faint">
                      {count(states.filter((one) => one.agent === agent.name).length)} sessions
                    </span>
                  </div>
                  <p class="dim">
                    {agent.about}
                    {agent.path === undefined ? (
                      ""
                    ) : (
                      <>
                        {" "}
                        · <span class="mono">{agent.path}</span>
                      </>
                    )}
                  </p>
                  {agent.notice !== undefined && <p class="dim">{agent.notice}</p>}
                  {agent.problem !== undefined && <Unusable agent={agent} look={look} />}
                </li>
              );
            })}
          </ul>
        </section>
        <section>
          <h2>This gateway</h2>
          <dl class="card facts-card">
            <dt>Version</dt>
            <dd>{ready?.version ?? "—"}</dd>
            <dt>Address</dt>
            <dd class="mono">{location.host}</dd>
            <dt>Sessions</dt>
            <dd>{count(states.length)}</dd>
            <dt>Waiting for you</dt>
            <dd>{count(states.filter((state) => state.status === "waiting").length)}</dd>
            <dt>Being recovered</dt>
            <dd>{ready?.recovering === undefined ? "—" : count(ready.recovering)}</dd>
          </dl>
        </section>
      </div>
    </main>
  );
}
