// Ask me: the pairs whose answer would help most, answered with two keys.

import { fill, h } from "./dom";
import { seen, thumbnail } from "./item";
import type { Page } from "./main";
import type { Live } from "./source";
import type { Card, Question } from "./types";

export interface AskView {
  show(body: HTMLElement): Promise<void>;
  key(name: string): boolean;
}

export function ask(page: Page & { failed?: (error: unknown) => void }, from: Live): AskView {
  let list: Question[] = [];
  let answered = 0;
  let place: HTMLElement | null = null;

  const one = (card: Card): HTMLElement =>
    h("button", { type: "button", class: "asked", onclick: () => void page.open(card.item, true) }, thumbnail(page, card.item, 132), h("div", {}, ...seen(page, card)));

  const draw = (): void => {
    if (!place) return;
    const question = list[0];
    if (!question) {
      fill(place, h("h2", {}, "Ask me"), h("p", {}, answered ? `${answered} answered. Refit to learn from them, or ask for more.` : "There is nothing to ask: every item that may be learned from has a label."), h("button", { type: "button", class: "main-button", onclick: () => void load() }, "More questions"));
      return;
    }
    page.map.select([question.first.item, question.second.item]);
    fill(
      place,
      h("h2", {}, "Are these two the same?"),
      h("p", { class: "muted" }, question.guess ? `The first seems to be ${question.guess}. ` : "", `${answered} answered, ${list.length} left. These answers would help most.`),
      h("div", { class: "versus" }, one(question.first), one(question.second)),
      h(
        "div",
        { class: "row" },
        h("button", { type: "button", class: "main-button big", onclick: () => void answer("y") }, "Same (Y)"),
        h("button", { type: "button", class: "big", onclick: () => void answer("n") }, "Different (N)"),
        h("button", { type: "button", class: "quiet", onclick: () => void answer("s") }, "Skip (S)"),
      ),
    );
    document.body.dataset.question = `${question.first.item}`;
  };

  const answer = async (name: string): Promise<void> => {
    const question = list.shift();
    if (!question) return;
    const [a, b] = [question.first, question.second];
    answered += name === "s" ? 0 : 1;
    draw();
    if (name === "y") await page.say(b.label !== null ? { kind: "label", items: [a.item], label: b.label } : { kind: "together", items: [a.item, b.item] });
    else if (name === "n") await page.say({ kind: "apart", items: [a.item], others: [b.item] });
  };

  const load = async (): Promise<void> => {
    if (!place) return;
    fill(place, h("h2", {}, "Ask me"), h("p", { class: "wait" }, "Looking for what helps most …"));
    try {
      list = await from.questions();
      draw();
    } catch (error) {
      page.tell(error instanceof Error ? error.message : String(error), true);
    }
  };

  return {
    async show(body) {
      place = body;
      if (list.length) draw();
      else await load();
    },
    key(name) {
      if (!["y", "n", "s"].includes(name) || !list.length) return false;
      void answer(name);
      return true;
    },
  };
}
