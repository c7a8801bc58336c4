// What is selected: how many of which class, the items themselves, and what can be said about them.

import { fill, h, many } from "./dom";
import { scoreTable } from "./edits";
import { grid, type Grid } from "./grid";
import { itemPanel } from "./item";
import type { Found, Page } from "./page";
import { Live } from "./source";
import type { Detail, Gesture, Scores } from "./types";

// So many classes are counted by name.
const NAMED = 8;

export interface Selection {
  items(): number[];
  focus(): number;
  set(items: number[], found?: Found): void;
  open(item: number): Promise<void>;
  show(body: HTMLElement): void;
  hide(): void;
  // What is said of the items has changed, but not which they are.
  refresh(): Promise<void>;
}

export function selection(page: Page): Selection {
  let all: number[] = [];
  let found: Found = {};
  let focus = -1;
  let detail: Detail | null = null;
  let place: HTMLElement | null = null;
  let tiles: Grid | null = null;
  let out = new Set<number>();
  let heldOut: Float32Array | null = null;
  const head = h("div", { class: "selection-head" });
  const bar = h("div", { class: "selection", role: "toolbar", "aria-label": "Say something about the selected items" });
  const told = h("p", { class: "told", "aria-live": "polite" });
  let name = h("input", {});

  const items = (): number[] => (out.size ? all.filter((item) => !out.has(item)) : all);

  // The classes of some items, the largest first; null is no label.
  const classes = (some: number[]): [string | null, number][] => {
    const colors = page.labels();
    const counts = new Map<number, number>();
    if (colors) for (const item of some) counts.set(colors.values[item]!, (counts.get(colors.values[item]!) ?? 0) + 1);
    return [...counts].sort((a, b) => b[1] - a[1]).map(([code, count]) => [code < 0 ? null : colors!.legend.names[code]!, count]);
  };

  const listed = (counts: [string | null, number][]): string => {
    const parts = counts.slice(0, 4).map(([label, count]) => `${label ?? "no label"} (${count.toLocaleString("en")})`);
    if (counts.length > 4) parts.push(`${counts.length - 4} more`);
    return parts.join(", ");
  };

  // What an edit will do, before it does it.
  const sentence = (kind: Gesture["kind"] | "clear" | "same"): string => {
    const some = items();
    const counts = classes(some);
    const number = many(some.length, "item");
    const held = heldOut ? some.reduce((sum, item) => sum + (heldOut![item] ? 1 : 0), 0) : 0;
    const scored = held ? ` ${held.toLocaleString("en")} held out: the label changes what they are scored by, and teaches nothing.` : "";
    if (kind === "label") {
      const label = name.value.trim();
      if (!label) return some.length === 1 ? `It ${counts[0]?.[0] ? `is labelled ${counts[0][0]}` : "has no label"}.` : `${number}: ${listed(counts)}.`;
      const same = counts.find(([one]) => one === label)?.[1] ?? 0;
      const fresh = page.overview.classes.includes(label) ? "" : " This is a new label.";
      const change = counts.filter(([one]) => one !== label);
      return `${(some.length - same).toLocaleString("en")} of ${number} would become ${label} (${change.length ? listed(change) : "none changes"}).${fresh}${scored}`;
    }
    if (kind === "together") return `${number} belong together: a refit brings them nearer to each other. Their labels stay.`;
    if (kind === "apart") return `No two of the ${number} belong together: a refit parts them. Their labels stay.`;
    if (kind === "same") return `${number} are what item ${focus} is.`;
    if (kind === "drop") return `${number} would be left out of what is learned.`;
    return `${number} would lose their label: ${listed(counts)}.`;
  };

  const tell = (kind: Parameters<typeof sentence>[0] = "label"): void => {
    told.textContent = sentence(kind);
  };

  const said = (gesture: Gesture): void => {
    // What was said of a selection is said: the next one begins with nothing selected.
    if (gesture.items.length > 1) page.choose([]);
    void page.say(gesture);
  };

  const actions = (): void => {
    const count = items().length;
    bar.hidden = !page.from.live;
    if (bar.hidden) return;
    const typed = name.value;
    const list = h("datalist", { id: "classes" }, ...page.overview.classes.map((one) => h("option", { value: one })));
    name = h("input", { list: "classes", placeholder: "Label", "aria-label": "Label for the selected items", maxlength: 200, value: typed });
    const label = (): void => {
      const text = name.value.trim();
      if (!text || !items().length) {
        name.focus();
        return;
      }
      const label = text;
      name.value = "";
      said({ kind: "label", items: items(), label });
    };
    name.addEventListener("input", () => tell());
    name.addEventListener("keydown", (event) => {
      if (event.key === "Enter") label();
      if (event.key !== "Escape") event.stopPropagation();
    });
    const action = (text: string, kind: Parameters<typeof sentence>[0], gesture: () => Gesture): HTMLElement => {
      const node = h("button", { type: "button", onclick: () => said(gesture()) }, text);
      for (const event of ["pointerenter", "focus"]) node.addEventListener(event, () => tell(kind));
      for (const event of ["pointerleave", "blur"]) node.addEventListener(event, () => tell());
      return node;
    };
    fill(
      bar,
      h("span", { class: "joined" }, name, list, h("button", { type: "button", class: "main-button", onclick: label }, "Name")),
      count > 1 && action("Together", "together", () => ({ kind: "together", items: items() })),
      count > 1 && action("Apart", "apart", () => ({ kind: "apart", items: items() })),
      focus >= 0 && count > 1 && action(`Same as #${focus}`, "same", () => ({ kind: "same", items: items(), anchor: focus })),
      action("No label", "clear", () => ({ kind: "label", items: items(), label: null })),
      action("Leave out", "drop", () => ({ kind: "drop", items: items() })),
    );
    tell();
  };

  const heading = (): void => {
    const some = items();
    const counts = classes(some);
    const chips = counts.slice(0, NAMED).map(([label, count]) =>
      h("button", { type: "button", title: "Select these alone", onclick: () => narrow(label) }, label ?? "no label", h("small", {}, ` ${count.toLocaleString("en")}`)),
    );
    fill(
      head,
      h("div", { class: "row between" }, h("h2", {}, `${some.length.toLocaleString("en")} of ${many(page.overview.n, "item")} selected`), h("button", { type: "button", class: "quiet", "aria-label": "Clear the selection", title: "Clear the selection (Esc)", onclick: () => page.choose([]) }, "✕")),
      found.told ? h("p", { class: "muted" }, found.told) : null,
      found.text && page.from instanceof Live ? h("button", { type: "button", class: "link", onclick: () => void page.guard(meaning(found.text!)) }, "Rank all items by meaning instead") : null,
      all.length > 1 ? h("div", { class: "pills" }, ...chips, counts.length > NAMED ? h("small", {}, `and ${counts.length - NAMED} more`) : null) : null,
    );
    document.body.dataset.selected = String(some.length);
  };

  const meaning = async (text: string): Promise<void> => {
    const near = await (page.from as Live).similar({ text });
    page.choose(near.items, { told: `The ${many(near.items.length, "item")} nearest in meaning to “${text}”, nearest first.`, distances: near.distances });
  };

  const narrow = (label: string | null): void => {
    const colors = page.labels();
    if (!colors) return;
    const code = label === null ? -1 : colors.legend.names.indexOf(label);
    page.choose(items().filter((item) => (code < 0 ? colors.values[item]! < 0 : colors.values[item] === code)), { told: `Those of the selection ${label === null ? "without a label" : `with the label ${label}`}.` });
  };

  const toggled = (): void => {
    heading();
    tell();
    page.map.select(items());
  };

  const draw = (): void => {
    if (!place) return;
    tiles = null;
    document.body.dataset.grid = "0";
    if (!all.length) {
      fill(place, ...welcome(page));
      return;
    }
    heading();
    actions();
    if (all.length > 1) {
      tiles = grid(page, place, all, out, found.distances, toggled);
      fill(place, head, bar, told, tiles.node);
      return;
    }
    fill(place, head, bar, told, detail?.item === all[0] ? itemPanel(page, detail!) : found.told ? null : h("p", { class: "wait" }, "Loading …"));
  };

  const look = async (): Promise<void> => {
    if (all.length !== 1) return;
    const item = all[0]!;
    const fresh = await page.from.detail(item);
    if (all.length !== 1 || all[0] !== item) return;
    detail = fresh;
    draw();
  };

  return {
    items,
    focus: () => focus,
    set(items, why = {}) {
      all = items;
      found = why;
      out = new Set();
      if (items.length === 1) focus = items[0]!;
      name.value = "";
      document.body.dataset.selected = String(items.length);
      if (page.from.live && items.length && !heldOut) {
        void page.guard(
          page.from.colors("held out").then((colors) => {
            heldOut = colors.values;
            tell();
          }),
        );
      }
      if (place) place.scrollTop = 0;
      draw();
    },
    async open(item) {
      if (all.length !== 1 || all[0] !== item) this.set([item]);
      await look();
    },
    show(body) {
      place = body;
      draw();
      void page.guard(look());
    },
    hide() {
      place = null;
    },
    async refresh() {
      if (!place) return;
      if (all.length > 1) {
        heading();
        actions();
        tiles?.refresh();
      } else if (all.length) await look();
      else draw();
    },
  };
}

// What a page without a server says of itself.
function enclosed(heldOut: number, learned: boolean, scores: Scores): HTMLElement[] {
  const shown = `${many(heldOut, "item")} ${heldOut === 1 ? "is" : "are"} held out: nothing was learned from ${heldOut === 1 ? "it" : "them"}. The other points are drawn faint.`;
  return [
    ...(heldOut && learned ? [h("p", {}, shown)] : []),
    ...(scores.rows.length ? [h("h2", {}, learned ? "Does it help?" : "Scores"), ...scoreTable(scores)] : []),
    h("p", { class: "muted" }, "All of this page is in one file: it asks nothing of any server. nearer explore opens the data to correct it by hand."),
  ];
}

function welcome(page: Page): HTMLElement[] {
  const { n, labelled, used, heldOut, trained, learned, scores } = page.overview;
  const live = page.from.live;
  return [
    h("h2", {}, many(n, "item")),
    h("p", {}, labelled ? `${labelled.toLocaleString("en")} have one of ${many(used, "label")}.` : "None has a label yet. Lasso some and name them."),
    h("p", {}, learned ? "Press an item to see its neighbors under the raw features and under the learned metric, side by side." : "Press an item to see its nearest items."),
    h("p", {}, live ? "Lasso items (hold Shift) to see them here, and to say what they are or that they belong together. Then refit: the map moves, and the scores say whether it helped." : "Lasso items (hold Shift) to see them here."),
    ...(live ? [h("p", { class: "muted" }, `${heldOut.toLocaleString("en")} items are held out: they are scored and never learned from. ${trained}`)] : enclosed(heldOut, learned, scores)),
  ];
}
