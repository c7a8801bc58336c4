// One box: names, texts, labels and columns that hold what is typed, and what is like a text or a photo.

import { button, h, many } from "./dom";
import type { Page } from "./page";
import { Live } from "./source";
import type { Ranked } from "./types";

const WAIT = 250;
// Larger photos are made smaller before they are sent.
const LARGEST = 1024;

export interface SearchBox {
  readonly node: HTMLElement;
  focus(): void;
}

export function searchBox(page: Page): SearchBox {
  const { takes } = page.overview;
  const box = h("input", { type: "search", placeholder: takes === "texts" ? "Search words, or what a text means" : "Search names, texts, labels", "aria-label": "Search names, texts, labels and columns" });
  const file = h("input", { type: "file", accept: "image/*", hidden: true, "aria-label": "A photo to search by" });
  let wait = 0;
  let asked = 0;

  const ranked = (found: Ranked, told: string): void => page.choose(found.items, { told: `${told}, nearest first.`, distances: found.distances });

  const mean = async (text: string, turn: number): Promise<void> => {
    const found = await (page.from as Live).similar({ text });
    if (turn === asked) ranked(found, `The ${many(found.items.length, "item")} nearest in meaning to “${text}”`);
  };

  const look = async (): Promise<void> => {
    const text = box.value.trim();
    const turn = ++asked;
    if (!text) {
      page.choose([]);
      return;
    }
    const items = await page.from.search(text);
    // What was typed since is on its way.
    if (turn !== asked) return;
    if (items.length) page.choose(items, { told: `${many(items.length, "item")} with “${text}”.`, text: takes === "texts" ? text : undefined });
    else if (takes === "texts" && page.from instanceof Live) await mean(text, turn);
    else {
      // What was selected before is not what was looked for.
      page.choose([]);
      page.tell(`No results for “${text}”.`);
    }
    document.body.dataset.searched = text;
  };

  const seek = async (given: Blob): Promise<void> => {
    const turn = ++asked;
    if (!(page.from instanceof Live)) return;
    let picture: ImageBitmap;
    try {
      picture = await createImageBitmap(given);
    } catch {
      page.tell("This file is no picture that the browser can read.", true);
      return;
    }
    const scale = Math.min(1, LARGEST / Math.max(picture.width, picture.height));
    const canvas = h("canvas", { width: Math.max(1, Math.round(picture.width * scale)), height: Math.max(1, Math.round(picture.height * scale)) });
    canvas.getContext("2d")!.drawImage(picture, 0, 0, canvas.width, canvas.height);
    const found = await page.from.similar({ photo: canvas.toDataURL("image/jpeg", 0.92) });
    if (turn === asked) ranked(found, `The ${many(found.items.length, "item")} most like your photo`);
  };

  box.addEventListener("input", () => {
    clearTimeout(wait);
    wait = window.setTimeout(() => void page.guard(look()), WAIT);
  });
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    clearTimeout(wait);
    void page.guard(look());
  });
  const nodes: HTMLElement[] = [box];
  if (takes === "photos") {
    file.addEventListener("change", () => {
      if (file.files?.[0]) void page.guard(seek(file.files[0]));
      file.value = "";
    });
    document.addEventListener("dragover", (event) => event.preventDefault());
    document.addEventListener("drop", (event) => {
      event.preventDefault();
      const dropped = event.dataTransfer?.files[0];
      if (dropped) void page.guard(seek(dropped));
    });
    document.addEventListener("paste", (event) => {
      const pasted = event.clipboardData?.files[0];
      if (pasted) void page.guard(seek(pasted));
    });
    nodes.push(file, button("Search by a photo", () => file.click(), "camera", "Search by a photo; you can also drop or paste one anywhere"));
  }
  return { node: h("div", { class: "search", role: "search" }, ...nodes), focus: () => box.focus() };
}
