// Source code in the colours of its language, as text and never as HTML.

import { Fragment } from "preact";
import type { Token } from "./syntax";
import { useWork } from "./work";

/** Larger texts have no colours. */
const MOST_COLOURED = 300_000;

/** The lines of a text in colours, once the worker has read it. `path` may be the name of a language. */
export function useColours(path: string, text: string): Token[][] | undefined {
  const isWanted = path !== "" && text !== "" && text.length <= MOST_COLOURED;
  return useWork(isWanted ? { do: "highlight", language: path, text } : undefined)?.result;
}

/** A text, in colours as soon as they are known. */
export function Coloured({ text, lines }: { text: string; lines: Token[][] | undefined }) {
  if (lines === undefined) return <>{text}</>;
  return (
    <>
      {lines.map((line, place) => (
        <Fragment key={place}>
          {place > 0 && "\n"}
          {line.map(([piece, colour]) => (colour === "" ? piece : <span class={colour}>{piece}</span>))}
        </Fragment>
      ))}
    </>
  );
}
