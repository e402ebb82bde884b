// Text of a model as markdown. It is untrusted: HTML in it is shown as text, images are not loaded, and the
// result is sanitised before it is in the page.

import DOMPurify from "dompurify";
import { Marked, type Token, type Tokens } from "marked";
import { memo } from "preact/compat";
import { useMemo } from "preact/hooks";

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

/** One block. It is parsed and sanitised again only when its source changes. */
const Block = memo(
  function Block({ token }: { token: Token }) {
    const html = useMemo(() => clean([token]), [token.raw]);
    return <div class="block" dangerouslySetInnerHTML={{ __html: html }} />;
  },
  (before, after) => before.token.raw === after.token.raw,
);

/** Headings begin with the first level and skip none, whatever the model wrote: readers of screens go by them. */
function levelled(tokens: Token[]): Token[] {
  const depths = tokens.filter((token): token is Tokens.Heading => token.type === "heading");
  const least = Math.min(...depths.map((token) => token.depth));
  let before = 0;
  for (const token of depths) before = token.depth = Math.min(before + 1, token.depth - least + 1);
  return tokens;
}

/** A longer text is shown as it is: parsing it would stop the page. */
const MOST = 400_000;

export const Markdown = memo(function Markdown({ text }: { text: string }) {
  const tokens = useMemo(() => {
    if (text.length > MOST) return undefined;
    return levelled(marked.lexer(text).filter((token) => token.type !== "space"));
  }, [text]);
  if (tokens === undefined) return <pre class="plain">{text}</pre>;
  return (
    <div class="markdown">
      {tokens.map((token, place) => (
        <Block key={place} token={token} />
      ))}
    </div>
  );
});
