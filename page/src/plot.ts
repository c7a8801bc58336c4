// The map: points drawn by regl-scatterplot, and a layer over it for names, lines and the tie of two items.

import createScatterplot from "regl-scatterplot";
import { calm, dark } from "./dom";
import type { Legend } from "./types";

export type Mode = "pan" | "lasso" | "tie";
type Plot = ReturnType<typeof createScatterplot>;

// Cividis, in eight steps: as even to color-blind eyes as to others.
const RAMP = ["#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838"];

export interface Heard {
  over(item: number): void;
  out(): void;
  chosen(items: number[]): void;
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
  private hidden = new Set<number>();
  private lines: [number, number, number, number][] = [];
  private marked: number[] = [];
  private mode: Mode = "pan";
  private tie: { from: number; x: number; y: number } | null = null;
  private drawing: Promise<unknown> = Promise.resolve();
  private spots: Float32Array | null = null;
  frames = 0;

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
      this.spots = null;
      this.frames++;
      this.overlay();
    });
    this.plot.subscribe("transitionEnd", () => {
      this.spots = null;
      this.overlay();
    });
    new ResizeObserver(() => this.resize()).observe(parent);
    this.layer.addEventListener("pointerdown", (event) => this.down(event));
    this.layer.addEventListener("pointermove", (event) => this.move(event));
    this.layer.addEventListener("pointerup", (event) => this.up(event));
    this.resize();
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
    this.spots = null;
    this.overlay();
  }

  // New places, new colors or both, in one drawing.
  show(points: Float32Array | null, values: Float32Array | null, legend: Legend | null, animate: boolean, slow = 900): Promise<unknown> {
    let same = true;
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
      const small = this.parent.clientWidth < 600 ? 0.7 : 1;
      this.plot.set({ pointSize: small * (n > 50000 ? 2.2 : n > 10000 ? 3 : n > 2000 ? 4.5 : 7), opacity: n > 50000 ? 0.55 : n > 10000 ? 0.7 : 0.85 } as never);
    }
    if (values && legend) {
      this.legend = legend;
      this.hidden = new Set();
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

  private paint(legend: Legend): void {
    const night = dark();
    const gray = night ? "#4d5762" : "#b4bcc4";
    const colors = legend.kind === "categories" ? [...(night ? legend.dark : legend.light)] : [...RAMP];
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
      await this.plot.draw({ x: this.x, y: this.y, valueA: this.codes } as never, {
        transition,
        transitionDuration: slow,
        preventFilterReset: true,
        zDataType: "categorical",
        select: this.marked,
      } as never);
      this.spots = null;
      this.sieve();
      this.overlay();
    });
    return this.drawing;
  }

  // Show the classes that are not hidden; regl-scatterplot wants the items that stay.
  hide(codes: Set<number>): void {
    this.hidden = codes;
    this.sieve();
  }

  private sieve(): void {
    if (!this.hidden.size) {
      if (this.plot.get("isPointsFiltered")) void this.plot.unfilter({ preventEvent: true });
      return;
    }
    const kept: number[] = [];
    for (let i = 0; i < this.codes.length; i++) if (!this.hidden.has(this.codes[i]!)) kept.push(i);
    void this.plot.filter(kept, { preventEvent: true });
  }

  select(items: number[], zoom = false): void {
    this.marked = items;
    if (items.length) this.plot.select(items, { preventEvent: true });
    else this.plot.deselect({ preventEvent: true });
    if (zoom && items.length) void this.plot.zoomToPoints(items, { padding: 0.4, transition: !calm(), transitionDuration: 500 });
    this.overlay();
  }

  members(code: number): number[] {
    const found: number[] = [];
    for (let i = 0; i < this.codes.length; i++) if (this.codes[i] === code) found.push(i);
    return found;
  }

  home(): void {
    this.plot.reset();
  }

  zoom(factor: number): void {
    const camera = this.plot.get("camera") as { scale(by: number, at: [number, number]): void };
    camera.scale(factor, [0, 0]);
    this.plot.redraw();
    this.spots = null;
    this.overlay();
  }

  pan(x: number, y: number): void {
    const camera = this.plot.get("camera") as { pan(by: [number, number]): void };
    camera.pan([x, y]);
    this.plot.redraw();
    this.spots = null;
    this.overlay();
  }

  use(mode: Mode): void {
    this.mode = mode;
    this.plot.set({ mouseMode: mode === "lasso" ? "lasso" : "panZoom" } as never);
    this.layer.classList.toggle("ties", mode === "tie");
  }

  join(lines: [number, number, number, number][]): void {
    this.lines = lines;
    this.overlay();
  }

  where(item: number): [number, number] | null {
    return (this.plot.getScreenPosition(item) as [number, number] | undefined) ?? null;
  }

  // Screen positions of all items, found once for each view.
  private all(): Float32Array {
    if (this.spots) return this.spots;
    const spots = new Float32Array(2 * this.x.length);
    for (let i = 0; i < this.x.length; i++) {
      const at = this.where(i);
      spots[2 * i] = at ? at[0] : -1e6;
      spots[2 * i + 1] = at ? at[1] : -1e6;
    }
    this.spots = spots;
    return spots;
  }

  nearest(x: number, y: number, within = 24): number {
    const spots = this.all();
    let best = -1;
    let least = within * within;
    for (let i = 0; i < this.x.length; i++) {
      const dx = spots[2 * i]! - x;
      const dy = spots[2 * i + 1]! - y;
      const apart = dx * dx + dy * dy;
      if (apart < least && !this.hidden.has(this.codes[i]!)) {
        least = apart;
        best = i;
      }
    }
    return best;
  }

  // The nearest item in a direction, for the arrow keys.
  towards(item: number, dx: number, dy: number): number {
    const spots = this.all();
    const from: [number, number] = item >= 0 ? [spots[2 * item]!, spots[2 * item + 1]!] : [this.parent.clientWidth / 2, this.parent.clientHeight / 2];
    let best = item;
    let least = Infinity;
    for (let i = 0; i < this.x.length; i++) {
      if (i === item || this.hidden.has(this.codes[i]!)) continue;
      const x = spots[2 * i]! - from[0];
      const y = spots[2 * i + 1]! - from[1];
      const along = x * dx + y * dy;
      const aside = Math.abs(x * dy - y * dx);
      if (item >= 0 && along <= Math.max(aside, 0.5)) continue;
      const cost = x * x + y * y + 2 * aside * aside;
      if (cost < least) {
        least = cost;
        best = i;
      }
    }
    return best;
  }

  private down(event: PointerEvent): void {
    if (this.mode !== "tie") return;
    const from = this.nearest(event.offsetX, event.offsetY);
    if (from < 0) return;
    this.layer.setPointerCapture(event.pointerId);
    this.tie = { from, x: event.offsetX, y: event.offsetY };
    this.overlay();
  }

  private move(event: PointerEvent): void {
    if (!this.tie) {
      if (this.mode === "tie") {
        const item = this.nearest(event.offsetX, event.offsetY);
        if (item >= 0) this.heard.over(item);
        else this.heard.out();
      }
      return;
    }
    this.tie = { ...this.tie, x: event.offsetX, y: event.offsetY };
    this.overlay();
  }

  private up(event: PointerEvent): void {
    if (!this.tie) return;
    const { from } = this.tie;
    this.tie = null;
    const to = this.nearest(event.offsetX, event.offsetY);
    if (to >= 0 && to !== from) this.heard.tied(from, to, event.offsetX, event.offsetY);
    this.overlay();
  }

  overlay(): void {
    const ratio = window.devicePixelRatio || 1;
    const pen = this.layer.getContext("2d");
    if (!pen) return;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, this.layer.width, this.layer.height);
    const style = getComputedStyle(document.documentElement);
    for (const [a, b, weight, same] of this.lines) {
      const from = this.where(a);
      const to = this.where(b);
      if (!from || !to) continue;
      pen.globalAlpha = 0.12 + 0.8 * weight;
      pen.strokeStyle = style.getPropertyValue(same ? "--right" : "--wrong");
      pen.setLineDash(same ? [] : [5, 3]);
      pen.lineWidth = 0.6 + 2 * weight;
      pen.beginPath();
      pen.moveTo(...from);
      pen.lineTo(...to);
      pen.stroke();
    }
    pen.globalAlpha = 1;
    pen.setLineDash([]);
    pen.strokeStyle = style.getPropertyValue("--ink");
    if (this.marked.length > 0 && this.marked.length <= 60) {
      pen.lineWidth = 2;
      for (const item of this.marked) {
        const at = this.where(item);
        if (!at) continue;
        pen.beginPath();
        pen.arc(at[0], at[1], 8, 0, 2 * Math.PI);
        pen.stroke();
      }
    }
    if (this.tie) {
      const from = this.where(this.tie.from);
      if (from) {
        pen.strokeStyle = style.getPropertyValue("--accent");
        pen.lineWidth = 2.5;
        pen.beginPath();
        pen.moveTo(...from);
        pen.lineTo(this.tie.x, this.tie.y);
        pen.stroke();
        pen.beginPath();
        pen.arc(from[0], from[1], 9, 0, 2 * Math.PI);
        pen.stroke();
      }
    }
  }
}
