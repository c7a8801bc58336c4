// The little that a page of this size needs of a framework.

type Child = Node | string | null | undefined | false;
type Props = Record<string, unknown>;

export function h<K extends keyof HTMLElementTagNameMap>(tag: K, props: Props = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name.startsWith("aria-") && typeof value === "boolean") {
      node.setAttribute(name, String(value));
      continue;
    }
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value as EventListener);
    else if (name === "class") node.className = value as string;
    else if (value === true) node.setAttribute(name, "");
    else node.setAttribute(name, String(value));
  }
  put(node, ...children);
  return node;
}

export function put(node: Element, ...children: Child[]): void {
  for (const child of children) if (child) node.append(child);
}

export function fill(node: Element, ...children: Child[]): void {
  node.replaceChildren();
  put(node, ...children);
}

const SVG = "http://www.w3.org/2000/svg";

export function svg(tag: string, props: Record<string, string | number>, ...children: Node[]): SVGElement {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(props)) node.setAttribute(name, String(value));
  node.append(...children);
  return node;
}

const ICONS: Record<string, string> = {
  undo: "M9 7H4V2M4.5 7A7 7 0 1 1 4 12",
  redo: "M11 7h5V2M15.5 7A7 7 0 1 0 16 12",
  lasso: "M10 3c4.5 0 8 2.2 8 5s-3.5 5-8 5-8-2.2-8-5 3.5-5 8-5zM7 12.700c-1.500 1.300-1 4.300-3 5.300",
  pan: "M10 2v16M2 10h16M10 2 7.500 4.500M10 2l2.500 2.500M10 18l-2.500-2.500M10 18l2.500-2.500M2 10l2.500-2.500M2 10l2.500 2.500M18 10l-2.500-2.500M18 10l-2.500 2.500",
  link: "M8 12a4 4 0 0 0 6 0l2.500-2.500a4 4 0 0 0-6-6L9 5M12 8a4 4 0 0 0-6 0L3.500 10.500a4 4 0 0 0 6 6L11 15",
  home: "M3 9.500 10 3l7 6.500M5 8v9h10V8",
  sun: "M10 6a4 4 0 1 1 0 8 4 4 0 0 1 0-8zM10 1v2M10 17v2M1 10h2M17 10h2M3.600 3.600 5 5M15 15l1.400 1.400M3.600 16.400 5 15M15 5l1.400-1.400",
  help: "M7 7.500a3 3 0 1 1 4.500 2.600c-1 .6-1.500 1-1.500 2.400M10 16v.5",
  camera: "M3 6h3l1.500-2h5L14 6h3v10H3zM10 8a3 3 0 1 1 0 6 3 3 0 0 1 0-6z",
  save: "M10 3v10M6 9.500l4 4 4-4M3 17h14",
};

export function icon(name: string): SVGElement {
  const shape = { fill: "none", stroke: "currentColor", "stroke-width": 1.6, "stroke-linecap": "round", "stroke-linejoin": "round" };
  return svg("svg", { viewBox: "0 0 20 20", width: 18, height: 18, "aria-hidden": "true" }, svg("path", { d: ICONS[name] ?? "", ...shape }));
}

export function calm(): boolean {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

export function dark(): boolean {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

export function many(n: number, word: string): string {
  return `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;
}

export function button(text: string, work: () => void, name: string, title: string): HTMLElement {
  return h("button", { type: "button", class: "icon", "aria-label": text, title, onclick: work }, icon(name));
}

export interface Progress {
  readonly node: HTMLElement;
  step(text: string, share: number): void;
}

// What is done of something that is waited for.
export function progress(props: Record<string, unknown> = {}): Progress {
  const node = h("div", { class: "progress", role: "progressbar", "aria-label": "Progress", "aria-valuemin": 0, "aria-valuemax": 100, ...props });
  return {
    node,
    step(text, share) {
      const done = h("i", {});
      done.style.width = `${Math.round(100 * share)}%`;
      node.setAttribute("aria-valuenow", String(Math.round(100 * share)));
      fill(node, h("span", {}, text), done);
    },
  };
}

export function stored(name: string): string | null {
  try {
    return localStorage.getItem(name);
  } catch {
    return null; // A file that was opened from disk may have no storage.
  }
}

export function store(name: string, text: string): void {
  try {
    localStorage.setItem(name, text);
  } catch {
    return;
  }
}
