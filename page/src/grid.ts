// Items side by side, as many as fit; only those in view are in the page, so that 60,000 cost as little as 60.

import { h } from "./dom";
import { picture } from "./item";
import type { Page } from "./page";
import type { Card } from "./types";

// Pictures stand in tiles of this width, everything else in lines of this height.
const TILE = 108;
const LINE = 62;
const CAPTION = 20;
const GAP = 6;
// Cards that are asked for at a time, so that the first are there while others are still read.
const CHUNK = 16;

export interface Grid {
  readonly node: HTMLElement;
  refresh(): void;
}

export function grid(page: Page, scroller: HTMLElement, items: number[], out: Set<number>, distances: number[] | undefined, toggled: () => void): Grid {
  const node = h("div", { class: page.overview.images ? "grid" : "grid lines", role: "list", "aria-label": "Selected items" });
  const tiles = new Map<number, HTMLElement>();
  let frame = 0;
  let filled = 0;

  const write = (tile: HTMLElement, card: Card, place: number): void => {
    const label = card.label ?? "no label";
    const far = distances?.[place];
    const shown = card.picture
      ? picture(card.picture, { alt: "" })
      : h("span", {}, h("b", {}, card.name), " ", card.text ?? Object.entries(card.columns ?? card.values ?? {}).map(([name, value]) => `${name} ${typeof value === "number" ? value.toFixed(2) : value}`).join(" · "));
    const dot = h("i", { class: "dot" });
    dot.style.background = page.shadeOf(card);
    const open = h("button", { type: "button", class: "open", title: card.name, "aria-label": `${card.name}, ${label}`, onclick: () => void page.open(card.item) }, shown);
    const keep = h("button", { type: "button", class: "keep", "aria-pressed": !out.has(card.item), "aria-label": `${card.name} is selected`, title: "Press to leave it out of the selection" }, "✓");
    keep.addEventListener("click", () => {
      if (!out.delete(card.item)) out.add(card.item);
      keep.setAttribute("aria-pressed", String(!out.has(card.item)));
      tile.classList.toggle("out", out.has(card.item));
      toggled();
    });
    tile.classList.toggle("out", out.has(card.item));
    tile.replaceChildren(open, keep, h("span", { class: "tagline" }, dot, far === undefined ? label : `${far.toPrecision(3)} · ${label}`));
    document.body.dataset.grid = String(++filled);
  };

  const load = async (places: number[]): Promise<void> => {
    const wanted = places.filter((place) => tiles.has(place));
    const cards = wanted.length ? await page.from.cards(wanted.map((place) => items[place]!)) : [];
    wanted.forEach((place, i) => {
      const tile = tiles.get(place);
      if (tile) write(tile, cards[i]!, place);
    });
  };

  const lay = (): void => {
    frame = 0;
    const width = node.clientWidth;
    if (!width || !node.isConnected) return;
    const columns = page.overview.images ? Math.max(2, Math.floor((width + GAP) / TILE)) : 1;
    const across = (width + GAP) / columns;
    const down = page.overview.images ? across + CAPTION : LINE;
    node.style.height = `${Math.ceil(items.length / columns) * down}px`;
    const top = scroller.getBoundingClientRect().top - node.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(top / down) - 1) * columns;
    const last = Math.min(items.length, (Math.ceil((top + scroller.clientHeight) / down) + 1) * columns);
    for (const [place, tile] of tiles) {
      if (place >= first && place < last) continue;
      tile.remove();
      tiles.delete(place);
    }
    const fresh: number[] = [];
    for (let place = first; place < last; place++) {
      let tile = tiles.get(place);
      if (!tile) {
        tile = h("div", { class: "tile", role: "listitem", "aria-setsize": items.length, "aria-posinset": place + 1 });
        tiles.set(place, tile);
        node.append(tile);
        fresh.push(place);
      }
      tile.style.width = `${across - GAP}px`;
      tile.style.height = `${down - GAP}px`;
      tile.style.transform = `translate(${(place % columns) * across}px, ${Math.floor(place / columns) * down}px)`;
    }
    for (let at = 0; at < fresh.length; at += CHUNK) void page.guard(load(fresh.slice(at, at + CHUNK)));
  };

  const soon = (): void => {
    if (!frame) frame = requestAnimationFrame(lay);
  };
  const watcher = new ResizeObserver(soon);
  watcher.observe(scroller);
  scroller.addEventListener("scroll", function moved() {
    // The panel has been filled with something else.
    if (!node.isConnected) {
      scroller.removeEventListener("scroll", moved);
      watcher.disconnect();
      return;
    }
    soon();
  });
  queueMicrotask(lay);
  return {
    node,
    refresh() {
      for (const tile of tiles.values()) tile.remove();
      tiles.clear();
      lay();
    },
  };
}
