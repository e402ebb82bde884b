// Requests of the views that may be refused or fail: what was said about them is shown where they were made.

import { useState } from "preact/hooks";
import { Problem } from "../client/api";

export interface Act {
  isBusy: boolean;
  problem: string | undefined;
  run(act: () => Promise<unknown>): Promise<boolean>;
}

/** Runs one request at a time, and keeps its problem until the next. */
export function useAct(): Act {
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string>();
  return {
    isBusy,
    problem,
    async run(act) {
      setBusy(true);
      setProblem(undefined);
      try {
        await act();
        return true;
      } catch (error) {
        setProblem(problemWords(error));
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
