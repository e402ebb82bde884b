// Events grouped by turn and item, with runs of deltas as one row. A part of the log is grouped at a time.

import { useMemo, useState } from "preact/hooks";
import type { Event } from "turnstream";
import { anomaly, sizeOf, what } from "./event_words";
import { count, duration, plural, size } from "./format";
import { Icon } from "./icons";
import { link } from "./route";
import { target, verb } from "./words";

/** One event, or several deltas of one item that follow each other. */
interface Run {
  events: Event[];
}

interface Group {
  key: string;
  /** A turn, an item, or what belongs to no item. */
  kind: "turn" | "item";
  name: string;
  what: string;
  seq: number;
  events: number;
  parts: (Group | Run)[];
  mark: ReturnType<typeof anomaly>;
  /** Its attempt was superseded. */
  isVoid: boolean;
}

const isGroup = (part: Group | Run): part is Group => "parts" in part;

function nameOf(event: Event): { name: string; what: string } {
  if (event.type !== "item.started") return { name: "Item", what: "" };
  if (event.tool !== undefined) return { name: verb(event.tool), what: target(event.tool) };
  const words = { message: "Message", reasoning: "Reasoning", tool: "Tool", plan: "Plan" };
  return {
    name: (words as Record<string, string>)[event.kind] ?? event.kind,
    what: event.role === "user" ? "by a person" : "",
  };
}

const WORSE = ["lost", "you", "gate"] as const;

function worst(marks: (Group["mark"] | undefined)[]): Group["mark"] {
  return WORSE.find((mark) => marks.includes(mark));
}

function groupOf(kind: Group["kind"], key: string, event: Event, name: string, what: string): Group {
  return { key, kind, name, what, seq: event.seq, events: 0, parts: [], mark: undefined, isVoid: false };
}

/** Adds an event to a list. A delta joins the delta before it. */
function push(parts: (Group | Run)[], event: Event): void {
  const last = parts.at(-1);
  if (
    event.type === "item.delta" &&
    last !== undefined &&
    !isGroup(last) &&
    last.events[0]?.type === "item.delta" &&
    (last.events[0].field ?? "text") === (event.field ?? "text")
  )
    last.events.push(event);
  else parts.push({ events: [event] });
}

/** The events as turns, items and runs. */
export function grouped(events: Event[]): (Group | Run)[] {
  const all: (Group | Run)[] = [];
  const turns = new Map<string, Group>();
  const items = new Map<string, Group>();
  const voided = new Set<string>();
  const prompts = new Map<string, string>();
  for (const event of events) {
    if (event.type === "prompt.accepted")
      prompts.set(event.prompt, event.content.map((block) => block.text ?? block.type).join(" "));
    if (event.type === "attempt.superseded") for (const item of event.items) voided.add(item);
    const mark = anomaly(event);
    let turn = event.turn === undefined ? undefined : turns.get(event.turn);
    if (turn === undefined && event.turn !== undefined) {
      const said = event.type === "turn.started" ? (event.prompts ?? []).map((id) => prompts.get(id)) : [];
      const words = said.filter((text) => text !== undefined).join(" ");
      const name = `Turn ${event.turn.replace(/^t/, "")}`;
      turn = groupOf("turn", event.turn, event, name, words.slice(0, 200));
      turns.set(event.turn, turn);
      all.push(turn);
    }
    if (turn !== undefined) {
      turn.events += 1;
      turn.mark = worst([turn.mark, mark]);
    }
    const parts = turn?.parts ?? all;
    if (event.item === undefined || !event.type.startsWith("item.")) {
      push(parts, event);
      continue;
    }
    let item = items.get(event.item);
    if (item === undefined) {
      const { name, what } = nameOf(event);
      item = groupOf("item", event.item, event, name, what);
      items.set(event.item, item);
      parts.push(item);
    }
    item.events += 1;
    item.mark = worst([item.mark, mark]);
    if (item.what === "" && event.type === "item.delta") item.what = `“${event.text.trim().slice(0, 120)}”`;
    if (event.type === "item.updated" && event.tool !== undefined) {
      const more = target(event.tool);
      if (more !== "") item.what = more;
    }
    push(item.parts, event);
  }
  for (const id of voided) {
    const item = items.get(id);
    if (item !== undefined) item.isVoid = true;
  }
  return all;
}

function hasSeq(part: Group | Run, seq: number | undefined): boolean {
  if (seq === undefined) return false;
  return isGroup(part)
    ? part.parts.some((one) => hasSeq(one, seq))
    : part.events.some((event) => event.seq === seq);
}

interface GroupsProps {
  id: string;
  events: Event[];
  seq: number | undefined;
  /** Only what is out of the ordinary. */
  onlyMarked: boolean;
}

export function EventGroups({ id, events, seq, onlyMarked }: GroupsProps) {
  const groups = useMemo(() => grouped(events), [events]);
  const times = useMemo(() => new Map(events.map((event) => [event.seq, event.time])), [events]);
  const [chosen, setChosen] = useState(new Map<string, boolean>());
  const choose = (key: string, isOpen: boolean) => setChosen(new Map(chosen).set(key, isOpen));
  const rows: preact.ComponentChildren[] = [];
  const add = (part: Group | Run, level: number, isVoid: boolean) => {
    if (!isGroup(part)) {
      const [first] = part.events;
      if (first === undefined) return;
      const key = `run ${first.seq}`;
      const isOpen = part.events.length === 1 || (chosen.get(key) ?? (onlyMarked || hasSeq(part, seq)));
      const shown = part.events.filter((event) => !onlyMarked || anomaly(event) !== undefined);
      if (isOpen) {
        for (const event of shown)
          rows.push(
            <EventLine key={event.seq} {...{ id, event, level, isVoid, times }} isOpen={event.seq === seq} />,
          );
      } else
        rows.push(
          <RunLine key={key} {...{ id, run: part, level, isVoid, times }} open={() => choose(key, true)} />,
        );
      return;
    }
    if (onlyMarked && part.mark === undefined) return;
    const normally = part.kind === "turn" || part.mark !== undefined;
    const isOpen = chosen.get(part.key) ?? (normally || hasSeq(part, seq));
    rows.push(
      <GroupLine
        key={`${part.kind} ${part.key}`}
        {...{ id, group: part, level, isOpen }}
        toggle={() => choose(part.key, !isOpen)}
      />,
    );
    if (isOpen) for (const one of part.parts) add(one, level + 1, part.isVoid);
  };
  for (const part of groups) add(part, 1, false);
  return (
    <div role="treegrid" aria-label="Events by turn and item" class="groups">
      <div role="row" class="event-row event-head" aria-level={1}>
        <span role="columnheader">seq</span>
        <span role="columnheader">after</span>
        <span role="columnheader">type</span>
        <span role="columnheader">what</span>
        <span role="columnheader">size</span>
      </div>
      {rows}
      {rows.length === 0 && (
        <div role="row" class="event-row" aria-level={1}>
          <span role="gridcell" class="faint span-row">
            {onlyMarked ? "Nothing out of the ordinary happened here." : "There are no events."}
          </span>
        </div>
      )}
    </div>
  );
}

interface GroupLineProps {
  id: string;
  group: Group;
  level: number;
  isOpen: boolean;
  toggle: () => void;
}

function GroupLine({ id, group, level, isOpen, toggle }: GroupLineProps) {
  const mark = group.mark === undefined ? "" : `mark-${group.mark}`;
  return (
    <div
      role="row"
      aria-level={level}
      aria-expanded={isOpen}
      class={`event-row group-row level-${level} ${mark} ${group.isVoid ? "void" : ""}`}
    >
      <span role="gridcell">
        <a href={link.timeline(id, group.seq)} class="mono">
          {count(group.seq)}
        </a>
      </span>
      <span role="gridcell" />
      <span role="gridcell">
        <button type="button" class="fold" aria-expanded={isOpen} onClick={toggle}>
          <span class={isOpen ? "chevron open" : "chevron"}>
            <Icon name="right" />
          </span>
          <b>{group.name}</b>
        </button>
      </span>
      <span role="gridcell" class="ellipsis">
        {group.what}
        {group.isVoid && <span class="chip c-gate">replaced</span>}
      </span>
      <span role="gridcell" class="faint">
        {plural(group.events, "event")}
      </span>
    </div>
  );
}

/** From this on, a wait is marked. */
const SLOW_MS = 2_000;

/** How long after the event before, with a bar: 1 ms is nothing, and 100 s is full. */
export function After({ ms }: { ms: number | undefined }) {
  if (ms === undefined) return null;
  const width = Math.min(1, Math.log10(Math.max(1, ms)) / 5);
  return (
    <span class={ms > SLOW_MS ? "after c-you bold" : "after faint"}>
      <i style={{ width: `${Math.round(width * 32)}px` }} />
      {duration(ms)}
    </span>
  );
}

interface LineProps {
  id: string;
  level: number;
  isVoid: boolean;
  times: Map<number, number>;
}

function since(event: Event, times: Map<number, number>): number | undefined {
  const before = times.get(event.seq - 1);
  return before === undefined ? undefined : event.time - before;
}

function EventLine({
  id,
  event,
  level,
  isVoid,
  times,
  isOpen,
}: LineProps & { event: Event; isOpen: boolean }) {
  const mark = anomaly(event);
  return (
    <div
      role="row"
      aria-level={level}
      aria-selected={isOpen}
      data-seq={event.seq}
      class={`event-row level-${level} ${mark === undefined ? "" : `mark-${mark}`} ${isVoid ? "void" : ""}`}
    >
      <span role="gridcell">
        <a id={`seq-${event.seq}`} href={link.timeline(id, event.seq)} class="mono">
          {count(event.seq)}
        </a>
      </span>
      <span role="gridcell">
        <After ms={since(event, times)} />
      </span>
      <span role="gridcell" class="mono type">
        {event.type}
      </span>
      <span role="gridcell" class="ellipsis words">
        {what(event)}
      </span>
      <span role="gridcell" class="faint">
        {size(sizeOf(event))}
      </span>
    </div>
  );
}

function RunLine({ id, run, level, isVoid, times, open }: LineProps & { run: Run; open: () => void }) {
  const [first] = run.events;
  const last = run.events.at(-1);
  if (first === undefined || last === undefined) return null;
  const text = run.events.map((event) => (event.type === "item.delta" ? event.text : "")).join("");
  return (
    <div role="row" aria-level={level} class={`event-row level-${level} ${isVoid ? "void" : ""}`}>
      <span role="gridcell">
        <a href={link.timeline(id, first.seq)} class="mono">
          {count(first.seq)}
        </a>
      </span>
      <span role="gridcell">
        <After ms={since(first, times)} />
      </span>
      <span role="gridcell" class="mono type">
        <button type="button" class="fold mono" aria-expanded={false} onClick={open}>
          {first.type} × {count(run.events.length)}
        </button>
      </span>
      <span role="gridcell" class="ellipsis words">
        “{text.slice(0, 160)}” in {duration(last.time - first.time)}
      </span>
      <span role="gridcell" class="faint">
        {size(run.events.reduce((all, event) => all + sizeOf(event), 0))}
      </span>
    </div>
  );
}
