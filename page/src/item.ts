// One item: what it is, its neighbors raw and learned side by side, why they are near, how it fared.

import { h } from "./dom";
import type { Page } from "./page";
import type { Card, Detail, Neighbor } from "./types";

// Digits and small drawings keep their pixels where they are made larger.
const SMALL = 96;

export function picture(address: string, props: Record<string, string>): HTMLImageElement {
  const image = h("img", { ...props, src: address, decoding: "async" });
  image.addEventListener("load", () => image.classList.toggle("small", image.naturalWidth < SMALL));
  return image;
}

// The picture of an item in a frame of a size that is known before it is there.
export function thumbnail(page: Page, card: Card, shown: number, side: 128 | 256 | 512 = 256): HTMLElement | null {
  const address = page.overview.images ? page.from.picture(card.item, side) : null;
  if (!address) return null;
  const image = picture(address, { class: "thumb", alt: `Picture of ${card.name}` });
  image.style.width = image.style.height = `${shown}px`;
  return image;
}

// The whole picture, which leads to all of its pixels where there is a server.
export function portrait(page: Page, card: Card): HTMLElement | null {
  const address = page.overview.images ? page.from.picture(card.item, 512) : null;
  if (!address) return null;
  const image = picture(address, { class: "portrait", alt: `Picture of ${card.name}` });
  return page.from.live ? h("a", { href: page.from.picture(card.item)!, target: "_blank", rel: "noreferrer", title: "Open it in full size" }, image) : image;
}

export function seen(page: Page, card: Card): HTMLElement[] {
  const dot = h("i", { class: "dot" });
  dot.style.background = page.shadeOf(card);
  const head = h("div", { class: "name" }, h("b", {}, card.name), h("span", { class: "tag" }, dot, card.label ?? "no label"));
  const found: HTMLElement[] = [head];
  if (card.text) found.push(h("p", { class: "text" }, card.text));
  const facts = Object.entries({ ...card.columns, ...Object.fromEntries(Object.entries(card.values ?? {}).map(([k, v]) => [k, v.toFixed(2)])) });
  if (facts.length) found.push(h("dl", { class: "facts" }, ...facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
  return found;
}

function side(page: Page, title: string, neighbors: Neighbor[], item: number): HTMLElement {
  const right = neighbors.filter((one) => one.right === true).length;
  const known = neighbors.filter((one) => one.right !== null).length;
  const cards = neighbors.map((one) => {
    const word = one.right === null ? "unknown" : one.right ? "right" : "wrong";
    const mark = one.right === null ? "?" : one.right ? "✓" : "✗";
    const say = (kind: "together" | "apart") => () => void page.say({ kind, items: [item, one.item] });
    return h(
      "li",
      { class: `near ${word}` },
      h(
        "button",
        { type: "button", class: "open", title: one.why || one.name, "aria-label": `${one.name}, ${one.label ?? "no label"}, ${word}, distance ${one.distance.toFixed(3)}`, onclick: () => void page.open(one.item) },
        thumbnail(page, one, 74) ?? h("span", { class: "words" }, one.text ?? one.name),
        h("span", { class: "mark", "aria-hidden": "true" }, mark),
      ),
      h("span", { class: "tagline" }, one.label ?? "–"),
      h("small", {}, one.distance.toPrecision(3), one.share ? ` · ${Math.round(100 * one.share)} %` : ""),
      one.why ? h("small", { class: "why" }, one.why) : null,
      page.from.live
        ? h(
            "span",
            { class: "pair" },
            h("button", { type: "button", title: "These two belong together", "aria-label": "Together", onclick: say("together") }, "="),
            h("button", { type: "button", title: "These two do not belong together", "aria-label": "Apart", onclick: say("apart") }, "≠"),
          )
        : null,
    );
  });
  return h("section", { class: "side" }, h("h3", {}, title, known ? h("small", {}, ` ${right} of ${known} right`) : null), h("ol", { class: page.overview.images ? "nears" : "nears lines" }, ...cards));
}

export function itemPanel(page: Page, detail: Detail): HTMLElement {
  const { neighbors, history } = detail;
  const told = history.length ? h("p", { class: "muted" }, `Of the ten nearest, this label: ${history.map((one) => `${Math.round(100 * one)} %`).join(" → ")}`) : null;
  const live = page.from.live;
  // Two equal columns would say that something has been learned.
  const both = page.overview.learned;
  return h(
    "article",
    { class: "item" },
    h("div", { class: "hero" }, portrait(page, detail), h("div", {}, ...seen(page, detail), detail.heldOut ? h("span", { class: "badge", title: "It is scored and never learned from." }, "held out") : null)),
    told,
    live ? h("div", { class: "row" }, h("button", { type: "button", onclick: () => void page.like(detail.item) }, "All items like this")) : null,
    h("div", { class: both ? "sides" : "" }, side(page, both ? "Raw" : "Nearest items", neighbors.raw, detail.item), both ? side(page, "Learned", neighbors.learned, detail.item) : null),
    live ? h("p", { class: "muted" }, "The percentage is the share of the usual distance. = and ≠ say that two belong together or not.") : null,
  );
}
