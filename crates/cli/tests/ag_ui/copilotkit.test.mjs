// `@copilotkit/core` against the real gateway: its agent for a remote runtime, whose base is `/ag-ui`.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { Gateway, until } from "../ai_sdk/gateway.mjs";
import { ASKS, FOUND, STALLED, WORK, library, play, shown } from "./scripts.mjs";

const { ProxiedCopilotRuntimeAgent } = await library("@copilotkit/core");

let gateway;
let threads = 0;
before(async () => {
  gateway = await new Gateway().start();
});
after(() => gateway.stop());

function open(threadId = `copilot-${(threads += 1)}`, { of = gateway, agentId = "scripted" } = {}) {
  const agent = new ProxiedCopilotRuntimeAgent({
    runtimeUrl: `http://${of.address}/ag-ui`,
    agentId,
    headers: of.headers,
    transport: "rest",
  });
  agent.threadId = threadId;
  agent.errors = [];
  agent.subscribe({
    onRunErrorEvent: ({ event }) => void agent.errors.push(event),
    onRunFinishedEvent: ({ event }) => void (agent.finished = event),
  });
  return agent;
}

function say(agent, steps) {
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content: play(steps) });
  return agent.runAgent();
}

// The prompt has the words of the script too.
const has = (agent, text) =>
  agent.messages.some(({ role, content }) => role === "assistant" && content?.includes?.(text));

test("the agents of the gateway are listed", async () => {
  const { agents, version } = await gateway.get("/ag-ui/info");
  assert.equal(agents.scripted.name, "scripted");
  assert.match(version, /^\d/);
});

test("a run, and a connection that shows the same", async () => {
  const agent = open();
  await say(agent, WORK);
  assert.deepEqual(agent.errors, []);
  const back = open(agent.threadId);
  await back.connectAgent();
  assert.deepEqual(shown(back.messages), shown(agent.messages));
  assert.ok(has(back, FOUND));
});

test("a connection to a run that goes on ends with it", async () => {
  const agent = open();
  const run = say(agent, STALLED);
  await until(FOUND, () => has(agent, FOUND));
  const back = open(agent.threadId);
  const joined = back.connectAgent();
  await until(FOUND, () => has(back, FOUND));
  const stopped = await gateway.post(`/ag-ui/agent/scripted/stop/${agent.threadId}`);
  assert.deepEqual(await stopped.json(), { stopped: true });
  await Promise.all([run, joined]);
  assert.deepEqual(shown(back.messages), shown(agent.messages));
});

test("an approval is an interrupt that another page can answer", async () => {
  const agent = open();
  await say(agent, ASKS);
  const back = open(agent.threadId);
  await back.connectAgent();
  const [interrupt] = back.finished.outcome.interrupts;
  const payload = { outcome: "allow_once" };
  await back.runAgent({ resume: [{ interruptId: interrupt.id, status: "resolved", payload }] });
  assert.deepEqual(back.errors, []);
  assert.ok(has(back, "It is noted."));
});

test("a thread that is new is empty", async () => {
  const agent = open();
  await agent.connectAgent();
  assert.deepEqual(agent.messages, []);
});

test("a page that is loaded while its prompt waits in the queue follows it", async () => {
  const own = new Gateway();
  // An agent that starts when it is told to. Until then there is no turn.
  const agent = `exec ${process.env.TURNSTREAM_BIN} acp --agent scripted --discover false --data ${own.home}/inner`;
  const command = JSON.stringify(["/bin/sh", "-c", `until [ -e go ]; do sleep 0.05; done; ${agent}`]);
  const timeouts = '[timeouts]\nconnect = "5m"\nstart = "5m"\n';
  writeFileSync(own.config, `${timeouts}[agents.slow]\nkind = "acp"\ncommand = ${command}\n`);
  await own.start();
  const slow = { of: own, agentId: "slow" };
  const first = open("queued", slow);
  const run = say(first, [{ do: "text", text: "At last." }]);
  const isQueued = async () => {
    const { sessions } = await own.get("/v1/sessions");
    const id = sessions[0]?.id;
    return id !== undefined && (await own.get(`/v1/sessions/${id}/snapshot`)).queue.length === 1;
  };
  await until("the prompt waits", isQueued);
  const back = open("queued", slow);
  const joined = back.connectAgent();
  await until("the prompt is shown", () => back.messages.length === 1);
  assert.equal(back.messages[0].role, "user");
  // So does a page with TanStack AI.
  const thread = await own.get("/ag-ui/slow?threadId=queued");
  assert.deepEqual(thread.messages.map(({ role }) => role), ["user"]);
  assert.match(thread.activeRun.runId, /./);
  // A prompt that waits can be stopped.
  const other = open("stopped", slow);
  const unwanted = say(other, [{ do: "text", text: "Never." }]).catch(() => undefined);
  const stop = async () => (await (await own.post("/ag-ui/agent/slow/stop/stopped")).json()).stopped;
  await until("the prompt is stopped", stop);
  await unwanted;
  assert.deepEqual(other.errors.map(({ code }) => code), ["withdrawn"]);
  writeFileSync(`${own.work}/go`, "");
  await Promise.all([run, joined]);
  assert.deepEqual([first.errors, back.errors], [[], []]);
  assert.ok(has(back, "At last."));
  assert.deepEqual(shown(back.messages), shown(first.messages));
  // The agent ends before its gateway, and leaves its files then.
  own.child.kill("SIGTERM");
  await until("the gateway has ended", () => own.child.exitCode !== null);
  await own.stop();
});
