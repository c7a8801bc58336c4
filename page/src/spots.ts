// Where the items stand on the screen, and which of them a pointer, a key or a line means.

export class Spots {
  private spots: Float32Array | null = null;

  constructor(
    private readonly where: (item: number) => [number, number] | null,
    private readonly size: () => number,
    private readonly shows: (item: number) => boolean,
    private readonly middle: () => [number, number],
  ) {}

  // The view has moved, or the items have.
  forget(): void {
    this.spots = null;
  }

  // Screen positions of all items, found once for each view.
  private all(): Float32Array {
    if (this.spots) return this.spots;
    const spots = new Float32Array(2 * this.size());
    for (let i = 0; i < this.size(); i++) {
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
    for (let i = 0; i < this.size(); i++) {
      const dx = spots[2 * i]! - x;
      const dy = spots[2 * i + 1]! - y;
      const apart = dx * dx + dy * dy;
      if (apart < least && this.shows(i)) {
        least = apart;
        best = i;
      }
    }
    return best;
  }

  // The items within a line on the stage, which closes by itself.
  inside(line: [number, number][]): number[] {
    const spots = this.all();
    const found: number[] = [];
    for (let i = 0; i < this.size(); i++) {
      if (!this.shows(i)) continue;
      const [x, y] = [spots[2 * i]!, spots[2 * i + 1]!];
      let odd = false;
      for (let a = 0, b = line.length - 1; a < line.length; b = a++) {
        const [[ax, ay], [bx, by]] = [line[a]!, line[b]!];
        if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) odd = !odd;
      }
      if (odd) found.push(i);
    }
    return found;
  }

  // The nearest item in a direction, for the arrow keys.
  towards(item: number, dx: number, dy: number): number {
    const spots = this.all();
    const from: [number, number] = item >= 0 ? [spots[2 * item]!, spots[2 * item + 1]!] : this.middle();
    let best = item;
    let least = Infinity;
    for (let i = 0; i < this.size(); i++) {
      if (i === item || !this.shows(i)) continue;
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
}
