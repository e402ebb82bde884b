// How long to wait before the next attempt to connect.

const FIRST_MS = 1_000;
const MOST_MS = 30_000;

/** Doubles with each failure up to 30 s. `chance` (0 to 1) spreads clients that lost one gateway together. */
export function delay(failures: number, chance: number): number {
  const whole = Math.min(FIRST_MS * 2 ** Math.min(failures, 10), MOST_MS);
  return Math.round(whole * (0.8 + 0.2 * chance));
}

/** Waits, unless the signal ends it: then it throws the signal's reason. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) {
      reject(signal.reason);
      return;
    }
    const ended = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", ended);
      resolve();
    }, ms);
    signal?.addEventListener("abort", ended, { once: true });
  });
}
