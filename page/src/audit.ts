// The audit: what a person should look at, accepted or rejected with a key.

import { fill, h, many } from "./dom";
import { seen, thumbnail } from "./item";
import type { Page } from "./main";
import type { Live } from "./source";
import type { Audit, Card, Suspect } from "./types";

export interface AuditView {
  show(body: HTMLElement): Promise<void>;
  key(name: string): boolean;
}

type List = "suspects" | "duplicates" | "unlike" | "overlaps";

export function audit(page: Page, from: Live): AuditView {
  let found: Audit | null = null;
  let list: List = "suspects";
  let at = 0;
  let place: HTMLElement | null = null;

  const names: [List, string][] = [
    ["suspects", "Labels"],
    ["duplicates", "Duplicates"],
    ["unlike", "Unlike all"],
    ["overlaps", "Overlap"],
  ];

  const cards = (): Card[][] => {
    if (!found) return [];
    if (list === "suspects") return found.suspects.map((one) => [one]);
    if (list === "duplicates") return found.duplicates;
    if (list === "unlike") return found.unlike.map((one) => [one]);
    return [];
  };

  const remove = (): void => {
    if (!found) return;
    if (list === "suspects") found.suspects.splice(at, 1);
    else if (list === "duplicates") found.duplicates.splice(at, 1);
    else if (list === "unlike") found.unlike.splice(at, 1);
    at = Math.min(at, Math.max(0, cards().length - 1));
  };

  const judge = async (name: string): Promise<void> => {
    const group = cards()[at];
    if (!group) return;
    const items = group.map((one) => one.item);
    remove();
    draw();
    if (name === "a" && list === "suspects") await page.say({ kind: "label", items, label: (group[0] as Suspect).suggestion });
    else if (name === "a" && list === "duplicates") await page.say({ kind: "drop", items: items.slice(1) });
    else if (name === "a" || name === "d") await page.say({ kind: "drop", items });
    else await page.say({ kind: "keep", items });
  };

  const all = (): void => {
    // In bulk: whatever is listed and selected in the map.
    const wanted = new Set(found?.suspects.map((one) => one.item));
    page.choose([...wanted]);
  };

  const draw = (): void => {
    if (!place || !found) return;
    const tabs = h(
      "div",
      { class: "pills", role: "group", "aria-label": "Findings" },
      ...names.map(([name, text]) => {
        const count = name === "overlaps" ? found!.overlaps.length : found![name].length;
        return h("button", { type: "button", "aria-pressed": list === name, onclick: () => go(name) }, text, h("small", {}, ` ${count}`));
      }),
    );
    const group = cards()[at];
    const notes = found.notes.map((text) => h("p", { class: "muted" }, text));
    if (list === "overlaps") {
      fill(place, h("h2", {}, "Audit"), tabs, matrix(), ...notes);
      return;
    }
    if (!group) {
      fill(place, h("h2", {}, "Audit"), tabs, h("p", {}, "Nothing left here."), ...notes, h("button", { type: "button", onclick: () => void load() }, "Look again"));
      return;
    }
    page.map.select(group.map((one) => one.item));
    document.body.dataset.audited = String(group[0]!.item);
    const words: Record<List, [string, string, string]> = {
      suspects: ["Is this label wrong?", `It is ${(group[0] as Suspect).suggestion} (A)`, "The label is right (X)"],
      duplicates: ["Is one of these enough?", "Leave out all but the first (A)", "Keep all (X)"],
      unlike: ["Does this belong here?", "Leave it out (A)", "It belongs here (X)"],
      overlaps: ["", "", ""],
    };
    const [question, yes, no] = words[list];
    fill(
      place,
      h("h2", {}, "Audit"),
      tabs,
      h("p", { class: "muted" }, `${at + 1} of ${cards().length}, worst first. J and K go on and back.`),
      h("h3", {}, question),
      h("div", { class: "group" }, ...group.map((one) => h("button", { type: "button", class: "asked", onclick: () => void page.open(one.item, true) }, thumbnail(page, one.item, group.length > 1 ? 88 : 148), h("div", {}, ...seen(page, one))))),
      list === "suspects" ? h("p", {}, "Labelled ", h("b", {}, group[0]!.label ?? "–"), ", looks like ", h("b", {}, (group[0] as Suspect).suggestion), ".") : null,
      h(
        "div",
        { class: "row" },
        h("button", { type: "button", class: "main-button", onclick: () => void judge("a") }, yes),
        h("button", { type: "button", onclick: () => void judge("x") }, no),
        list === "suspects" ? h("button", { type: "button", class: "quiet", onclick: () => void judge("d") }, "Leave out (D)") : null,
      ),
      list === "suspects" ? h("button", { type: "button", class: "link", onclick: all }, "Select all in the map") : null,
      ...notes,
    );
  };

  const matrix = (): HTMLElement => {
    const rows = found!.overlaps.filter((one) => one.share > 0.001).map((one) => {
      const bar = h("i", {});
      bar.style.width = `${Math.min(100, Math.round(400 * one.share))}%`;
      return h("li", {}, h("button", { type: "button", title: "Select the items between them", onclick: () => page.choose(one.items, true) }, h("span", {}, `${one.first} – ${one.second}`), h("small", {}, `${(100 * one.share).toFixed(1)} % · ${many(one.items.length, "item")}`), bar));
    });
    return rows.length ? h("ul", { class: "overlaps" }, ...rows) : h("p", {}, "No classes overlap.");
  };

  const go = (name: List): void => {
    list = name;
    at = 0;
    draw();
  };

  const load = async (): Promise<void> => {
    if (!place) return;
    fill(place, h("h2", {}, "Audit"), h("p", { class: "wait" }, "Looking at labels, twins and strangers. This takes some seconds."));
    try {
      found = await from.audit();
      at = 0;
      if (document.body.dataset.tab === "audit") draw();
    } catch (error) {
      fill(place, h("h2", {}, "Audit"), h("p", {}, error instanceof Error ? error.message : String(error)));
    }
  };

  return {
    async show(body) {
      place = body;
      if (found) draw();
      else await load();
    },
    key(name) {
      if (!found) return false;
      if (name === "j" || name === "k") {
        at = Math.max(0, Math.min(cards().length - 1, at + (name === "j" ? 1 : -1)));
        draw();
        return true;
      }
      if (!["a", "x", "d"].includes(name) || !cards().length) return false;
      void judge(name);
      return true;
    },
  };
}
