// Says whole events of a session to screen readers. Streamed text is never announced.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Item, SessionFold } from "turnstream";
import { plural } from "./format";
import { endWords, verb } from "./words";

/** At most one announcement in this time; the newest wins. */
const EVERY_MS = 5_000;

function words(item: Item): string | undefined {
  if (item.parent !== undefined || item.voidBy !== undefined) return undefined;
  if (item.kind === "tool" && item.state === "failed") return `${verb(item.tool ?? {})} failed`;
  if (item.kind !== "message" || item.role === "user" || item.state !== "completed") return undefined;
  const said = (item.text ?? "").slice(0, 100_000).split(/\s+/);
  return `Reply finished, ${plural(said.filter((word) => word !== "").length, "word")}`;
}

export function Announce({ fold }: { fold: SessionFold }) {
  const [said, setSaid] = useState("");
  const next = useRef<string>(undefined);
  const item = [...fold.items.values()].findLast((one) => one.state !== "streaming");
  const turn = [...fold.turns.values()].at(-1);
  // What was there when the view was opened is not news.
  const seen = useRef({ item: item?.item, turn: turn?.outcome === undefined ? undefined : turn.turn });
  if (item !== undefined && item.item !== seen.current.item) {
    seen.current.item = item.item;
    next.current = words(item) ?? next.current;
  }
  if (turn?.outcome !== undefined && turn.turn !== seen.current.turn) {
    seen.current.turn = turn.turn;
    next.current = endWords(turn) ?? next.current ?? "The turn is finished";
  }
  useEffect(() => {
    const timer = setInterval(() => {
      if (next.current === undefined) return;
      setSaid(next.current);
      next.current = undefined;
    }, EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <p class="sr" role="status">
      {said}
    </p>
  );
}
