// Work that would stop the page: colours of source code, long changes, long output.

import { ansi } from "./ansi";
import { compare } from "./compare";
import { highlight } from "./syntax";
import type { Task } from "./work";

function run(task: Task): unknown {
  switch (task.do) {
    case "ansi":
      return ansi(task.text);
    case "compare":
      return compare(task.oldText, task.newText);
    case "highlight":
      return highlight(task.language, task.text);
  }
}

addEventListener("message", ({ data }: MessageEvent<{ id: number; task: Task }>) => {
  let result: unknown;
  try {
    result = run(data.task);
  } catch (error) {
    // The page then shows the text as it is.
    console.warn("not read in the worker", error);
  }
  postMessage({ id: data.id, result });
});
