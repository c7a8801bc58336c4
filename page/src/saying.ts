// How an edit gets to the disk: a queue that outlives the server and a reload, and what other tabs say.

import { many, store, stored } from "./dom";
import { Live, Refused, Unreachable } from "./source";
import type { Gesture, Overview } from "./types";

const QUEUE = `nearer:${location.pathname}`;

export interface Heard {
  // What is known has changed; `moved` says that the metric has.
  updated(overview: Overview): void;
  redrawn(moved: boolean): Promise<void>;
  laid(share: number, shown: boolean): void;
  step(text: string, share: number): void;
  checked(text: string, share: number): void;
  stop(): void;
  tell(text: string, bad?: boolean): void;
  banner(text: string): void;
}

export class Saying {
  private queue: Gesture[] = JSON.parse(stored(QUEUE) ?? "[]") as Gesture[];
  private busy = false;
  private acting = false;
  private lost = false;
  private changed = 0;

  constructor(private readonly from: Live, private readonly heard: Heard) {}

  async say(gesture: Gesture): Promise<void> {
    this.queue.push({ ...gesture, key: crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}` });
    store(QUEUE, JSON.stringify(this.queue));
    await this.flush();
  }

  // Edits go out one after the other; what the server has not confirmed stays here, over a reload too.
  private async flush(): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    try {
      // What is said while the colors are drawn goes out in the next round.
      do {
        while (this.queue.length) {
          try {
            this.update(await this.from.say(this.queue[0]!));
          } catch (error) {
            if (error instanceof Unreachable) {
              this.missing();
              return;
            }
            this.failed(error);
          }
          this.queue.shift();
          store(QUEUE, JSON.stringify(this.queue));
        }
        this.from.forget();
        await this.heard.redrawn(false);
      } while (this.queue.length);
    } catch (error) {
      this.failed(error);
    } finally {
      this.busy = false;
    }
  }

  // Undo, redo or refit.
  async act(name: "undo" | "redo" | "refit"): Promise<Overview | null> {
    if (name === "refit") this.heard.step("learning", 0);
    this.acting = true;
    try {
      const found = await this.from.act(name);
      this.from.forget();
      this.update(found);
      return found;
    } catch (error) {
      this.failed(error);
      return null;
    } finally {
      this.acting = false;
      this.heard.stop();
    }
  }

  private update(overview: Overview): void {
    this.changed = overview.changed;
    this.heard.updated(overview);
  }

  follow(changed: number): void {
    this.changed = changed;
    if (this.queue.length) void this.flush();
    const events = new EventSource("api/events");
    const hear = (name: string, work: (about: { changed: number; share: number; text: string; shown: boolean }) => void): void =>
      events.addEventListener(name, (event) => work(JSON.parse((event as MessageEvent<string>).data) as never));
    events.onopen = () => void this.found();
    events.onerror = () => this.missing();
    // Another tab of this session may have said or learned something.
    hear("gestures", (about) => void (about.changed !== this.changed && !this.busy && !this.acting && this.refresh(false)));
    hear("metric", (about) => {
      if (!this.acting) this.heard.stop();
      if (about.changed !== this.changed && !this.acting) void this.refresh(true);
    });
    hear("progress", ({ text, share }) => this.heard.step(text, share));
    hear("audit", ({ text, share }) => this.heard.checked(text, share));
    hear("map", ({ share, shown }) => this.heard.laid(share, shown));
    hear("failed", ({ text }) => {
      this.heard.stop();
      this.heard.tell(text, true);
    });
  }

  private async refresh(moved: boolean): Promise<void> {
    try {
      this.from.forget();
      this.update(await this.from.overview());
      await this.heard.redrawn(moved);
    } catch (error) {
      this.failed(error);
    }
  }

  private missing(): void {
    this.lost = true;
    const waiting = this.queue.length ? ` Kept here and sent then: ${many(this.queue.length, "edit")}.` : "";
    this.heard.banner(`The server does not answer. Start it again (nearer explore, the same project).${waiting}`);
    this.heard.stop();
    document.body.dataset.lost = "yes";
  }

  private async found(): Promise<void> {
    if (!this.lost) return;
    this.lost = false;
    this.heard.banner("");
    delete document.body.dataset.lost;
    await this.flush();
    await this.refresh(true);
    this.heard.tell("The server is back.");
  }

  failed(error: unknown): void {
    if (error instanceof Unreachable) this.missing();
    else if (error instanceof Refused) this.heard.tell(error.message, true);
    else throw error;
  }
}
