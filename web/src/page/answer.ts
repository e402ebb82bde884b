// Requests of the views that may be refused or fail: what was said about them is shown where they were made.

import { useState } from "preact/hooks";
import { Problem } from "turnstream";

export interface Act {
  isBusy: boolean;
  problem: string | undefined;
  /** The name of the gateway's problem, for those that a view has its own answer to. */
  name: string | undefined;
  run(act: () => Promise<unknown>): Promise<boolean>;
}

/** Runs one request at a time, and keeps its problem until the next. */
export function useAct(): Act {
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string>();
  const [name, setName] = useState<string>();
  return {
    isBusy,
    problem,
    name,
    async run(act) {
      setBusy(true);
      setProblem(undefined);
      setName(undefined);
      try {
        await act();
        return true;
      } catch (error) {
        setProblem(problemWords(error));
        setName(error instanceof Problem ? error.name : undefined);
        return false;
      } finally {
        setBusy(false);
      }
    },
  };
}

export function problemWords(error: unknown): string {
  if (error instanceof Problem) return `${error.message}.`;
  return "The gateway did not answer. Nothing is known about this request; try again when it is back.";
}
