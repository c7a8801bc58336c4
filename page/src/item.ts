// One item: what it is, its neighbors raw and learned side by side, why they are near, how it fared.

import { h } from "./dom";
import type { Page } from "./main";
import type { Card, Detail, Neighbor } from "./types";

export function thumbnail(page: Page, item: number, size: number): HTMLElement | null {
  if (!page.overview.images) return null;
  const { side, columns, each } = page.overview.sprite;
  const sheet = page.from.sprite(Math.floor(item / each));
  if (!sheet) return null;
  const place = item % each;
  const scale = size / side;
  const node = h("div", { class: "thumb", role: "img", "aria-label": `Picture of item ${item}` });
  node.style.width = node.style.height = `${size}px`;
  node.style.backgroundImage = `url("${sheet}")`;
  node.style.backgroundPosition = `${-(place % columns) * size}px ${-Math.floor(place / columns) * size}px`;
  const rows = Math.ceil(Math.min(each, page.overview.n - Math.floor(item / each) * each) / columns);
  node.style.backgroundSize = `${columns * side * scale}px ${rows * side * scale}px`;
  return node;
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
        thumbnail(page, one.item, 56) ?? h("span", { class: "words" }, one.text ?? one.name),
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
  const history = detail.history.length
    ? h("p", { class: "muted" }, `Of the ten nearest, this label: ${detail.history.map((one) => `${Math.round(100 * one)} %`).join(" → ")}`)
    : null;
  return h(
    "article",
    { class: "item" },
    h("div", { class: "hero" }, thumbnail(page, detail.item, 112), h("div", {}, ...seen(page, detail), detail.heldOut ? h("span", { class: "badge", title: "It is scored and never learned from." }, "held out") : null)),
    history,
    h("div", { class: "sides" }, side(page, "Raw", detail.neighbors.raw, detail.item), side(page, "Learned", detail.neighbors.learned, detail.item)),
    page.from.live ? h("p", { class: "muted" }, "The percentage is the share of the usual distance. = and ≠ say that two belong together or not.") : null,
  );
}
