// Fingers and pens on the map: one pans or draws a lasso, two zoom, a tap opens. The mouse is regl-scatterplot's.

import type { Map as Plot, Mode } from "./plot";

interface Touched {
  mode(): Mode;
  lassoed(items: number[]): void;
  tapped(item: number): void;
  draw(line: [number, number][]): void;
}

// A finger is never quite still.
const STILL = 8;

export function followTouch(map: Plot, stage: HTMLElement, heard: Touched): void {
  const down = new Map<number, [number, number]>();
  let line: [number, number][] = [];
  let moved = false;
  let pinched = false;

  const at = (event: PointerEvent): [number, number] => {
    const box = stage.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  stage.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "mouse" || heard.mode() === "tie") return;
    // No mouse events are made of it.
    event.preventDefault();
    stage.focus({ preventScroll: true });
    stage.setPointerCapture(event.pointerId);
    down.set(event.pointerId, at(event));
    if (down.size === 1) {
      moved = pinched = false;
      line = [at(event)];
    } else pinched = true;
  });

  stage.addEventListener("pointermove", (event) => {
    const before = down.get(event.pointerId);
    if (!before) return;
    const now = at(event);
    if (down.size === 1) {
      const start = line[0]!;
      if (!moved && Math.hypot(now[0] - start[0], now[1] - start[1]) < STILL) return;
      moved = true;
      if (heard.mode() === "lasso" && !pinched) {
        line.push(now);
        heard.draw(line);
      } else map.panBy(now[0] - before[0], now[1] - before[1]);
    } else if (down.size === 2) {
      moved = true;
      const other = [...down].find(([id]) => id !== event.pointerId)![1];
      const apart = (a: [number, number]): number => Math.hypot(a[0] - other[0], a[1] - other[1]);
      const middle = (a: [number, number]): [number, number] => [(a[0] + other[0]) / 2, (a[1] + other[1]) / 2];
      const [from, to] = [middle(before), middle(now)];
      map.panBy(to[0] - from[0], to[1] - from[1]);
      if (apart(before) > 0) map.zoomBy(apart(now) / apart(before), to);
    }
    down.set(event.pointerId, now);
  });

  const end = (event: PointerEvent): void => {
    if (!down.delete(event.pointerId) || down.size) return;
    if (!moved && event.type === "pointerup") {
      const item = map.spots.nearest(...line[0]!);
      if (item >= 0) heard.tapped(item);
    } else if (moved && !pinched && heard.mode() === "lasso" && line.length > 3) heard.lassoed(map.spots.inside(line));
    line = [];
    heard.draw(line);
  };
  stage.addEventListener("pointerup", end);
  stage.addEventListener("pointercancel", end);
}
