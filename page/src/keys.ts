// What the keys do, and the box that says so.

import { h } from "./dom";
import type { Tab } from "./page";
import type { Map, Mode } from "./plot";

const KEYS: [string, string][] = [
  ["/", "search"],
  ["M, L, T", "move, lasso, tie two items"],
  ["Shift + drag", "lasso"],
  ["B", "raw or learned map"],
  ["0, +, −", "whole map, zoom"],
  ["Arrows, Enter", "on the map: from item to item, open"],
  ["S, G, E", "selection, suggestions, edits"],
  ["R", "refit"],
  ["Ctrl Z, Ctrl Shift Z", "undo, redo"],
  ["A, X, D", "suggestions: yes, no, leave out"],
  ["1 – 3, O", "suggestions: one of the likely labels, another one"],
  ["J, K", "suggestions: on, back"],
  ["Esc", "clear the selection"],
];

export function help(): void {
  const box = h(
    "dialog",
    { class: "help", "aria-label": "Keys" },
    h("h2", {}, "Keys"),
    h("dl", {}, ...KEYS.flatMap(([key, text]) => [h("dt", {}, key), h("dd", {}, text)])),
    h("button", { type: "button", class: "main-button", onclick: () => box.close() }, "Close"),
  );
  document.body.append(box);
  box.addEventListener("close", () => box.remove());
  box.showModal();
}

interface Keyed {
  tab(): Tab;
  show(tab: Tab): void;
  // Whether the suggestions knew what to do with a key.
  answer(event: KeyboardEvent): boolean;
  use(mode: Mode): void;
  turn(): void;
  act(name: "undo" | "redo" | "refit"): void;
  search(): void;
  clear(): void;
  focus(): number;
  walk(item: number): void;
  open(item: number): void;
  untie(): void;
}

export function followKeys(page: Keyed, map: Map, stage: HTMLElement, tabs: HTMLElement): void {
  tabs.addEventListener("keydown", (event) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    const all = [...tabs.querySelectorAll("button")];
    const next = all[(all.indexOf(document.activeElement as HTMLButtonElement) + step + all.length) % all.length]!;
    next.click();
    next.focus();
  });

  const keys: Record<string, () => void> = {
    "/": () => page.search(),
    l: () => page.use("lasso"),
    m: () => page.use("pan"),
    t: () => page.use("tie"),
    b: () => page.turn(),
    r: () => page.act("refit"),
    s: () => page.show("selection"),
    g: () => page.show("suggestions"),
    e: () => page.show("edits"),
    "0": () => map.home(),
    "?": help,
  };

  document.addEventListener("keydown", (event) => {
    const where = event.target as HTMLElement;
    if (event.key === "Escape") {
      page.untie();
      if (where instanceof HTMLInputElement) where.blur();
      else page.clear();
      return;
    }
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z" && !(where instanceof HTMLInputElement)) {
      event.preventDefault();
      page.act(event.shiftKey ? "redo" : "undo");
      return;
    }
    if (typing(event)) return;
    const known = (where === stage && wander(page, map, event)) || (page.tab() === "suggestions" && page.answer(event));
    const work = known ? null : keys[event.key];
    if (known || work) event.preventDefault();
    work?.();
  });
}

// The keys of the map itself.
function wander(page: Keyed, map: Map, event: KeyboardEvent): boolean {
  const arrows: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const way = arrows[event.key];
  if (way && event.shiftKey) map.panBy(-50 * way[0], -50 * way[1]);
  else if (way) page.walk(map.spots.towards(page.focus(), ...way));
  else if (event.key === "Enter" && page.focus() >= 0) page.open(page.focus());
  else if (event.key === "+" || event.key === "=") map.zoomBy(1.25);
  else if (event.key === "-") map.zoomBy(0.8);
  else return false;
  return true;
}

// Whether a key belongs to what is typed or chosen there.
function typing(event: KeyboardEvent): boolean {
  const where = event.target as HTMLElement;
  return event.ctrlKey || event.metaKey || event.altKey || where instanceof HTMLSelectElement || (where instanceof HTMLInputElement && where.type !== "range");
}
