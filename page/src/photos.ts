// Pictures in the place of points, where few are in view.

// More would cover each other.
const MOST = 60;
// Those of where one looked before.
const KEPT = 400;

export class MapPhotos {
  private readonly images = new Map<number, HTMLImageElement>();
  private wanted: number[] = [];

  constructor(private readonly address: (item: number) => string | null, private readonly changed: () => void) {}

  // These are in view.
  look(items: number[]): void {
    const before = this.wanted.length;
    this.wanted = items.length <= MOST ? items : [];
    if (this.images.size > KEPT) this.images.clear();
    for (const item of this.wanted) {
      const address = this.images.has(item) ? null : this.address(item);
      if (!address) continue;
      const image = new Image();
      this.images.set(item, image);
      image.addEventListener("load", this.changed);
      image.src = address;
    }
    document.body.dataset.photos = String(this.wanted.filter((item) => this.images.has(item)).length);
    if (before || this.wanted.length) this.changed();
  }

  // Those of them that have come.
  ready(): [number, HTMLImageElement][] {
    return this.wanted.flatMap((item) => {
      const image = this.images.get(item);
      return image?.complete && image.naturalWidth ? [[item, image] as [number, HTMLImageElement]] : [];
    });
  }
}
