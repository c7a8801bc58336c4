// What is written over the points: names of classes, rings around what is marked, the tie, the lasso of a finger.

export interface Name {
  code: number;
  text: string;
  x: number;
  y: number;
}

export interface Drawn {
  density: Path2D | null;
  photos: { image: HTMLImageElement; code: number; x: number; y: number }[];
  names: Name[];
  lit: number;
  shade(code: number): string;
  rings: [number, number][];
  tie: { from: [number, number]; to: [number, number] } | null;
  lasso: [number, number][];
}

const FONT = '600 12px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
const LONGEST = 26;
const PHOTO = 60;

export function drawOverlay(layer: HTMLCanvasElement, found: Drawn): string[] {
  const ratio = window.devicePixelRatio || 1;
  const pen = layer.getContext("2d");
  if (!pen) return [];
  const [width, height] = [layer.width / ratio, layer.height / ratio];
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  const style = getComputedStyle(document.documentElement);
  const color = (name: string): string => style.getPropertyValue(name).trim();
  if (found.density && !found.photos.length) {
    pen.globalAlpha = 0.4;
    pen.lineWidth = 1;
    pen.strokeStyle = color("--ink");
    pen.stroke(found.density);
    pen.globalAlpha = 1;
  }
  pen.lineWidth = 2;
  for (const { image, code, x, y } of found.photos) {
    const scale = PHOTO / Math.max(image.naturalWidth, image.naturalHeight);
    const [across, down] = [image.naturalWidth * scale, image.naturalHeight * scale];
    pen.drawImage(image, x - across / 2, y - down / 2, across, down);
    pen.strokeStyle = found.shade(code);
    pen.strokeRect(x - across / 2, y - down / 2, across, down);
  }
  pen.strokeStyle = color("--ink");
  for (const [x, y] of found.rings) circle(pen, x, y, 8);
  const written = names(pen, found, width, height, color("--ink"), color("--map"));
  pen.strokeStyle = color("--accent");
  pen.lineWidth = 2.5;
  if (found.tie) {
    trace(pen, [found.tie.from, found.tie.to]);
    circle(pen, ...found.tie.from, 9);
  }
  if (found.lasso.length > 1) trace(pen, found.lasso);
  return written;
}

// Names at the middle of their class; of two that would meet, the one that comes first stands.
function names(pen: CanvasRenderingContext2D, { names, lit, shade }: Drawn, width: number, height: number, ink: string, ground: string): string[] {
  pen.font = FONT;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.lineJoin = "round";
  const taken: [number, number, number, number][] = [];
  const order = [...names].sort((a, b) => Number(b.code === lit) - Number(a.code === lit));
  const written: string[] = [];
  for (const { code, text, ...at } of order) {
    const short = text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text;
    const half = pen.measureText(short).width / 2 + 12;
    if (at.x < 0 || at.x > width || at.y < 0 || at.y > height) continue;
    // A name at the border is written inside of it.
    const x = Math.max(half, Math.min(width - half, at.x));
    const y = Math.max(12, Math.min(height - 12, at.y));
    const box: [number, number, number, number] = [x - half, y - 11, x + half, y + 11];
    if (taken.some((one) => one[0] < box[2] && box[0] < one[2] && one[1] < box[3] && box[1] < one[3])) continue;
    taken.push(box);
    written.push(text);
    pen.globalAlpha = lit < 0 || lit === code ? 1 : 0.35;
    pen.strokeStyle = ground;
    pen.lineWidth = 4;
    pen.strokeText(short, x + 5, y);
    pen.fillStyle = ink;
    pen.fillText(short, x + 5, y);
    pen.fillStyle = shade(code);
    pen.beginPath();
    pen.arc(x - half + 10, y, 4, 0, 2 * Math.PI);
    pen.lineWidth = 2;
    pen.stroke();
    pen.fill();
  }
  pen.globalAlpha = 1;
  return written;
}

function circle(pen: CanvasRenderingContext2D, x: number, y: number, radius: number): void {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  pen.stroke();
}

function trace(pen: CanvasRenderingContext2D, line: [number, number][]): void {
  pen.beginPath();
  line.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  pen.stroke();
}

// The member of each class that is nearest to the middle of the class, by medians: a mean may lie outside of it.
export function medoids(codes: Float32Array, x: Float32Array, y: Float32Array, classes: number, shown: (item: number) => boolean): { code: number; item: number; count: number }[] {
  const members: number[][] = Array.from({ length: classes }, () => []);
  for (let item = 0; item < codes.length; item++) if (codes[item]! < classes && shown(item)) members[codes[item]!]!.push(item);
  const found = members.flatMap((items, code) => {
    if (!items.length) return [];
    const middle = (values: Float32Array): number => Float32Array.from(items, (item) => values[item]!).sort()[items.length >> 1]!;
    const [mx, my] = [middle(x), middle(y)];
    let best = items[0]!;
    let least = Infinity;
    for (const item of items) {
      const apart = (x[item]! - mx) ** 2 + (y[item]! - my) ** 2;
      if (apart < least) [best, least] = [item, apart];
    }
    return [{ code, item: best, count: items.length }];
  });
  return found.sort((a, b) => b.count - a.count);
}
