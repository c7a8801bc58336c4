// What has been said, whether it helped, and the bar that keeps both in view.

import { fill, h, icon, many, progress } from "./dom";
import type { Page } from "./page";
import { Live } from "./source";
import type { Gain, Overview, Scores } from "./types";

const MAP_AT_R = "map@r";

export interface Edits {
  readonly bar: HTMLElement;
  draw(overview: Overview): void;
  show(body: HTMLElement): void;
  hide(): void;
  step(text: string, share: number): void;
  stop(): void;
}

export function edits(page: Page, act: (name: "undo" | "redo" | "refit") => Promise<void>): Edits {
  let place: HTMLElement | null = null;
  const waited = progress({ hidden: true });
  const scored = h("span", { class: "scored" });
  const refit = h("button", { type: "button", class: "main-button", onclick: () => void act("refit") });
  const note = h("span", { class: "note" });
  const bar = h("footer", { class: "bar", "aria-label": "Scores and layout" }, scored, note, waited.node, page.from.live ? refit : null);

  const asked = (overview: Overview): void => {
    // Before the first refit the scores are computed when someone looks at them.
    if (overview.scores.sentence || !(page.from instanceof Live)) return;
    void page.guard(
      page.from.scores().then((found) => {
        overview.scores = found;
        if (page.overview === overview) draw(overview);
      }),
    );
  };

  const draw = (overview: Overview): void => {
    const { since, scores, refits, layout, notes, n } = overview;
    const fresh = since || !refits;
    refit.textContent = since ? `Refit with ${many(since, "edit")}` : "Refit";
    refit.disabled = !fresh;
    refit.title = fresh ? "Learn from all that is said (R)" : "Nothing was said since the last refit.";
    const row = scores.rows.find((one) => one.score === MAP_AT_R);
    const now = (row?.now ?? row?.raw) as number | undefined;
    fill(scored, now === undefined ? scores.sentence || "" : `MAP@R ${refits || row?.now !== undefined ? `${(row!.raw as number).toFixed(3)} → ` : ""}${now.toFixed(3)} on ${scores.items.toLocaleString("en")} held-out`);
    const placed = layout.placed ? `t-SNE of ${many(layout.placed, "item")}${layout.between ? `, ${layout.between.toLocaleString("en")} placed between their nearest` : ""}` : layout.warm ? "Laid out before the refit" : "Principal components";
    fill(note, ...[placed, ...notes].map((text) => h("span", {}, text)));
    note.title = [placed, ...notes].join(" ");
    document.body.dataset.placed = String(n && layout.placed);
    asked(overview);
    if (place) panel();
  };

  // Undo up to the last refit and that one too: the metric before, with everything said before it.
  const back = async (): Promise<void> => {
    const { gestures, done } = page.overview;
    let steps = 0;
    for (let at = done - 1; at >= 0; at--) {
      steps++;
      if (gestures[at]!.kind === "refit") break;
    }
    for (let step = 0; step < steps; step++) await act("undo");
  };

  const again = async (number: number, told: string): Promise<void> => {
    if (page.from instanceof Live) page.choose(await page.from.edit(number), { told }, true);
  };

  const panel = (): void => {
    const { gestures, done, scores, told, refits, curve, project } = page.overview;
    const list = gestures.map((one, number) =>
      h(
        "li",
        { class: `${number >= done ? "undone" : ""} ${one.kind}` },
        h("button", { type: "button", disabled: !one.items, title: "Show these items", onclick: () => void page.guard(again(number, one.told)) }, one.told),
      ),
    );
    fill(
      place!,
      h("h2", {}, "Does it help?"),
      ...scoreTable(scores, "Scoring the raw features …"),
      scores.better === false && refits ? h("button", { type: "button", onclick: () => void back() }, "Go back to the metric before") : null,
      told ? h("p", { class: "muted" }, told) : null,
      curve.length > 1 ? h("p", { class: "muted" }, `MAP@R from refit to refit: ${curve.map((value) => value.toFixed(3)).join(" → ")}`) : null,
      h("div", { class: "row between" }, h("h2", {}, "Edit history"), h("a", { class: "link", href: "api/export", download: "gestures.json" }, icon("save"), "Export")),
      list.length ? h("ol", { class: "said" }, ...list.reverse()) : h("p", { class: "muted" }, "No edits yet. Lasso items, tie two, or answer suggestions."),
      h("p", { class: "muted" }, `Kept in ${project}.`),
    );
  };

  return {
    bar,
    draw,
    show(body) {
      place = body;
      panel();
    },
    hide() {
      place = null;
    },
    step(text, share) {
      waited.node.hidden = false;
      waited.step(text, share);
    },
    stop() {
      waited.node.hidden = true;
    },
  };
}

// The scores, and in words what they say.
export function scoreTable(scores: Scores, empty = ""): HTMLElement[] {
  const told = h("p", { class: scores.better === false ? "verdict bad" : scores.better ? "verdict good" : "verdict" }, scores.sentence || empty);
  return [...(scores.rows.length ? [table(scores)] : []), ...(told.textContent ? [told] : [])];
}

function table(scores: Scores): HTMLElement {
  const columns = Object.keys(scores.rows[0]!).filter((name) => name !== "score");
  const names = columns.filter((name) => !name.startsWith("vs. "));
  const base = columns.filter((name) => name.startsWith("vs. ")).pop();
  const head = h("tr", {}, h("th", { scope: "col" }, "score"), ...names.map((name) => h("th", { scope: "col" }, name)), base ? h("th", { scope: "col" }, `change ${base}`) : null);
  const sign = (value: number): string => `${value >= 0 ? "+" : "−"}${Math.abs(value).toFixed(3)}`;
  const rows = scores.rows.map((row) => {
    const gain = base ? (row[base] as Gain) : null;
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, String(row.score)),
      ...names.map((name) => h("td", {}, (row[name] as number).toFixed(3))),
      gain ? h("td", { title: "95 % interval" }, sign(gain.gain), h("small", {}, `${sign(gain.low)} … ${sign(gain.high)}`)) : null,
    );
  });
  return h("table", { class: "scores" }, h("thead", {}, head), h("tbody", {}, ...rows));
}
