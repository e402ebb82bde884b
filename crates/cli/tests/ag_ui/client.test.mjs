// `@ag-ui/client` against the real gateway. It verifies every event, and refuses what breaks the protocol.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Gateway, Network, until } from "../ai_sdk/gateway.mjs";
import { ASKS, FOUND, RETRIED, STALLED, WORK, library, play, shown } from "./scripts.mjs";

const { HttpAgent } = await library("@ag-ui/client");

let gateway;
let threads = 0;
before(async () => {
  gateway = await new Gateway().start();
});
after(() => gateway.stop());

function open(threadId = `thread-${(threads += 1)}`, { address = gateway.address, ...options } = {}) {
  const url = `http://${address}/ag-ui/scripted`;
  const { messages: initialMessages = [], headers = gateway.headers } = options;
  const agent = new HttpAgent({ url, headers, threadId, initialMessages });
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
const sees = (agent, text) => until(text, () => has(agent, text));
/** What a client gets that joins by a connection of CopilotKit's. */
async function kept(agent) {
  const body = { threadId: agent.threadId, runId: crypto.randomUUID(), protocolVersion: "1.0", messages: [] };
  const answer = await gateway.post("/ag-ui/agent/scripted/connect", body);
  const frames = (await answer.text()).split("\n").filter((line) => line.startsWith("data: "));
  const events = frames.map((line) => JSON.parse(line.slice(6)));
  return events.find(({ type }) => type === "MESSAGES_SNAPSHOT").messages;
}
async function assertKept(agent) {
  const list = shown(await kept(agent));
  assert.deepEqual(shown(agent.messages), list);
  return list;
}
async function stop(agent) {
  const answer = await gateway.post(`/ag-ui/agent/scripted/stop/${agent.threadId}`);
  assert.deepEqual(await answer.json(), { stopped: true });
}

test("a turn is one run", async () => {
  const agent = open();
  await say(agent, WORK);
  assert.deepEqual(agent.errors, []);
  const list = await assertKept(agent);
  assert.deepEqual(list.map(({ role }) => role), ["user", "reasoning", "assistant", "assistant", "tool", "assistant"]);
  assert.equal(list[3].calls[0], 'look {"path":"a"}');
  assert.equal(list[4].content, "line 1\nline 2\n");
  await say(agent, [{ do: "text", text: "Second." }]);
  assert.equal((await assertKept(agent)).length, 8);
});

test("a repeated model call leaves nothing of the first one", async () => {
  const agent = open();
  await say(agent, [{ do: "text", text: "Before." }]);
  await say(agent, RETRIED);
  assert.deepEqual(agent.errors, []);
  assert.deepEqual((await assertKept(agent)).map(({ content }) => content).slice(3), ["Second try."]);
});

for (const [outcome, said] of [
  ["allow_once", "It is noted."],
  ["reject", "Then not."],
]) {
  test(`an approval interrupts the run, and goes on after ${outcome}`, async () => {
    const agent = open();
    await say(agent, ASKS);
    const [interrupt] = agent.finished.outcome.interrupts;
    assert.equal(interrupt.reason, "tool_call");
    assert.ok(agent.messages.some(({ toolCalls }) => toolCalls?.[0].id === interrupt.toolCallId));
    await agent.runAgent({
      resume: [{ interruptId: interrupt.id, status: "resolved", payload: { outcome } }],
    });
    assert.deepEqual(agent.errors, []);
    assert.ok(has(agent, said));
    await assertKept(agent);
  });
}

test("the user's message stays as it is when the page sends context", async () => {
  const agent = open();
  const context = [{ description: "Current page", value: "/settings" }];
  const said = { id: "mine", role: "user", content: "Please note it" };
  agent.addMessage(said);
  await agent.runAgent({ context });
  const [interrupt] = agent.finished.outcome.interrupts;
  const resume = [{ interruptId: interrupt.id, status: "resolved", payload: { outcome: "allow_once" } }];
  await agent.runAgent({ context, resume });
  assert.deepEqual(agent.errors, []);
  assert.deepEqual([agent.messages[0], (await kept(agent))[0]], [said, said]);
  assert.equal(agent.messages.filter(({ role }) => role === "user").length, 1);
  await assertKept(agent);
});

test("a message whose run failed is not sent again with the next one", async () => {
  const agent = open();
  await say(agent, [{ do: "fail", class: "overloaded", message: "Busy" }]);
  agent.errors.length = 0;
  await say(agent, [{ do: "text", text: "Now." }]);
  assert.deepEqual(agent.errors, []);
  assert.ok(has(agent, "Now."));
  assert.deepEqual((await assertKept(agent)).map(({ role }) => role), ["user", "user", "assistant"]);
});

test("a question is answered", async () => {
  const agent = open();
  const questions = [{ id: "db", text: "Which?", options: [{ label: "PG" }, { label: "SQLite" }] }];
  await say(agent, [{ do: "question", questions }, { do: "text", text: "Thanks." }]);
  const [interrupt] = agent.finished.outcome.interrupts;
  assert.equal(interrupt.reason, "input_required");
  await agent.runAgent({ resume: [{ interruptId: interrupt.id, status: "resolved", payload: { db: "PG" } }] });
  assert.ok(has(agent, "Thanks."));
});

test("a message while the agent waits is refused in words", async () => {
  const agent = open();
  await say(agent, ASKS);
  const other = open(agent.threadId);
  await assert.rejects(say(other, WORK), /waits for an answer/);
});

test("a failed turn is an error, and a stopped one is not", async () => {
  const agent = open();
  await say(agent, [{ do: "text", text: "Half" }, { do: "fail", class: "overloaded", message: "Busy" }]);
  assert.equal(agent.errors[0]?.code, "overloaded");
  const stopped = open();
  const run = say(stopped, STALLED);
  await sees(stopped, FOUND);
  await stop(stopped);
  await run;
  assert.deepEqual(stopped.errors, []);
  await assertKept(stopped);
});

test("what an agent would not get is refused in words", async () => {
  const agent = open();
  agent.addMessage({ id: "1", role: "user", content: "Hi" });
  const tool = { name: "paint", description: "Paints", parameters: { type: "object", properties: {} } };
  await assert.rejects(agent.runAgent({ tools: [tool] }), /paint/);
});

// The client's own promise of a cut run cannot be caught, so the first request is a plain one.
test("a cut connection and a killed gateway cost nothing", async () => {
  const own = await new Gateway().start();
  const network = await new Network(own).start();
  const body = { threadId: "cut", runId: "first", protocolVersion: "1.0" };
  body.messages = [{ id: "mine", role: "user", content: play(STALLED) }];
  network.cutAfter = FOUND.slice(0, 6);
  const headers = { ...own.headers, "content-type": "application/json" };
  const request = { method: "POST", headers, body: JSON.stringify(body) };
  const first = await fetch(`http://${network.address}/ag-ui/scripted`, request);
  assert.equal(first.status, 200);
  await assert.rejects(first.text());
  await own.kill();
  await own.start();
  // The same run again: all of it once, and the user's message is the client's own.
  const agent = open("cut", { address: own.address, messages: body.messages, headers: own.headers });
  const joined = agent.runAgent({ runId: "first" });
  await sees(agent, FOUND);
  await own.post("/ag-ui/agent/scripted/stop/cut");
  await joined;
  assert.equal(agent.messages.filter(({ role }) => role === "user").length, 1);
  assert.equal(agent.messages[0].id, "mine");
  assert.equal(agent.messages.filter(({ content }) => content === FOUND).length, 1);
  network.stop();
  await own.stop();
});
