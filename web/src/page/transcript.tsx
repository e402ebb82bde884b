// The transcript of a session: its turns, with what a person said, what the agent did, and what waits.

import { Fragment, type RefObject } from "preact";
import { useContext, useEffect } from "preact/hooks";
import type { Approval, Asked, Item, Notice, Prompt, SessionFold, SessionInfo, Turn } from "turnstream";
import { ownName } from "./api";
import { clockSeconds, count, duration, moment, money, tokens } from "./format";
import { Icon } from "./icons";
import { ItemView, Said } from "./item";
import { Replaying } from "./replaying";
import { link } from "./route";
import { type Part, useVirtual } from "./virtual";
import { ApprovalCard, QuestionCard } from "./waits";
import { endWords } from "./words";

export function promptText(prompt: Prompt): string {
  const parts = prompt.content.map(
    (block) => block.text ?? `[${block.type}${block.name === undefined ? "" : ` ${block.name}`}]`,
  );
  return parts.join("\n");
}

/** Whether an item repeats a prompt, whole or one block of it. Another client may have said something else. */
function repeats(item: Item, prompt: Prompt | undefined): boolean {
  const said = (item.text ?? "").trim();
  if (prompt === undefined || said === "") return true;
  return said.includes(promptText(prompt).trim()) || prompt.content.some(({ text }) => text?.trim() === said);
}

/** One thing in a turn, at its time. */
type Entry =
  | { time: number; kind: "item"; item: Item }
  | { time: number; kind: "approval"; approval: Approval }
  | { time: number; kind: "question"; asked: Asked }
  | { time: number; kind: "notice"; notice: Notice };

/** What is in the page or not as a whole: the head of a turn, one thing in it, or its end. */
interface Unit {
  key: string;
  turn: Turn | undefined;
  entry: Entry | "head" | "end";
}

/** The end of the key of a turn's head. */
const HEAD = " head";

/** The conversation as one list, and the work of subagents by the call that they belong to. */
function unitsOf(fold: SessionFold): { units: Unit[]; steps: Map<string, Item[]> } {
  const turns = [...fold.turns.values()];
  const of = new Map<string, Entry[]>(turns.map((turn) => [turn.turn, []]));
  const before: Entry[] = [];
  const steps = new Map<string, Item[]>();
  // What belongs to no turn stands in the turn during or after which it happened.
  const entriesOf = (turn: string | undefined, time: number) => {
    const own = turn === undefined ? undefined : of.get(turn);
    if (own !== undefined) return own;
    const during = turns.findLast((turn) => turn.started <= time);
    return during === undefined ? before : (of.get(during.turn) ?? before);
  };
  for (const item of fold.items.values()) {
    const call = callOf(item, fold);
    if (call !== item) {
      const siblings = steps.get(call.item);
      if (siblings === undefined) steps.set(call.item, [item]);
      else siblings.push(item);
      continue;
    }
    // What a person said in a prompt is shown as the prompt.
    const isRepeated = (id: string) => repeats(item, fold.prompts.get(id));
    const isPrompt =
      item.role === "user" && !item.synthetic && fold.turns.get(item.turn ?? "")?.prompts.some(isRepeated);
    if (!isPrompt) entriesOf(item.turn, item.time).push({ time: item.time, kind: "item", item });
  }
  for (const approval of fold.approvals.values()) {
    entriesOf(approval.turn, approval.time).push({ time: approval.time, kind: "approval", approval });
  }
  for (const asked of fold.questions.values()) {
    entriesOf(asked.turn, asked.time).push({ time: asked.time, kind: "question", asked });
  }
  for (const notice of fold.notices) {
    entriesOf(notice.turn, notice.time).push({ time: notice.time, kind: "notice", notice });
  }
  const units: Unit[] = [];
  const add = (turn: Turn | undefined, entries: Entry[]) => {
    for (const entry of entries) units.push({ key: keyOf(entry), turn, entry });
  };
  // Notices of before the first turn that is here belong to pages that are not.
  add(
    undefined,
    inOrder(fold.next === undefined ? before : before.filter((entry) => entry.kind !== "notice")),
  );
  for (const turn of turns) {
    const entries = inOrder(of.get(turn.turn) ?? []);
    const ended = turn.ended ?? Number.POSITIVE_INFINITY;
    units.push({ key: turn.turn + HEAD, turn, entry: "head" });
    add(
      turn,
      entries.filter((entry) => isOf(entry, turn) || entry.time <= ended),
    );
    units.push({ key: `${turn.turn} end`, turn, entry: "end" });
    add(
      turn,
      entries.filter((entry) => !isOf(entry, turn) && entry.time > ended),
    );
  }
  return { units, steps };
}

/** The call of the conversation itself that an item belongs to, also for a subagent of a subagent. */
function callOf(item: Item, fold: SessionFold): Item {
  let call = item;
  for (let depth = 0; depth < MOST_DEPTH; depth += 1) {
    const above = call.parent === undefined ? undefined : fold.items.get(call.parent);
    if (above === undefined) break;
    call = above;
  }
  return call;
}

/** Subagents of subagents. */
const MOST_DEPTH = 20;

function inOrder(entries: Entry[]): Entry[] {
  return entries.sort((a, b) => a.time - b.time);
}

function isOf(entry: Entry, { turn }: Turn): boolean {
  switch (entry.kind) {
    case "item":
      return entry.item.turn === turn;
    case "approval":
      return entry.approval.turn === turn;
    case "question":
      return entry.asked.turn === turn;
    case "notice":
      return entry.notice.turn === turn;
  }
}

function keyOf(entry: Entry): string {
  switch (entry.kind) {
    case "item":
      return entry.item.item;
    case "approval":
      return `approval ${entry.approval.approval}`;
    case "question":
      return `question ${entry.asked.question}`;
    case "notice":
      return `notice ${entry.notice.seq}`;
  }
}

/** What waits for a person stays in the page, wherever the screen is. */
function isPinned({ entry }: Unit): boolean {
  if (typeof entry === "string") return false;
  if (entry.kind === "approval") return entry.approval.outcome === undefined;
  return entry.kind === "question" && entry.asked.outcome === undefined;
}

interface Place {
  fold: SessionFold;
  session: SessionInfo;
  isLive: boolean;
}

interface TranscriptProps extends Place {
  /** Whether the screen stays at the end. */
  follows: RefObject<boolean>;
  /** An item or a prompt to which the screen goes, once it is here. */
  sought?: string | undefined;
  /** The upper end of the list comes near. */
  nearTop?: () => void;
}

/** The unit that shows this item or prompt. What a subagent did is in the unit of its call. */
function unitOf(id: string, units: Unit[], steps: Map<string, Item[]>): string | undefined {
  const call = [...steps].find(([, items]) => items.some(({ item }) => item === id))?.[0] ?? id;
  const isHead = ({ turn, entry }: Unit) => entry === "head" && turn?.prompts.includes(id);
  return units.find((unit) => unit.key === call || isHead(unit))?.key;
}

export function Transcript({ follows, sought, nearTop, ...place }: TranscriptProps) {
  const { fold } = place;
  const { units, steps } = unitsOf(fold);
  const pinned = new Set(units.filter(isPinned).map((unit) => unit.key));
  const found = sought === undefined ? undefined : unitOf(sought, units, steps);
  if (found !== undefined) pinned.add(found);
  const { list, parts, unit, above, show } = useVirtual({
    keys: units.map(({ key }) => key),
    pinned,
    follows,
    // Older pages add items between the head of a turn and those that are here.
    isLoose: (key) => key.endsWith(HEAD),
  });
  useEffect(() => {
    if (above < innerHeight) nearTop?.();
  });
  useEffect(() => {
    if (found === undefined) return;
    follows.current = false;
    show(found);
  }, [sought, found]);
  const numbers = new Map([...fold.turns.keys()].map((turn, place) => [turn, place + 1]));
  // Parts of one turn are one section; the room between turns belongs to none.
  const sections: { turn: Turn | undefined; parts: Part[] }[] = [];
  for (const part of parts) {
    const [first, last] = "at" in part ? [part.at, part.at] : [part.from, part.to];
    const [turn, end] = [units[first]?.turn, units[last]?.turn];
    const before = sections.at(-1);
    if (before !== undefined && before.turn === turn && turn === end) before.parts.push(part);
    else sections.push({ turn: turn === end ? turn : undefined, parts: [part] });
  }
  return (
    <div ref={list} role="log" aria-live="off" aria-label="Transcript" class="transcript">
      {sections.map(({ turn, parts }, place_) => {
        const shown = parts.map((part) => {
          if (!("at" in part)) {
            return <div key={`room ${part.from}`} style={{ height: `${part.height}px` }} />;
          }
          const one = units[part.at];
          if (one === undefined) return null;
          const isLast = units[part.at + 1]?.turn !== one.turn;
          return (
            <div key={one.key} ref={unit} data-unit={one.key} class={classOf(one.key === found, isLast)}>
              <UnitView
                unit={one}
                steps={steps}
                number={fold.next === undefined ? numbers.get(one.turn?.turn ?? "") : undefined}
                {...place}
              />
            </div>
          );
        });
        return turn === undefined ? (
          <Fragment key={`between ${place_}`}>{shown}</Fragment>
        ) : (
          <section key={turn.turn} class="turn" data-turn={turn.turn} data-outcome={turn.outcome ?? "open"}>
            {shown}
          </section>
        );
      })}
    </div>
  );
}

function classOf(isFound: boolean, isLast: boolean): string {
  return `unit${isFound ? " found" : ""}${isLast ? " last" : ""}`;
}

interface UnitProps extends Place {
  unit: Unit;
  steps: Map<string, Item[]>;
  number: number | undefined;
}

const NO_STEPS: Item[] = [];

function UnitView({ unit: { turn, entry }, steps, number, fold, session, isLive }: UnitProps) {
  if (entry === "head") {
    return turn === undefined ? null : (
      <TurnHead turn={turn} number={number} fold={fold} session={session} isLive={isLive} />
    );
  }
  if (entry === "end") return turn === undefined ? null : <TurnEnd turn={turn} />;
  switch (entry.kind) {
    case "item": {
      const { item } = entry;
      const isAsked = fold.openApprovals.some((approval) => approval.item === item.item);
      return (
        <ItemView
          item={item}
          steps={steps.get(item.item) ?? NO_STEPS}
          turn={turn}
          isLive={isLive}
          isAsked={isAsked}
        />
      );
    }
    case "approval": {
      const { approval } = entry;
      const item = approval.item === undefined ? undefined : fold.items.get(approval.item);
      return <ApprovalCard approval={approval} item={item} session={session} isLive={isLive} />;
    }
    case "question":
      return <QuestionCard asked={entry.asked} session={session} isLive={isLive} />;
    case "notice":
      return <NoticeLine notice={entry.notice} session={session.id} />;
  }
}

function TurnHead({ turn, number, fold, session }: Place & { turn: Turn; number: number | undefined }) {
  const isPast = useContext(Replaying);
  const seq = fold.turnSeq.get(turn.turn);
  const model = turn.attempts.findLast((attempt) => attempt.model !== undefined)?.model;
  return (
    <>
      <h2 class="turn-line">
        <b>{number === undefined ? "Turn" : `Turn ${count(number)}`}</b>
        <span>{clockSeconds(turn.started)}</span>
        <span>
          {session.agent}
          {model === undefined ? "" : ` · ${model}`}
        </span>
        {turn.origin === "agent" && <span>begun by the agent</span>}
        {turn.origin === "foreign" && <span>begun by another client of the agent</span>}
        {seq !== undefined && <a href={link.timeline(session.id, seq)}>seq {count(seq)}</a>}
        {seq !== undefined && turn.outcome !== undefined && !isPast && (
          <a href={link.replay(session.id, seq)}>Replay</a>
        )}
        <span class="rule" />
      </h2>
      {turn.prompts.map((id) => {
        const prompt = fold.prompts.get(id) ?? fold.queue.get(id);
        if (prompt === undefined) return null;
        const who = authorOf(prompt);
        return (
          <div key={id} class="prompt" data-prompt={id}>
            <p class="who">
              <b>{who}</b> <span>{clockSeconds(prompt.time)}</span>
            </p>
            <Said id={id} text={promptText(prompt)} />
          </div>
        );
      })}
    </>
  );
}

/** An error's message, with an end: another sentence may follow. */
function sentence(text: string): string {
  return text === "" || /[.!?…]$/.test(text) ? text : `${text}.`;
}

function authorOf({ actor, continues }: Prompt): string {
  if (continues !== undefined) return "The gateway, to continue the turn before";
  return actor === undefined ? "Prompt" : actor === ownName() ? "You" : actor;
}

function TurnEnd({ turn }: { turn: Turn }) {
  if (turn.outcome === undefined)
    return turn.cancelling === undefined ? null : (
      <p class="faint">Cancelling. The agent has to stop first.</p>
    );
  const words = endWords(turn);
  const bad = turn.outcome === "failed" || turn.outcome === "lost";
  const facts = [
    turn.ended === undefined ? undefined : duration(turn.ended - turn.started),
    turn.cost === undefined ? undefined : money(turn.cost),
    turn.usage?.output === undefined ? undefined : `${tokens(turn.usage.output)} tokens written`,
  ].filter((fact) => fact !== undefined);
  return (
    <>
      {words !== undefined && (
        <div class={bad ? "notice lost" : "notice plain-notice"}>
          <Icon name={bad ? "cross" : "stop"} />
          <p>
            <b>{words}.</b> {sentence(turn.error?.message ?? "")}
            {turn.error?.retry_at !== undefined && ` It can be tried again at ${moment(turn.error.retry_at, Date.now())}.`}
          </p>
        </div>
      )}
      <p class="turn-end faint">
        {turn.outcome === "completed" ? "Finished" : "Ended"}
        {facts.map((fact) => ` · ${fact}`)}
      </p>
    </>
  );
}

const NOTICES: Record<string, string> = {
  gap: "The agent’s stream was cut.",
  repaired: "Gap repaired.",
  corrupt: "Damaged bytes.",
  degraded: "The log cannot be written.",
  healed: "The log can be written again.",
  unexpected_permission: "An unexpected permission.",
  budget: "Budget.",
  late: "It came late.",
  unknown_event: "An unknown event of the agent.",
  handover: "Another session.",
  forgotten: "The agent has forgotten this session.",
};

const LOUD = new Set(["corrupt", "degraded", "forgotten"]);

function NoticeLine({ notice, session }: { notice: Notice; session: string }) {
  const tone = LOUD.has(notice.code) ? "lost" : notice.code === "budget" ? "you" : "gate";
  return (
    <div class={`notice ${tone}`}>
      <Icon name="gate" />
      <p>
        <b>{NOTICES[notice.code] ?? notice.code}</b> {notice.message}{" "}
        {notice.session !== undefined && (
          <>
            <a href={link.session(notice.session)}>Open the other session</a>{" "}
          </>
        )}
        <a href={link.timeline(session, notice.seq)}>seq {count(notice.seq)}</a>
      </p>
    </div>
  );
}
