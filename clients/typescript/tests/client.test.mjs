// The client against the real gateway: killed, restarted, silent.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Gateway, Network, PATIENCE, until } from "./gateway.mjs";

const FOLDER = fileURLToPath(new URL("..", import.meta.url));
const TSC = join(FOLDER, "../../web/node_modules/.bin/tsc");
const WORDS = Array.from({ length: 200 }, (_, place) => `w${place}`);
const SLOW = [{ do: "text", text: WORDS.join(" "), chunks: 200, pace_ms: 40 }];

let gateway, client, turnstream;
before(async () => {
  execFileSync(TSC, ["--project", FOLDER], { stdio: "inherit" });
  turnstream = await import("turnstream");
  gateway = await new Gateway().start();
  client = clientOf(`http://${gateway.address}`);
});
after(() => gateway?.stop());

function clientOf(address) {
  return new turnstream.Client({ address, token: gateway.run("token") });
}

/** Fails a test that would wait for ever. */
function patience() {
  return AbortSignal.timeout(PATIENCE);
}

async function wholeLog(session) {
  const all = [];
  for (let from; ;) {
    const page = await client.log(session, { limit: 500, ...(from && { from }) });
    all.push(...page.events);
    if (page.next === undefined) return all;
    from = page.next;
  }
}

test("events come once each, in order, through a killed gateway", { timeout: PATIENCE }, async () => {
  const { id } = await client.createSession({ agent: "scripted", cwd: gateway.work });
  await gateway.prompt(id, SLOW);
  const links = [];
  const got = [];
  let restarted;
  const onLink = (link) => {
    links.push(link.state);
    if (link.state === "disconnected") restarted ??= gateway.start();
  };
  for await (const event of client.events(id, { onLink, signal: patience() })) {
    got.push(event);
    if (event.type === "item.delta" && event.text.includes("w20")) await gateway.kill();
    if (event.type === "turn.ended") break;
  }
  await restarted;
  assert.deepEqual(
    got.map((event) => event.seq),
    got.map((_, place) => place + 1),
  );
  assert.deepEqual(got, (await wholeLog(id)).slice(0, got.length));
  const text = got.filter((event) => event.type === "item.delta").map((event) => event.text);
  const replaced = got.findLast((event) => event.type === "item.replaced");
  assert.equal(replaced?.text ?? text.join(""), WORDS.join(" "));
  assert.ok(links.includes("disconnected") && links.at(-1) === "live", String(links));
});

test("the folded state is the same before and after a killed gateway", { timeout: PATIENCE }, async () => {
  const { id } = await client.createSession({ agent: "scripted", cwd: gateway.work, title: "Folded" });
  await gateway.prompt(id, SLOW);
  let restarted;
  let isKilled = false;
  const onLink = (link) => {
    if (link.state === "disconnected") restarted ??= gateway.start();
  };
  let last;
  for await (const state of client.follow(id, { onLink, signal: patience() })) {
    last = state;
    const [item] = [...state.items.values()];
    if (!isKilled && item?.text?.includes("w20")) {
      isKilled = true;
      await gateway.kill();
    }
    if (state.session.status === "idle" && state.turns.get("t1")?.outcome !== undefined) break;
  }
  await restarted;
  assert.notEqual(restarted, undefined, "the gateway was killed in the middle");
  const [turn] = [...last.turns.values()];
  const [item] = [...last.items.values()];
  assert.deepEqual([turn.outcome, item.text, last.items.size], ["completed", WORDS.join(" "), 1]);
  const fresh = (await client.items(id)).items.map(({ item: own, text, state }) => ({ own, text, state }));
  const folded = [...last.items.values()].map(({ item: own, text, state }) => ({ own, text, state }));
  assert.deepEqual(folded, fresh.reverse());
});

test("a run answers approvals and questions as they come", { timeout: PATIENCE }, async () => {
  const { id } = await client.createSession({ agent: "scripted", cwd: gateway.work });
  const script = [
    { do: "tool", title: "Write", ask: true, effect: { append: { path: "run.txt", text: "once\n" } } },
    { do: "question", questions: [{ id: "0", text: "Which?", options: [{ label: "PG" }] }] },
    { do: "text", text: "Done." },
  ];
  const seen = [];
  for await (const event of client.run(id, JSON.stringify({ script, pace_ms: 0 }), { signal: patience() })) {
    seen.push(event);
    if (event.type === "approval.requested") await client.answer(id, event.approval, "allow_once");
    if (event.type === "question.asked") await client.answerQuestion(id, event.question, { 0: ["PG"] });
  }
  assert.equal(seen[0].type, "prompt.accepted");
  assert.equal(seen.at(-1).outcome, "completed");
  assert.equal(seen.find((event) => event.type === "approval.resolved").outcome, "allow_once");
  assert.deepEqual(seen.find((event) => event.type === "question.answered").answers, { 0: ["PG"] });
  assert.equal(readFileSync(join(gateway.work, "run.txt"), "utf8"), "once\n");
});

test("a run with a known key finds its turn again, and prompts once", { timeout: PATIENCE }, async () => {
  const { id } = await client.createSession({ agent: "scripted", cwd: gateway.work });
  const prompt = JSON.stringify({ script: [{ do: "text", text: "One." }], pace_ms: 0 });
  const types = async () => {
    const all = [];
    for await (const event of client.run(id, prompt, { key: "again", signal: patience() })) all.push(event);
    return all;
  };
  const first = await types();
  assert.deepEqual(await types(), first);
  assert.equal((await wholeLog(id)).filter((event) => event.type === "prompt.accepted").length, 1);
});

test("a prompt that was sent while the gateway was away arrives once", { timeout: PATIENCE }, async () => {
  const { id } = await client.createSession({ agent: "scripted", cwd: gateway.work });
  await gateway.kill();
  const script = JSON.stringify({ script: [{ do: "text", text: "Here." }] });
  const sent = client.prompt(id, script, { signal: patience() });
  await gateway.start();
  const { prompt } = await sent;
  const accepted = (await wholeLog(id)).filter((event) => event.type === "prompt.accepted");
  assert.deepEqual(
    accepted.map((event) => event.prompt),
    [prompt],
  );
});

test("a connection that went silent is replaced", { timeout: PATIENCE }, async () => {
  const network = await new Network(gateway).start();
  const through = clientOf(`http://${network.address}`);
  const { id } = await client.createSession({ agent: "scripted", cwd: gateway.work });
  const { head } = await client.session(id);
  const seqs = [];
  let isSilent = false;
  for await (const event of through.events(id, {
    after: head,
    silence: 5_000,
    signal: patience(),
    onLink: (link) => {
      if (link.state !== "live" || isSilent) return;
      isSilent = true;
      network.silence();
      void gateway.prompt(id, [{ do: "text", text: "After the silence." }]);
    },
  })) {
    seqs.push(event.seq);
    if (event.type === "turn.ended") break;
  }
  assert.deepEqual(
    seqs,
    seqs.map((_, place) => head + 1 + place),
  );
  network.stop();
});

test(
  "iterators end by a signal, a deleted session, and errors that last",
  { timeout: PATIENCE },
  async () => {
    const { id } = await client.createSession({ agent: "scripted", cwd: gateway.work });
    const reason = new Error("enough");
    const controller = new AbortController();
    const read = async (session, options) => {
      const types = [];
      for await (const event of client.events(session, { signal: patience(), ...options })) {
        types.push(event.type);
        if (options?.stop === event.type) controller.abort(reason);
      }
      return types;
    };
    await assert.rejects(
      read(id, { signal: controller.signal, stop: "session.created" }),
      (error) => error === reason,
    );
    await assert.rejects(read(id, { after: 9_999 }), { name: "CursorReset", reason: "beyond_head" });
    await assert.rejects(read("ses_none"), { name: "unknown-session", status: 404 });
    const wrong = new turnstream.Client({ address: client.address, token: "wrong" });
    await assert.rejects(wrong.session(id), { status: 401 });
    let isOpen = false;
    const ended = read(id, { onLink: ({ state }) => void (isOpen ||= state === "live") });
    await until("the stream is open", () => isOpen);
    assert.equal(await client.deleteSession(id), "removed");
    assert.equal((await ended).at(-1), "session.ended");
  },
);

test("a ticket opens the stream without a header", { timeout: PATIENCE }, async () => {
  const { id } = await client.createSession({ agent: "scripted", cwd: gateway.work });
  const url = client.eventSourceUrl(id, await client.ticket(id));
  const answer = await fetch(url, { signal: patience() });
  assert.equal(answer.status, 200);
  const { value } = await answer.body.getReader().read();
  assert.match(new TextDecoder().decode(value), /"outcome":"(replayed|caught_up)"/);
});

test("one WebSocket follows many sessions through a killed gateway", { timeout: PATIENCE }, async () => {
  const made = await Promise.all(
    Array.from({ length: 3 }, () => client.createSession({ agent: "scripted", cwd: gateway.work })),
  );
  const connection = new turnstream.Connection(client);
  connection.start();
  const followed = made.map(({ id }) => new turnstream.FollowedSession(id, connection));
  await until("all are read", () => followed.every((one) => one.reading === "here" && connection.isLive));
  for (const { id } of made) await gateway.prompt(id, SLOW);
  const text = (one) => [...one.fold.items.values()].map((item) => item.text).join("|");
  await until("all write", () => followed.every((one) => text(one).includes("w20")));
  await gateway.kill();
  await until("the cut is seen", () => connection.link.state === "disconnected");
  await gateway.start();
  await until("all are done", () => followed.every((one) => one.fold.turns.get("t1")?.outcome));
  assert.deepEqual(followed.map(text), Array(3).fill(WORDS.join(" ")));
  for (const one of followed) one.end();
  connection.end();
});

test("the examples of the README run", { timeout: PATIENCE }, async () => {
  const readme = readFileSync(join(FOLDER, "README.md"), "utf8");
  const example = async (name, ...args) => {
    const path = join(FOLDER, "examples", name);
    assert.ok(readme.includes(readFileSync(path, "utf8").trim()), `README.md has another ${name}`);
    const env = {
      ...process.env,
      TURNSTREAM_ADDRESS: client.address,
      TURNSTREAM_TOKEN: gateway.run("token"),
    };
    const child = spawn(process.execPath, [path, ...args], { env, stdio: ["ignore", "pipe", "inherit"] });
    let out = "";
    child.stdout.on("data", (text) => (out += text));
    const code = await new Promise((ended) => child.once("exit", ended));
    assert.equal(code, 0, out);
    return out;
  };
  const said = await example("ask.mjs", "scripted", gateway.work, "Say hello");
  assert.match(said, /Say hello[\s\S]*The turn ended: completed\./);
  const { id } = await client.createSession({ agent: "scripted", cwd: gateway.work, title: "Watched" });
  await gateway.prompt(id, [{ do: "text", text: "Watch me." }]);
  assert.match(await example("watch.mjs", id), /Watched: idle, 1 items, 0 wait/);
});

test("events are the same wherever a stream is cut into pieces", async () => {
  const { SseDecoder } = await import("../dist/sse.js");
  const stream =
    ': a comment\r\n\r\nid: g1:1\r\nevent: notice\r\ndata: {"a":1}\r\n\r\n' +
    "data: one\ndata:two\n\nid\nretry: 5\nunknown: x\ndata\n\nid: g1:2\rdata: é😀\r\rdata: never ended";
  const whole = new SseDecoder().push(stream);
  assert.deepEqual(whole, [
    { id: "g1:1", type: "notice", data: '{"a":1}' },
    { type: "message", data: "one\ntwo" },
    { id: "", type: "message", data: "" },
    { id: "g1:2", type: "message", data: "é😀" },
  ]);
  for (let first = 0; first <= stream.length; first += 1) {
    for (let second = first; second <= stream.length; second += 7) {
      const decoder = new SseDecoder();
      const pieces = [stream.slice(0, first), stream.slice(first, second), stream.slice(second)];
      assert.deepEqual(
        pieces.flatMap((piece) => decoder.push(piece)),
        whole,
        `${first}, ${second}`,
      );
    }
  }
});
