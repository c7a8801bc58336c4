// The page: what is where, what the keys do, and how a gesture gets to the disk.

import "./style.css";
import { fill, h, icon, many, put } from "./dom";
import { audit, type AuditView } from "./audit";
import { itemPanel, seen, thumbnail } from "./item";
import { Map, type Mode } from "./plot";
import { ask, type AskView } from "./questions";
import { Inner, Live, Refused, Unreachable, source } from "./source";
import type { Colors } from "./source";
import type { Card, Gesture, Overview, Scores, Gain } from "./types";
import { playground, type PlayView } from "./weights";

type Tab = "item" | "said" | "ask" | "audit" | "weights";

export interface Page {
  readonly from: Live | Inner;
  overview: Overview;
  map: Map;
  say(gesture: Gesture): Promise<void>;
  open(item: number, zoom?: boolean): Promise<void>;
  choose(items: number[], zoom?: boolean): void;
  tell(text: string, bad?: boolean): void;
  shadeOf(card: Card): string;
}

const QUEUE = `nearer:${location.pathname}`;

class Explorer implements Page {
  readonly from = source();
  overview!: Overview;
  map!: Map;
  private which: "raw" | "learned" = "learned";
  private by = "label";
  private colors: Colors | null = null;
  private selected: number[] = [];
  private focus = -1;
  private tab: Tab = "item";
  private hidden = new Set<number>();
  private busy = false;
  private queue: Gesture[] = [];
  private lost = false;
  private acting = false;
  private audit: AuditView | null = null;
  private questions: AskView | null = null;
  private play: PlayView | null = null;
  private hovered = -1;

  private readonly stage = h("div", { class: "stage", tabindex: 0, role: "application", "aria-label": "Map of the items. Arrow keys go from item to item, Enter opens one, plus and minus zoom." });
  private readonly tip = h("div", { class: "tip", hidden: true });
  private readonly tie = h("div", { class: "tie", hidden: true, role: "dialog", "aria-label": "What are these two?" });
  private readonly key = h("div", { class: "legend", role: "group", "aria-label": "Legend: press a name to hide or show it" });
  private readonly bar = h("div", { class: "selection", hidden: true, role: "toolbar", "aria-label": "Say something about the selected items" });
  private readonly toast = h("div", { class: "toast", role: "status", "aria-live": "polite", hidden: true });
  private readonly banner = h("div", { class: "banner", role: "alert", hidden: true });
  private readonly progress = h("div", { class: "progress", hidden: true, role: "progressbar", "aria-label": "Progress", "aria-valuemin": 0, "aria-valuemax": 100 });
  private readonly body = h("div", { class: "panel-body", id: "panel", role: "tabpanel", tabindex: 0 });
  private readonly tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Panels" });
  private readonly search = h("input", { type: "search", placeholder: "Search ids, texts, labels", "aria-label": "Search ids, texts, labels and columns" });
  private readonly by_ = h("select", { "aria-label": "Color by" });
  private readonly sides = h("div", { class: "switch", role: "group", "aria-label": "Which map" });
  private readonly tools = h("div", { class: "tools", role: "toolbar", "aria-label": "Tools of the map" });
  private readonly panel = h("aside", { class: "panel", "aria-label": "Details" });
  private readonly note = h("div", { class: "note" });

  async start(): Promise<void> {
    const app = document.getElementById("app")!;
    const theme = stored("nearer:theme");
    if (theme) document.documentElement.dataset.theme = theme;
    this.overview = await this.from.overview();
    put(this.stage, this.tip, this.tie);
    put(this.panel, this.tabs, this.body);
    const undo = this.from.live && [
      button("Undo", () => void this.act("undo"), "undo", "Undo (Ctrl Z)"),
      button("Redo", () => void this.act("redo"), "redo", "Redo (Ctrl Shift Z)"),
    ];
    put(
      app,
      h(
        "header",
        { class: "top" },
        h("h1", {}, this.from.title),
        this.search,
        h("label", { class: "pick" }, h("span", {}, "Color"), this.by_),
        this.sides,
        h("div", { class: "buttons" }, ...(undo || []), button("Theme", () => this.theme(), "sun", "Light or dark"), button("Keys", () => this.help(), "help", "Keys (?)")),
      ),
      h("main", { class: "main" }, h("section", { class: "map", "aria-label": "Map" }, this.stage, this.tools, this.key, this.bar, this.progress, this.note, this.toast, this.banner), this.panel),
    );
    // A frame of a notebook may have no size yet, and nothing can be drawn on nothing.
    while (!this.stage.clientWidth || !this.stage.clientHeight || !window.innerHeight) await new Promise((next) => setTimeout(next, 50));
    this.map = new Map(this.stage, {
      over: (item) => void this.hover(item),
      out: () => this.out(),
      chosen: (items) => this.chosen(items),
      tied: (a, b, x, y) => this.tied(a, b, x, y),
    });
    if (!this.map.supported) this.tell("This browser has no WebGL, so there is no map.", true);
    this.choices();
    this.toolbox();
    this.switches();
    this.listen();
    this.show("item");
    await this.repose(false);
    this.notes();
    document.body.dataset.ready = "yes";
    if (this.from instanceof Live) {
      this.queue = JSON.parse(stored(QUEUE) ?? "[]") as Gesture[];
      if (this.queue.length) void this.flush();
      this.follow();
    }
  }

  // The map ---------------------------------------------------------------------------------------------------

  private async place(animate: boolean): Promise<void> {
    await this.map.show(await this.from.positions(this.which), null, null, animate);
    document.body.dataset.map = this.which;
  }

  private async recolor(): Promise<void> {
    this.colors = await this.from.colors(this.by);
    await this.map.show(null, this.colors.values, this.colors.legend, false);
    this.hidden = new Set();
    this.legend();
  }

  // Both at once: two drawings of many points would be waited for.
  private async repose(animate: boolean, slow = 900): Promise<void> {
    const [points, colors] = await Promise.all([this.from.positions(this.which), this.from.colors(this.by)]);
    this.colors = colors;
    this.hidden = new Set();
    const drawn = this.map.show(points, colors.values, colors.legend, animate, slow);
    this.legend();
    await drawn;
    document.body.dataset.map = this.which;
  }

  private choices(): void {
    const options: [string, string][] = [["label", "label"], ["correct", "right or wrong"]];
    if (this.from.live) options.splice(1, 0, ["predicted", "predicted label"]);
    if (this.focus >= 0 && this.from.live) options.push([`distance:${this.focus}`, `distance to item ${this.focus}`]);
    for (const name of this.overview.columns) options.push([`column:${name}`, name]);
    const shown = options.filter(([value]) => !(this.from instanceof Inner) || this.from.has(value));
    fill(this.by_, ...shown.map(([value, text]) => h("option", { value, selected: value === this.by }, text)));
    this.by_.onchange = () => {
      this.by = this.by_.value;
      void this.guard(this.recolor());
    };
  }

  private switches(): void {
    const one = (which: "raw" | "learned", text: string): HTMLElement =>
      h("button", { type: "button", "aria-pressed": this.which === which, onclick: () => void this.turn(which) }, text);
    fill(this.sides, one("raw", "Raw"), one("learned", "Learned"));
  }

  private async turn(which: "raw" | "learned"): Promise<void> {
    this.which = which;
    this.switches();
    await this.guard(this.place(true));
  }

  private toolbox(): void {
    const modes: [Mode, string, string, string][] = [
      ["pan", "Move", "pan", "Move and zoom (M)"],
      ["lasso", "Lasso", "lasso", "Lasso (L), or hold Shift"],
    ];
    if (this.from.live) modes.push(["tie", "Tie two", "link", "Drag from one item to another (T)"]);
    fill(
      this.tools,
      ...modes.map(([mode, text, name, title]) =>
        h("button", { type: "button", class: "icon", title, "aria-label": text, "aria-pressed": this.mode === mode, "data-mode": mode, onclick: () => this.use(mode) }, icon(name)),
      ),
      h("button", { type: "button", class: "icon", title: "Whole map (0)", "aria-label": "Whole map", onclick: () => this.map.home() }, icon("home")),
    );
  }

  private mode: Mode = "pan";

  private use(mode: Mode): void {
    this.mode = mode;
    this.map.use(mode);
    this.toolbox();
    this.stage.dataset.mode = mode;
    if (mode === "tie") this.tell("Drag from one item to another, then say what they are.");
  }

  private legend(): void {
    const legend = this.colors?.legend;
    if (!legend) return;
    if (legend.kind === "numbers") {
      fill(this.key, h("div", { class: "ramp" }, h("span", {}, legend.low), h("i", {}), h("span", {}, legend.high)));
      return;
    }
    const rows = legend.names.map((name, code) => ({ name, code, count: legend.counts[code] ?? 0 })).filter((row) => row.count > 0);
    if (legend.missing) rows.push({ name: "no label", code: legend.names.length, count: legend.missing });
    const nodes = rows.map(({ name, code, count }) => {
      const dot = h("i", { class: "dot" });
      dot.style.background = code < legend.names.length ? this.map.shade(code) : "var(--unknown)";
      return h(
        "button",
        {
          type: "button",
          "aria-pressed": !this.hidden.has(code),
          title: `${name}: ${count.toLocaleString("en")}. Press to hide or show; double press to show it alone; Shift selects it.`,
          onclick: (event: MouseEvent) => this.sift(code, event, rows.map((row) => row.code)),
        },
        dot,
        h("span", {}, name),
        h("small", {}, count.toLocaleString("en")),
      );
    });
    fill(this.key, ...nodes);
  }

  private sift(code: number, event: MouseEvent, all: number[]): void {
    if (event.shiftKey) {
      this.choose(this.map.members(code));
      return;
    }
    if (event.detail === 2) this.hidden = new Set(all.filter((one) => one !== code));
    else if (this.hidden.has(code)) this.hidden.delete(code);
    else this.hidden.add(code);
    if (this.hidden.size === all.length) this.hidden.clear();
    this.map.hide(this.hidden);
    this.legend();
  }

  private async hover(item: number): Promise<void> {
    this.hovered = item;
    let card: Card;
    try {
      card = await this.from.card(item);
    } catch (error) {
      this.failed(error);
      return;
    }
    if (this.hovered !== item) return;
    const at = this.map.where(item);
    if (!at) return;
    fill(this.tip, thumbnail(this, item, 96), h("div", {}, ...seen(this, card)));
    this.tip.hidden = false;
    const { clientWidth, clientHeight } = this.stage;
    const left = at[0] + 16 + this.tip.offsetWidth > clientWidth ? at[0] - 16 - this.tip.offsetWidth : at[0] + 16;
    this.tip.style.left = `${Math.max(4, left)}px`;
    this.tip.style.top = `${Math.max(4, Math.min(at[1] - 20, clientHeight - this.tip.offsetHeight - 8))}px`;
  }

  private out(): void {
    this.hovered = -1;
    this.tip.hidden = true;
  }

  shadeOf(card: Card): string {
    const code = card.label === null ? -1 : this.overview.classes.indexOf(card.label);
    if (code < 0) return "var(--unknown)";
    return this.by === "label" || this.by === "predicted" ? this.map.shade(code) : "var(--muted)";
  }

  // What is selected ------------------------------------------------------------------------------------------

  private chosen(items: number[]): void {
    this.selected = items;
    this.actions();
    if (items.length === 1) void this.open(items[0]!);
    document.body.dataset.selected = String(items.length);
  }

  choose(items: number[], zoom = false): void {
    this.map.select(items, zoom);
    this.chosen(items);
  }

  async open(item: number, zoom = false): Promise<void> {
    this.focus = item;
    this.map.select([item], zoom);
    this.selected = [item];
    this.actions();
    this.choices();
    document.body.dataset.selected = "1";
    if (this.tab !== "item") this.show("item");
    else await this.item();
  }

  private async item(): Promise<void> {
    if (this.focus < 0) {
      fill(this.body, ...this.welcome());
      return;
    }
    try {
      const detail = await this.from.detail(this.focus);
      if (detail.item === this.focus && this.tab === "item") fill(this.body, itemPanel(this, detail));
    } catch (error) {
      this.failed(error);
    }
  }

  private welcome(): HTMLElement[] {
    const { n, labelled, classes, heldOut } = this.overview;
    const live = this.from.live;
    return [
      h("h2", {}, many(n, "item")),
      h("p", {}, labelled ? `${labelled.toLocaleString("en")} have one of ${classes.length} labels.` : "None has a label yet. Lasso some and name them."),
      h("p", {}, "Press an item to see its neighbors under the raw features and under the learned metric, side by side."),
      live ? h("p", {}, "Lasso items (hold Shift) to say what they are, or that they belong together. Then refit: the map moves, and the scores say whether it helped.") : h("p", { class: "muted" }, "This is a map in one file. nearer explore opens it with a server, to correct it by hand."),
      live ? h("p", { class: "muted" }, `${heldOut.toLocaleString("en")} items are held out: they are scored and never learned from. ${this.overview.trained}`) : h("p", {}),
    ];
  }

  private actions(): void {
    const count = this.selected.length;
    this.bar.hidden = !count || !this.from.live;
    if (this.bar.hidden) return;
    const list = h("datalist", { id: "classes" }, ...this.overview.classes.map((name) => h("option", { value: name })));
    const name = h("input", { list: "classes", placeholder: "Label", "aria-label": "Label for the selected items", maxlength: 200 });
    const label = (): void => {
      const text = name.value.trim();
      if (text) said({ kind: "label", items: this.selected, label: text });
      else name.focus();
    };
    name.addEventListener("keydown", (event) => {
      if (event.key === "Enter") label();
      event.stopPropagation();
    });
    const say = (kind: Gesture["kind"], extra: Partial<Gesture> = {}) => () => said({ kind, items: this.selected, ...extra });
    // What was said of a selection is said: the next one begins with nothing selected.
    const said = (gesture: Gesture): void => {
      if (gesture.items.length > 1) this.choose([]);
      void this.say(gesture);
    };
    const anchor = this.focus;
    fill(
      this.bar,
      h("strong", {}, many(count, "item")),
      h("span", { class: "joined" }, name, list, h("button", { type: "button", class: "main-button", onclick: label }, "Name")),
      count > 1 && h("button", { type: "button", onclick: say("together") }, "Together"),
      count > 1 && h("button", { type: "button", onclick: say("apart") }, "Apart"),
      anchor >= 0 && count > 1 && h("button", { type: "button", title: `The same as item ${anchor}`, onclick: say("same", { anchor }) }, `Same as #${anchor}`),
      h("button", { type: "button", onclick: say("label", { label: null }) }, "No label"),
      h("button", { type: "button", onclick: say("drop") }, "Leave out"),
      h("button", { type: "button", class: "quiet", "aria-label": "Clear the selection", onclick: () => this.choose([]) }, "✕"),
    );
  }

  private tied(a: number, b: number, x: number, y: number): void {
    const close = (): void => {
      this.tie.hidden = true;
      this.stage.focus();
    };
    const say = (kind: "together" | "apart"): void => {
      close();
      void this.say({ kind, items: [a, b] });
    };
    const yes = h("button", { type: "button", class: "main-button", onclick: () => say("together") }, "Together (Y)");
    fill(this.tie, h("div", { class: "two" }, thumbnail(this, a, 64), thumbnail(this, b, 64)), h("p", {}, `Items ${a} and ${b}`), yes, h("button", { type: "button", onclick: () => say("apart") }, "Apart (N)"), h("button", { type: "button", class: "quiet", onclick: close }, "Cancel"));
    this.tie.hidden = false;
    this.toast.hidden = true;
    this.out();
    this.tie.style.left = `${Math.max(8, Math.min(x, this.stage.clientWidth - 240))}px`;
    this.tie.style.top = `${Math.max(8, Math.min(y, this.stage.clientHeight - 180))}px`;
    this.tie.onkeydown = (event) => {
      if (event.key === "y") say("together");
      else if (event.key === "n") say("apart");
      else if (event.key === "Escape") close();
      else return;
      event.stopPropagation();
    };
    yes.focus();
  }

  // What is said ----------------------------------------------------------------------------------------------

  async say(gesture: Gesture): Promise<void> {
    if (!(this.from instanceof Live)) return;
    const told: Gesture = { ...gesture, key: crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}` };
    this.queue.push(told);
    store(QUEUE, JSON.stringify(this.queue));
    await this.flush();
  }

  // Gestures go out one after the other; what the server has not confirmed stays here, over a reload too.
  private async flush(): Promise<void> {
    if (!(this.from instanceof Live) || this.busy) return;
    this.busy = true;
    try {
      // What is said while the colors are drawn goes out in the next round.
      do {
        while (this.queue.length) {
          try {
            this.update(await this.from.say(this.queue[0]!));
          } catch (error) {
            if (error instanceof Unreachable) {
              this.missing();
              return;
            }
            this.failed(error);
          }
          this.queue.shift();
          store(QUEUE, JSON.stringify(this.queue));
        }
        this.from.forget();
        await this.recolor();
        if (this.tab === "item") await this.item();
      } while (this.queue.length);
    } catch (error) {
      this.failed(error);
    } finally {
      this.busy = false;
    }
  }

  private async act(name: "undo" | "redo" | "refit"): Promise<void> {
    if (!(this.from instanceof Live)) return;
    if (name === "refit") this.step("learning", 0);
    const before = this.overview.refits;
    this.acting = true;
    try {
      const found = await this.from.act(name);
      this.from.forget();
      this.update(found);
      if (found.refits !== before || name === "refit") {
        this.which = "learned";
        this.switches();
        // Going back is to be quick: with many points it jumps.
        const slow = this.overview.n > 20000 ? 500 : 900;
        await this.repose(name === "refit" || this.overview.n <= 20000, name === "refit" ? slow : 300);
      } else await this.recolor();
      if (name === "refit") this.tell(found.scores.sentence, found.scores.better === false);
      if (this.tab === "item") await this.item();
    } catch (error) {
      if (error instanceof Unreachable) this.missing();
      else this.failed(error);
    } finally {
      this.acting = false;
      this.progress.hidden = true;
      document.body.dataset.refits = String(this.overview.refits);
    }
  }

  private update(overview: Overview): void {
    this.overview = overview;
    if (this.tab === "said") this.said();
    this.actions();
    this.marks();
    this.notes();
    document.body.dataset.changed = String(overview.changed);
  }

  private said(): void {
    const { gestures, done, since, scores, told } = this.overview;
    if (!scores.sentence && this.from instanceof Live) {
      // Before the first refit the scores are computed when someone looks at them.
      const asked = this.overview;
      void this.guard(this.from.scores().then((found) => {
        asked.scores = found;
        if (this.tab === "said" && this.overview === asked) this.said();
      }));
    }
    const list = gestures.map((one, place) =>
      h(
        "li",
        { class: `${place >= done ? "undone" : ""} ${one.kind}` },
        h("button", { type: "button", disabled: !one.items.length, title: "Show these items", onclick: () => this.choose(one.items, true) }, one.told),
      ),
    );
    fill(
      this.body,
      h(
        "div",
        { class: "row" },
        h("button", { type: "button", class: "main-button big", onclick: () => void this.act("refit") }, since ? `Refit with ${many(since, "gesture")}` : "Refit"),
        h("button", { type: "button", onclick: () => void this.spread() }, "Spread (t-SNE)"),
      ),
      h("h2", {}, "Does it help?"),
      table(scores),
      h("p", { class: scores.better === false ? "verdict bad" : scores.better ? "verdict good" : "verdict" }, scores.sentence || "Scoring the raw features …"),
      scores.better === false && this.overview.refits ? h("button", { type: "button", onclick: () => void this.back() }, "Go back to the metric before") : null,
      told ? h("p", { class: "muted" }, told) : null,
      this.overview.curve.length > 1 ? curve(this.overview.curve) : null,
      h("div", { class: "row between" }, h("h2", {}, "What you said"), h("a", { class: "link", href: "api/export", download: "gestures.json" }, icon("save"), "Export")),
      list.length ? h("ol", { class: "said" }, ...list.reverse()) : h("p", { class: "muted" }, "Nothing yet. Lasso items, tie two, or answer questions."),
      h("p", { class: "muted" }, `Kept in ${this.overview.project}.`),
    );
  }

  // Undo up to the last refit and that one too: the metric before, with everything said before it.
  private async back(): Promise<void> {
    const { gestures, done } = this.overview;
    let steps = 0;
    for (let place = done - 1; place >= 0; place--) {
      steps++;
      if (gestures[place]!.kind === "refit") break;
    }
    for (let step = 0; step < steps; step++) await this.act("undo");
  }

  private async spread(): Promise<void> {
    if (!(this.from instanceof Live)) return;
    this.step("spreading", 0.02);
    await this.guard(this.from.spread("tsne"));
  }

  // Panels ----------------------------------------------------------------------------------------------------

  private marks(): void {
    const names: [Tab, string][] = this.from.live
      ? [["item", "Item"], ["said", this.overview.since ? `Say it · ${this.overview.since}` : "Say it"], ["ask", "Ask me"], ["audit", "Audit"], ["weights", "Weights"]]
      : [["item", "Item"]];
    this.tabs.hidden = names.length < 2;
    fill(
      this.tabs,
      ...names.map(([tab, text]) =>
        h("button", { type: "button", role: "tab", id: `tab-${tab}`, "aria-selected": String(this.tab === tab), "aria-controls": "panel", tabindex: this.tab === tab ? 0 : -1, onclick: () => this.show(tab) }, text),
      ),
    );
  }

  show(tab: Tab): void {
    if (this.tab === "weights" && tab !== "weights") this.map.join([]);
    this.tab = tab;
    this.marks();
    this.body.scrollTop = 0;
    this.body.setAttribute("aria-labelledby", `tab-${tab}`);
    document.body.dataset.tab = tab;
    if (tab === "item") void this.item();
    else if (tab === "said") this.said();
    else if (this.from instanceof Live) {
      if (tab === "ask") void (this.questions ??= ask(this, this.from)).show(this.body);
      else if (tab === "audit") void (this.audit ??= audit(this, this.from)).show(this.body);
      else void (this.play ??= playground(this, this.from)).show(this.body);
    }
  }

  private notes(): void {
    fill(this.note, ...this.overview.notes.map((text) => h("span", {}, text)));
  }

  // What happens elsewhere ------------------------------------------------------------------------------------

  private follow(): void {
    const events = new EventSource("api/events");
    const hear = (name: string, work: (about: { changed: number; share: number; text: string }) => void): void =>
      events.addEventListener(name, (event) => work(JSON.parse((event as MessageEvent<string>).data) as never));
    events.onopen = () => void this.found();
    events.onerror = () => this.missing();
    // Another tab of this session may have said or learned something.
    hear("gestures", (about) => void (about.changed !== this.overview.changed && !this.busy && !this.acting && this.refresh(false)));
    hear("metric", (about) => void (about.changed !== this.overview.changed && !this.acting && this.refresh(true)));
    hear("progress", ({ text, share }) => this.step(text, share));
    hear("map", ({ share }) => {
      this.step("spreading", share);
      if (this.which === "learned") void this.guard(this.place(true));
      if (share >= 1) setTimeout(() => (this.progress.hidden = true), 600);
      document.body.dataset.spread = String(share);
    });
    hear("failed", ({ text }) => {
      this.progress.hidden = true;
      this.tell(text, true);
    });
  }

  private async refresh(moved: boolean): Promise<void> {
    if (!(this.from instanceof Live)) return;
    try {
      this.from.forget();
      this.update(await this.from.overview());
      if (moved) await this.repose(true);
      else await this.recolor();
    } catch (error) {
      this.failed(error);
    }
  }

  private missing(): void {
    if (!this.lost) this.lost = true;
    const waiting = this.queue.length ? ` Kept here and sent then: ${many(this.queue.length, "gesture")}.` : "";
    this.banner.textContent = `The server does not answer. Start it again (nearer explore, the same project).${waiting}`;
    this.banner.hidden = false;
    this.progress.hidden = true;
    document.body.dataset.lost = "yes";
  }

  private async found(): Promise<void> {
    if (!this.lost) return;
    this.lost = false;
    this.banner.hidden = true;
    delete document.body.dataset.lost;
    await this.flush();
    await this.refresh(true);
    this.tell("The server is back.");
  }

  private step(text: string, share: number): void {
    this.progress.hidden = false;
    const bar = h("i", {});
    bar.style.width = `${Math.round(100 * share)}%`;
    this.progress.setAttribute("aria-valuenow", String(Math.round(100 * share)));
    fill(this.progress, h("span", {}, text), bar);
  }

  private timer = 0;

  tell(text: string, bad = false): void {
    this.toast.textContent = text;
    this.toast.classList.toggle("bad", bad);
    this.toast.hidden = false;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => (this.toast.hidden = true), bad ? 9000 : 5000);
  }

  failed(error: unknown): void {
    if (error instanceof Unreachable) this.missing();
    else if (error instanceof Refused) this.tell(error.message, true);
    else throw error;
  }

  private async guard(work: Promise<unknown>): Promise<void> {
    try {
      await work;
    } catch (error) {
      this.failed(error);
    }
  }

  // Keys ------------------------------------------------------------------------------------------------------

  private listen(): void {
    let wait = 0;
    this.search.addEventListener("input", () => {
      clearTimeout(wait);
      wait = setTimeout(() => void this.look(), 200);
    });
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "Enter") void this.look();
    });
    this.tabs.addEventListener("keydown", (event) => {
      const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
      if (!step) return;
      const all = [...this.tabs.querySelectorAll("button")];
      const place = all.indexOf(document.activeElement as HTMLButtonElement);
      const next = all[(place + step + all.length) % all.length]!;
      next.click();
      document.getElementById(next.id)?.focus();
    });
    document.addEventListener("keydown", (event) => this.pressed(event));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.repaint());
  }

  private async look(): Promise<void> {
    const text = this.search.value;
    try {
      const items = text.trim() ? await this.from.search(text) : [];
      if (!text.trim()) this.choose([]);
      else if (!items.length) this.tell(`Nothing holds “${text.trim()}”.`);
      else {
        this.choose(items);
        this.tell(`${many(items.length, "item")} found.`);
      }
    } catch (error) {
      this.failed(error);
    }
  }

  private pressed(event: KeyboardEvent): void {
    const where = event.target as HTMLElement;
    if (event.key === "Escape") {
      this.tie.hidden = true;
      if (where instanceof HTMLInputElement) where.blur();
      else this.choose([]);
      return;
    }
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z") {
      if (where instanceof HTMLInputElement) return;
      event.preventDefault();
      void this.act(event.shiftKey ? "redo" : "undo");
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || where instanceof HTMLInputElement || where instanceof HTMLSelectElement) return;
    if (where === this.stage && this.wander(event)) return;
    if (this.tab === "audit" && this.audit?.key(event.key)) return event.preventDefault();
    if (this.tab === "ask" && this.questions?.key(event.key)) return event.preventDefault();
    const keys: Record<string, () => void> = {
      "/": () => this.search.focus(),
      l: () => this.use("lasso"),
      m: () => this.use("pan"),
      t: () => this.from.live && this.use("tie"),
      b: () => void this.turn(this.which === "raw" ? "learned" : "raw"),
      r: () => void this.act("refit"),
      "0": () => this.map.home(),
      "?": () => this.help(),
      "1": () => this.show("item"),
      "2": () => this.from.live && this.show("said"),
      "3": () => this.from.live && this.show("ask"),
      "4": () => this.from.live && this.show("audit"),
      "5": () => this.from.live && this.show("weights"),
    };
    const work = keys[event.key];
    if (!work) return;
    event.preventDefault();
    work();
  }

  private wander(event: KeyboardEvent): boolean {
    const arrows: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const way = arrows[event.key];
    if (way && event.shiftKey) this.map.pan(-0.1 * way[0], 0.1 * way[1]);
    else if (way) {
      this.focus = this.map.towards(this.focus, ...way);
      this.map.select([this.focus]);
      this.selected = [this.focus];
      this.actions();
      void this.hover(this.focus);
    } else if (event.key === "Enter" && this.focus >= 0) void this.open(this.focus);
    else if (event.key === "+" || event.key === "=") this.map.zoom(1.25);
    else if (event.key === "-") this.map.zoom(0.8);
    else return false;
    event.preventDefault();
    return true;
  }

  private help(): void {
    const rows: [string, string][] = [
      ["/", "search"],
      ["M, L, T", "move, lasso, tie two items"],
      ["Shift + drag", "lasso"],
      ["B", "raw or learned map"],
      ["0, +, −", "whole map, zoom"],
      ["Arrows, Enter", "on the map: from item to item, open"],
      ["1 – 5", "panels"],
      ["R", "refit"],
      ["Ctrl Z, Ctrl Shift Z", "undo, redo"],
      ["Y, N, S", "Ask me: same, different, skip"],
      ["A, X, D, J, K", "Audit: accept, reject, leave out, next, back"],
      ["Esc", "clear the selection"],
    ];
    const box = h(
      "dialog",
      { class: "help", "aria-label": "Keys" },
      h("h2", {}, "Keys"),
      h("dl", {}, ...rows.flatMap(([key, text]) => [h("dt", {}, key), h("dd", {}, text)])),
      h("button", { type: "button", class: "main-button", onclick: () => box.close() }, "Close"),
    );
    document.body.append(box);
    box.addEventListener("close", () => box.remove());
    box.showModal();
  }

  private theme(): void {
    const next = getComputedStyle(document.documentElement).colorScheme.includes("dark") && document.documentElement.dataset.theme !== "light" && (document.documentElement.dataset.theme === "dark" || matchMedia("(prefers-color-scheme: dark)").matches) ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    store("nearer:theme", next);
    this.repaint();
  }

  private repaint(): void {
    this.map.theme();
    this.legend();
    if (this.tab === "said") this.said();
  }
}

function button(text: string, work: () => void, name: string, title: string): HTMLElement {
  return h("button", { type: "button", class: "icon", "aria-label": text, title, onclick: work }, icon(name));
}

function table(scores: Scores): HTMLElement {
  if (!scores.rows.length) return h("div", {});
  const names = Object.keys(scores.rows[0]!).filter((name) => name !== "score" && !name.startsWith("over "));
  const base = Object.keys(scores.rows[0]!).filter((name) => name.startsWith("over ")).pop();
  const head = h("tr", {}, h("th", { scope: "col" }, ""), ...names.map((name) => h("th", { scope: "col" }, name)), base ? h("th", { scope: "col" }, base) : null);
  const rows = scores.rows.map((row) => {
    const gain = base ? (row[base] as Gain) : null;
    const sign = (value: number): string => `${value >= 0 ? "+" : "−"}${Math.abs(value).toFixed(3)}`;
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

function curve(values: number[]): HTMLElement {
  const told = values.map((value) => value.toFixed(3)).join(" → ");
  return h("p", { class: "muted" }, `MAP@R from refit to refit: ${told}`);
}

function stored(name: string): string | null {
  try {
    return localStorage.getItem(name);
  } catch {
    return null; // A file that was opened from disk may have no storage.
  }
}

function store(name: string, text: string): void {
  try {
    localStorage.setItem(name, text);
  } catch {
    return;
  }
}

void new Explorer().start().catch((error: unknown) => {
  document.getElementById("app")!.textContent = error instanceof Error ? error.message : String(error);
  document.body.dataset.ready = "failed";
});
