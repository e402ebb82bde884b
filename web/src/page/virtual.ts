// A long list of which only what is near the screen is in the page. Heights are measured when they are seen,
// and guessed before. What a person looks at stays where it is when something above it changes its height.

import type { RefObject } from "preact";
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/** A part of the list: one unit, or the room of several that are not in the page. */
export type Part = { at: number } | { from: number; to: number; height: number };

/** The height of a unit that was never seen. */
const GUESS = 96;
/** Screens above and below that are in the page too. */
const OVERSCAN = 1.5;
/** The range is computed anew after so many pixels. */
const STEP = 160;
/** Where reading begins: below the bars. */
const TOP = 112;

/** The unit that a person reads: its place in the document, and in the list. */
interface Anchor {
  key: string;
  top: number;
  inList: number;
}

interface Virtual {
  list: RefObject<HTMLDivElement | null>;
  parts: Part[];
  /** The `ref` of a unit's element, which has its key as `data-unit`. */
  unit: (element: HTMLElement | null) => void;
  /** How far the upper end of the list is above the screen. */
  above: number;
  /** Shows a unit that is in the page in the middle of the screen. It stays there when others are measured. */
  show: (key: string) => void;
}

interface VirtualOptions {
  keys: string[];
  /** These are always in the page. */
  pinned: ReadonlySet<string>;
  /** Whether the screen stays at the end. */
  follows: RefObject<boolean>;
  /** Something may be added between this one and the next. Then the next one stays in place. */
  isLoose: (key: string) => boolean;
}

export function useVirtual({ keys, pinned, follows, isLoose }: VirtualOptions): Virtual {
  const list = useRef<HTMLDivElement>(null);
  const heights = useRef(new Map<string, number>()).current;
  const elements = useRef(new Map<string, HTMLElement>()).current;
  const anchor = useRef<Anchor>(undefined);
  const focused = useRef<string>(undefined);
  const observer = useRef<ResizeObserver>(undefined);
  // At first the end of the list is shown.
  const [above, setAbove] = useState<number>();

  /** Remembers the first unit that can be read, by its place in the document. */
  const remember = () => {
    let first: Anchor | undefined;
    const listTop = list.current?.getBoundingClientRect().top ?? 0;
    for (const [key, element] of elements) {
      if (isLoose(key)) continue;
      const { top, bottom } = element.getBoundingClientRect();
      if (bottom > TOP && (first === undefined || top + scrollY < first.top)) {
        first = { key, top: top + scrollY, inList: top - listTop };
      }
    }
    anchor.current = first;
  };
  const restore = () => {
    const before = anchor.current;
    const element = before === undefined ? undefined : elements.get(before.key);
    if (before !== undefined && element !== undefined && !follows.current) {
      const moved = element.getBoundingClientRect().top + scrollY - before.top;
      if (Math.abs(moved) > 0.5) scrollBy({ top: moved, behavior: "instant" });
    }
    remember();
  };

  const show = (key: string) => {
    elements.get(key)?.scrollIntoView({ block: "center", behavior: "instant" });
    // At once: until the scroll event comes, what was read before would be held in its place.
    remember();
  };

  useEffect(() => {
    const scrolled = () => {
      remember();
      const now = -(list.current?.getBoundingClientRect().top ?? 0);
      setAbove(Math.floor(now / STEP) * STEP);
    };
    const onFocus = (event: FocusEvent) => {
      focused.current = (event.target as HTMLElement).closest<HTMLElement>("[data-unit]")?.dataset.unit;
    };
    const element = list.current;
    element?.addEventListener("focusin", onFocus);
    addEventListener("scroll", scrolled, { passive: true });
    addEventListener("resize", scrolled);
    return () => {
      element?.removeEventListener("focusin", onFocus);
      removeEventListener("scroll", scrolled);
      removeEventListener("resize", scrolled);
      observer.current?.disconnect();
    };
  }, []);
  useLayoutEffect(() => {
    // At once: the next scroll may come before the observer has its turn.
    for (const [key, element] of elements) if (!heights.has(key)) heights.set(key, element.offsetHeight);
    restore();
  });

  const unit = useCallback((element: HTMLElement | null) => {
    observer.current ??= new ResizeObserver((entries) => {
      for (const { target } of entries) {
        const key = (target as HTMLElement).dataset.unit;
        if (key === undefined) continue;
        if (target.isConnected) heights.set(key, (target as HTMLElement).offsetHeight);
        else {
          observer.current?.unobserve(target);
          if (elements.get(key) === target) elements.delete(key);
        }
      }
      restore();
    });
    const key = element?.dataset.unit;
    if (element === null || key === undefined) return;
    elements.set(key, element);
    observer.current.observe(element);
  }, []);

  for (const [key, element] of elements) if (!element.isConnected) elements.delete(key);
  const height = (at: number) => heights.get(keys[at] ?? "") ?? GUESS;
  const held = follows.current ? undefined : anchor.current;
  let [all, moved] = [0, 0];
  for (let at = 0; at < keys.length; at += 1) {
    // What was added above the anchor moves the screen with it.
    if (keys[at] === held?.key) moved = all - (held?.inList ?? 0);
    all += height(at);
  }
  const top = above === undefined ? Math.max(0, all - innerHeight) : above + moved;
  const [from, to] = [top - OVERSCAN * innerHeight, top + (1 + OVERSCAN) * innerHeight + STEP];
  const parts: Part[] = [];
  let place = 0;
  for (let at = 0; at < keys.length; at += 1) {
    const key = keys[at] ?? "";
    const end = place + height(at);
    // The end of the list is always there: it is where news come in.
    const isShown = (end >= from && place <= to) || pinned.has(key) || focused.current === key;
    const last = parts.at(-1);
    if (isShown || at === keys.length - 1) parts.push({ at });
    else if (last !== undefined && "to" in last) [last.to, last.height] = [at, last.height + height(at)];
    else parts.push({ from: at, to: at, height: height(at) });
    place = end;
  }
  return { list, parts, unit, above: top, show };
}
