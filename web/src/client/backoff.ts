// How long to wait before the next attempt to connect.

const FIRST_MS = 1_000;
const MOST_MS = 30_000;

/** Doubles with each failure up to 30 s. `chance` (0 to 1) spreads clients that lost one gateway together. */
export function delay(failures: number, chance: number): number {
  const whole = Math.min(FIRST_MS * 2 ** Math.min(failures, 10), MOST_MS);
  return Math.round(whole * (0.8 + 0.2 * chance));
}
