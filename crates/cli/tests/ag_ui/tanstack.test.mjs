// `@tanstack/ai-client` against the real gateway: its chat client with server-sent events.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Gateway, Network, until } from "../ai_sdk/gateway.mjs";
import { FOUND, STALLED, WORK, library, play } from "./scripts.mjs";

const { ChatClient, fetchServerSentEvents } = await library("@tanstack/ai-client");

let gateway;
let threads = 0;
before(async () => {
  gateway = await new Gateway().start();
});
after(() => gateway.stop());

function open(threadId = `tanstack-${(threads += 1)}`, address = gateway.address, options = {}) {
  const connection = fetchServerSentEvents(`http://${address}/ag-ui/scripted`, { headers: gateway.headers });
  const chat = new ChatClient({ connection, threadId, ...options });
  chat.thread = threadId;
  return chat;
}

// The prompt has the words of the script too.
const answers = (chat) => chat.getMessages().filter(({ role }) => role === "assistant");
const text = (chat) => answers(chat).flatMap(({ parts }) => parts.map(({ content }) => content ?? "")).join("|");
const sees = (chat, words) => until(words, () => text(chat).includes(words));
const times = (chat, words) => text(chat).split(words).length - 1;
async function stop(chat) {
  const answer = await gateway.post(`/ag-ui/agent/scripted/stop/${chat.thread}`);
  assert.deepEqual(await answer.json(), { stopped: true });
}

test("a turn is shown, with its call and its result", async () => {
  const chat = open();
  await chat.sendMessage(play(WORK));
  const answer = chat.getMessages().at(-1);
  assert.equal(answer.role, "assistant");
  const kinds = chat.getMessages().flatMap(({ parts }) => parts.map(({ type }) => type));
  for (const kind of ["text", "tool-call"]) assert.ok(kinds.includes(kind), kinds.join());
  assert.equal(times(chat, FOUND), 1);
});

test("a cut is mended by the client's own repeat, and nothing is shown twice", async () => {
  const network = await new Network(gateway).start();
  const chat = open(undefined, network.address);
  network.cutAfter = "First";
  await chat.sendMessage(play(WORK));
  assert.equal(times(chat, FOUND), 1, text(chat));
  assert.equal(times(chat, "First I look."), 1, text(chat));
  network.stop();
});

test("a page that is loaded again has the thread, and joins the run that goes on", async () => {
  const chat = open();
  const sent = chat.sendMessage(play(STALLED));
  await sees(chat, FOUND);
  const read = await gateway.get(`/ag-ui/scripted?threadId=${chat.thread}`);
  assert.ok(read.activeRun.runId);
  assert.equal(read.interrupts, null);
  const connection = fetchServerSentEvents(`http://${gateway.address}/ag-ui/scripted`, { headers: gateway.headers });
  const hydrated = await connection.hydrate(chat.thread);
  assert.equal(hydrated.messages[0].role, "user");
  const seen = [];
  const joined = (async () => {
    for await (const chunk of connection.joinRun(hydrated.activeRun.runId)) seen.push(chunk);
  })();
  await until("the run is joined", () => JSON.stringify(seen).includes(FOUND));
  await stop(chat);
  await Promise.all([sent, joined]);
  assert.equal(seen.at(-1).type, "RUN_FINISHED");
});

test("an unknown run is refused in words", async () => {
  const answer = await fetch(`http://${gateway.address}/ag-ui/scripted?offset=-1&runId=x`, { headers: gateway.headers });
  assert.equal(answer.status, 404);
  assert.match((await answer.json()).detail, /activeRun/);
});
