// The weights: turn alpha, beta, gamma, margin and miner, and see which pairs of a batch count, in the map.

import { fill, h, svg } from "./dom";
import type { Page } from "./main";
import type { Live } from "./source";
import type { Weights } from "./types";

export interface PlayView {
  show(body: HTMLElement): Promise<void>;
}

const SLIDERS: [string, string, number, number, number, number][] = [
  ["alpha", "α, pull", 0.5, 20, 0.5, 2],
  ["beta", "β, push", 1, 100, 1, 50],
  ["gamma", "γ, where push begins", -0.5, 1, 0.01, 0.5],
  ["margin", "margin of the miner", 0.01, 1, 0.01, 0.1],
];

export function playground(page: Page, from: Live): PlayView {
  const settings: Record<string, number | string> = { alpha: 2, beta: 50, gamma: 0.5, margin: 0.1, miner: "none" };
  const picture = h("div", { class: "curves" });
  const told = h("p", {});
  let running = false;
  let again = false;

  const update = async (): Promise<void> => {
    if (running) {
      again = true;
      return;
    }
    running = true;
    try {
      do {
        again = false;
        draw(await from.weights(settings));
      } while (again);
    } catch (error) {
      page.tell(error instanceof Error ? error.message : String(error), true);
    } finally {
      running = false;
    }
  };

  const draw = (found: Weights): void => {
    const [width, height, pad] = [320, 150, 22];
    const x = (s: number): number => pad + ((s + 1) / 2) * (width - 2 * pad);
    const y = (w: number): number => height - pad - w * (height - 2 * pad);
    const path = (values: number[]): string => values.map((w, i) => `${i ? "L" : "M"}${x(found.similarity[i]!).toFixed(1)} ${y(w).toFixed(1)}`).join("");
    const word = (text: string, at: number, down: number, anchor: string): SVGElement => {
      const node = svg("text", { x: at, y: down, "text-anchor": anchor, class: "tick" });
      node.textContent = text;
      return node;
    };
    const image = svg(
      "svg",
      { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Weight of a pair against its similarity" },
      svg("line", { x1: pad, y1: height - pad, x2: width - pad, y2: height - pad, class: "axis" }),
      svg("path", { d: path(found.curves.positive), class: "curve positive" }),
      svg("path", { d: path(found.curves.negative), class: "curve negative" }),
      word("−1", pad, height - 6, "middle"),
      word("similarity", width / 2, height - 6, "middle"),
      word("1", width - pad, height - 6, "middle"),
    );
    fill(picture, image, h("p", { class: "key" }, h("i", { class: "positive" }), "same class: pull", h("i", { class: "negative" }), "other class: push"));
    told.textContent = found.possible
      ? `${found.active.toLocaleString("en")} of ${found.possible.toLocaleString("en")} pairs of a batch of ${found.batch.length} count. The map shows those with the largest weights.`
      : "A batch needs labels of two classes. Label some items to see its pairs.";
    page.map.join(found.pairs);
    document.body.dataset.pairs = String(found.active);
  };

  return {
    async show(body) {
      const rows = SLIDERS.map(([name, text, low, high, step]) => {
        const out = h("output", {}, String(settings[name]));
        const input = h("input", { type: "range", min: low, max: high, step, value: settings[name], "aria-label": text });
        input.addEventListener("input", () => {
          settings[name] = Number(input.value);
          out.textContent = input.value;
          void update();
        });
        return h("label", { class: "slider" }, h("span", {}, text), input, out);
      });
      const miner = h("select", { "aria-label": "Miner" }, ...page.overview.miners.map((name) => h("option", { value: name, selected: name === settings.miner }, name)));
      miner.addEventListener("change", () => {
        settings.miner = miner.value;
        void update();
      });
      fill(
        body,
        h("h2", {}, "The weights"),
        h("p", { class: "muted" }, "A pair loss is a weight on every pair. This is RAW: what it pulls together and what it pushes apart, and how hard."),
        picture,
        ...rows,
        h("label", { class: "slider" }, h("span", {}, "miner"), miner),
        told,
      );
      await update();
    },
  };
}
