// Hands long texts to the worker, and gives views its results.

import { useEffect, useMemo, useState } from "preact/hooks";
import type { Change } from "./compare";
import type { Token } from "./syntax";
import url from "./worker?worker&url";

export type Task =
  | { do: "ansi"; text: string }
  | { do: "compare"; oldText: string; newText: string }
  | { do: "highlight"; language: string; text: string };

interface Results {
  ansi: Token[];
  compare: Change | undefined;
  highlight: Token[][] | undefined;
}

declare global {
  interface Window {
    trustedTypes?: {
      createPolicy(
        name: string,
        rules: { createScriptURL(url: string): string },
      ): {
        createScriptURL(url: string): string;
      };
    };
  }
}

let worker: Worker | undefined;
let last = 0;
const waiting = new Map<number, (result: unknown) => void>();

/** The one worker. Its address is the only one that the policy lets through. */
function theWorker(): Worker {
  if (worker !== undefined) return worker;
  const only = (asked: string) => {
    if (asked !== url) throw new TypeError("another script than the worker");
    return asked;
  };
  const policy = window.trustedTypes?.createPolicy("turnstream", { createScriptURL: only });
  worker = new Worker(policy?.createScriptURL(url) ?? url, { type: "module" });
  worker.addEventListener("message", ({ data }: MessageEvent<{ id: number; result: unknown }>) => {
    waiting.get(data.id)?.(data.result);
    waiting.delete(data.id);
  });
  return worker;
}

function work<T extends Task>(task: T): { result: Promise<Results[T["do"]]>; drop: () => void } {
  last += 1;
  const id = last;
  const result = new Promise<Results[T["do"]]>((resolve) => {
    waiting.set(id, resolve as (result: unknown) => void);
  });
  theWorker().postMessage({ id, task });
  return { result, drop: () => waiting.delete(id) };
}

/** A result of the worker, once it is there. Without a task there is none. */
export function useWork<T extends Task>(task: T | undefined): { result: Results[T["do"]] } | undefined {
  const key = useMemo(() => ({}), task === undefined ? [] : Object.values(task));
  const [done, setDone] = useState<{ key: object; result: Results[T["do"]] }>();
  useEffect(() => {
    if (task === undefined) return;
    const { result, drop } = work(task);
    void result.then((result) => setDone({ key, result }));
    return drop;
  }, [key]);
  return task !== undefined && done?.key === key ? done : undefined;
}
