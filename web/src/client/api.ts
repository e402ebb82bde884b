// Requests to the gateway. Every request has the token in a header; there are no cookies.

const KEY = "turnstream.token";
const NAME = "turnstream.name";

/** An error that the gateway reported (RFC 9457). */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly name: string,
    readonly body: Record<string, unknown>,
  ) {
    const text = body.reason ?? body.detail ?? body.title;
    super(typeof text === "string" ? text : `the gateway answered ${status}`);
  }
}

export function token(): string | null {
  return sessionStorage.getItem(KEY);
}

export function setToken(token: string | null): void {
  if (token === null) sessionStorage.removeItem(KEY);
  else sessionStorage.setItem(KEY, token);
}

export interface Options {
  method?: "GET" | "POST" | "PATCH" | "DELETE";
  body?: unknown;
  signal?: AbortSignal;
}

/** Sends a request and reads the answer as JSON. Throws a `Problem`, or another error without a connection. */
export async function request<T>(path: string, { method = "GET", body, signal }: Options = {}): Promise<T> {
  const headers: Record<string, string> = {};
  const own = token();
  if (own !== null) headers.authorization = `Bearer ${own}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const answer = await fetch(path, {
    method,
    headers,
    signal: signal ?? null,
    body: body === undefined ? null : JSON.stringify(body),
    // With credentials a browser answers a 401 with its own dialog, and keeps what is typed there.
    credentials: "omit",
  });
  const text = await answer.text();
  const parsed = text === "" ? null : parse(text);
  if (answer.ok) return parsed as T;
  const problem = (parsed ?? {}) as Record<string, unknown>;
  const name = typeof problem.type === "string" ? problem.type.replace("urn:turnstream:problem:", "") : "";
  throw new Problem(answer.status, name, problem);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Exchanges a login code for a token of this page. */
export async function signIn(code: string): Promise<void> {
  const { token, name } = await request<{ token: string; name: string }>("/v1/login", {
    method: "POST",
    body: { code },
  });
  setToken(token);
  sessionStorage.setItem(NAME, name);
}

/** The name of this page's token: events that it caused have it as `actor`. */
export function ownName(): string | null {
  return sessionStorage.getItem(NAME);
}

export function sessionPath(session: string, rest = ""): string {
  return `/v1/sessions/${encodeURIComponent(session)}${rest}`;
}

/** A key that makes a request safe to repeat. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `page-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
