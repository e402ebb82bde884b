// Signs in with the code in the fragment, and shows the states of all sessions, live.

const WORDS = {
  idle: "Idle", busy: "Generating", waiting: "Waiting for you", retrying: "Retrying", recovering: "Recovering",
};
const KEY = "turnstream.token";
// Otherwise a browser answers a 401 with its own dialog, and keeps what is typed there.
const PLAIN = { credentials: "omit" };
const sessions = new Map();

const connection = document.getElementById("connection");
const list = document.getElementById("sessions");

function notice(text) {
  const place = document.getElementById("notice");
  place.textContent = text;
  place.hidden = text === "";
}

async function signIn() {
  const code = new URLSearchParams(location.hash.slice(1)).get("login");
  // Also from the history: the code is of no use to anybody from now on.
  history.replaceState(null, "", location.pathname);
  if (code === null) return;
  const answer = await fetch("/v1/login", {
    ...PLAIN, method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ code }),
  });
  const body = await answer.json();
  if (answer.ok) sessionStorage.setItem(KEY, body.token);
  else notice(body.detail);
}

function headers() {
  const token = sessionStorage.getItem(KEY);
  return token === null ? {} : { authorization: `Bearer ${token}` };
}

function show() {
  const rows = [...sessions.values()].map((session) => {
    const row = document.createElement("li");
    const cell = (name, text) => {
      const span = document.createElement("span");
      span.className = name;
      span.textContent = text;
      row.append(span);
    };
    cell("title", session.title ?? session.cwd ?? session.id);
    cell("agent", session.agent ?? "");
    cell(session.status, WORDS[session.status] ?? session.status);
    return row;
  });
  list.replaceChildren(...rows);
  const waiting = [...sessions.values()].filter((session) => session.status === "waiting").length;
  document.title = `${waiting > 0 ? `(${waiting}) ` : ""}Sessions · Turnstream`;
}

// A session's title and agent are not in the stream of states.
async function describe(id) {
  const answer = await fetch(`/v1/sessions/${encodeURIComponent(id)}`, { ...PLAIN, headers: headers() });
  if (answer.ok) Object.assign(sessions.get(id) ?? {}, await answer.json());
}

async function frame(data) {
  const event = JSON.parse(data);
  if (event.session === undefined) return;
  if (event.type === "session.ended") sessions.delete(event.session);
  else if (event.status !== undefined) {
    const known = sessions.get(event.session);
    sessions.set(event.session, { ...(known ?? { id: event.session }), status: event.status });
    if (known === undefined) await describe(event.session);
    sessions.get(event.session).status = event.status;
  }
  show();
}

async function follow() {
  const answer = await fetch("/v1/events", { ...PLAIN, headers: headers() });
  if (answer.status === 401) {
    connection.textContent = "not signed in";
    notice("Run `turnstream login` where the gateway runs, and open the address it prints.");
    return false;
  }
  connection.textContent = "live";
  sessions.clear();
  notice("");
  let rest = "";
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
    const lines = (rest + piece.value).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line.startsWith("data: ")) await frame(line.slice(6));
  }
  return true;
}

async function run() {
  await signIn();
  for (let pause = 1; ; pause = Math.min(pause * 2, 30)) {
    try {
      if (!(await follow())) return;
      pause = 1;
    } catch (error) {
      console.debug("the stream ended", error);
    }
    connection.textContent = `disconnected since ${new Date().toLocaleTimeString()}`;
    await new Promise((wake) => setTimeout(wake, pause * 1000));
  }
}

run();
