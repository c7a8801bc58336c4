// One queue of what a person should look at, answered with a key each: doubtful labels, questions, duplicates, outliers.

import { fill, h, many, progress, type Progress } from "./dom";
import { portrait, seen, thumbnail } from "./item";
import type { Page } from "./page";
import type { Live } from "./source";
import type { Card, Gesture, Suggestion, Suggestions } from "./types";

type Kind = Suggestion["kind"] | "overlaps";

const KINDS: [Kind, string][] = [
  ["label", "Labels"],
  ["question", "Questions"],
  ["duplicates", "Duplicates"],
  ["outlier", "Outliers"],
  ["overlaps", "Overlap"],
];

export interface Queue {
  // How far the server has come that looks for them.
  step(text: string, share: number): void;
  show(body: HTMLElement): Promise<void>;
  key(event: KeyboardEvent): boolean;
}

export function suggestions(page: Page, from: Live): Queue {
  let found: Suggestions | null = null;
  let at = 0;
  let overlaps = false;
  let done = 0;
  let place: HTMLElement | null = null;
  let other: HTMLInputElement | null = null;
  let waited: Progress | null = null;

  const current = (): Suggestion | undefined => (overlaps ? undefined : found?.entries[at]);

  // The words of an entry: the question, what A says, what X says.
  const words = ({ kind, cards, alternatives }: Suggestion): [string, string, string] => {
    const guess = alternatives[0];
    if (kind === "label") return ["Is this label wrong?", guess ? `It is ${guess}` : "", `It is ${cards[0]!.label ?? "–"}`];
    if (kind === "question" && guess) return [`Is this ${guess}?`, `It is ${guess}`, `It is not ${guess}`];
    if (kind === "question") return ["Do these two belong together?", "Together", "Apart"];
    if (kind === "duplicates") return ["Is one of these enough?", "Leave out all but the first", "Keep all"];
    return ["Does this item belong here?", "Leave it out", "It belongs here"];
  };

  // What an answer says, as an edit.
  const edit = (entry: Suggestion, key: string): Gesture | null => {
    const items = entry.cards.map((card) => card.item);
    const guess = entry.alternatives[0];
    if (key === "d") return { kind: "drop", items: entry.kind === "question" ? items.slice(0, 1) : items };
    if (entry.kind === "label") return key === "a" ? (guess ? { kind: "label", items, label: guess } : null) : { kind: "keep", items };
    if (entry.kind === "question") {
      if (key === "x") return { kind: "apart", items: items.slice(0, 1), others: items.slice(1) };
      return guess ? { kind: "label", items: items.slice(0, 1), label: guess } : { kind: "together", items };
    }
    if (key === "x") return { kind: "keep", items };
    return { kind: "drop", items: entry.kind === "duplicates" ? items.slice(1) : items };
  };

  const answer = (gesture: Gesture | null): void => {
    if (!gesture || !found) return;
    found.entries.splice(at, 1);
    at = Math.min(at, Math.max(0, found.entries.length - 1));
    done++;
    draw();
    void page.say(gesture);
  };

  const step = (by: number): void => {
    at = Math.max(0, Math.min((found?.entries.length ?? 1) - 1, at + by));
    draw();
  };

  const go = (kind: Kind): void => {
    overlaps = kind === "overlaps";
    if (!overlaps) at = Math.max(0, found!.entries.findIndex((entry) => entry.kind === kind));
    draw();
  };

  const beside = (entry: Suggestion, label: string, key: string): HTMLElement => {
    const node = h("div", { class: "examples", "data-label": label }, h("h3", {}, label, key ? h("kbd", {}, key) : null));
    const row = h("div", { class: "row" });
    node.append(row);
    void page.guard(
      from.examples(entry.cards[0]!.item, label).then((cards) => {
        if (current() === entry) fill(row, ...cards.map((card) => example(card)));
      }),
    );
    return node;
  };

  const example = (card: Card): HTMLElement =>
    h("button", { type: "button", class: "open", title: card.name, "aria-label": `${card.name}, ${card.label ?? "no label"}`, onclick: () => void page.open(card.item, true) }, thumbnail(page, card, 92) ?? h("span", { class: "words" }, card.text ?? card.name));

  const draw = (): void => {
    if (!place || !found) return;
    const counts = new Map<Kind, number>([["overlaps", found.overlaps.length]]);
    for (const { kind } of found.entries) counts.set(kind, (counts.get(kind) ?? 0) + 1);
    const kind: Kind | undefined = overlaps ? "overlaps" : current()?.kind;
    const pills = h(
      "div",
      { class: "pills", role: "group", "aria-label": "Kinds of suggestions" },
      ...KINDS.filter(([one]) => counts.get(one)).map(([one, text]) => h("button", { type: "button", "aria-pressed": kind === one, onclick: () => go(one) }, text, h("small", {}, ` ${counts.get(one)}`))),
    );
    const notes = found.notes.map((text) => h("p", { class: "muted" }, text));
    const again = h("button", { type: "button", class: "link", onclick: () => void page.guard(load()) }, "Look again");
    const entry = current();
    const alike = found.entries.filter((one) => one.kind === kind);
    document.body.dataset.suggested = entry ? String(entry.cards[0]!.item) : "";
    document.body.dataset.answered = String(done);
    if (overlaps) {
      fill(place, pills, matrix(), ...notes, again);
      return;
    }
    if (!entry) {
      fill(place, pills, h("h2", {}, "Nothing left to look at"), h("p", {}, done ? `${many(done, "answer")} given. Refit to learn from them.` : "No doubtful label, no duplicate, no outlier, no question."), ...notes, again);
      return;
    }
    page.map.select(entry.cards.map((card) => card.item));
    const [question, yes, no] = words(entry);
    const first = entry.cards[0];
    const group = entry.kind === "duplicates" || (entry.kind === "question" && !entry.alternatives.length);
    const labels = entry.kind === "label" ? [first!.label ?? "", ...entry.alternatives] : entry.alternatives;
    other = h("input", { list: "classes", placeholder: "Another label", "aria-label": "Another label for this item", maxlength: 200 });
    other.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && other!.value.trim()) {
        const label = other!.value.trim();
        other!.blur();
        answer({ kind: "label", items: [first!.item], label });
      }
    });
    const act = (text: string, key: string, main = false): HTMLElement | null =>
      text ? h("button", { type: "button", class: main ? "main-button" : "", onclick: () => press(key) }, text, h("kbd", {}, key.toUpperCase())) : null;
    fill(
      place,
      pills,
      h("h2", {}, question, h("small", {}, ` ${alike.indexOf(entry) + 1} of ${alike.length}${alike.length > 1 ? ", most doubtful first" : ""}`)),
      h("div", { class: "row" }, act(yes, "a", true), act(no, "x"), act("Leave out", "d"), act("Later", "j")),
      group
        ? h("div", { class: "group" }, ...entry.cards.map((card) => h("figure", {}, portrait(page, card), ...seen(page, card))))
        : h(
            "div",
            { class: "judged" },
            h("figure", {}, portrait(page, first!), ...seen(page, first!), first!.heldOut ? h("span", { class: "badge" }, "held out") : null),
            h("div", { class: "beside" }, ...labels.filter(Boolean).map((label, place) => beside(entry, label, entry.kind === "label" ? ["X", "A", "2", "3"][place]! : "A"))),
          ),
      h("div", { class: "row" }, group ? null : other, h("datalist", { id: "classes" }, ...page.overview.classes.map((one) => h("option", { value: one }))), h("small", {}, `${many(done, "answer")} · J, K: on, back${group ? "" : " · O: another label"}`)),
      ...notes,
      again,
    );
    // The next photo is there before it is asked for.
    const next = found.entries[at + 1];
    const address = next && page.overview.images ? from.picture(next.cards[0]!.item, 512) : null;
    if (address) new Image().src = address;
  };

  const matrix = (): HTMLElement => {
    const rows = found!.overlaps.filter((one) => one.share > 0.001).map((one) => {
      const bar = h("i", {});
      bar.style.width = `${Math.min(100, Math.round(400 * one.share))}%`;
      return h("li", {}, h("button", { type: "button", title: "Select the items between them", onclick: () => page.choose(one.items, { told: `Between ${one.first} and ${one.second}.` }, true) }, h("span", {}, `${one.first} – ${one.second}`), h("small", {}, `${(100 * one.share).toFixed(1)} % · ${many(one.items.length, "item")}`), bar));
    });
    return rows.length ? h("ul", { class: "overlaps" }, ...rows) : h("p", {}, "No classes overlap.");
  };

  const load = async (): Promise<void> => {
    if (!place) return;
    waited = progress();
    waited.step("Checking labels, near-duplicates and outliers", 0);
    fill(place, h("h2", {}, "Suggestions"), waited.node);
    try {
      found = await from.suggestions();
    } catch (error) {
      fill(place, h("h2", {}, "Suggestions"), h("p", {}, "They could not be made."), h("button", { type: "button", onclick: () => void page.guard(load()) }, "Try again"));
      throw error;
    } finally {
      waited = null;
    }
    at = 0;
    overlaps = false;
    if (document.body.dataset.tab === "suggestions") draw();
  };

  const press = (key: string): boolean => {
    const entry = current();
    if (!entry) return false;
    const label = entry.alternatives[Number(key) - 1];
    if (key === "j" || key === "k") step(key === "j" ? 1 : -1);
    else if (key === "o" && other?.isConnected) other.focus();
    else if (["a", "y"].includes(key)) answer(edit(entry, "a"));
    else if (["x", "n"].includes(key)) answer(edit(entry, "x"));
    else if (key === "d") answer(edit(entry, "d"));
    else if (entry.kind === "label" && label) answer({ kind: "label", items: [entry.cards[0]!.item], label });
    else return false;
    return true;
  };

  return {
    step: (text, share) => waited?.step(text, share),
    async show(body) {
      place = body;
      if (found) draw();
      else await page.guard(load());
    },
    key: (event) => press(event.key.toLowerCase()),
  };
}
