// The map and what is around it: which of the two is shown, in which colors, and the tools that are used on it.

import { fill, h, icon } from "./dom";
import type { Filters } from "./filters";
import { Map, type Heard, type Mode } from "./plot";
import { Inner, type Colors, type Live } from "./source";
import type { Overview } from "./types";

const HELD_OUT = "held out";

interface Around {
  readonly from: Live | Inner;
  readonly overview: Overview;
  readonly filters: Filters;
  // New points or colors are drawn.
  settled(): void;
  tell(text: string, bad?: boolean): void;
  guard(work: Promise<unknown>): Promise<void>;
}

export class View {
  map!: Map;
  byLabel: Colors | null = null;
  private which: "raw" | "learned" = "learned";
  private mode: Mode = "pan";
  private readonly loading = h("p", { class: "loading" }, "Loading the map …");
  readonly stage = h("div", { class: "stage", tabindex: 0, role: "application", "aria-label": "Map of the items. Arrow keys go from item to item, Enter opens one, plus and minus zoom." }, this.loading);
  private readonly sides = h("div", { class: "switch", role: "group", "aria-label": "Which map" });
  private readonly tools = h("div", { class: "tools", role: "toolbar", "aria-label": "Tools of the map" });
  readonly bar = h("div", { class: "map-bar" }, this.tools, this.sides);

  constructor(private readonly page: Around) {}

  async start(heard: Heard): Promise<void> {
    // A frame of a notebook may have no size yet, and nothing can be drawn on nothing.
    while (!this.stage.clientWidth || !this.stage.clientHeight || !window.innerHeight) await new Promise((next) => setTimeout(next, 50));
    this.map = new Map(this.stage, heard);
    if (!this.map.supported) this.page.tell("This browser has no WebGL, so there is no map.", true);
    const { from, overview } = this.page;
    // Where a map was learned, the items that it had not seen say whether it is good.
    if (from instanceof Inner && overview.learned && from.has(HELD_OUT)) this.map.stress((await from.colors(HELD_OUT)).values);
    this.toolbox();
  }

  private get named(): boolean {
    return !["correct", HELD_OUT].includes(this.page.filters.by());
  }

  async recolor(): Promise<void> {
    const colors = await this.colors();
    await this.map.show(null, colors.values, colors.legend, this.named, false);
    this.settled();
  }

  // Both at once: two drawings of many points would be waited for.
  async repose(animate: boolean, slow = 900): Promise<void> {
    const [points, colors] = await Promise.all([this.page.from.positions(this.which), this.colors()]);
    await this.map.show(points, colors.values, colors.legend, this.named, animate, slow);
    this.settled();
  }

  private async colors(): Promise<Colors> {
    const { filters, from, overview } = this.page;
    const colors = await filters.refresh(overview);
    this.byLabel = filters.by() === "label" ? colors : await from.colors("label");
    return colors;
  }

  private settled(): void {
    this.loading.remove();
    this.page.filters.redraw();
    document.body.dataset.map = this.which;
    this.page.settled();
  }

  // A step of the layout of what is shown, or of the raw features.
  async laid(shown: boolean): Promise<void> {
    if (shown !== (this.which === "learned") && this.page.overview.learned) return;
    await this.map.show(await this.page.from.positions(this.which), null, null, this.named, true);
  }

  async turn(which?: "raw" | "learned"): Promise<void> {
    if (!this.page.overview.learned) return;
    this.set(which ?? (this.which === "raw" ? "learned" : "raw"));
    await this.page.guard(this.repose(true));
  }

  set(which: "raw" | "learned"): void {
    this.which = which;
    this.switches();
  }

  switches(): void {
    // Two maps are two only once something has been learned.
    this.sides.hidden = !this.page.overview.learned;
    const one = (which: "raw" | "learned", text: string): HTMLElement =>
      h("button", { type: "button", "aria-pressed": this.which === which, onclick: () => void this.turn(which) }, text);
    fill(this.sides, one("raw", "Raw"), one("learned", "Learned"));
  }

  private toolbox(): void {
    const modes: [Mode, string, string, string][] = [
      ["pan", "Move", "pan", "Move and zoom (M)"],
      ["lasso", "Lasso", "lasso", "Lasso (L), or hold Shift"],
    ];
    if (this.page.from.live) modes.push(["tie", "Tie two", "link", "Drag from one item to another (T)"]);
    const nodes = modes.map(([mode, text, name, title]) =>
      h("button", { type: "button", class: "icon", title, "aria-label": text, "aria-pressed": this.mode === mode, "data-mode": mode, onclick: () => this.use(mode) }, icon(name)),
    );
    fill(this.tools, ...nodes, h("button", { type: "button", class: "icon", title: "Whole map (0)", "aria-label": "Whole map", onclick: () => this.map.home() }, icon("home")));
  }

  use(mode: Mode): void {
    this.mode = mode;
    this.map.use(mode);
    for (const node of this.tools.querySelectorAll<HTMLElement>("[data-mode]")) node.setAttribute("aria-pressed", String(node.dataset.mode === mode));
    this.stage.dataset.mode = mode;
    if (mode === "tie") this.page.tell("Drag from one item to another, then say what they are.");
  }
}
