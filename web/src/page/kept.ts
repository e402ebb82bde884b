// State that outlives its view: a card that a person opened is still open when it comes back to the screen.

import { createContext } from "preact";
import { useContext, useState } from "preact/hooks";

export const Kept = createContext(new Map<string, unknown>());

export function useKept<T>(key: string, initial: T): [T, (value: T) => void] {
  const kept = useContext(Kept);
  const [value, setValue] = useState<T>(() => (kept.has(key) ? (kept.get(key) as T) : initial));
  const keep = (value: T) => {
    kept.set(key, value);
    setValue(() => value);
  };
  return [value, keep];
}
