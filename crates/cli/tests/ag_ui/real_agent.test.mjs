// A turn of a real agent in `@ag-ui/client`, with a call that a person allows, and a subagent. A test in
// Rust starts the gateway.

import assert from "node:assert/strict";
import { test } from "node:test";
import { running } from "../ai_sdk/gateway.mjs";
import { library, shown } from "./scripts.mjs";

const { HttpAgent } = await library("@ag-ui/client");
const gateway = running(process.env.GATEWAY, process.env.TOKEN);

test("the messages of a live turn are those of a page that is loaded later", async () => {
  const url = `http://${gateway.address}/ag-ui/claude`;
  const agent = new HttpAgent({ url, headers: gateway.headers, threadId: "real" });
  const [errors, subagents] = [[], []];
  let finished;
  agent.subscribe({
    onSubagentStartedEvent: ({ event }) => void subagents.push(event),
    onSubagentFinishedEvent: ({ event }) => void subagents.push(event),
    onRunErrorEvent: ({ event }) => void errors.push(event),
    onRunFinishedEvent: ({ event }) => void (finished = event),
  });
  agent.addMessage({ id: "mine", role: "user", content: "Make it." });
  await agent.runAgent();
  const [interrupt] = finished.outcome.interrupts;
  assert.equal(interrupt.reason, "tool_call");
  const payload = { outcome: "allow_once" };
  await agent.runAgent({ resume: [{ interruptId: interrupt.id, status: "resolved", payload }] });
  assert.deepEqual(errors, []);
  const said = shown(agent.messages);
  const calls = agent.messages.flatMap(({ toolCalls }) => toolCalls ?? []);
  assert.deepEqual(calls.map((call) => call.function.name), ["Bash", "Task", "Bash"]);
  assert.equal(JSON.parse(calls[0].function.arguments).command, "touch made");
  assert.equal(said.at(-1).content, "It is made.");
  // What the subagent did is inside of its own invocation.
  const [, { id }] = calls;
  const events = subagents.map(({ type, subagentRunId, name, parentToolCallId, outcome }) =>
    JSON.parse(JSON.stringify({ type, subagentRunId, name, parentToolCallId, outcome })),
  );
  assert.deepEqual(events, [
    { type: "SUBAGENT_STARTED", subagentRunId: id, name: "Task", parentToolCallId: id },
    { type: "SUBAGENT_FINISHED", subagentRunId: id, outcome: { type: "success" } },
  ]);
  const work = agent.messages.filter(({ subagentRunId }) => subagentRunId === id);
  assert.ok(work.some(({ toolCalls }) => toolCalls?.[0].id === calls[2].id), JSON.stringify(work));
  const body = { threadId: "real", runId: "later", protocolVersion: "1.0", messages: [] };
  const answer = await gateway.post("/ag-ui/agent/claude/connect", body);
  const frames = (await answer.text()).split("\n").filter((line) => line.startsWith("data: "));
  const listed = frames.map((line) => JSON.parse(line.slice(6)));
  const { messages } = listed.find(({ type }) => type === "MESSAGES_SNAPSHOT");
  assert.deepEqual(said, shown(messages));
});
