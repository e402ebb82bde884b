// Hooks that the views share.

import { useEffect, useLayoutEffect, useReducer, useState } from "preact/hooks";
import type { Store } from "turnstream";

/** Renders again when the store changes. */
export function useStore<T extends Store | undefined>(store: T): T {
  const [, again] = useReducer((count: number) => count + 1, 0);
  // Before the next frame: a change that nobody hears may be the last one.
  useLayoutEffect(() => store?.subscribe(() => again(undefined as never)), [store]);
  return store;
}

/** The time, renewed every so often. */
export function useNow(everyMs: number): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}
