// Where the page gets its data: a server on this machine, or the file that it is in.

import type { Card, Detail, Gesture, Legend, Neighbor, Overview, Ranked, Scores, Suggestions } from "./types";

const KEPT = 3000;

export class Refused extends Error {}
export class Unreachable extends Error {}

export interface Colors {
  legend: Legend;
  values: Float32Array;
}

export interface Source {
  readonly live: boolean;
  overview(): Promise<Overview>;
  positions(which: "raw" | "learned"): Promise<Float32Array>;
  colors(by: string): Promise<Colors>;
  card(item: number): Promise<Card>;
  detail(item: number): Promise<Detail>;
  // The address of the picture of an item, at least so large; without a side, all of its pixels.
  picture(item: number, side?: 128 | 256 | 512): string | null;
  // The cards of some items, with small pictures inside.
  cards(items: number[]): Promise<Card[]>;
  search(text: string): Promise<number[]>;
}

async function fetched(path: string, init?: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch {
    throw new Unreachable("The server does not answer.");
  }
  if (response.ok) return response;
  let told = `The server answered ${response.status}.`;
  try {
    told = ((await response.json()) as { error: string }).error;
  } catch {
    // No sentence came with it: the number has to do.
  }
  throw new Refused(told);
}

async function asked<T>(name: string): Promise<T> {
  return (await (await fetched(`api/${name}`)).json()) as T;
}

async function posted<T>(name: string, body: unknown): Promise<T> {
  const headers = { "Content-Type": "application/json" };
  return (await (await fetched(`api/${name}`, { method: "POST", headers, body: JSON.stringify(body) })).json()) as T;
}

export class Live implements Source {
  readonly live = true;
  private known = new Map<number, Card>();

  overview(): Promise<Overview> {
    return asked("overview");
  }

  async positions(which: "raw" | "learned"): Promise<Float32Array> {
    return new Float32Array(await (await fetched(`api/positions?map=${which}`)).arrayBuffer());
  }

  async colors(by: string): Promise<Colors> {
    const buffer = await (await fetched(`api/colors?by=${encodeURIComponent(by)}`)).arrayBuffer();
    const size = new DataView(buffer).getUint32(0, true);
    const legend = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size))) as Legend;
    return { legend, values: new Float32Array(buffer, 4 + size) };
  }

  async card(item: number): Promise<Card> {
    return this.known.get(item) ?? this.keep(await asked<Card>(`card/${item}`));
  }

  async cards(items: number[]): Promise<Card[]> {
    const missing = items.filter((item) => this.known.get(item)?.picture === undefined);
    const found = missing.length ? await posted<Card[]>("cards", { items: missing }) : [];
    const fresh = new Map(found.map((card) => [card.item, this.keep(card)]));
    return items.map((item) => fresh.get(item) ?? this.known.get(item)!);
  }

  private keep(card: Card): Card {
    if (this.known.size > KEPT) this.known.clear();
    this.known.set(card.item, card);
    return card;
  }

  forget(): void {
    this.known.clear();
  }

  detail(item: number): Promise<Detail> {
    return asked(`item/${item}`);
  }

  picture(item: number, side?: 128 | 256 | 512): string {
    return `api/image/${item}${side ? `?size=${side}` : ""}`;
  }

  async search(text: string): Promise<number[]> {
    return (await asked<{ items: number[] }>(`search?q=${encodeURIComponent(text)}`)).items;
  }

  say(gesture: Gesture): Promise<Overview> {
    return posted("say", gesture);
  }

  act(name: "undo" | "redo" | "refit"): Promise<Overview> {
    return posted(name, null);
  }

  spread(): Promise<unknown> {
    return posted("spread", null);
  }

  similar(given: { item: number } | { text: string } | { photo: string }): Promise<Ranked> {
    return posted("similar", given);
  }

  suggestions(): Promise<Suggestions> {
    return asked("suggestions");
  }

  // The items of an edit of the history.
  async edit(number: number): Promise<number[]> {
    return (await asked<{ items: number[] }>(`edit/${number}`)).items;
  }

  // The nearest items of a class, to see an item beside them.
  examples(item: number, label: string): Promise<Card[]> {
    return asked(`examples/${item}?label=${encodeURIComponent(label)}`);
  }

  scores(): Promise<Scores> {
    return asked("scores");
  }
}

interface Inside {
  title: string;
  overview: Overview;
  raw: string;
  learned: string;
  colors: Record<string, { legend: Legend; values: string }>;
  neighbors: Record<"raw" | "learned", { items: string; distances: string }>;
  k: number;
  cards: Partial<Card>[];
}

function bytes(text: string): ArrayBuffer {
  const plain = atob(text);
  const found = new Uint8Array(plain.length);
  for (let i = 0; i < plain.length; i++) found[i] = plain.charCodeAt(i);
  return found.buffer;
}

export class Inner implements Source {
  readonly live = false;

  constructor(private readonly data: Inside) {}

  async overview(): Promise<Overview> {
    return { ...this.data.overview, columns: Object.keys(this.data.colors).filter((one) => one.startsWith("column:")).map((one) => one.slice(7)), title: this.data.title };
  }

  async positions(which: "raw" | "learned"): Promise<Float32Array> {
    return new Float32Array(bytes(this.data[which]));
  }

  async colors(by: string): Promise<Colors> {
    const found = this.data.colors[by] ?? Object.values(this.data.colors)[0]!;
    return { legend: found.legend, values: new Float32Array(bytes(found.values)) };
  }

  has(by: string): boolean {
    return by in this.data.colors;
  }

  private one(item: number): Card {
    const card = this.data.cards[item] ?? {};
    return { name: `item ${item}`, text: null, label: null, ...card, item };
  }

  async card(item: number): Promise<Card> {
    return this.one(item);
  }

  async detail(item: number): Promise<Detail> {
    const own = this.one(item);
    const side = (name: "raw" | "learned"): Neighbor[] => {
      const near = new Int32Array(bytes(this.data.neighbors[name].items));
      const far = new Float32Array(bytes(this.data.neighbors[name].distances));
      const found: Neighbor[] = [];
      for (let place = item * this.data.k; place < (item + 1) * this.data.k; place++) {
        const other = near[place]!;
        if (other < 0) continue;
        const card = this.one(other);
        const right = own.label === null || card.label === null ? null : own.label === card.label;
        found.push({ ...card, distance: far[place]!, share: 0, right, why: "" });
      }
      return found;
    };
    return { ...own, neighbors: { raw: side("raw"), learned: side("learned") }, history: [] };
  }

  picture(item: number): string | null {
    return this.data.cards[item]?.picture ?? null;
  }

  async cards(items: number[]): Promise<Card[]> {
    return items.map((item) => this.one(item));
  }

  async search(text: string): Promise<number[]> {
    const wanted = text.trim().toLowerCase();
    if (!wanted) return [];
    const found: number[] = [];
    for (let i = 0; i < this.data.overview.n; i++) {
      const card = this.one(i);
      const words = [card.name, card.text ?? "", card.label ?? "", ...Object.values(card.columns ?? {})];
      if (words.some((word) => word.toLowerCase().includes(wanted))) found.push(i);
    }
    return found;
  }
}

export function source(): Live | Inner {
  const inside = document.getElementById("nearer-data");
  return inside ? new Inner(JSON.parse(inside.textContent ?? "{}") as Inside) : new Live();
}
