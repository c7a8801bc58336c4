// What the server says, as JSON. `_answers.py` makes it.

export interface Card {
  item: number;
  name: string;
  text: string | null;
  label: string | null;
  heldOut?: boolean;
  columns?: Record<string, string>;
  values?: Record<string, number>;
}

export interface Neighbor extends Card {
  distance: number;
  share: number;
  right: boolean | null;
  why: string;
}

export interface Detail extends Card {
  neighbors: { raw: Neighbor[]; learned: Neighbor[] };
  history: number[];
}

export interface Gain {
  gain: number;
  low: number;
  high: number;
}

export interface Scores {
  items: number;
  rows: Record<string, string | number | Gain>[];
  sentence: string;
  better: boolean | null;
}

export interface Said {
  kind: string;
  told: string;
  items: number[];
}

export interface Overview {
  n: number;
  changed: number;
  classes: string[];
  labelled: number;
  heldOut: number;
  columns: string[];
  images: boolean;
  sprite: { side: number; columns: number; each: number };
  notes: string[];
  trained: string;
  gestures: Said[];
  done: number;
  since: number;
  refits: number;
  scores: Scores;
  curve: number[];
  told: string;
  miners: string[];
  project: string;
}

export interface Legend {
  kind: "categories" | "numbers";
  names: string[];
  light: string[];
  dark: string[];
  unknown: [string, string];
  counts: number[];
  missing: number;
  low: string;
  high: string;
}

export interface Gesture {
  kind: "label" | "together" | "apart" | "same" | "keep" | "drop";
  items: number[];
  label?: string | null;
  others?: number[];
  anchor?: number;
  key?: string;
}

export interface Suspect extends Card {
  suggestion: string;
  quality: number;
}

export interface Stranger extends Card {
  score: number;
}

export interface Overlap {
  first: string;
  second: string;
  share: number;
  items: number[];
}

export interface Audit {
  suspects: Suspect[];
  duplicates: Card[][];
  unlike: Stranger[];
  overlaps: Overlap[];
  counts: { suspects: number; duplicates: number; unlike: number };
  notes: string[];
}

export interface Question {
  first: Card;
  second: Card;
  guess: string | null;
  lead: number;
}

export interface Weights {
  similarity: number[];
  curves: { positive: number[]; negative: number[] };
  batch: number[];
  pairs: [number, number, number, number][];
  active: number;
  possible: number;
}
