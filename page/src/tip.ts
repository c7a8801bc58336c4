// What stands at the pointer: the item under it, and the question what two tied items are.

import { fill, h } from "./dom";
import { seen, thumbnail } from "./item";
import type { Page } from "./page";

export interface Tip {
  readonly node: HTMLElement;
  // Tell of an item; where the keyboard led there, aloud.
  show(item: number, aloud?: boolean): Promise<void>;
  hide(): void;
}

export function hoverTip(page: Page, stage: HTMLElement, heard: HTMLElement): Tip {
  const node = h("div", { class: "tip", hidden: true });
  let hovered = -1;

  const hide = (): void => {
    hovered = -1;
    node.hidden = true;
  };

  const show = async (item: number, aloud = false): Promise<void> => {
    hovered = item;
    const card = await page.from.card(item);
    if (hovered !== item) return;
    const at = page.map.where(item);
    if (!at) return;
    if (aloud) heard.textContent = `${card.name}, ${card.label ?? "no label"}${card.text ? `: ${card.text}` : ""}`;
    fill(node, thumbnail(page, card, 128), h("div", {}, ...seen(page, card)));
    node.hidden = false;
    const { clientWidth, clientHeight } = stage;
    const left = at[0] + 16 + node.offsetWidth > clientWidth ? at[0] - 16 - node.offsetWidth : at[0] + 16;
    node.style.left = `${Math.max(4, left)}px`;
    node.style.top = `${Math.max(4, Math.min(at[1] - 20, clientHeight - node.offsetHeight - 8))}px`;
  };

  return { node, hide, show: (item, aloud) => page.guard(show(item, aloud)) };
}

export interface TieBox {
  readonly node: HTMLElement;
  ask(first: number, second: number, x: number, y: number): Promise<void>;
  close(): void;
}

export function tieBox(page: Page, stage: HTMLElement): TieBox {
  const node = h("div", { class: "tie", hidden: true, role: "dialog", "aria-label": "What are these two?" });

  const close = (): void => {
    if (node.hidden) return;
    node.hidden = true;
    stage.focus();
  };

  const ask = async (first: number, second: number, x: number, y: number): Promise<void> => {
    const cards = await page.from.cards([first, second]);
    const say = (kind: "together" | "apart"): void => {
      close();
      void page.say({ kind, items: [first, second] });
    };
    const yes = h("button", { type: "button", class: "main-button", onclick: () => say("together") }, "Together (Y)");
    fill(node, h("div", { class: "two" }, ...cards.map((card) => thumbnail(page, card, 104))), h("p", {}, cards.map((card) => card.name).join(" and ")), yes, h("button", { type: "button", onclick: () => say("apart") }, "Apart (N)"), h("button", { type: "button", class: "quiet", onclick: close }, "Cancel"));
    node.hidden = false;
    page.tell("");
    node.style.left = `${Math.max(8, Math.min(x, stage.clientWidth - 240))}px`;
    node.style.top = `${Math.max(8, Math.min(y, stage.clientHeight - 220))}px`;
    node.onkeydown = (event) => {
      if (event.key === "y") say("together");
      else if (event.key === "n") say("apart");
      else if (event.key === "Escape") close();
      else return;
      event.stopPropagation();
    };
    yes.focus();
  };

  return { node, ask, close };
}
