// Something that changes, and those who want to know. Listeners are told at most once per frame.

export class Store {
  version = 0;
  #listeners = new Set<() => void>();
  #due = false;

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  changed(): void {
    this.version += 1;
    if (this.#due) return;
    this.#due = true;
    const tell = () => {
      this.#due = false;
      for (const listener of [...this.#listeners]) listener();
    };
    // Node has no frames. A hidden tab has none either, and still has to count what waits in its title.
    if (typeof document === "undefined" || document.hidden) setTimeout(tell, 0);
    else requestAnimationFrame(tell);
  }
}
