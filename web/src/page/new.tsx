// A new session: which agent, where, and what it may do. Agents that cannot be used say why, and what to run.

import { useEffect, useState } from "preact/hooks";
import { type Agent, type Connection, newKey, type SessionInfo, sessionPath } from "turnstream";
import { request } from "./api";
import { useAct } from "./answer";
import { CapFields, capsOf, type CapTexts } from "./budget";
import { Command } from "./copy";
import { Directories } from "./directories";
import { useStore } from "./hooks";
import { Icon, StateIcon } from "./icons";
import { link } from "./route";

export interface Agents {
  agents: Agent[];
  default?: string;
}

/** The agents, read again with `look`. */
export function useAgents(): { found: Agents | undefined; problem: string | undefined; look: () => void } {
  const [found, setFound] = useState<Agents>();
  const act = useAct();
  const look = () => void act.run(async () => setFound(await request<Agents>("/v1/agents")));
  useEffect(look, []);
  return { found, problem: act.problem, look };
}

export const POLICIES = [
  { policy: "ask", name: "Ask me", about: "The agent waits for your answer before it acts." },
  { policy: "allow", name: "Allow everything", about: "Every request is allowed without asking." },
  { policy: "deny", name: "Reject everything", about: "Every request is rejected without asking." },
] as const;

interface NewProps {
  /** The session that it goes on from. */
  from: string | undefined;
  /** The agent that was chosen before. */
  agent: string | undefined;
  connection: Connection;
}

export function NewView({ from, agent: first, connection }: NewProps) {
  useStore(connection);
  const { found, problem, look } = useAgents();
  const [agent, setAgent] = useState(first);
  const [typed, setTyped] = useState<string>();
  const [model, setModel] = useState("");
  const [title, setTitle] = useState("");
  const [policy, setPolicy] = useState<string>("ask");
  const [mode, setMode] = useState("");
  const [turnCaps, setTurnCaps] = useState<CapTexts>({});
  const [allCaps, setAllCaps] = useState<CapTexts>({});
  const [isBrowsing, setBrowsing] = useState(false);
  const [prompt, setPrompt] = useState("");
  const [key] = useState(newKey);
  const act = useAct();
  const usable = (found?.agents ?? []).filter((one) => one.problem === undefined);
  const chosen = agent ?? (usable.find((one) => one.name === found?.default) ?? usable[0])?.name;
  const { models = [], modes = [] } = found?.agents.find((one) => one.name === chosen) ?? {};
  const other = from === undefined ? undefined : connection.states.get(from);
  const directories = [...new Set([...connection.states.values()].map((state) => state.cwd))];
  const cwd = typed ?? other?.cwd ?? directories[0] ?? "";
  const create = async () => {
    const body = {
      agent: chosen,
      cwd,
      permissions: policy,
      key,
      ...(model !== "" && { model }),
      ...(title.trim() !== "" && { title: title.trim() }),
      ...(from !== undefined && { from }),
      ...budgetOf(turnCaps, allCaps),
    };
    await act.run(async () => {
      const made = await request<SessionInfo>("/v1/sessions", { method: "POST", body });
      if (mode !== "") await request(sessionPath(made.id), { method: "PATCH", body: { mode } });
      if (prompt.trim() !== "") {
        const content = [{ type: "text", text: prompt }];
        await request(sessionPath(made.id, "/prompts"), { method: "POST", body: { content, key } });
      }
      location.hash = link.session(made.id).slice(1);
    });
  };
  return (
    <main id="main" class="narrow" tabIndex={-1}>
      <h1>{from === undefined ? "New session" : "Go on with another agent"}</h1>
      {from !== undefined && (
        <p class="reading">
          The new session goes on from what is finished in{" "}
          <a href={link.session(from)}>{other?.title ?? from}</a>. Its first prompt carries the conversation
          so far. The other session stays as it is.
        </p>
      )}
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          void create();
        }}
      >
        <fieldset>
          <legend>Agent</legend>
          {found === undefined && problem === undefined && (
            <p class="faint">Asking which agents can be used.</p>
          )}
          {problem !== undefined && (
            <p class="problem" role="alert">
              {problem}
            </p>
          )}
          {(found?.agents ?? []).map((one) => (
            <div
              key={one.name}
              class={one.problem === undefined ? "agent-choice" : "agent-choice off"}
              data-agent={one.name}
            >
              <label class="choice">
                <input
                  type="radio"
                  name="agent"
                  disabled={one.problem !== undefined}
                  checked={one.name === chosen}
                  onChange={() => {
                    setAgent(one.name);
                    setModel("");
                    setMode("");
                  }}
                />
                <span>
                  <b>{one.name}</b> <span class="faint">{one.version}</span>
                  <span class="detail">{one.about}</span>
                </span>
              </label>
              {one.problem !== undefined && <Unusable agent={one} look={look} />}
              {one.problem === undefined && one.notice !== undefined && (
                <p class="faint indent">{one.notice}</p>
              )}
            </div>
          ))}
        </fieldset>
        <label class="field">
          <span>Directory</span>
          <input
            type="text"
            class="mono"
            list="directories"
            required
            value={cwd}
            placeholder="/path/of/your/project"
            onInput={(event) => setTyped(event.currentTarget.value)}
          />
          <datalist id="directories">
            {directories.map((directory) => (
              <option key={directory} value={directory} />
            ))}
          </datalist>
          <span class="detail">An absolute path on the gateway’s machine, below one of its roots.</span>
        </label>
        <div class="browse">
          <button type="button" aria-expanded={isBrowsing} onClick={() => setBrowsing(!isBrowsing)}>
            <Icon name="folder" /> {isBrowsing ? "Close the list" : "Browse"}
          </button>
          {isBrowsing && <Directories path={cwd} choose={setTyped} />}
        </div>
        <div class="pair">
          {models.length > 0 && (
            <label class="field">
              <span>Model</span>
              <select value={model} onChange={(event) => setModel(event.currentTarget.value)}>
                <option value="">The agent’s own choice</option>
                {models.map((one) => (
                  <option key={one.id} value={one.id}>
                    {one.id}
                    {one.about === undefined ? "" : `: ${one.about}`}
                  </option>
                ))}
              </select>
            </label>
          )}
          {modes.length > 0 && (
            <label class="field">
              <span>Mode</span>
              <select value={mode} onChange={(event) => setMode(event.currentTarget.value)}>
                <option value="">The agent’s own choice</option>
                {modes.map((one) => (
                  <option key={one.id} value={one.id}>
                    {one.id}
                    {one.about === undefined ? "" : `: ${one.about}`}
                  </option>
                ))}
              </select>
            </label>
          )}
        </div>
        <fieldset>
          <legend>When the agent asks for permission</legend>
          {POLICIES.map((one) => (
            <label key={one.policy} class="choice">
              <input
                type="radio"
                name="policy"
                checked={policy === one.policy}
                onChange={() => setPolicy(one.policy)}
              />
              <span>
                {one.name}
                <span class="detail">{one.about}</span>
              </span>
            </label>
          ))}
        </fieldset>
        <details class="budget-choice">
          <summary>Budget (optional)</summary>
          <CapFields legend="All turns together" texts={allCaps} change={setAllCaps} />
          <CapFields legend="Each turn" texts={turnCaps} change={setTurnCaps} />
        </details>
        <label class="field">
          <span>Title (optional)</span>
          <input
            type="text"
            value={title}
            maxLength={1000}
            onInput={(event) => setTitle(event.currentTarget.value)}
          />
        </label>
        <label class="field">
          <span>First prompt (optional)</span>
          <textarea rows={3} value={prompt} onInput={(event) => setPrompt(event.currentTarget.value)} />
        </label>
        {act.problem !== undefined && (
          <p class="problem" role="alert">
            {act.problem}
          </p>
        )}
        <div class="buttons">
          <button
            type="submit"
            class="primary"
            disabled={!connection.isLive || act.isBusy || chosen === undefined || cwd === ""}
          >
            Create session
          </button>
          <a class="button quiet" href={link.sessions}>
            Back
          </a>
        </div>
        {!connection.isLive && (
          <p class="problem">Not connected: a session can be created when the gateway is back.</p>
        )}
      </form>
    </main>
  );
}

function budgetOf(turnCaps: CapTexts, allCaps: CapTexts): object {
  const [turn, session] = [capsOf(turnCaps), capsOf(allCaps)];
  if (turn === undefined && session === undefined) return {};
  return { budget: { ...(turn !== undefined && { turn }), ...(session !== undefined && { session }) } };
}

export function Unusable({ agent, look }: { agent: Agent; look: () => void }) {
  return (
    <div class="unusable">
      <p class="c-lost">
        <StateIcon state="lost" /> Cannot be used
      </p>
      <p>{agent.problem}</p>
      {agent.fix !== undefined && <Command text={agent.fix} />}
      <button type="button" onClick={look}>
        Look again
      </button>
    </div>
  );
}
