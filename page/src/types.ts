// What the server says, as JSON. `_answers.py` makes it.

export interface Card {
  item: number;
  name: string;
  text: string | null;
  label: string | null;
  heldOut?: boolean;
  picture?: string;
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
  items: number;
}

export interface Overview {
  n: number;
  changed: number;
  classes: string[];
  used: number;
  labelled: number;
  heldOut: number;
  columns: string[];
  images: boolean;
  title: string;
  takes: "" | "texts" | "photos";
  learned: boolean;
  layout: { placed: number; between: number; warm: boolean };
  notes: string[];
  trained: string;
  gestures: Said[];
  done: number;
  since: number;
  refits: number;
  scores: Scores;
  curve: number[];
  told: string;
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

export interface Overlap {
  first: string;
  second: string;
  share: number;
  items: number[];
}

// What a person should look at: a doubtful label, a question, near-duplicates, an outlier.
export interface Suggestion {
  kind: "label" | "question" | "duplicates" | "outlier";
  cards: Card[];
  alternatives: string[];
}

export interface Suggestions {
  entries: Suggestion[];
  overlaps: Overlap[];
  notes: string[];
}

export interface Ranked {
  items: number[];
  distances: number[];
}
