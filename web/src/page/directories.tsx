// Directories below the gateway's roots, to choose one from.

import { useEffect, useState } from "preact/hooks";
import { request } from "./api";
import { problemWords } from "./answer";
import { count } from "./format";
import { Icon } from "./icons";

interface Directory {
  path: string;
  directories: string[];
  more?: boolean;
}

type Found = { roots: string[] } | Directory | { problem: string };

function ask(path: string | undefined): Promise<Found> {
  const query = path === undefined ? "" : `?path=${encodeURIComponent(path)}`;
  return request<Found>(`/v1/directories${query}`);
}

interface DirectoriesProps {
  path: string;
  choose: (path: string) => void;
}

/** Names that begin with a dot come last: they are rarely projects. */
function ordered(names: string[]): string[] {
  return [...names.filter((name) => !name.startsWith(".")), ...names.filter((name) => name.startsWith("."))];
}

export function Directories({ path, choose }: DirectoriesProps) {
  const [at, setAt] = useState<string | undefined>(path === "" ? undefined : path);
  const [found, setFound] = useState<Found>();
  useEffect(() => {
    let ended = false;
    ask(at)
      // A path that cannot be read leads back to the roots.
      .catch((error) => (at === undefined ? { problem: problemWords(error) } : ask(undefined)))
      .catch((error) => ({ problem: problemWords(error) }))
      .then((found) => {
        if (!ended) setFound(found);
      });
    return () => {
      ended = true;
    };
  }, [at]);
  if (found === undefined) return <p class="faint">Reading the directories.</p>;
  if ("problem" in found) return <p class="problem">{found.problem}</p>;
  const go = (path: string | undefined) => {
    setAt(path);
    if (path !== undefined) choose(path);
  };
  if ("roots" in found) {
    return (
      <ul class="directories" aria-label="Roots">
        {found.roots.map((root) => (
          <li key={root}>
            <button type="button" class="quiet mono" onClick={() => go(root)}>
              <Icon name="folder" /> {root}
            </button>
          </li>
        ))}
        {found.roots.length === 0 && <li class="faint">The gateway has no roots. Write the path instead.</li>}
      </ul>
    );
  }
  const inside = found.path === "/" ? "/" : `${found.path}/`;
  const above = found.path.slice(0, found.path.lastIndexOf("/"));
  return (
    <ul class="directories" aria-label={`Directories in ${found.path}`}>
      <li>
        <button type="button" class="quiet mono" onClick={() => go(above === "" ? undefined : above)}>
          <Icon name="up" /> ..
        </button>
      </li>
      {ordered(found.directories).map((name) => (
        <li key={name}>
          <button type="button" class="quiet mono" onClick={() => go(inside + name)}>
            <Icon name="folder" /> {name}
          </button>
        </li>
      ))}
      {found.directories.length === 0 && <li class="faint">It has no directories in it.</li>}
      {found.more && (
        <li class="faint">The first {count(found.directories.length)}. Write the path instead.</li>
      )}
    </ul>
  );
}
