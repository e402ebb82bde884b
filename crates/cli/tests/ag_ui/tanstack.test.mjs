// `@tanstack/ai-client` against the real gateway: its chat client with server-sent events.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Gateway, Network, until } from "../ai_sdk/gateway.mjs";
import { ASKS, FOUND, STALLED, WORK, library, play } from "./scripts.mjs";

const { ChatClient, fetchServerSentEvents } = await library("@tanstack/ai-client");

let gateway;
let threads = 0;
before(async () => {
  gateway = await new Gateway().start();
});
after(() => gateway.stop());

function open(threadId = `tanstack-${(threads += 1)}`, address = gateway.address, options = {}) {
  const { fetchClient, of = gateway } = options;
  const url = `http://${address}/ag-ui/scripted`;
  const connection = fetchServerSentEvents(url, { headers: of.headers, fetchClient });
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

test("a cut before an approval ends with the approval, and not with more requests", async () => {
  const network = await new Network(gateway).start();
  network.cutAfter = "May";
  const threadId = "cut-and-asked";
  const waits = async () => (await gateway.get(`/ag-ui/scripted?threadId=${threadId}`)).interrupts !== null;
  let requests = 0;
  // The client is back when the agent already waits.
  const fetchClient = async (url, init) => {
    if ((requests += 1) > 1) await until("the agent waits", waits);
    assert.ok(requests < 4, "the client asks again and again");
    return fetch(url, init);
  };
  const chat = open(threadId, network.address, { fetchClient });
  await chat.sendMessage(play(ASKS));
  assert.equal(requests, 2);
  assert.equal(times(chat, "May I?"), 1, text(chat));
  assert.equal(chat.getInterrupts().length, 1);
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

/** Storage of a page that keeps its messages itself. `first` is what it had when the run began. */
class Storage extends Map {
  getItem = (key) => this.get(key) ?? null;
  removeItem = (key) => void this.delete(key);
  setItem = (key, value) => {
    this.set(key, value);
    if (JSON.stringify(value).includes("resumeState")) this.first ??= new Storage(structuredClone([...this]));
  };
}
function reload(chat, persistence) {
  const back = open(chat.thread, undefined, { persistence });
  back.attach();
  return back;
}

for (const [ends, script, sees, asks] of [
  ["has ended", WORK, FOUND, 0],
  ["waits for an approval", ASKS, "May I?", 1],
]) {
  test(`a page that keeps its messages itself is loaded again in a run, which ${ends} meanwhile`, async () => {
    const storage = new Storage();
    const chat = open(undefined, undefined, { persistence: storage });
    await chat.sendMessage(play(script));
    const back = reload(chat, storage.first);
    await until("the run is over", () => text(back).includes(sees) && back.getStatus() === "ready");
    assert.equal(text(back), text(chat));
    assert.equal(back.getInterrupts().length, asks);
    assert.equal(back.getMessages().filter(({ role }) => role === "user").length, 1);
  });
}

test("a page that keeps its messages itself is loaded again, and the run goes on, also with a new gateway", async () => {
  const own = await new Gateway().start();
  const storage = new Storage();
  const first = open("reloaded", own.address, { persistence: storage, of: own });
  const sent = first.sendMessage(play(STALLED));
  await sees(first, FOUND);
  await own.kill();
  await own.start();
  const back = open("reloaded", own.address, { persistence: storage.first, of: own });
  back.attach();
  await sees(back, FOUND);
  assert.equal(times(back, FOUND), 1, text(back));
  assert.equal(back.getStatus(), "streaming");
  first.stop();
  await own.post("/ag-ui/agent/scripted/stop/reloaded");
  await until("the run has ended", () => back.getStatus() === "ready");
  await sent.catch(() => undefined);
  await own.stop();
});

for (const [page, options] of [
  ["the page that asked", undefined],
  ["a page that loads the thread", { persistence: true }],
]) {
  test(`an approval is answered by ${page}, and the agent goes on`, async () => {
    const chat = open();
    await chat.sendMessage(play(ASKS));
    const answers = options === undefined ? chat : open(chat.thread, undefined, options);
    answers.attach();
    await until("the interrupt is there", () => answers.getInterrupts().length === 1);
    const [interrupt] = answers.getInterrupts();
    assert.equal(interrupt.canResolve, true);
    interrupt.resolveInterrupt({ outcome: "allow_once" });
    await sees(answers, "It is noted.");
    await until("the chat is at rest", () => answers.getStatus() === "ready");
    assert.deepEqual(answers.getInterrupts(), []);
  });
}

test("an unknown run is refused in words", async () => {
  const answer = await fetch(`http://${gateway.address}/ag-ui/scripted?offset=-1&runId=x`, { headers: gateway.headers });
  assert.equal(answer.status, 404);
  assert.match((await answer.json()).detail, /activeRun/);
});
