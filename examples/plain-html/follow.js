// Follows one session with EventSource. The browser reconnects by itself and sends the last id; only when the
// gateway refuses that (its tickets end with a restart), a new ticket is fetched.

const shown = new Map();
const $ = (id) => document.getElementById(id);
let gateway, source, last, timer;
let failures = 0;

async function request(path, body, method = "POST") {
  const answer = await fetch(gateway.address + path, {
    method,
    headers: { authorization: `Bearer ${gateway.token}`, "content-type": "application/json" },
    body: JSON.stringify(body),
    credentials: "omit",
  });
  const text = await answer.text();
  const value = text === "" ? null : JSON.parse(text);
  if (!answer.ok) throw new Error(value?.detail ?? value?.title ?? `the gateway answered ${answer.status}`);
  return value;
}

const path = (rest) => `/v1/sessions/${encodeURIComponent(gateway.session)}${rest}`;
const say = (text) => ($("link").textContent = text);

async function connect() {
  try {
    const { ticket } = await request("/v1/tickets", { session: gateway.session });
    const query = new URLSearchParams({ ticket, ...(last && { after: last }) });
    source = new EventSource(`${gateway.address}${path(`/events?${query}`)}`);
  } catch (error) {
    retry(String(error.message ?? error));
    return;
  }
  // The first frame says what happened to the cursor. After a reset everything comes again.
  source.addEventListener("stream", ({ data }) => {
    const { outcome } = JSON.parse(data);
    if (outcome === "reset") clear();
    if (outcome === "gone") source.close();
    failures = 0;
    say(outcome === "gone" ? "The session was deleted." : "Connected.");
  });
  for (const [type, apply] of Object.entries(EVENTS)) {
    source.addEventListener(type, ({ data, lastEventId }) => {
      last = lastEventId;
      apply(JSON.parse(data));
    });
  }
  source.onerror = () => {
    if (source.readyState !== EventSource.CLOSED) say("Disconnected. The browser reconnects.");
    else retry("The gateway refused the stream");
  };
}

function retry(why) {
  const wait = Math.min(1_000 * 2 ** failures, 30_000) * (0.8 + 0.2 * Math.random());
  failures += 1;
  say(`Disconnected: ${why}. Again in ${Math.ceil(wait / 1_000)} s.`);
  timer = setTimeout(connect, wait);
}

function clear() {
  shown.clear();
  $("items").replaceChildren();
  $("approvals").replaceChildren();
}

function row(id, text) {
  let element = shown.get(id);
  if (element === undefined) {
    element = document.createElement("li");
    shown.set(id, element);
    $("items").append(element);
  }
  if (text !== undefined) element.textContent = text;
  return element;
}

/** What this page shows; it ignores every other type. Text of agents is only ever set as text. */
const EVENTS = {
  "prompt.accepted": ({ prompt, content }) =>
    row(prompt, `You: ${content.map((part) => part.text).join("")}`),
  "item.started": ({ item, tool, text }) =>
    row(item, tool ? `Tool: ${tool.title ?? tool.name}` : (text ?? "")),
  "item.delta": ({ item, field, text }) => field === undefined && row(item).append(text),
  "item.replaced": ({ item, field, text }) => field === undefined && row(item, text),
  "item.removed": ({ item }) => row(item).remove(),
  "attempt.superseded": ({ items }) => items.forEach((item) => row(item).classList.add("void")),
  "turn.ended": ({ turn, outcome }) => row(turn, `The turn ended: ${outcome}.`),
  "approval.requested": ({ approval, tool }) => {
    const place = document.createElement("p");
    place.id = approval;
    place.append(`Allow “${tool?.title ?? tool?.name ?? "this"}”? `);
    for (const outcome of ["allow_once", "reject"]) {
      const button = document.createElement("button");
      button.textContent = outcome === "allow_once" ? "Allow once" : "Reject";
      button.onclick = () =>
        request(path(`/approvals/${approval}`), { outcome }).catch((error) => say(error.message));
      place.append(button, " ");
    }
    $("approvals").append(place);
  },
  "approval.resolved": ({ approval }) => $(approval)?.remove(),
};

$("connect").onsubmit = (event) => {
  event.preventDefault();
  source?.close();
  clearTimeout(timer);
  clear();
  gateway = Object.fromEntries(new FormData(event.target));
  last = undefined;
  void connect();
};

$("prompt").onsubmit = async (event) => {
  event.preventDefault();
  const form = event.target;
  const text = form.elements.text.value;
  // The key makes it safe to press the button again.
  form.dataset.key ??= crypto.randomUUID();
  try {
    await request(path("/prompts"), { content: [{ type: "text", text }], key: form.dataset.key });
    delete form.dataset.key;
    form.reset();
  } catch (error) {
    say(`The prompt was not sent: ${error.message}`);
  }
};
