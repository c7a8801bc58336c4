// What the parts of the page know of the whole.

import type { Filters } from "./filters";
import type { Map } from "./plot";
import type { Colors, Inner, Live } from "./source";
import type { Card, Gesture, Overview } from "./types";

export type Tab = "selection" | "suggestions" | "edits";

// Why items are selected: a sentence, and how far each is where they are ranked.
export interface Found {
  told?: string;
  distances?: number[];
  text?: string;
}

export interface Page {
  readonly from: Live | Inner;
  readonly overview: Overview;
  readonly map: Map;
  readonly filters: Filters;
  // The label of every item, whatever the map is colored by.
  labels(): Colors | null;
  say(gesture: Gesture): Promise<void>;
  open(item: number, zoom?: boolean): Promise<void>;
  choose(items: number[], found?: Found, zoom?: boolean): void;
  like(item: number): Promise<void>;
  tell(text: string, bad?: boolean): void;
  failed(error: unknown): void;
  guard(work: Promise<unknown>): Promise<void>;
  shadeOf(card: Card): string;
}
