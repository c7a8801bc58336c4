// The page: what is where, and how its parts hear of each other.

import "./style.css";
import { button, dark, fill, h, many, put, store, stored } from "./dom";
import { edits, type Edits } from "./edits";
import { filters, type Filters } from "./filters";
import { followKeys, help } from "./keys";
import type { Found, Page, Tab } from "./page";
import type { Map } from "./plot";
import { Saying } from "./saying";
import { searchBox, type SearchBox } from "./search";
import { selection } from "./selection";
import { Live, source, type Colors } from "./source";
import { suggestions, type Queue } from "./suggestions";
import { hoverTip, tieBox, type TieBox, type Tip } from "./tip";
import type { Card, Gesture, Overview } from "./types";
import { View } from "./view";

const THEME = "nearer:theme";
// Above so many items a map jumps where it goes back: what is awaited is not made slower.
const MANY = 20000;

class Explorer implements Page {
  readonly from = source();
  overview!: Overview;
  filters!: Filters;
  private tab: Tab = "selection";
  private saying: Saying | null = null;
  private queue: Queue | null = null;
  private edits!: Edits;
  private search!: SearchBox;
  private tip!: Tip;
  private tie!: TieBox;
  private timer = 0;
  private readonly view = new View(this);
  private readonly chosen = selection(this);

  private readonly heard = h("div", { class: "unseen", role: "status", "aria-live": "polite" });
  private readonly toast = h("div", { class: "toast", role: "status", "aria-live": "polite", hidden: true });
  private readonly banner = h("div", { class: "banner", role: "alert", hidden: true });
  private readonly body = h("div", { class: "panel-body", id: "panel", role: "tabpanel", tabindex: 0 });
  private readonly tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Panels" });

  get map(): Map {
    return this.view.map;
  }

  async start(): Promise<void> {
    const theme = stored(THEME);
    if (theme) document.documentElement.dataset.theme = theme;
    this.overview = await this.from.overview();
    document.title = `${this.overview.title || "nearer"}${this.from.live ? ": explore" : ""}`;
    this.search = searchBox(this);
    this.tip = hoverTip(this, this.view.stage, this.heard);
    this.tie = tieBox(this, this.view.stage);
    this.edits = edits(this, (name) => this.act(name));
    this.filters = filters({
      from: this.from,
      map: () => this.map,
      select: (items) => this.choose(items),
      recolored: () => this.view.recolor(),
      moved: () => this.tip.hide(),
      guard: (work) => this.guard(work),
    });
    this.frame();
    await this.view.start({
      over: (item) => void this.tip.show(item),
      out: () => this.tip.hide(),
      chosen: (items) => this.took(items),
      picture: (item) => (this.overview.images ? this.from.picture(item, 128) : null),
      tied: (a, b, x, y) => void this.guard(this.tie.ask(a, b, x, y).then(() => this.tip.hide())),
    });
    followKeys(
      {
        tab: () => this.tab,
        show: (tab) => (tab === "selection" || this.from.live) && this.show(tab),
        answer: (event) => this.queue?.key(event) ?? false,
        use: (mode) => (mode !== "tie" || this.from.live) && this.view.use(mode),
        turn: () => void this.view.turn(),
        act: (name) => void this.act(name),
        search: () => this.search.focus(),
        clear: () => this.choose([]),
        focus: () => this.chosen.focus(),
        walk: (item) => this.walk(item),
        open: (item) => void this.open(item),
        untie: () => this.tie.close(),
      },
      this.map,
      this.view.stage,
      this.tabs,
    );
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.repaint());
    this.show("selection");
    await this.view.repose(false);
    this.updated(this.overview);
    document.body.dataset.ready = "yes";
    if (this.from instanceof Live) {
      this.saying = new Saying(this.from, {
        updated: (overview) => this.updated(overview),
        redrawn: (moved) => (moved ? this.view.repose(true) : this.view.recolor()),
        laid: (share, shown) => void this.guard(this.laid(share, shown)),
        step: (text, share) => this.edits.step(text, share),
        checked: (text, share) => this.queue?.step(text, share),
        stop: () => this.edits.stop(),
        tell: (text, bad) => this.tell(text, bad),
        banner: (text) => {
          this.banner.textContent = text;
          this.banner.hidden = !text;
        },
      });
      this.saying.follow(this.overview.changed);
      await this.guard(this.from.spread());
    }
  }

  private frame(): void {
    const { title, n, used } = this.overview;
    put(this.view.stage, this.tip.node, this.tie.node);
    const undo = this.from.live
      ? [button("Undo", () => void this.act("undo"), "undo", "Undo (Ctrl Z)"), button("Redo", () => void this.act("redo"), "redo", "Redo (Ctrl Shift Z)")]
      : [];
    fill(
      document.getElementById("app")!,
      h(
        "header",
        { class: "top" },
        h("h1", {}, title || "nearer", h("small", {}, ` ${many(n, "item")}${used ? ` · ${many(used, "label")}` : ""}`)),
        this.search.node,
        h("div", { class: "buttons" }, ...undo, button("Theme", () => this.theme(), "sun", "Light or dark"), button("Keys", help, "help", "Keys (?)")),
      ),
      h(
        "main",
        { class: "main" },
        this.filters.node,
        h("section", { class: "map", "aria-label": "Map" }, this.view.bar, this.view.stage, this.toast, this.banner, this.heard),
        h("aside", { class: "panel", "aria-label": "Details" }, this.tabs, this.body),
      ),
      this.edits.bar,
    );
  }

  labels(): Colors | null {
    return this.view.byLabel;
  }

  settled(): void {
    void this.guard(this.chosen.refresh());
  }

  private async laid(share: number, shown: boolean): Promise<void> {
    if (shown) this.edits.step("laying out", share);
    this.tip.hide();
    await this.view.laid(shown);
    if (share < 1) return;
    this.edits.stop();
    this.updated(await this.from.overview());
    document.body.dataset.spread = "1";
  }

  shadeOf(card: Card): string {
    const code = card.label === null ? -1 : this.overview.classes.indexOf(card.label);
    if (code < 0) return "var(--unknown)";
    return ["label", "predicted"].includes(this.filters.by()) ? this.map.shade(code) : "var(--muted)";
  }

  // What is selected ------------------------------------------------------------------------------------------

  private took(items: number[], found: Found = {}): void {
    this.tip.hide();
    this.chosen.set(items, found);
    this.filters.focus(this.chosen.focus());
    if (this.tab !== "selection" && items.length) this.show("selection");
    else if (items.length === 1) void this.guard(this.chosen.open(items[0]!));
  }

  choose(items: number[], found: Found = {}, zoom = false): void {
    const shown = this.filters.narrowed() ? items.map((_, place) => place).filter((place) => this.filters.shows(items[place]!)) : null;
    const kept = shown ? shown.map((place) => items[place]!) : items;
    const hidden = items.length - kept.length;
    const told = hidden ? `${found.told ?? ""} ${many(hidden, "item")} that the filters hide ${hidden === 1 ? "is" : "are"} left out.` : found.told;
    this.map.select(kept, zoom);
    this.took(kept, { ...found, told, distances: shown && found.distances ? shown.map((place) => found.distances![place]!) : found.distances });
  }

  async open(item: number, zoom = false): Promise<void> {
    this.map.select([item], zoom);
    this.took([item]);
  }

  // The keyboard has gone to an item: it is told and marked, and opened by Enter.
  private walk(item: number): void {
    this.map.select([item]);
    this.chosen.set([item], { told: "Enter opens it." });
    void this.tip.show(item, true);
  }

  async like(item: number): Promise<void> {
    if (!(this.from instanceof Live)) return;
    const near = this.from.similar({ item });
    await this.guard(near.then((found) => this.choose(found.items, { told: `The ${many(found.items.length, "item")} nearest to item ${item}, nearest first.`, distances: found.distances })));
  }

  // What is said ----------------------------------------------------------------------------------------------

  async say(gesture: Gesture): Promise<void> {
    await this.saying?.say(gesture);
  }

  private async act(name: "undo" | "redo" | "refit"): Promise<void> {
    if (!this.saying || !(this.from instanceof Live)) return;
    const { refits, since } = this.overview;
    if (name === "refit" && refits && !since) {
      this.tell("Nothing was said since the last refit.");
      return;
    }
    const found = await this.saying.act(name);
    if (found) {
      if (found.refits !== refits || name === "refit") {
        this.view.set("learned");
        const few = this.overview.n <= MANY;
        await this.guard(this.view.repose(name === "refit" || few, name === "refit" ? (few ? 900 : 500) : 300));
        // What has a layout keeps it; a new metric moves on from there.
        await this.guard(this.from.spread());
      } else await this.guard(this.view.recolor());
      if (name === "refit") this.tell(found.scores.sentence, found.scores.better === false);
    }
    document.body.dataset.refits = String(this.overview.refits);
  }

  private updated(overview: Overview): void {
    this.overview = overview;
    this.edits.draw(overview);
    this.view.switches();
    this.marks();
    document.body.dataset.changed = String(overview.changed);
  }

  // Panels ----------------------------------------------------------------------------------------------------

  private marks(): void {
    const names: [Tab, string][] = [["selection", "Selection"], ["suggestions", "Suggestions"], ["edits", this.overview.since ? `Edits · ${this.overview.since}` : "Edits"]];
    this.tabs.hidden = !this.from.live;
    // A tab that has the keyboard is not made again.
    if (this.tabs.childElementCount !== names.length) {
      fill(this.tabs, ...names.map(([tab]) => h("button", { type: "button", role: "tab", id: `tab-${tab}`, "aria-controls": "panel", onclick: () => this.show(tab) })));
    }
    names.forEach(([tab, text], place) => {
      const node = this.tabs.children[place] as HTMLElement;
      node.textContent = text;
      node.setAttribute("aria-selected", String(this.tab === tab));
      node.tabIndex = this.tab === tab ? 0 : -1;
    });
  }

  show(tab: Tab): void {
    // What a suggestion has marked is not what is selected.
    if (this.tab === "suggestions" && tab !== this.tab) this.map.select(this.chosen.items());
    this.tab = tab;
    this.tip.hide();
    this.marks();
    this.edits.hide();
    this.chosen.hide();
    this.body.scrollTop = 0;
    this.body.setAttribute("aria-labelledby", `tab-${tab}`);
    document.body.dataset.tab = tab;
    if (tab === "selection") this.chosen.show(this.body);
    else if (!(this.from instanceof Live)) return;
    else if (tab === "edits") this.edits.show(this.body);
    else void (this.queue ??= suggestions(this, this.from)).show(this.body);
  }

  tell(text: string, bad = false): void {
    this.toast.textContent = text;
    this.toast.classList.toggle("bad", bad);
    this.toast.hidden = !text;
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => (this.toast.hidden = true), bad ? 9000 : 5000);
  }

  failed(error: unknown): void {
    if (!this.saying) throw error;
    this.saying.failed(error);
  }

  async guard(work: Promise<unknown>): Promise<void> {
    try {
      await work;
    } catch (error) {
      this.failed(error);
    }
  }

  private theme(): void {
    const next = dark() ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    store(THEME, next);
    this.repaint();
  }

  private repaint(): void {
    this.map.theme();
    this.filters.redraw();
    void this.guard(this.chosen.refresh());
  }
}

void new Explorer().start().catch((error: unknown) => {
  document.getElementById("app")!.textContent = error instanceof Error ? error.message : String(error);
  document.body.dataset.ready = "failed";
});
