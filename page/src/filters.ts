// The left column: what the map is colored by, and which items are shown at all, by label, right or wrong, held out
// and every column. The lists are the legend; their counts are of what the other filters leave.

import { fill, h } from "./dom";
import type { Map as Plot } from "./plot";
import { Inner, type Colors, type Live } from "./source";
import type { Overview } from "./types";

const BINS = 20;
// The value of an item that has none.
const NONE = "–";

interface Facet {
  by: string;
  title: string;
  open: boolean;
  colors: Colors | null;
  hidden: Set<string>;
  range: [number, number];
}

export interface Filters {
  readonly node: HTMLElement;
  // The legend and the values of what the map is colored by.
  colors(): Colors | null;
  by(): string;
  // Ask again for what may have changed.
  refresh(overview: Overview): Promise<Colors>;
  // The item that the map can be colored by the distance to.
  focus(item: number): void;
  redraw(): void;
  shows(item: number): boolean;
  narrowed(): boolean;
  clear(): void;
}

interface Asked {
  from: Live | Inner;
  map(): Plot;
  select(items: number[]): void;
  recolored(): Promise<void>;
  moved(): void;
  guard(work: Promise<unknown>): Promise<void>;
}

export function filters(page: Asked): Filters {
  const facets = new Map<string, Facet>();
  const pick = h("select", { "aria-label": "Color by" });
  const lists = h("div", { class: "facets" });
  const clearing = h("button", { type: "button", class: "link", hidden: true, onclick: () => clear() }, "Show all items");
  const node = h("aside", { class: "filters", "aria-label": "Colors and filters" }, h("label", { class: "pick" }, h("span", {}, "Color"), pick), clearing, lists);
  let colored = "label";
  let mask: Uint8Array | null = null;
  let focused = -1;
  let options: [string, string][] = [];

  pick.onchange = () => {
    colored = pick.value;
    void page.guard(page.recolored());
  };

  const names = (facet: Facet): string[] => [...facet.colors!.legend.names, NONE];
  const nameOf = (facet: Facet, item: number): string => {
    const code = facet.colors!.values[item]!;
    return code < 0 ? NONE : facet.colors!.legend.names[code]!;
  };
  const active = (facet: Facet): boolean => Boolean(facet.colors) && (facet.hidden.size > 0 || facet.range[0] > 0 || facet.range[1] < 1);
  const keeps = (facet: Facet): ((item: number) => boolean) => {
    const { legend, values } = facet.colors!;
    if (legend.kind === "numbers") return (item) => values[item]! >= facet.range[0] && values[item]! <= facet.range[1];
    const shown = names(facet).map((name) => !facet.hidden.has(name));
    return (item) => shown[values[item]! < 0 ? shown.length - 1 : values[item]!]!;
  };

  const sift = (): void => {
    const tests = [...facets.values()].filter(active).map(keeps);
    const n = page.map().size;
    mask = tests.length ? new Uint8Array(n) : null;
    if (mask) for (let item = 0; item < n; item++) mask[item] = tests.every((test) => test(item)) ? 1 : 0;
    page.map().keep(mask);
    clearing.hidden = !mask;
    const left = mask ? mask.reduce((sum, one) => sum + one, 0) : n;
    document.body.dataset.shown = String(left);
    page.moved();
    draw();
  };

  const clear = (): void => {
    for (const facet of facets.values()) {
      facet.hidden.clear();
      facet.range = [0, 1];
    }
    sift();
  };

  // How many of each value the other filters leave.
  const counts = (facet: Facet): number[] => {
    const others = [...facets.values()].filter((one) => one !== facet && active(one)).map(keeps);
    const { legend, values } = facet.colors!;
    const found = new Array<number>(legend.kind === "numbers" ? BINS : legend.names.length + 1).fill(0);
    for (let item = 0; item < values.length; item++) {
      const value = values[item]!;
      const place = legend.kind === "numbers" ? Math.min(BINS - 1, Math.floor(value * BINS)) : value < 0 ? found.length - 1 : value;
      if (place >= 0 && others.every((test) => test(item))) found[place]!++;
    }
    return found;
  };

  const choose = (facet: Facet, name: string, event: MouseEvent): void => {
    const all = names(facet);
    if (event.shiftKey) {
      const members: number[] = [];
      for (let item = 0; item < facet.colors!.values.length; item++) if (nameOf(facet, item) === name) members.push(item);
      page.select(members);
      return;
    }
    if (event.detail === 2) facet.hidden = new Set(all.filter((one) => one !== name));
    else if (!facet.hidden.delete(name)) facet.hidden.add(name);
    if (all.every((one) => facet.hidden.has(one))) facet.hidden.clear();
    sift();
  };

  const list = (facet: Facet): HTMLElement => {
    const legend = facet.colors!.legend;
    const found = counts(facet);
    const most = Math.max(1, ...found);
    const isColored = facet.by === colored;
    const rows = names(facet)
      .map((name, code) => ({ name, code, count: found[code]! }))
      .filter(({ name, code, count }) => count > 0 || facet.hidden.has(name) || (legend.counts[code] ?? 0) > 0)
      .sort((a, b) => Number(a.name === NONE) - Number(b.name === NONE) || (legend.names.length > 2 ? b.count - a.count : 0));
    const nodes = rows.map(({ name, code, count }) => {
      const dot = h("i", { class: "dot" });
      if (isColored) dot.style.background = name === NONE ? "var(--unknown)" : page.map().shade(code);
      const bar = h("i", { class: "count" });
      bar.style.width = `${Math.round((100 * count) / most)}%`;
      const told = name === NONE ? (facet.by === "label" ? "no label" : "none") : name;
      const row = h(
        "button",
        {
          type: "button",
          "aria-pressed": !facet.hidden.has(name),
          "data-name": name,
          title: `${told}: ${count.toLocaleString("en")}. Press to hide or show it; double press to show it alone; Shift selects it.`,
          onclick: (event: MouseEvent) => choose(facet, name, event),
        },
        bar,
        isColored ? dot : null,
        h("span", {}, told),
        h("small", {}, count.toLocaleString("en")),
      );
      if (isColored && name !== NONE) {
        for (const name of ["pointerenter", "focus"]) row.addEventListener(name, () => page.map().light(code));
        for (const name of ["pointerleave", "blur"]) row.addEventListener(name, () => page.map().light(-1));
      }
      return row;
    });
    return h("div", { class: "legend", role: "group", "aria-label": `${facet.title}: press a name to hide or show it` }, ...nodes);
  };

  const histogram = (facet: Facet): HTMLElement => {
    const legend = facet.colors!.legend;
    const found = counts(facet);
    const most = Math.max(1, ...found);
    const bars = found.map((count, bin) => {
      const inside = (bin + 1) / BINS > facet.range[0] && bin / BINS < facet.range[1];
      const bar = h("i", { class: inside ? "" : "outside" });
      bar.style.height = `${Math.max(count ? 4 : 0, Math.round((100 * count) / most))}%`;
      return bar;
    });
    const slider = (end: 0 | 1, word: string): HTMLElement => {
      const input = h("input", { type: "range", min: 0, max: 1, step: 1 / BINS, value: facet.range[end], "aria-label": `${facet.title}, ${word}`, "data-name": word });
      input.addEventListener("change", () => {
        const value = Number(input.value);
        facet.range = end ? [Math.min(facet.range[0], value - 1 / BINS), value] : [value, Math.max(facet.range[1], value + 1 / BINS)];
        sift();
      });
      return input;
    };
    const ramp = facet.by === colored ? h("i", { class: "ramp" }) : null;
    return h("div", { class: "histogram" }, h("div", { class: "bars", "aria-hidden": "true" }, ...bars), ramp, slider(0, "least"), slider(1, "most"), h("div", { class: "ends" }, h("small", {}, legend.low), h("small", {}, legend.high)));
  };

  const draw = (): void => {
    // The keyboard stays where it is, though what it is on is made again.
    const held = document.activeElement as HTMLElement | null;
    const inside = held && lists.contains(held) ? [held.closest("details")?.dataset.by, held.dataset.name ?? "summary"] : null;
    const nodes = [...facets.values()].map((facet) => {
      const box = h("details", { open: facet.open, "data-by": facet.by }, h("summary", { "data-name": "summary" }, facet.title, active(facet) ? h("small", {}, " filtered") : null));
      if (facet.open && facet.colors) box.append(facet.colors.legend.kind === "numbers" ? histogram(facet) : list(facet));
      box.addEventListener("toggle", () => {
        if (box.open === facet.open) return;
        facet.open = box.open;
        void page.guard(opened(facet));
      });
      return box;
    });
    fill(lists, ...nodes);
    // The pointer has not left the name that it lit, the name has gone from under it.
    page.map().light(-1);
    if (inside) nodes.find((box) => box.dataset.by === inside[0])?.querySelector<HTMLElement>(`[data-name="${CSS.escape(inside[1]!)}"]`)?.focus();
  };

  const offer = (): void => {
    const far: [string, string][] = focused >= 0 && page.from.live ? [[`distance:${focused}`, `Distance to item ${focused}`]] : [];
    fill(pick, ...[...options, ...far].map(([value, text]) => h("option", { value, selected: value === colored }, text)));
  };

  const opened = async (facet: Facet): Promise<void> => {
    if (facet.open && !facet.colors) facet.colors = await page.from.colors(facet.by);
    draw();
  };

  return {
    node,
    colors: () => facets.get(colored)?.colors ?? null,
    by: () => colored,
    async refresh(overview) {
      const known: [string, string][] = [["label", "Label"]];
      if (overview.labelled) known.push(["correct", "Right or wrong"], ["predicted", "Predicted label"]);
      known.push(["held out", "Held out"]);
      for (const name of overview.columns) known.push([`column:${name}`, name]);
      options = known.filter(([by]) => !(page.from instanceof Inner) || page.from.has(by));
      const far = colored.startsWith("distance:");
      if (!far && !options.some(([by]) => by === colored)) colored = "label";
      const gone = new Set(facets.keys());
      for (const [by, title] of far ? [[colored, `Distance to item ${colored.slice(9)}`] as const, ...options] : options) {
        gone.delete(by);
        if (!facets.has(by)) facets.set(by, { by, title, open: by === colored, colors: null, hidden: new Set(), range: [0, 1] });
      }
      for (const by of gone) facets.delete(by);
      const shown = facets.get(colored)!;
      shown.open = true;
      const asked = [...facets.values()].filter((facet) => facet === shown || facet.open || active(facet));
      await Promise.all(
        asked.map(async (facet) => {
          facet.colors = await page.from.colors(facet.by);
          const there = new Set(names(facet));
          for (const name of facet.hidden) if (!there.has(name)) facet.hidden.delete(name);
        }),
      );
      for (const facet of facets.values()) if (!asked.includes(facet)) facet.colors = null;
      offer();
      return shown.colors!;
    },
    focus(item) {
      focused = item;
      offer();
    },
    redraw: sift,
    shows: (item) => !mask || mask[item] === 1,
    narrowed: () => mask !== null,
    clear,
  };
}
