// Text of a model as markdown. It is untrusted: HTML in it is shown as text, images are not loaded, and the
// result is sanitised before it is in the page.

import DOMPurify from "dompurify";
import { Marked, type Token, type Tokens } from "marked";
import { memo } from "preact/compat";
import { useMemo, useRef } from "preact/hooks";
import { Coloured, useColours } from "./coloured";
import { size } from "./format";
import { useKept } from "./kept";

function escape(text: string): string {
  const names: Record<string, string> = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "'": "&#39;",
  };
  return text.replace(/[&<>"']/g, (sign) => names[sign] ?? sign);
}

const marked = new Marked({
  gfm: true,
  async: false,
  renderer: {
    html({ text }: Tokens.HTML | Tokens.Tag) {
      return escape(text);
    },
    // Loading it would tell a stranger that the text was read.
    image({ href, text }: Tokens.Image) {
      return `<span class="blocked">image not loaded: ${escape(text === "" ? href : `${text}, ${href}`)}</span>`;
    },
    // The page has the first two levels.
    heading({ tokens, depth }: Tokens.Heading) {
      const level = Math.min(6, depth + 2);
      return `<h${level}>${this.parser.parseInline(tokens)}</h${level}>\n`;
    },
    checkbox({ checked }: Tokens.Checkbox) {
      return checked ? "☑ " : "☐ ";
    },
  },
});

const ALLOWED = {
  ALLOWED_TAGS: [
    "a",
    "blockquote",
    "br",
    "code",
    "del",
    "em",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "li",
    "ol",
    "p",
    "pre",
    "span",
    "strong",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "tr",
    "ul",
  ],
  ALLOWED_ATTR: ["href", "start", "class", "title"],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_TRUSTED_TYPE: true as const,
};

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName === "A") {
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer nofollow");
    // Without an address it is no link.
    if (!node.hasAttribute("href")) node.removeAttribute("target");
  } else if (node.getAttribute("class") !== "blocked") {
    node.removeAttribute("class");
  }
  if (node.tagName === "PRE" || node.tagName === "TABLE") node.setAttribute("tabindex", "0");
});

function clean(tokens: Token[]): string {
  // Trusted by the policy of DOMPurify, the only one that the page allows.
  return DOMPurify.sanitize(marked.parser(tokens), ALLOWED) as unknown as string;
}

/** Text that is nested too deeply for the parser is shown as it is. */
function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    console.warn("markdown cannot be read", error);
    return undefined;
  }
}

/** The last line of a block of code that is whole. */
const CLOSED = /\n {0,3}(?:`{3,}|~{3,})\s*$/;

/** A block of code. It has colours once it is whole, so that they do not change with each word. */
function CodeBlock({ token }: { token: Tokens.Code }) {
  const language = /^[\w+#.-]+/.exec(token.lang ?? "")?.[0] ?? "";
  const lines = useColours(CLOSED.test(token.raw) ? language : "", token.text);
  return (
    <div class="block">
      <pre tabIndex={0}>
        <code>
          <Coloured lines={lines} text={token.text} />
        </code>
      </pre>
    </div>
  );
}

function HtmlBlock({ token }: { token: Token }) {
  const html = useMemo(() => attempt(() => clean([token])), [token.raw, depthOf(token)]);
  if (html === undefined) return <pre class="plain">{token.raw}</pre>;
  return <div class="block" dangerouslySetInnerHTML={{ __html: html }} />;
}

/** Code in lists and quotes that are nested more deeply has no colours. */
const MOST_NESTED = 8;

/** Whether a list or a quote has a block of code somewhere in it. */
function holdsCode(token: Token, depth = 0): boolean {
  if (depth >= MOST_NESTED || (token.type !== "list" && token.type !== "blockquote")) return false;
  const parts: Token[] =
    token.type === "list"
      ? (token as Tokens.List).items.flatMap((item) => item.tokens)
      : (token as Tokens.Blockquote).tokens;
  return parts.some((part) => part.type === "code" || holdsCode(part, depth + 1));
}

/** A list or a quote with code in it: its parts are blocks of their own. */
function NestedBlock({ token, depth }: { token: Tokens.List | Tokens.Blockquote; depth: number }) {
  const inner = (tokens: Token[]) =>
    tokens
      .filter((part) => part.type !== "space")
      .map((part, place) => <Block key={place} token={part} depth={depth + 1} />);
  if (token.type === "blockquote") return <blockquote class="block nested">{inner(token.tokens)}</blockquote>;
  const { ordered, start, items } = token as Tokens.List;
  const lines = items.map((item, place) => (
    <li key={place} class="nested">
      {inner(item.tokens)}
    </li>
  ));
  if (!ordered) return <ul class="block">{lines}</ul>;
  return (
    <ol class="block" start={typeof start === "number" ? start : 1}>
      {lines}
    </ol>
  );
}

/** One block. It is parsed and sanitised again only when its source changes. */
const Block = memo(
  function Block({ token, depth = 0 }: { token: Token; depth?: number }) {
    if (token.type === "code") return <CodeBlock token={token as Tokens.Code} />;
    if (!holdsCode(token, depth)) return <HtmlBlock token={token} />;
    return <NestedBlock token={token as Tokens.List | Tokens.Blockquote} depth={depth} />;
  },
  (before, after) => before.token.raw === after.token.raw && depthOf(before.token) === depthOf(after.token),
);

function depthOf(token: Token): number {
  return token.type === "heading" ? (token as Tokens.Heading).depth : 0;
}

/** Headings begin with the first level and skip none, whatever the model wrote: screen readers go by them. */
function levelled(tokens: Token[]): Token[] {
  const depths = tokens.filter((token) => token.type === "heading").map(depthOf);
  const least = depths.reduce((least, depth) => Math.min(least, depth), 6);
  let before = 0;
  return tokens.map((token) => {
    if (token.type !== "heading") return token;
    before = Math.min(before + 1, depthOf(token) - least + 1);
    return { ...token, depth: before };
  });
}

interface Lexed {
  text: string;
  tokens: Token[];
}

/** Blocks at the end that more text can still change. */
const OPEN_BLOCKS = 2;

/** While a text grows, only its last blocks are read again. */
function lex(text: string, before: Lexed | undefined): Lexed {
  // A definition of a link changes blocks anywhere, and the lexer counts other line ends differently.
  const isPlain = !text.includes("]:") && !text.includes("\r");
  if (before !== undefined && isPlain && before.text.length > 0 && text.startsWith(before.text)) {
    const stable = before.tokens.slice(0, -OPEN_BLOCKS);
    const at = stable.reduce((all, token) => all + token.raw.length, 0);
    const isWhole = before.tokens.reduce((all, token) => all + token.raw.length, 0) === before.text.length;
    if (isWhole && stable.length > 0) return { text, tokens: [...stable, ...marked.lexer(text.slice(at))] };
  }
  return { text, tokens: marked.lexer(text) };
}

/** More of a text would stop the page while it is read. */
const STEP = 200_000;

export const Markdown = memo(function Markdown({ id, text }: { id: string; text: string }) {
  const [steps, setSteps] = useKept(`${id} text`, 1);
  const lexed = useRef<Lexed>(undefined);
  const most = steps * STEP;
  const tokens = useMemo(() => {
    lexed.current = attempt(() => lex(text.slice(0, most), lexed.current));
    return lexed.current && levelled(lexed.current.tokens.filter((token) => token.type !== "space"));
  }, [text, most]);
  return (
    <div class="markdown">
      {tokens === undefined && <pre class="plain">{text.slice(0, most)}</pre>}
      {tokens?.map((token, place) => (
        <Block key={place} token={token} />
      ))}
      {text.length > most && (
        <p class="more">
          <span>
            First {size(most)} of {size(text.length)}
          </span>
          <button type="button" class="link" onClick={() => setSteps(steps + 1)}>
            Show more
          </button>
        </p>
      )}
    </div>
  );
});
