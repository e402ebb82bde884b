// The page's client. Its token is kept by the tab, and forgotten when the tab is closed.

import { Client, type RequestOptions } from "turnstream";

const KEY = "turnstream.token";
const NAME = "turnstream.name";

export const client = new Client({ token: () => sessionStorage.getItem(KEY) });

export function request<T>(path: string, options?: RequestOptions): Promise<T> {
  return client.request<T>(path, options);
}

export function setToken(token: string | null): void {
  if (token === null) sessionStorage.removeItem(KEY);
  else sessionStorage.setItem(KEY, token);
}

/** Exchanges a login code for a token of this page. */
export async function signIn(code: string): Promise<void> {
  const { token, name } = await client.signIn(code);
  setToken(token);
  sessionStorage.setItem(NAME, name);
}

/** The name of this page's token: events that it caused have it as `actor`. */
export function ownName(): string | null {
  return sessionStorage.getItem(NAME);
}
