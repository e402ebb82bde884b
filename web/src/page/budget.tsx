// Budgets: what was used of a cap, and the form that sets caps.

import { useState } from "preact/hooks";
import { type Cap, type Caps, type SessionInfo, sessionPath, type Used } from "turnstream";
import { request } from "./api";
import { useAct } from "./answer";
import { count, duration, money, tokens } from "./format";

const NAMES: Record<Cap, string> = { cost: "Cost", time: "Time", steps: "Model calls", tokens: "Tokens" };
const ORDER: Cap[] = ["cost", "time", "steps", "tokens"];

export function capWords(cap: Cap, amount: number): string {
  switch (cap) {
    case "cost":
      return money({ amount, currency: "USD" });
    case "time":
      return duration(amount);
    case "steps":
      return count(amount);
    case "tokens":
      return tokens(amount);
  }
}

/** Lines of a list: what was used of each cap, with a meter. */
export function CapLines({ caps, used }: { caps: Caps; used: Partial<Used> }) {
  return (
    <>
      {ORDER.filter((cap) => caps[cap] !== undefined).map((cap) => {
        const [most, now] = [caps[cap] ?? 0, used[cap]];
        const part = now === undefined || most === 0 ? undefined : Math.min(1, now / most);
        const words = `${now === undefined ? "—" : capWords(cap, now)} of ${capWords(cap, most)}`;
        return (
          <div key={cap} class="cap" data-cap={cap}>
            <dt>{NAMES[cap]}</dt>
            <dd>
              <span>{words}</span>
              {part !== undefined && (
                <meter class={part >= 0.8 ? "full" : ""} min={0} max={1} value={part} aria-label={NAMES[cap]}>
                  {words}
                </meter>
              )}
            </dd>
          </div>
        );
      })}
    </>
  );
}

/** The caps of a form as texts: time in minutes, cost in dollars. */
export type CapTexts = Partial<Record<Cap, string>>;

const UNITS: Record<Cap, string> = { cost: "$", time: "minutes", steps: "model calls", tokens: "tokens" };

export function capTexts(caps: Caps | undefined): CapTexts {
  const { time, ...rest } = caps ?? {};
  const texts: CapTexts = {};
  for (const cap of ORDER) {
    const amount = cap === "time" ? (time === undefined ? undefined : time / 60_000) : rest[cap];
    if (amount !== undefined) texts[cap] = String(amount);
  }
  return texts;
}

/** The caps of a request: `null` lifts a cap that is there; undefined if nothing changes. */
export function capsOf(texts: CapTexts, before: Caps = {}): Partial<Record<Cap, number | null>> | undefined {
  const caps: Partial<Record<Cap, number | null>> = {};
  for (const cap of ORDER) {
    const text = (texts[cap] ?? "").trim().replace(",", ".");
    if (text === "" && before[cap] !== undefined) caps[cap] = null;
    if (text === "") continue;
    const amount = Number(text) * (cap === "time" ? 60_000 : 1);
    // The gateway says what is wrong with a text that is no number.
    caps[cap] = cap === "cost" ? amount : Math.round(amount);
  }
  return Object.keys(caps).length === 0 ? undefined : caps;
}

interface CapFieldsProps {
  legend: string;
  texts: CapTexts;
  change: (texts: CapTexts) => void;
}

export function CapFields({ legend, texts, change }: CapFieldsProps) {
  return (
    <fieldset class="caps">
      <legend>{legend}</legend>
      {ORDER.map((cap) => (
        <label key={cap}>
          <input
            inputMode="decimal"
            autocomplete="off"
            placeholder="no limit"
            value={texts[cap] ?? ""}
            onInput={(event) => change({ ...texts, [cap]: event.currentTarget.value })}
          />
          <span class="faint">{UNITS[cap]}</span>
        </label>
      ))}
    </fieldset>
  );
}

/** The caps of a session that is there. */
export function BudgetForm({ session, done }: { session: SessionInfo; done: () => void }) {
  const { budget } = session;
  const [turn, setTurn] = useState(() => capTexts(budget?.turn));
  const [all, setAll] = useState(() => capTexts(budget?.session));
  const act = useAct();
  const save = async () => {
    const changes = { turn: capsOf(turn, budget?.turn), session: capsOf(all, budget?.session) };
    const body = Object.fromEntries(Object.entries(changes).filter(([, caps]) => caps !== undefined));
    const path = sessionPath(session.id, "/budget");
    if (await act.run(() => request(path, { method: "POST", body }))) done();
  };
  return (
    <form
      class="form budget-form"
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
    >
      <CapFields legend="All turns together" texts={all} change={setAll} />
      <CapFields legend="Each turn" texts={turn} change={setTurn} />
      {act.problem !== undefined && (
        <p class="problem" role="alert">
          {act.problem}
        </p>
      )}
      <div class="buttons">
        <button type="submit" class="primary" disabled={act.isBusy}>
          Save budget
        </button>
        <button type="button" onClick={done}>
          Back
        </button>
      </div>
    </form>
  );
}
