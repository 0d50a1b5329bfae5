// Curves of many peers, which have no colour of their own, as one picture. It is drawn a few curves a frame, so that the page goes on, and
// is kept while rounds are added: these are drawn over it.
import type uPlot from "uplot";
import type { Values } from "./history";

const few = 4000; // values that are drawn at once
const late = 8; // rounds at the end that are not in a picture: what is reported of them still comes
const most = 24; // rounds that are drawn over a picture before there is another
const [slice, firstSlice] = [6, 25]; // ms of a frame: the first picture is waited for
const glimpse = 250; // ms between two looks at a first picture that is in work

/** The points of a curve, x and y by turns: in each column of pixels where it enters and leaves, its least and its most. */
export function points(rounds: number[], values: Values, from: number, to: number, x: (round: number) => number, y: (value: number) => number): number[] {
  const out: number[] = [];
  let [column, first, last, low, high] = [NaN, -1, -1, -1, -1];
  const end = () => {
    let before = -1;
    for (const i of low < high ? [first, low, high, last] : [first, high, low, last]) {
      if (i > before) out.push(x(rounds[i]!), y(values[i]!));
      before = Math.max(before, i);
    }
  };
  for (let i = from; i < to; i++) {
    const v = values[i];
    if (v == null) continue;
    const at = Math.floor(x(rounds[i]!));
    if (at !== column) {
      if (first >= 0) end();
      [column, first, last, low, high] = [at, i, i, i, i];
      continue;
    }
    last = i;
    if (v < values[low]!) low = i;
    if (v > values[high]!) high = i;
  }
  if (first >= 0) end();
  return out;
}

/** Where a plot's values are on its canvas. */
interface Frame {
  width: number;
  height: number;
  x: [min: number, max: number];
  y: [min: number, max: number];
  log: boolean;
  color: string;
}

interface Picture {
  of: Frame;
  canvas: HTMLCanvasElement;
  ctx: CanvasRenderingContext2D;
  rounds: number[];
  curves: Values[];
  drawn: number; // of the curves
}

export class Crowd {
  private done: Picture | undefined;
  private next: Picture | undefined; // in work
  private asked = 0; // for a frame
  private checked: uPlot.AlignedData | undefined; // data whose start is that of the picture
  private blank = true; // there is no picture but that in work
  private shown = 0; // when that was

  /** Of the series at these places. A picture that is there, or that grows, has the plot drawn again. */
  constructor(
    private readonly at: number[],
    private readonly width: number,
    private readonly again: () => void,
  ) {}

  /** Draws the curves below all that the plot draws; whole: now, and not when there is time. */
  draw(u: uPlot, color: string, whole: boolean): void {
    const { left, top, width, height } = u.bbox;
    const [x, y] = [u.scales.x!, u.scales.y!];
    if (x.min == null || x.max == null || y.min == null || y.max == null || width <= 0 || height <= 0) return;
    const frame: Frame = { width, height, x: [x.min, x.max], y: [y.min, y.max], log: y.distr === 3, color };
    const rounds = u.data[0] as number[];
    const curves = this.at.map((i) => u.data[i] as Values);
    const { ctx } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width, height);
    ctx.clip();
    ctx.translate(left, top);
    if (whole || rounds.length * curves.length <= few) {
      this.pen(ctx, color);
      for (const values of curves) stroke(ctx, frame, rounds, values, ...inside(rounds, values, frame.x));
      this.blank = false;
    } else this.blend(ctx, u.data, frame, rounds, curves);
    u.root.toggleAttribute("data-drawing", this.blank); // they are not all there yet
    ctx.restore();
  }

  stop(): void {
    cancelAnimationFrame(this.asked);
    this.done = this.next = undefined;
  }

  /** Draws the picture that there is with what is newer, and has another made if it is none of the best. */
  private blend(ctx: CanvasRenderingContext2D, data: uPlot.AlignedData, frame: Frame, rounds: number[], curves: Values[]): void {
    const { done } = this;
    this.blank = true;
    if (done && alike(done.of, frame) && near(placed(done.of, frame), frame, 0.3)) {
      const place = placed(done.of, frame);
      ctx.drawImage(done.canvas, ...place);
      this.blank = false;
      const last = done.rounds.at(-1)!;
      let from = rounds.length;
      while (from > 0 && rounds[from - 1]! > last) from--;
      this.pen(ctx, frame.color);
      ctx.beginPath();
      for (const values of curves) trace(ctx, frame, rounds, values, before(values, from), rounds.length);
      ctx.stroke();
      const still = near(place, frame, 1 / Math.max(frame.width, frame.height)); // but for less than a pixel
      if (still && rounds.length - from <= most && this.begins(data, done, rounds, curves)) return;
    }
    if (!this.next || !alike(this.next.of, frame) || !near(placed(this.next.of, frame), frame, 0.1)) {
      this.next = this.begin(frame, rounds, curves);
      this.ask();
    }
    if (this.blank && this.next) ctx.drawImage(this.next.canvas, ...placed(this.next.of, frame));
  }

  /** Whether data begin as a picture's do. */
  private begins(data: uPlot.AlignedData, picture: Picture, rounds: number[], curves: Values[]): boolean {
    if (this.checked === data) return true;
    const n = picture.rounds.length;
    if (rounds.length < n) return false;
    for (let i = 0; i < n; i++) if (rounds[i] !== picture.rounds[i]) return false;
    for (const [k, values] of curves.entries()) {
      const had = picture.curves[k]!;
      for (let i = 0; i < n; i++) if (values[i] !== had[i]) return false;
    }
    this.checked = data;
    return true;
  }

  private begin(frame: Frame, rounds: number[], curves: Values[]): Picture | undefined {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [frame.width, frame.height];
    const ctx = canvas.getContext("2d", { willReadFrequently: true });
    if (!ctx) return undefined;
    this.pen(ctx, frame.color);
    const n = Math.max(1, rounds.length - late);
    return { of: frame, canvas, ctx, rounds: rounds.slice(0, n), curves: curves.map((values) => values.slice(0, n)), drawn: 0 };
  }

  private pen(ctx: CanvasRenderingContext2D, color: string): void {
    ctx.strokeStyle = color;
    ctx.lineWidth = this.width * devicePixelRatio;
    ctx.lineJoin = "round";
    ctx.setLineDash([]);
  }

  private ask(): void {
    cancelAnimationFrame(this.asked);
    this.asked = requestAnimationFrame(() => this.step());
  }

  /** Draws some curves of the picture in work. */
  private step(): void {
    const { next } = this;
    if (!next) return;
    const from = performance.now();
    while (next.drawn < next.curves.length) {
      const values = next.curves[next.drawn++]!;
      stroke(next.ctx, next.of, next.rounds, values, ...inside(next.rounds, values, next.of.x));
      next.ctx.getImageData(0, 0, 1, 1); // has it drawn now, not all at the end
      if (performance.now() - from > (this.blank ? firstSlice : slice)) break;
    }
    if (next.drawn === next.curves.length) {
      [this.done, this.next, this.checked] = [next, undefined, undefined];
      this.again();
      return;
    }
    this.ask();
    if (!this.blank || from - this.shown < glimpse) return;
    this.shown = from;
    this.again();
  }
}

const alike = (a: Frame, b: Frame) => a.width === b.width && a.height === b.height && a.log === b.log && a.color === b.color;

type Rect = [left: number, top: number, width: number, height: number];

const scaled = (v: number, log: boolean) => (log ? Math.log10(v) : v);

/** Where x and y of a value are in a frame. */
function scales(f: Frame): [x: (v: number) => number, y: (v: number) => number] {
  const [low, high] = [scaled(f.y[0], f.log), scaled(f.y[1], f.log)];
  const [wide, tall] = [f.width / (f.x[1] - f.x[0] || 1), f.height / (high - low || 1)];
  return [(v) => (v - f.x[0]) * wide, (v) => (high - scaled(v, f.log)) * tall];
}

/** Where a picture of one frame is in another. */
export function placed(of: Frame, into: Frame): Rect {
  const [x, y] = scales(into);
  const [left, top] = [x(of.x[0]), y(of.y[1])];
  return [left, top, x(of.x[1]) - left, y(of.y[0]) - top];
}

/** Whether all edges of a rectangle are those of a frame, but for such a share of it. */
const near = ([left, top, width, height]: Rect, f: Frame, by: number) =>
  Math.max(Math.abs(left), Math.abs(left + width - f.width)) < by * f.width && Math.max(Math.abs(top), Math.abs(top + height - f.height)) < by * f.height;

/** The last value before a place, or the first of all. */
function before(values: Values, place: number): number {
  let i = place - 1;
  while (i > 0 && values[i] == null) i--;
  return Math.max(0, i);
}

/** From where to where values are in sight, with one more at each side. */
function inside(rounds: number[], values: Values, [min, max]: [number, number]): [from: number, to: number] {
  let [from, to] = [0, rounds.length];
  while (from < to && rounds[from]! < min) from++;
  while (to > from && rounds[to - 1]! > max) to--;
  let next = to;
  while (next < rounds.length && values[next] == null) next++;
  return [before(values, from), Math.min(rounds.length, next + 1)];
}

function trace(ctx: CanvasRenderingContext2D, frame: Frame, rounds: number[], values: Values, from: number, to: number): void {
  const all = points(rounds, values, from, to, ...scales(frame));
  for (let i = 0; i < all.length; i += 2) {
    if (i === 0) ctx.moveTo(all[0]!, all[1]!);
    else ctx.lineTo(all[i]!, all[i + 1]!);
  }
}

function stroke(ctx: CanvasRenderingContext2D, frame: Frame, rounds: number[], values: Values, from: number, to: number): void {
  ctx.beginPath();
  trace(ctx, frame, rounds, values, from, to);
  ctx.stroke();
}
