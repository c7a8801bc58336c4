// A line drawn from one item to another, to say what the two are to each other.

import type { Spots } from "./spots";

export interface Tied {
  active(): boolean;
  over(item: number): void;
  out(): void;
  tied(first: number, second: number, x: number, y: number): void;
  redraw(): void;
}

export class Ties {
  private tie: { from: number; x: number; y: number } | null = null;

  constructor(layer: HTMLElement, private readonly spots: Spots, private readonly heard: Tied) {
    layer.addEventListener("pointerdown", (event) => {
      const from = heard.active() ? spots.nearest(event.offsetX, event.offsetY) : -1;
      if (from < 0) return;
      layer.setPointerCapture(event.pointerId);
      this.pull(from, event);
    });
    layer.addEventListener("pointermove", (event) => (this.tie ? this.pull(this.tie.from, event) : this.look(event)));
    layer.addEventListener("pointerup", (event) => this.end(event));
  }

  // Where the line begins and where it has been drawn to.
  get line(): { from: number; to: [number, number] } | null {
    return this.tie && { from: this.tie.from, to: [this.tie.x, this.tie.y] };
  }

  private pull(from: number, event: PointerEvent): void {
    this.tie = { from, x: event.offsetX, y: event.offsetY };
    this.heard.redraw();
  }

  private look(event: PointerEvent): void {
    if (!this.heard.active()) return;
    const item = this.spots.nearest(event.offsetX, event.offsetY);
    if (item >= 0) this.heard.over(item);
    else this.heard.out();
  }

  private end(event: PointerEvent): void {
    if (!this.tie) return;
    const { from } = this.tie;
    this.tie = null;
    const to = this.spots.nearest(event.offsetX, event.offsetY);
    if (to >= 0 && to !== from) this.heard.tied(from, to, event.offsetX, event.offsetY);
    this.heard.redraw();
  }
}
