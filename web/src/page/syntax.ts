// Colours of source code. Tokens are plain data, never HTML: the text is untrusted.

import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import csharp from "highlight.js/lib/languages/csharp";
import css from "highlight.js/lib/languages/css";
import dockerfile from "highlight.js/lib/languages/dockerfile";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import kotlin from "highlight.js/lib/languages/kotlin";
import markdown from "highlight.js/lib/languages/markdown";
import php from "highlight.js/lib/languages/php";
import python from "highlight.js/lib/languages/python";
import ruby from "highlight.js/lib/languages/ruby";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import swift from "highlight.js/lib/languages/swift";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import { createLowlight } from "lowlight";

const lowlight = createLowlight({
  bash,
  c,
  cpp,
  csharp,
  css,
  dockerfile,
  go,
  ini,
  java,
  javascript,
  json,
  kotlin,
  markdown,
  php,
  python,
  ruby,
  rust,
  sql,
  swift,
  typescript,
  xml,
  yaml,
});

/** A piece of a line: its text, and the class of its colour. */
export type Token = [text: string, colour: string];

/** Few colours, with meaning: those of the page. */
const COLOURS: Record<string, string> = {
  "hljs-comment": "hl-comment",
  "hljs-quote": "hl-comment",
  "hljs-keyword": "hl-keyword",
  "hljs-literal": "hl-keyword",
  "hljs-built_in": "hl-keyword",
  "hljs-type": "hl-keyword",
  "hljs-selector-tag": "hl-keyword",
  "hljs-name": "hl-keyword",
  "hljs-string": "hl-string",
  "hljs-regexp": "hl-string",
  "hljs-number": "hl-name",
  "hljs-title": "hl-name",
  "hljs-attr": "hl-name",
  "hljs-attribute": "hl-name",
  "hljs-section": "hl-name",
  "hljs-meta": "hl-comment",
};

interface Node {
  type: string;
  value?: string;
  children?: Node[];
  properties?: { className?: string[] };
}

/** The name of a language: of a fence in markdown, or of a path by its end. */
export function languageOf(name: string): string | undefined {
  const end = name.split("/").at(-1)?.split(".").at(-1)?.toLowerCase() ?? "";
  const word = end === "toml" ? "ini" : end;
  return lowlight.registered(word) ? word : undefined;
}

/** The lines of a text in colours; undefined if the language is not known. */
export function highlight(name: string, text: string): Token[][] | undefined {
  const language = languageOf(name);
  if (language === undefined) return undefined;
  const lines: Token[][] = [[]];
  const add = (text: string, colour: string) => {
    for (const [place, part] of text.split("\n").entries()) {
      if (place > 0) lines.push([]);
      if (part !== "") lines.at(-1)?.push([part, colour]);
    }
  };
  const walk = (nodes: Node[], colour: string) => {
    for (const node of nodes) {
      if (node.type === "text") add(node.value ?? "", colour);
      else walk(node.children ?? [], COLOURS[node.properties?.className?.[0] ?? ""] ?? colour);
    }
  };
  walk(lowlight.highlight(language, text).children as Node[], "");
  return lines;
}
