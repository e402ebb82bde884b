// Times, durations, money, sizes and counts in the words of the page.

import type { Cost } from "turnstream";

const two = (number: number) => String(number).padStart(2, "0");

export function clock(time: number): string {
  const date = new Date(time);
  return `${two(date.getHours())}:${two(date.getMinutes())}`;
}

export function clockSeconds(time: number): string {
  return `${clock(time)}:${two(new Date(time).getSeconds())}`;
}

export function clockMillis(time: number): string {
  return `${clockSeconds(time)}.${String(new Date(time).getMilliseconds()).padStart(3, "0")}`;
}

const DAY = 86_400_000;
const WEEKDAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

export function startOfDay(time: number): number {
  return new Date(time).setHours(0, 0, 0, 0);
}

/** When something happens: today a time, within a week a day, and else a date. */
export function moment(time: number, now: number): string {
  const date = new Date(time);
  if (startOfDay(time) === startOfDay(now)) return clock(time);
  if (Math.abs(now - time) < 6 * DAY) return `${WEEKDAYS[date.getDay()]} ${clock(time)}`;
  return `${date.getDate()} ${MONTHS[date.getMonth()]} ${date.getFullYear()}`;
}

/** The whole date with its zone, for a tooltip. */
export function fullDate(time: number): string {
  return new Date(time).toLocaleString("en-GB", { dateStyle: "full", timeStyle: "long" });
}

/** How long ago: now, 4 s, 2 min, 2 h, and then the moment. */
export function ago(time: number, now: number): string {
  const seconds = Math.max(0, Math.floor((now - time) / 1000));
  if (seconds < 2) return "now";
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 6 * 3600) return `${Math.floor(seconds / 3600)} h`;
  return moment(time, now);
}

export function duration(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return ms < 10_000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms / 1000)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} m ${Math.round((ms % 60_000) / 1000)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} m`;
}

export function money(cost: Cost | undefined): string {
  if (cost === undefined) return "—";
  const sign = cost.currency === "USD" ? "$" : `${cost.currency} `;
  return cost.amount > 0 && cost.amount < 0.01 ? `<${sign}0.01` : `${sign}${cost.amount.toFixed(2)}`;
}

/** The sum of costs in one currency; undefined if none is known. */
export function sum(costs: (Cost | undefined)[]): Cost | undefined {
  const known = costs.filter((cost) => cost !== undefined);
  const [first] = known;
  if (first === undefined) return undefined;
  const same = known.filter((cost) => cost.currency === first.currency);
  return { currency: first.currency, amount: same.reduce((all, cost) => all + cost.amount, 0) };
}

export function count(number: number): string {
  return number.toLocaleString("en-US");
}

export function tokens(number: number): string {
  if (number < 1000) return String(number);
  if (number < 1_000_000) return `${Math.round(number / 1000)} k`;
  return `${(number / 1_000_000).toFixed(1).replace(".0", "")} M`;
}

export function size(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  for (const [unit, scale] of [
    ["KB", 1024],
    ["MB", 1024 ** 2],
  ] as const) {
    if (bytes < scale * 1024) return `${(bytes / scale).toFixed(1)} ${unit}`;
  }
  return `${(bytes / 1024 ** 3).toFixed(1)} GB`;
}

export function plural(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** The last two parts of a path, so that the name stays when room is short. */
export function shortPath(path: string): string {
  const parts = path.split("/").filter((part) => part !== "");
  return parts.length <= 2 ? path : `…/${parts.slice(-2).join("/")}`;
}
