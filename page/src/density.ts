// Lines of equal density: where points cover each other, their colors do not say how many there are.

// Fewer are seen as they are.
export const MANY = 10000;
const CELLS = 112;
// The map reaches to one; what is blurred reaches a little further.
const REACH = 1.08;
const BLURS = 3;
const RADIUS = 1;
// Shares of the points that the lines have inside.
const INSIDE = [0.25, 0.5, 0.75, 0.95];

// The lines in the coordinates of the map, of how many pieces, and the items at both ends of either axis.
export interface Density {
  path: Path2D;
  pieces: number;
  ends: { low: number; high: number; from: number; to: number }[];
}

export function density(x: Float32Array, y: Float32Array, shown: (item: number) => boolean): Density {
  const cells = counts(x, y, shown);
  const path = new Path2D();
  let pieces = 0;
  for (const level of levels(cells)) pieces += trace(path, cells, level);
  return { path, pieces, ends: [x, y].map(reach) };
}

function reach(values: Float32Array): Density["ends"][number] {
  let [low, high] = [0, 0];
  for (let item = 1; item < values.length; item++) {
    if (values[item]! < values[low]!) low = item;
    if (values[item]! > values[high]!) high = item;
  }
  return { low, high, from: values[low]!, to: values[high]! };
}

// The lines where the view shows them; it is moved and scaled alone, so two items for each axis tell how.
export function onStage({ path, ends }: Density, where: (item: number) => [number, number] | null): Path2D | null {
  const found = ends.map(({ low, high, from, to }, axis) => {
    const [start, stop] = [where(low)?.[axis], where(high)?.[axis]];
    if (start === undefined || stop === undefined || from === to) return null;
    const by = (stop - start) / (to - from);
    return { by, zero: start - by * from };
  });
  const [x, y] = found;
  if (!x || !y) return null;
  const shown = new Path2D();
  shown.addPath(path, new DOMMatrix([x.by, 0, 0, y.by, x.zero, y.zero]));
  return shown;
}

function counts(x: Float32Array, y: Float32Array, shown: (item: number) => boolean): Float32Array {
  let cells: Float32Array = new Float32Array(CELLS * CELLS);
  const place = (value: number): number => Math.max(0, Math.min(CELLS - 1, Math.floor((CELLS * (value + REACH)) / (2 * REACH))));
  for (let item = 0; item < x.length; item++) if (shown(item)) cells[place(y[item]!) * CELLS + place(x[item]!)]!++;
  for (let turn = 0; turn < BLURS; turn++) cells = blurred(blurred(cells, 1, CELLS), CELLS, 1);
  return cells;
}

// The mean of neighbors along one side.
function blurred(cells: Float32Array, step: number, across: number): Float32Array {
  const found = new Float32Array(cells.length);
  for (let line = 0; line < CELLS; line++) {
    for (let at = 0; at < CELLS; at++) {
      let sum = 0;
      for (let near = at - RADIUS; near <= at + RADIUS; near++) if (near >= 0 && near < CELLS) sum += cells[line * across + near * step]!;
      found[line * across + at * step] = sum / (2 * RADIUS + 1);
    }
  }
  return found;
}

function levels(cells: Float32Array): number[] {
  const sorted = cells.slice().sort().reverse();
  const whole = sorted.reduce((sum, one) => sum + one, 0);
  const found: number[] = [];
  let inside = 0;
  for (const one of sorted) {
    inside += one;
    while (found.length < INSIDE.length && inside >= INSIDE[found.length]! * whole) found.push(one);
  }
  return found.filter((level) => level > 0);
}

// Marching squares: through each square of four cells, the line between those above a level and those below.
function trace(path: Path2D, cells: Float32Array, level: number): number {
  const spot = (place: number): number => ((2 * place + 1) * REACH) / CELLS - REACH;
  let pieces = 0;
  for (let row = 0; row + 1 < CELLS; row++) {
    for (let column = 0; column + 1 < CELLS; column++) {
      const corners: [number, number][] = [[0, 0], [1, 0], [1, 1], [0, 1]];
      const heights = corners.map(([dx, dy]) => cells[(row + dy) * CELLS + column + dx]! - level);
      const crossed: [number, number][] = [];
      for (let side = 0; side < 4; side++) {
        const [from, to] = [heights[side]!, heights[(side + 1) % 4]!];
        if (from > 0 === to > 0) continue;
        const [[ax, ay], [bx, by]] = [corners[side]!, corners[(side + 1) % 4]!];
        const share = from / (from - to);
        crossed.push([spot(column + ax + share * (bx - ax)), spot(row + ay + share * (by - ay))]);
      }
      for (let end = 0; end + 1 < crossed.length; end += 2) {
        path.moveTo(...crossed[end]!);
        path.lineTo(...crossed[end + 1]!);
        pieces++;
      }
    }
  }
  return pieces;
}
