// The map: points drawn by regl-scatterplot, and a layer over it.

import createScatterplot from "regl-scatterplot";
import { calm, dark } from "./dom";
import { density, MANY, onStage, type Density } from "./density";
import { drawOverlay, medoids } from "./overlay";
import { MapPhotos } from "./photos";
import { Spots } from "./spots";
import { Ties } from "./ties";
import { followTouch } from "./touch";
import type { Legend } from "./types";

export type Mode = "pan" | "lasso" | "tie";
type Plot = ReturnType<typeof createScatterplot>;

// Cividis, in eight steps: as even to color-blind eyes as to others.
const RAMP = ["#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838"];

// What is left of the opacity of items that are not stressed.
const FAINT = 0.4;
// Milliseconds after which the view rests.
const RESTS = 150;
// Pixels that a hand which clicks does not move.
const DRAWN = 8;

export interface Heard {
  over(item: number): void;
  out(): void;
  chosen(items: number[]): void;
  picture(item: number): string | null;
  tied(first: number, second: number, x: number, y: number): void;
}

export class Map {
  readonly canvas = document.createElement("canvas");
  readonly layer = document.createElement("canvas");
  private plot: Plot;
  private x = new Float32Array(0);
  private y = new Float32Array(0);
  private codes = new Float32Array(0);
  private legend: Legend | null = null;
  private mask: Uint8Array | null = null;
  private named = false;
  private middles: ReturnType<typeof medoids> | null = null;
  private dense: Density | null = null;
  private bold: Float32Array | null = null;
  private lit = -1;
  // Nobody has moved the view: it follows the size of the stage.
  private atHome = true;
  private finger: [number, number][] = [];
  private marked: number[] = [];
  private mode: Mode = "pan";
  private drawing: Promise<unknown> = Promise.resolve();
  readonly spots = new Spots(
    (item) => this.where(item),
    () => this.x.length,
    (item) => this.shows(item),
    () => [this.parent.clientWidth / 2, this.parent.clientHeight / 2],
  );
  private resting = 0;
  private readonly ties: Ties;
  private readonly photos = new MapPhotos(
    (item) => this.heard.picture(item),
    () => this.overlay(),
  );

  constructor(private readonly parent: HTMLElement, private readonly heard: Heard) {
    this.canvas.className = "points";
    this.layer.className = "layer";
    this.layer.setAttribute("aria-hidden", "true");
    parent.append(this.canvas, this.layer);
    const { width, height } = parent.getBoundingClientRect();
    this.plot = createScatterplot({
      canvas: this.canvas,
      width: Math.max(1, width),
      height: Math.max(1, height),
      deselectOnDblClick: true,
      deselectOnEscape: false,
      lassoOnLongPress: true,
      lassoInitiator: false,
      pointSizeSelected: 1,
      pointOutlineWidth: 2,
      opacityInactiveMax: 0.5,
      opacityInactiveScale: 0.75,
      performanceMode: false,
    });
    this.theme();
    this.plot.subscribe("pointOver", (item: number) => this.heard.over(item));
    this.plot.subscribe("pointOut", () => this.heard.out());
    this.plot.subscribe("select", ({ points }: { points: number[] }) => {
      this.marked = points;
      this.heard.chosen(points);
      this.overlay();
    });
    this.plot.subscribe("deselect", () => {
      this.marked = [];
      this.heard.chosen([]);
      this.overlay();
    });
    this.plot.subscribe("view", () => {
      this.spots.forget();
      this.overlay();
      this.rest();
    });
    this.plot.subscribe("transitionEnd", () => {
      this.spots.forget();
      this.overlay();
    });
    new ResizeObserver(() => this.resize()).observe(parent);
    parent.addEventListener("wheel", () => (this.atHome = false), { passive: true });
    this.closedIsNoClick();
    followTouch(this, parent, {
      mode: () => this.mode,
      tapped: (item) => this.take([item]),
      lassoed: (items) => this.take(items),
      draw: (line) => {
        this.finger = line;
        this.overlay();
      },
    });
    this.ties = new Ties(this.layer, this.spots, { ...this.heard, active: () => this.mode === "tie", redraw: () => this.overlay() });
    this.resize();
  }

  /** A lasso that ends where it began has chosen its items: the click that follows must not choose one instead. */
  private closedIsNoClick(): void {
    let from = [0, 0];
    let drawn = false;
    const hear = (kind: "pointerdown" | "pointermove", then: (at: [number, number]) => void): void =>
      this.canvas.addEventListener(kind, (event) => then([event.clientX, event.clientY]), { capture: true });
    hear("pointerdown", (at) => {
      from = at;
      drawn = false;
    });
    hear("pointermove", ([x, y]) => (drawn ||= Math.hypot(x - from[0], y - from[1]) > DRAWN));
    this.canvas.addEventListener("pointermove", ({ buttons }) => (this.atHome &&= !buttons || this.mode === "lasso"));
    this.canvas.addEventListener("click", (event) => drawn && event.stopImmediatePropagation(), { capture: true });
  }

  get size(): number {
    return this.x.length;
  }

  get supported(): boolean {
    return this.plot.isSupported;
  }

  theme(): void {
    const style = getComputedStyle(document.documentElement);
    const ink = style.getPropertyValue("--ink").trim();
    this.plot.set({
      backgroundColor: style.getPropertyValue("--map").trim(),
      pointColorActive: ink,
      pointColorHover: ink,
      lassoColor: style.getPropertyValue("--accent").trim(),
    } as never);
    if (this.legend) this.paint(this.legend);
    this.overlay();
  }

  private resize(): void {
    const { width, height } = this.parent.getBoundingClientRect();
    if (width < 2 || height < 2) return;
    this.plot.set({ width, height } as never);
    const ratio = window.devicePixelRatio || 1;
    this.layer.width = width * ratio;
    this.layer.height = height * ratio;
    // The library knows its new size one frame later.
    requestAnimationFrame(() => this.atHome && this.home());
    this.spots.forget();
    this.overlay();
  }

  // New places, new colors or both, in one drawing.
  show(points: Float32Array | null, values: Float32Array | null, legend: Legend | null, named: boolean, animate: boolean, slow = 900): Promise<unknown> {
    let same = true;
    this.middles = this.dense = null;
    if (points) {
      const n = points.length / 2;
      same = n === this.x.length;
      this.x = new Float32Array(n);
      this.y = new Float32Array(n);
      for (let i = 0; i < n; i++) {
        this.x[i] = points[2 * i]!;
        this.y[i] = points[2 * i + 1]!;
      }
      if (this.codes.length !== n) this.codes = new Float32Array(n);
      this.dots(n);
    }
    if (values && legend) {
      this.legend = legend;
      this.named = named && legend.kind === "categories";
      const unknown = legend.kind === "categories" ? legend.names.length : RAMP.length;
      const found = new Float32Array(values.length);
      for (let i = 0; i < values.length; i++) {
        const value = values[i]!;
        found[i] = value < 0 ? unknown : legend.kind === "categories" ? value : Math.min(RAMP.length - 1, Math.floor(value * RAMP.length));
      }
      this.codes = found;
      this.paint(legend);
    }
    return this.draw(animate && same && !calm(), slow);
  }

  // More points are smaller and let more through.
  private dots(n: number): void {
    const small = this.parent.clientWidth < 600 ? 0.7 : 1;
    const opacity = n > 50000 ? 0.55 : n > MANY ? 0.7 : 0.85;
    const bold = this.bold ? { opacityBy: "valueB", opacity: [FAINT * opacity, Math.min(1, opacity + 0.1)] } : { opacity };
    this.plot.set({ pointSize: small * (n > 50000 ? 2.2 : n > MANY ? 3 : n > 2000 ? 4.5 : n > 300 ? 7 : 8.5), pointOutlineWidth: n > MANY ? 0 : 2, ...bold } as never);
  }

  // Items of one are drawn as ever, those of zero faint.
  stress(bold: Float32Array): void {
    this.bold = bold;
  }

  private paint(legend: Legend): void {
    const night = dark();
    const gray = night ? "#4d5762" : "#b4bcc4";
    const colors = legend.kind === "categories" ? (night ? legend.dark : legend.light).map((shade, code) => (this.lit < 0 || this.lit === code ? shade : gray)) : [...RAMP];
    this.plot.set({ pointColor: [...colors, gray], colorBy: "valueA" } as never);
  }

  shade(code: number): string {
    if (!this.legend) return "#888888";
    const colors = dark() ? this.legend.dark : this.legend.light;
    return colors[code] ?? "#888888";
  }

  private draw(transition: boolean, slow: number): Promise<unknown> {
    // One after the other: a draw that begins inside a transition would be lost.
    this.drawing = this.drawing.then(async () => {
      if (!this.x.length) return;
      await this.plot.draw({ x: this.x, y: this.y, valueA: this.codes, ...(this.bold && { valueB: this.bold }) } as never, {
        transition,
        transitionDuration: slow,
        preventFilterReset: true,
        zDataType: "categorical",
        wDataType: "categorical",
        select: this.marked,
      } as never);
      this.spots.forget();
      this.sieve();
      this.overlay();
      this.rest();
    });
    return this.drawing;
  }

  // Show the items of a mask alone, all without one; regl-scatterplot wants the items that stay.
  keep(mask: Uint8Array | null): void {
    this.mask = mask;
    this.middles = this.dense = null;
    this.sieve();
    this.overlay();
  }

  private shows(item: number): boolean {
    return !this.mask || this.mask[item] === 1;
  }

  private sieve(): void {
    if (!this.mask) {
      if (this.plot.get("isPointsFiltered")) void this.plot.unfilter({ preventEvent: true });
      return;
    }
    const kept: number[] = [];
    for (let i = 0; i < this.x.length; i++) if (this.mask[i]) kept.push(i);
    void this.plot.filter(kept, { preventEvent: true });
  }

  // One class in its color and the others grey; -1 lights all.
  light(code: number): void {
    if (this.lit === code || !this.legend) return;
    this.lit = code;
    this.paint(this.legend);
    this.overlay();
  }

  // What a finger or a pen has chosen.
  private take(items: number[]): void {
    this.select(items);
    this.heard.chosen(items);
  }

  select(items: number[], zoom = false): void {
    this.marked = items;
    if (items.length) this.plot.select(items, { preventEvent: true });
    else this.plot.deselect({ preventEvent: true });
    if (zoom && items.length) {
      this.atHome = false;
      // In its turn too: a draw that begins while the view moves is never said to be done.
      const moves = { padding: 0.4, transition: !calm(), transitionDuration: 500 };
      this.drawing = this.drawing.then(() => this.plot.zoomToPoints(items, moves).catch(() => undefined));
    }
    this.overlay();
  }

  // Once the view rests, few items in it become pictures.
  private rest(): void {
    clearTimeout(this.resting);
    this.resting = window.setTimeout(() => this.photos.look((this.plot.get("pointsInView") as number[]).filter((item) => this.shows(item))), RESTS);
  }

  // All of the map, also where the stage is higher than wide.
  home(): void {
    this.atHome = true;
    void this.plot.zoomToArea({ x: -1, y: -1, width: 2, height: 2 });
  }

  private moved(): void {
    this.atHome = false;
    this.plot.redraw();
    this.spots.forget();
    this.overlay();
    this.rest();
  }

  // Nearer by a factor, at a place on the stage.
  zoomBy(factor: number, [x, y]: [number, number] = [this.parent.clientWidth / 2, this.parent.clientHeight / 2]): void {
    const { clientWidth, clientHeight } = this.parent;
    const camera = this.plot.get("camera") as { scale(by: number, at: [number, number]): void };
    camera.scale(factor, [(2 * x - clientWidth) / clientHeight, (clientHeight - 2 * y) / clientHeight]);
    this.moved();
  }

  // By pixels, to the right and down.
  panBy(x: number, y: number): void {
    const camera = this.plot.get("camera") as { pan(by: [number, number]): void };
    camera.pan([(2 * x) / this.parent.clientHeight, (-2 * y) / this.parent.clientHeight]);
    this.moved();
  }

  use(mode: Mode): void {
    this.mode = mode;
    this.plot.set({ mouseMode: mode === "lasso" ? "lasso" : "panZoom" } as never);
    this.layer.classList.toggle("ties", mode === "tie");
  }

  where(item: number): [number, number] | null {
    return (this.plot.getScreenPosition(item) as [number, number] | undefined) ?? null;
  }

  overlay(): void {
    if (this.named && !this.middles) this.middles = medoids(this.codes, this.x, this.y, this.legend!.names.length, (item) => this.shows(item));
    const at = (item: number): [[number, number]] | [] => {
      const spot = this.where(item);
      return spot ? [spot] : [];
    };
    if (!this.dense && this.x.length > MANY) this.dense = density(this.x, this.y, (item) => this.shows(item));
    const tie = this.ties?.line;
    const from = tie && this.where(tie.from);
    const written = drawOverlay(this.layer, {
      density: this.dense && onStage(this.dense, (item) => this.where(item)),
      photos: this.photos.ready().flatMap(([item, image]) => at(item).map(([x, y]) => ({ image, code: this.codes[item]!, x, y }))),
      names: this.named ? (this.middles ?? []).flatMap(({ code, item }) => at(item).map(([x, y]) => ({ code, text: this.legend!.names[code]!, x, y }))) : [],
      lit: this.lit,
      shade: (code) => this.shade(code),
      rings: this.marked.length <= 60 ? this.marked.flatMap((item) => at(item)) : [],
      tie: tie && from ? { from, to: tie.to } : null,
      lasso: this.finger,
    });
    document.body.dataset.names = written.join("|");
    document.body.dataset.density = String(this.dense?.pieces ?? 0);
  }
}
