// Icons as lines, 16 by 16. They are decoration: words stand beside each of them.

const PATHS = {
  logo: "M2 4h9a3 3 0 0 1 0 6H5M2 7h5M7.500 7.500 5 10l2.500 2.500",
  plus: "M8 3v10M3 8h10",
  back: "M10 3 5 8l5 5",
  right: "M6 3l5 5-5 5",
  down: "M3 6l5 5 5-5",
  up: "M8 13V3M4 7l4-4 4 4",
  check: "M3 8.500 6.500 12 13 4.500",
  cross: "M4 4l8 8M12 4l-8 8",
  stop: "M4.500 4.500h7v7h-7z",
  search: "M7 2.500a4.500 4.500 0 1 1 0 9 4.500 4.500 0 0 1 0-9M10.500 10.500 14 14",
  theme: "M8 2.500a5.500 5.500 0 1 1 0 11zM8 2.500a5.500 5.500 0 1 0 0 11",
  folder: "M2 4h4l1.500 2H14v7H2z",
  attach: "M12.500 7 7.500 12a3 3 0 0 1-4.200-4.200l5.700-5.700a2 2 0 0 1 2.800 2.800L6.200 10.500",
  play: "M5 3l8 5-8 5z",
  pause: "M5 3v10M11 3v10",
  bell: "M4 11V7a4 4 0 0 1 8 0v4l1 1H3zM7 14h2",
  gate: "M2 8h12M5 5 2 8l3 3M11 5l3 3-3 3",
  more: "M3 8h.01M8 8h.01M13 8h.01",
  copy: "M5 5h8v8H5zM3 11V3h8",
  list: "M2 4h12M2 8h12M2 12h12",
  pulse: "M1.500 8h3l2-5 3 10 2-5h3",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}

export type StateName = "idle" | "busy" | "waiting" | "retrying" | "recovering" | "lost" | "cancelling";

/** The icon of a state: its shape tells it without its colour. */
export function StateIcon({ state }: { state: StateName }) {
  switch (state) {
    case "waiting":
      return (
        <svg class="icon state-waiting" viewBox="0 0 16 16" aria-hidden="true">
          <circle class="fill" cx="8" cy="8" r="7.500" />
          <path class="on-fill" d="M8 4v4.500M8 11.300v.2" />
        </svg>
      );
    case "busy":
    case "cancelling":
      return (
        <svg class={`icon turning state-${state}`} viewBox="0 0 16 16" aria-hidden="true">
          <circle class="faded" cx="8" cy="8" r="6" />
          <path d="M8 2a6 6 0 0 1 6 6" />
        </svg>
      );
    case "retrying":
      return (
        <svg class="icon state-retrying" viewBox="0 0 16 16" aria-hidden="true">
          <path d="M13.500 8A5.500 5.500 0 1 1 11.500 3.800M13.500 2v3.500H10" />
        </svg>
      );
    case "recovering":
      return (
        <svg class="icon state-recovering" viewBox="0 0 16 16" aria-hidden="true">
          <circle class="dashed" cx="8" cy="8" r="6" />
          <circle class="dot" cx="8" cy="8" r="1.500" />
        </svg>
      );
    case "lost":
      return (
        <svg class="icon state-lost" viewBox="0 0 16 16" aria-hidden="true">
          <circle cx="8" cy="8" r="6" />
          <path d="M6 6l4 4M10 6l-4 4" />
        </svg>
      );
    case "idle":
      return (
        <svg class="icon state-idle" viewBox="0 0 16 16" aria-hidden="true">
          <circle cx="8" cy="8" r="4.500" />
        </svg>
      );
  }
}
