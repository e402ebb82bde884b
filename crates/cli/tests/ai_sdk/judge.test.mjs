// One version of the AI SDK against the real gateway: every way in which a page can lose and find its turn
// ends with the same parts, and nothing twice.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { isAnswered } from "../../../../examples/ai-sdk-page/src/turnstream.js";
import { doubled, history, load, open, parts, play, sees, settled, shown } from "./chat.mjs";
import { Gateway, Network, until } from "./gateway.mjs";

const used = await load(process.env.AI_SDK);
const { sdk, major, version } = used;
/** Versions that rebuild a message when they resume with a half of it. */
const REBUILDS = ["7.0.169", "6.0.326"].includes(version);

const WORK = [
  { do: "attempt", model: "m" },
  { do: "reasoning", text: "Let me think." },
  { do: "text", text: "First I look." },
  { do: "tool", name: "look", title: "Look", input: { path: "a" }, output: ["line 1\n", "line 2\n"] },
  { do: "attempt_end", finish: "tool_use" },
  { do: "attempt", model: "m" },
  { do: "text", text: "This is what I found." },
];
const STALLED = [...WORK, { do: "stall" }];
const FOUND = "This is what I found.";
/** The page sends an answer by itself. Each version has its own stock function for it. */
const stock =
  sdk.lastAssistantMessageIsCompleteWithApprovalResponses ?? sdk.lastAssistantMessageIsCompleteWithToolCalls;

let gateway;
let chats = 0;
const fresh = (options) => open(used, gateway, `chat-${(chats += 1)}`, options);
const tab = async (chat, options) => {
  return open(used, gateway, chat.id, { messages: await history(gateway, chat), ...options });
};

before(async () => {
  gateway = await new Gateway().start();
});
after(() => gateway.stop());

async function assertSame(...chats) {
  const kept = shown(await history(gateway, chats[0]));
  for (const chat of chats) {
    assert.deepEqual(shown(chat.messages), kept);
    if (REBUILDS) assert.deepEqual(chat.messages.flatMap(doubled), []);
  }
  return kept;
}

const isEnded = (chat) => async () => (await history(gateway, chat)).at(-1).role === "assistant";

async function stop(chat) {
  const answer = await gateway.post(`${chat.base}/stop`);
  assert.deepEqual(await answer.json(), { stopped: true });
}

test("the profile without a version shows a turn, and a page that is loaded again resumes it", async () => {
  // It works from version 6.
  if (major < 6) return;
  const chat = fresh({ path: "/ai" });
  const sent = chat.sendMessage(play(STALLED));
  await sees(chat, FOUND);
  const second = await tab(chat, { path: "/ai" });
  const resumed = second.resumeStream();
  await sees(second, FOUND);
  await stop(chat);
  await Promise.all([sent, resumed]);
  assert.deepEqual([chat.status, second.status], ["ready", "ready"], String(chat.error ?? second.error));
  await assertSame(chat, second);
});

test("a turn is shown live, and the page is loaded again with the same", async () => {
  const chat = fresh();
  await chat.sendMessage(play(WORK));
  assert.equal(chat.status, "ready", String(chat.error));
  const kept = await assertSame(chat);
  assert.deepEqual(
    kept[1].parts.map(({ type, state }) => `${type} ${state}`),
    ["reasoning done", "text done", "dynamic-tool output-available", "text done"],
  );
  assert.equal(kept[1].parts[2].toolName, "look");
  assert.equal(kept[0].id, chat.messages[0].id, "the user's message has the client's id");
  const again = await tab(chat);
  await again.resumeStream();
  assert.equal(again.status, "ready");
  await assertSame(chat, again);
  // The next turn goes on in the same session.
  await again.sendMessage(play([{ do: "text", text: "Second." }]));
  assert.equal((await assertSame(again)).length, 4);
});

test("a page that is loaded in the middle of a turn, and two tabs, have the whole turn", async () => {
  const chat = fresh();
  const sent = chat.sendMessage(play(STALLED));
  await sees(chat, FOUND);
  const loaded = await history(gateway, chat);
  assert.equal(loaded.at(-1).role, "user", "the running answer is left to the stream");
  const second = open(used, gateway, chat.id, { messages: loaded });
  const resumed = second.resumeStream();
  await sees(second, FOUND);
  assert.deepEqual(shown(second.messages), shown(chat.messages));
  await stop(chat);
  await Promise.all([sent, resumed]);
  await until("the turn is over", isEnded(chat));
  await assertSame(chat, second);
});

test("a connection that is cut in the middle of a turn costs nothing", async () => {
  const network = await new Network(gateway).start();
  const chat = fresh({ address: network.address });
  network.cutAfter = FOUND.slice(0, 6);
  await chat.sendMessage(play(STALLED));
  assert.equal(chat.status, "error", "a cut is no clean end");
  if (!REBUILDS) chat.messages = await history(gateway, chat);
  const resumed = chat.resumeStream();
  await sees(chat, FOUND);
  await stop(chat);
  await resumed;
  await until("the turn is over", isEnded(chat));
  await assertSame(chat);
  network.stop();
});

test("a message that is sent again is the same message", async () => {
  const network = await new Network(gateway).start();
  const chat = fresh({ address: network.address });
  network.cutAfter = "messageId";
  await chat.sendMessage(play(WORK));
  assert.equal(chat.status, "error");
  chat.messages = chat.messages.slice(0, 1);
  await chat.sendMessage();
  assert.equal(chat.status, "ready", String(chat.error));
  assert.equal((await assertSame(chat)).length, 2);
  network.stop();
});

const WRITES = { append: { path: "a.txt", text: "x\n" } };
const ASKS = [
  { do: "text", text: "May I?" },
  { do: "tool", name: "write", title: "Write", ask: true, effect: WRITES },
  { do: "text", text: "Written.", when: "allowed" },
  { do: "text", text: "Then not.", when: "rejected" },
];

/** The part that waits for a person. */
const asked = (chat) =>
  parts(chat).find(({ state, toolName }) => {
    const isOwnCall = toolName === "approve" && state === "input-available";
    return major === 5 ? isOwnCall : state === "approval-requested";
  });

function answer(chat, approved) {
  const part = asked(chat);
  assert.ok(part, JSON.stringify(parts(chat)));
  return major === 5
    ? chat.addToolResult({ tool: "approve", toolCallId: part.toolCallId, output: { approved } })
    : chat.addToolApprovalResponse({ id: part.approval.id, approved });
}

const isFinal = (chat, text) => {
  const last = () => parts(chat).findLast(({ type }) => type !== "step-start");
  return until(text, () => chat.status === "ready" && last()?.text === text);
};

test("an approval ends the response, and its answer is the next request", async () => {
  for (const [approved, text, sendAutomaticallyWhen] of [
    [true, "Written.", stock],
    [false, "Then not.", isAnswered],
  ]) {
    const chat = fresh({ sendAutomaticallyWhen });
    await chat.sendMessage(play(ASKS));
    assert.equal(chat.status, "ready", String(chat.error));
    assert.equal(await gateway.get(`${chat.base}/stream`), undefined, "204 while it waits");
    await answer(chat, approved);
    await isFinal(chat, text);
    const [, said] = await assertSame(chat);
    const call = said.parts.find(({ toolName }) => toolName === "write");
    const denied = major === 5 ? "output-error" : "output-denied";
    assert.equal(call.state, approved ? "output-available" : denied);
    assert.equal(chat.messages.length, 2);
  }
});

test("an approval is answered after a reload, and again in a second tab", async () => {
  const chat = fresh({ sendAutomaticallyWhen: isAnswered });
  await chat.sendMessage(play(ASKS));
  const loaded = await history(gateway, chat);
  // A message while the agent waits could only wait for itself.
  const refused = open(used, gateway, chat.id, { messages: loaded });
  await refused.sendMessage({ text: "Hello?" });
  assert.match(String(refused.error), /waits for an answer/);
  const second = open(used, gateway, chat.id, { messages: loaded, sendAutomaticallyWhen: isAnswered });
  await answer(second, true);
  await isFinal(second, "Written.");
  // The first answer counts, and the first tab shows it.
  await answer(chat, false);
  await isFinal(chat, "Written.");
  await assertSame(chat, second);
});

test("a question is a call that the page answers", async () => {
  const chat = fresh({ sendAutomaticallyWhen: isAnswered });
  const questions = [{ id: "db", text: "Which one?", options: [{ label: "PG" }, { label: "SQLite" }] }];
  await chat.sendMessage(play([{ do: "question", questions }, { do: "text", text: "Good choice." }]));
  const part = parts(chat).find(({ toolName }) => toolName === "ask_user");
  assert.equal(part.input.questions[0].text, "Which one?");
  const output = { answers: { db: ["PG"] } };
  await chat.addToolResult({ tool: "ask_user", toolCallId: part.toolCallId, output });
  await isFinal(chat, "Good choice.");
  await assertSame(chat);
});

test("what a repeated model call voids is not shown", async () => {
  const chat = fresh();
  const script = [
    { do: "attempt", model: "m" },
    { do: "text", text: "This beginning is void", unfinished: true },
    { do: "retry", attempt: 2, reason: "overloaded", wait_ms: 1 },
    { do: "text", text: "Second try." },
    { do: "attempt_end", finish: "stop" },
  ];
  await chat.sendMessage(play(script));
  assert.equal(chat.status, "ready", String(chat.error));
  const [, said] = await assertSame(chat);
  assert.deepEqual(said.parts.map(({ text }) => text), ["Second try."]);
  // Version 7 takes it back; in older ones it is marked.
  const isBack = !JSON.stringify(parts(chat)).includes("beginning is void");
  assert.equal(isBack, major === 7);
});

test("a failed turn and a stopped turn say so", async () => {
  const failed = fresh();
  const failure = { do: "fail", class: "overloaded", message: "No room." };
  await failed.sendMessage(play([{ do: "text", text: "Well" }, failure]));
  assert.equal(failed.status, "error");
  assert.match(String(failed.error), /No room\./);
  await assertSame(failed);
  const stopped = fresh();
  const sent = stopped.sendMessage(play(STALLED));
  await sees(stopped, FOUND);
  await stop(stopped);
  await sent;
  assert.equal(stopped.status, "ready");
  assert.equal(stopped.messages.at(-1).metadata.turnstream.outcome, "cancelled");
  assert.deepEqual(await (await gateway.post(`${stopped.base}/stop`)).json(), { stopped: false });
});

test("a history cannot be changed, and says so in words", async () => {
  const chat = fresh();
  await chat.sendMessage(play([{ do: "text", text: "Once." }]));
  const [said] = chat.messages;
  await chat.regenerate();
  assert.match(String(chat.error), /cannot be generated again/);
  const editing = await tab(chat);
  await editing.sendMessage({ text: "Something else", messageId: said.id });
  assert.match(String(editing.error), /cannot be edited/);
  assert.equal((await history(gateway, chat)).length, 2);
});

test("a killed gateway costs no part, and a lost turn is no clean end", async () => {
  const stalled = fresh();
  const waiting = fresh({ sendAutomaticallyWhen: isAnswered });
  const sent = stalled.sendMessage(play(STALLED));
  await sees(stalled, FOUND);
  await waiting.sendMessage(play(ASKS));
  await gateway.kill();
  await sent;
  assert.equal(stalled.status, "error", "a cut is no clean end");
  await gateway.start();
  // A page that loads itself again.
  const again = await tab(stalled);
  const resumed = again.resumeStream();
  await sees(again, FOUND);
  await stop(again);
  await resumed;
  await until("the turn is over", isEnded(again));
  await assertSame(again);
  await answer(waiting, true);
  await isFinal(waiting, "Written.");
  await assertSame(waiting);

  const lost = fresh();
  let reason;
  lost.onFinish = ({ finishReason }) => (reason = finishReason);
  await lost.sendMessage(play([{ do: "text", text: "Going" }, { do: "vanish" }]));
  await settled(lost);
  const [, said] = await history(gateway, lost);
  assert.equal(said.metadata.turnstream.outcome, "lost");
  if (major === 7) assert.equal(reason, "interrupted");
  else assert.equal(lost.status, "error");
  await assertSame(lost);
});
