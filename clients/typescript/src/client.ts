// Requests to one gateway. Every request has the token in a header; there are no cookies.

import { delay, sleep } from "./backoff.js";
import { type EventsOptions, events } from "./events.js";
import { follow } from "./follow.js";
import type { SessionFold } from "./fold.js";
import { type RunOptions, run } from "./run.js";
import type {
  Agent,
  Budget,
  ContentBlock,
  ItemsPage,
  LogPage,
  McpServer,
  NewSession,
  Prompted,
  SessionInfo,
} from "./values.js";
import type { Event, Permissions, ResumeAs } from "./wire.js";

/** An error that the gateway reported (RFC 9457). `name` is the last part of its type: `unknown-session`. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    override readonly name: string,
    readonly body: Record<string, unknown>,
    /** Milliseconds after which the gateway wants to be asked again. */
    readonly retryAfter?: number,
  ) {
    const text = body.reason ?? body.detail ?? body.title;
    super(typeof text === "string" ? text : `the gateway answered ${status}`);
  }

  /** The same request may succeed later. */
  get isPassing(): boolean {
    return this.status === 429 || this.status >= 500;
  }
}

export interface ClientOptions {
  /** For example `http://127.0.0.1:4180`. In a page of the gateway itself it can be left out. */
  address?: string;
  /** The gateway's token, or where to find it at each request. */
  token?: string | (() => string | null | undefined);
  /** Another implementation of `fetch`. */
  fetch?: typeof globalThis.fetch;
}

export interface RequestOptions {
  method?: "GET" | "POST" | "PATCH" | "DELETE";
  body?: unknown;
  signal?: AbortSignal | undefined;
}

/** Options of requests with a key: they are repeated after a lost connection, and done once. */
export interface KeyOptions {
  /** Made by the client if it is left out. */
  key?: string;
  signal?: AbortSignal | undefined;
}

export interface LogOptions {
  from?: number | string;
  /** Unix milliseconds. */
  at?: number;
  limit?: number;
  signal?: AbortSignal | undefined;
}

/** How often a request with a key is repeated before its error is reported. */
const MOST_REPEATS = 8;

export class Client {
  readonly address: string;
  readonly #token: () => string | null | undefined;
  readonly #fetch: typeof globalThis.fetch;

  constructor({ address = "", token, fetch }: ClientOptions = {}) {
    this.address = address.replace(/\/+$/, "");
    this.#token = typeof token === "function" ? token : () => token;
    // Browsers refuse a `fetch` that is called as a method of something else.
    this.#fetch = fetch ?? ((input, init) => globalThis.fetch(input, init));
  }

  /** Sends a request. Throws a `Problem`, or another error if there is no connection. */
  async open(path: string, { method = "GET", body, signal }: RequestOptions = {}): Promise<Response> {
    const headers: Record<string, string> = {};
    const token = this.#token();
    if (typeof token === "string") headers.authorization = `Bearer ${token}`;
    if (body !== undefined) headers["content-type"] = "application/json";
    const answer = await this.#fetch(this.address + path, {
      method,
      headers,
      signal: signal ?? null,
      body: body === undefined ? null : JSON.stringify(body),
      // With credentials a browser answers a 401 with its own dialog, and keeps what is typed there.
      credentials: "omit",
      cache: "no-store",
    });
    if (answer.ok) return answer;
    const problem = (parse(await answer.text()) ?? {}) as Record<string, unknown>;
    const name = typeof problem.type === "string" ? problem.type.replace("urn:turnstream:problem:", "") : "";
    const seconds = Number(answer.headers.get("retry-after") ?? Number.NaN);
    throw new Problem(
      answer.status,
      name,
      problem,
      Number.isFinite(seconds) ? Math.round(seconds * 1_000) : undefined,
    );
  }

  /** Sends a request and reads the answer as JSON. */
  async request<T>(path: string, options: RequestOptions = {}): Promise<T> {
    const answer = await this.open(path, options);
    const text = await answer.text();
    return (text === "" ? null : parse(text)) as T;
  }

  /** Sends a request with a key, and repeats it until the gateway has answered it. */
  async #once<T>(path: string, body: Record<string, unknown>, options: KeyOptions = {}): Promise<T> {
    const { key = newKey(), signal } = options;
    for (let failures = 0; ; failures += 1) {
      try {
        return await this.request<T>(path, { method: "POST", body: { ...body, key }, signal });
      } catch (error) {
        signal?.throwIfAborted();
        const isFinal = error instanceof Problem && !error.isPassing;
        if (isFinal || failures >= MOST_REPEATS) throw error;
        const asked = error instanceof Problem ? error.retryAfter : undefined;
        await sleep(Math.max(asked ?? 0, delay(failures, Math.random())), signal);
      }
    }
  }

  // Access

  /** Exchanges a login code (`#login=…` of the address that `turnstream login` prints) for a token. */
  signIn(code: string): Promise<{ token: string; name: string }> {
    return this.request("/v1/login", { method: "POST", body: { code } });
  }

  /** A ticket opens event streams where no header can be sent: `EventSource`, and `WebSocket`. */
  async ticket(session?: string, signal?: AbortSignal): Promise<string> {
    const body = session === undefined ? {} : { session };
    const answer = await this.request<{ ticket: string }>("/v1/tickets", { method: "POST", body, signal });
    return answer.ticket;
  }

  /** The address of a session's events for `new EventSource(…)`. */
  eventSourceUrl(session: string, ticket: string, after?: string): string {
    const query = new URLSearchParams({ ticket, ...(after !== undefined && { after }) });
    return `${this.address}${sessionPath(session, `/events?${query}`)}`;
  }

  // Sessions

  async agents(signal?: AbortSignal): Promise<Agent[]> {
    const answer = await this.request<{ agents: Agent[] }>("/v1/agents", { signal });
    return answer.agents;
  }

  /** One page of sessions, the last active first. `after` is the `next` of the page before. */
  sessions(
    query: { limit?: number; after?: string; agent?: string; status?: string; q?: string } = {},
    signal?: AbortSignal,
  ): Promise<{ sessions: SessionInfo[]; next?: string }> {
    const given = Object.entries({ limit: 50, ...query }).map(([name, value]) => [name, String(value)]);
    return this.request(`/v1/sessions?${new URLSearchParams(given)}`, { signal });
  }

  session(session: string, signal?: AbortSignal): Promise<SessionInfo> {
    return this.request(sessionPath(session), { signal });
  }

  createSession(wanted: NewSession & { mcp?: McpServer[] }, options?: KeyOptions): Promise<SessionInfo> {
    return this.#once("/v1/sessions", { ...wanted }, options);
  }

  updateSession(
    session: string,
    change: { title?: string; model?: string; mode?: string; permissions?: Permissions },
  ): Promise<SessionInfo> {
    return this.request(sessionPath(session), { method: "PATCH", body: change });
  }

  /** Ends the session and erases it. `pending` if erasing goes on: repeat the request. */
  async deleteSession(session: string): Promise<"removed" | "pending"> {
    const path = sessionPath(session);
    const { removed } = await this.request<{ removed: true | "pending" }>(path, { method: "DELETE" });
    return removed === true ? "removed" : "pending";
  }

  /** Goes on with a session that its agent has forgotten (`agent-forgot`). */
  resume(session: string, as: ResumeAs): Promise<SessionInfo> {
    return this.request(sessionPath(session, "/resume"), { method: "POST", body: { as } });
  }

  // Prompts

  /** Sends a prompt. It is durable when this returns; it waits if a turn is open. */
  prompt(
    session: string,
    content: string | ContentBlock[],
    { budget, ...options }: KeyOptions & { budget?: Budget } = {},
  ): Promise<Prompted> {
    const blocks = typeof content === "string" ? [{ type: "text", text: content }] : content;
    const body = { content: blocks, ...(budget !== undefined && { budget }) };
    return this.#once(sessionPath(session, "/prompts"), body, options);
  }

  /** Takes back a prompt that still waits. */
  async withdraw(session: string, prompt: string): Promise<void> {
    await this.request(sessionPath(session, `/prompts/${encodeURIComponent(prompt)}`), { method: "DELETE" });
  }

  /** Cancels a turn, a prompt, or whatever is open. The end of the turn comes as an event. */
  async cancel(session: string, what: { turn: string } | { prompt: string } | object = {}): Promise<void> {
    await this.request(sessionPath(session, "/cancel"), { method: "POST", body: what });
  }

  // Approvals and questions

  /** Answers an approval. `stop` also cancels the turn after a `reject`. */
  async answer(
    session: string,
    approval: string,
    outcome: "allow_once" | "allow_always" | "reject",
    { key, signal, ...more }: KeyOptions & { option?: string; message?: string; stop?: boolean } = {},
  ): Promise<void> {
    const path = sessionPath(session, `/approvals/${encodeURIComponent(approval)}`);
    await this.#once(path, { outcome, ...more }, { ...(key !== undefined && { key }), signal });
  }

  /** Answers a question: for each part its chosen labels, or own words. */
  async answerQuestion(
    session: string,
    question: string,
    answers: Record<string, string[]>,
    options?: KeyOptions,
  ): Promise<void> {
    const path = sessionPath(session, `/questions/${encodeURIComponent(question)}`);
    await this.#once(path, { answers }, options);
  }

  async declineQuestion(session: string, question: string, options?: KeyOptions): Promise<void> {
    const path = sessionPath(session, `/questions/${encodeURIComponent(question)}`);
    await this.#once(path, { outcome: "rejected" }, options);
  }

  // History

  /** A page of items, the newest first. `before` is the `next` of the page before. */
  items(
    session: string,
    {
      limit = 50,
      before,
      signal,
    }: { limit?: number; before?: string; signal?: AbortSignal | undefined } = {},
  ): Promise<ItemsPage> {
    const query = new URLSearchParams({ limit: String(limit), ...(before !== undefined && { before }) });
    return this.request(sessionPath(session, `/items?${query}`), { signal });
  }

  /** A page of events, the oldest first: from a seq or cursor, or from the first one at or after a time. */
  log(session: string, { from, at, limit = 50, signal }: LogOptions = {}): Promise<LogPage> {
    const query = new URLSearchParams({
      limit: String(limit),
      ...(from !== undefined && { from: String(from) }),
      ...(at !== undefined && { at: String(at) }),
    });
    return this.request(sessionPath(session, `/log?${query}`), { signal });
  }

  // Streams

  /** Every event of a session, each once, also after a cut or a restart. See `events.ts`. */
  events(session: string, options?: EventsOptions): AsyncGenerator<Event, void, void> {
    return events(this, session, options);
  }

  /** The state of a session, now and after each change. See `follow.ts`. */
  follow(session: string, options?: EventsOptions): AsyncGenerator<SessionFold, void, void> {
    return follow(this, session, options);
  }

  /** Sends a prompt, and gives the events of its turn until it has ended. See `run.ts`. */
  run(
    session: string,
    content: string | ContentBlock[],
    options?: RunOptions,
  ): AsyncGenerator<Event, void, void> {
    return run(this, session, content, options);
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

export function sessionPath(session: string, rest = ""): string {
  return `/v1/sessions/${encodeURIComponent(session)}${rest}`;
}

/** A key that makes a request safe to repeat. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `ts-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
