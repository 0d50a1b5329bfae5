// Curves over rounds or epochs, by uPlot: values on hover and by arrow keys, names at the curves' ends.
import { useEffect, useId, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { Crowd } from "./crowd";
import { count } from "./format";
import type { Values } from "./history";

export interface Series {
  name: string;
  values: Values;
  /** the merged model's; the others are peers' */
  main?: boolean;
  /** drawn dashed */
  dashed?: boolean;
  /** which of the colours; undefined: none of its own, for there are too many */
  hue?: number | undefined;
}

export const hues = 6;

interface Props {
  title: string;
  rounds: number[];
  series: Series[];
  format: (x: number) => string;
  log?: boolean;
  /** how the vertical axis is written, if not as plain numbers */
  ticks?: (x: number) => string;
  note?: preact.ComponentChildren;
  empty: string;
  /** what the horizontal axis counts, if not rounds */
  unit?: string;
}

const height = 236;

export function Chart({ title, rounds, series, format, log: logFirst = false, ticks, note, empty, unit = "round" }: Props) {
  const [log, setLog] = useState(logFirst);
  const [zoomed, setZoomed] = useState(false);
  const [at, setAt] = useState<number | null>(null); // place among the rounds
  const [near, setNear] = useState<string | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const id = useId();
  const shape = series.map((s) => `${s.name} ${s.hue}`).join("\n");
  const has = series.some((s) => s.values.some((v) => v != null));
  const data = useMemo(() => [rounds, ...series.map((s) => (log ? s.values.map((v) => (v != null && v > 0 ? v : null)) : s.values))] as uPlot.AlignedData, [rounds, series, log]);
  const now = useRef({ data, series, format, ticks, zoomed });
  now.current = { data, series, format, ticks, zoomed };
  const seen = useRef(true); // by who looks at the page
  const draw = () => {
    const u = plot.current;
    const { data, zoomed } = now.current;
    if (!u || u.data === data) return;
    u.setData(data, !zoomed);
    if (zoomed) u.redraw();
  };
  useColours(() => {
    draw();
    plot.current?.redraw(false);
  });

  useEffect(() => {
    if (!box.current || !has) return;
    seen.current = true;
    const u = new uPlot(options(box.current, now, { log, unit }, { setAt, setNear, setZoomed }, () => plot.current?.redraw(false)), now.current.data, box.current);
    plot.current = u;
    u.root.querySelector("canvas")?.setAttribute("aria-hidden", "true");
    const watcher = new ResizeObserver(([entry]) => entry && u.setSize({ width: Math.max(200, Math.floor(entry.contentRect.width)), height }));
    watcher.observe(box.current);
    const looker = new IntersectionObserver(
      (all) => {
        seen.current = all.at(-1)!.isIntersecting;
        if (seen.current) draw();
      },
      { rootMargin: "200px" },
    );
    looker.observe(box.current);
    return () => {
      watcher.disconnect();
      looker.disconnect();
      plot.current = null;
      u.destroy();
    };
  }, [shape, log, has]);

  useEffect(() => {
    if (seen.current) draw();
  }, [data]);

  const move = (to: number) => {
    draw();
    const u = plot.current;
    if (!u || rounds.length === 0) return;
    const i = Math.min(rounds.length - 1, Math.max(0, to));
    setAt(i);
    u.setCursor({ left: u.valToPos(rounds[i]!, "x"), top: u.bbox.height / devicePixelRatio / 2 }, false);
  };
  const keys = (e: KeyboardEvent) => {
    const here = at ?? newest(rounds.length, series);
    const step = e.shiftKey ? Math.max(1, Math.round(rounds.length / 20)) : 1;
    const to = { ArrowLeft: here - step, ArrowRight: here + step, Home: 0, End: rounds.length - 1 }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    move(to);
  };
  const whole = () => {
    draw();
    const u = plot.current;
    if (u) u.setScale("x", { min: rounds[0]!, max: rounds[rounds.length - 1]! });
    setZoomed(false);
  };

  const i = at ?? newest(rounds.length, series);
  return (
    <figure class="chart">
      <figcaption>
        <h3 id={id}>{title}</h3>
        {note}
        <span class="tools">
          {zoomed && (
            <button type="button" class="quiet" onClick={whole}>
              all {unit}s
            </button>
          )}
          {has && (
            <button type="button" class="quiet" aria-pressed={log} onClick={() => setLog(!log)}>
              log scale
            </button>
          )}
        </span>
      </figcaption>
      {has ? (
        <>
          <Readout series={series} rounds={rounds} at={i} read={at !== null} near={near} format={format} unit={unit} />
          <div class="plot" ref={box} tabIndex={0} role="group" aria-roledescription="chart" aria-labelledby={id} aria-describedby={`${id}-how`} onKeyDown={keys} onBlur={() => setAt(null)} />
          <p class="hidden" id={`${id}-how`}>
            Left and right arrow read the values of {unit === "epoch" ? "an" : "a"} {unit}; with Shift in larger steps. The table of rounds has the numbers.
          </p>
        </>
      ) : (
        <p class="nothing soft">{empty}</p>
      )}
    </figure>
  );
}

/** The last round of which there are most values: of the newest ones not all have reported yet. */
function newest(rounds: number, series: Series[]): number {
  let [best, most] = [rounds - 1, 0];
  for (let i = rounds - 1, looked = 0; i >= 0 && looked < 4; i--) {
    const known = series.filter((s) => s.values[i] != null).length;
    if (known > 0) looked++;
    if (known > most) [best, most] = [i, known];
  }
  return best;
}

/** The values at a round; it is the key to the curves too. It is told to whoever reads a round, and not with each that comes. */
function Readout({ series, rounds, at, read, near, format, unit }: { series: Series[]; rounds: number[]; at: number; read: boolean; near: string | null; format: (x: number) => string; unit: string }) {
  const told = series.filter((s) => named(s) || s.name === near).sort((a, b) => Number(!!b.main) - Number(!!a.main));
  const rest = series.filter((s) => !told.includes(s));
  const values = rest.map((s) => s.values[at]).filter((v): v is number => v != null);
  return (
    <p class="readout" aria-live={read ? "polite" : "off"}>
      <span class="at">{unit} {rounds[at] === undefined ? "–" : count(rounds[at])}</span>
      {told.map((s) => (
        <span key={s.name}>
          <i class={s.main ? "swatch main" : s.hue === undefined ? "swatch" : `swatch hue${s.hue}`} aria-hidden="true" />
          {s.name} <b>{s.values[at] == null ? "–" : format(s.values[at])}</b>
        </span>
      ))}
      {values.length > 0 && (
        <span>
          <i class="swatch" aria-hidden="true" />
          {count(rest.length)} more peers{" "}
          <b>
            {format(Math.min(...values))} to {format(Math.max(...values))}
          </b>
        </span>
      )}
    </p>
  );
}

const paper = matchMedia("print");
const looks = [matchMedia("(prefers-color-scheme: dark)"), paper];

/** Calls back when colours are others: those of the system, or of paper. */
function useColours(changed: () => void): void {
  useEffect(() => {
    for (const look of looks) look.addEventListener("change", changed);
    return () => {
      for (const look of looks) look.removeEventListener("change", changed);
    };
  }, []);
}

interface Told {
  setAt: (i: number | null) => void;
  setNear: (name: string | null) => void;
  setZoomed: (yes: boolean) => void;
}

/** Whether a curve has a name at its end: there is no room for those of many peers. */
const named = (s: Series) => !!s.main || s.hue !== undefined;

const thin = 0.75; // width of the curves of many peers

const font = "11px system-ui, sans-serif";

function options(box: HTMLElement, now: { current: { series: Series[]; format: (x: number) => string; ticks: ((x: number) => string) | undefined; data: uPlot.AlignedData } }, { log, unit }: { log: boolean; unit: string }, told: Told, again: () => void): uPlot.Options {
  const style = getComputedStyle(box);
  const colors = new Map<string, string>(); // of what is drawn now: to look them up takes longer than to draw
  const color = (name: string) => {
    let value = colors.get(name);
    if (value === undefined) colors.set(name, (value = style.getPropertyValue(name).trim()));
    return value;
  };
  const { series } = now.current;
  const stroke = (s: Series) => (s.main ? color("--ink") : s.hue === undefined ? color("--faint") : color(`--hue${s.hue}`));
  const axis = { stroke: () => color("--soft"), font, grid: { stroke: () => color("--line"), width: 1, filter: withValues }, ticks: { show: false } };
  const others = series.flatMap((s, i) => (named(s) || s.dashed ? [] : [i + 1]));
  const crowd = others.length > hues ? new Crowd(others, thin, again) : undefined;
  const gutter = series.length > 1 ? Math.min(110, Math.max(...series.filter(named).map((s) => measured(s.name))) + 22) : 8;
  return {
    width: Math.max(200, box.clientWidth),
    height,
    padding: [8, gutter, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { size: 6 }, focus: { prox: 30 }, drag: { x: true, y: false, setScale: true } },
    focus: { alpha: 1 },
    scales: { x: { time: false }, y: log ? { distr: 3 } : { range: (_u, min, max) => padded(min, max) } },
    axes: [
      { ...axis, grid: { show: false }, size: 20, gap: 4, space: 44, label: unit, labelSize: 18, labelGap: 0, labelFont: font, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000], values: (_u, all) => all.map((v) => count(v)) },
      { ...axis, size: 52, gap: 6, space: 34, values: (_u, all) => all.map((v) => (v == null ? "" : (now.current.ticks?.(v) ?? tick(v, all)))) },
    ],
    series: [
      {},
      ...series.map((s, i) => ({
        label: s.name,
        stroke: () => stroke(s), // as it is drawn: a page may be printed
        width: s.main ? 2.25 : s.hue === undefined ? thin : 1.25,
        ...(s.dashed && { dash: [6, 4] }),
        ...(crowd && others.includes(i + 1) && { paths: () => null }), // it draws them
        spanGaps: true,
        points: { show: () => now.current.data[0].length < 3 },
      })),
    ],
    hooks: {
      setCursor: [(u) => told.setAt(u.cursor.idx ?? null)],
      setSeries: [(u, i) => told.setNear(i == null ? null : ((u.series[i]?.label as string) ?? null))],
      setSelect: [(u) => u.select.width > 0 && told.setZoomed(true)],
      drawClear: [() => colors.clear()],
      drawAxes: [(u) => crowd?.draw(u, color("--faint"), paper.matches)],
      destroy: [() => crowd?.stop()],
      draw: [(u) => series.length > 1 && ends(u, now.current.series, stroke, color("--ink"))],
    },
  };
}

/** On a log scale only lines that have a number beside them. */
const withValues: uPlot.Axis.Filter = (u, splits, i, space, incr) => (u.axes[i]!.filter as uPlot.Axis.Filter)(u, splits, i, space, incr);

const pen = document.createElement("canvas").getContext("2d");

function measured(text: string): number {
  if (!pen) return 8 * text.length;
  pen.font = font;
  return pen.measureText(text).width;
}

function padded(min: number, max: number): [number, number] {
  if (min === max) return [min - Math.abs(min || 1) * 0.1, max + Math.abs(max || 1) * 0.1];
  const pad = (max - min) * 0.06;
  const low = min - pad;
  return [min >= 0 && low < 0 ? 0 : low, max <= 1 && max + pad > 1 ? Math.max(1, max) : max + pad];
}

function tick(v: number, all: number[]): string {
  const shown = all.filter((x) => x != null);
  const step = shown.length > 1 ? Math.abs(shown[1]! - shown[0]!) : Math.abs(v);
  if (v !== 0 && (Math.abs(v) < 1e-3 || Math.abs(v) >= 1e5)) return v.toExponential(0);
  const rough = step === 0 ? 2 : Math.max(0, Math.min(4, -Math.floor(Math.log10(step) + 1e-9)));
  const digits = rough < 4 && Math.abs(step - Number(step.toFixed(rough))) > step / 100 ? rough + 1 : rough; // steps of 0.25 have two
  return v >= 1000 ? count(Math.round(v)) : v.toFixed(Math.abs(v) < 1 && shown.length > 1 ? Math.max(digits, v === 0 ? digits : -Math.floor(Math.log10(Math.abs(v)) + 1e-9)) : digits);
}

/** Writes each curve's name at its end, apart from the others. */
function ends(u: uPlot, series: Series[], stroke: (s: Series) => string, ink: string): void {
  const ratio = devicePixelRatio;
  const step = 14 * ratio;
  const labels = series.flatMap((s, i) => {
    if (!named(s)) return [];
    const data = u.data[i + 1]!;
    let last = data.length - 1;
    const max = u.scales.x!.max ?? Infinity;
    while (last >= 0 && (data[last] == null || u.data[0][last]! > max)) last--;
    if (last < 0) return [];
    const y = u.valToPos(data[last]!, "y", true);
    return [{ s, x: u.valToPos(u.data[0][last]!, "x", true), from: y, y }];
  });
  labels.sort((a, b) => a.y - b.y);
  const low = u.bbox.top;
  const high = u.bbox.top + u.bbox.height;
  for (const [i, l] of labels.entries()) l.y = Math.max(l.y, i ? labels[i - 1]!.y + step : low + step / 2);
  for (let i = labels.length - 1; i >= 0; i--) labels[i]!.y = Math.min(labels[i]!.y, i < labels.length - 1 ? labels[i + 1]!.y - step : high - step / 3);
  const { ctx } = u;
  ctx.save();
  ctx.font = `${11 * ratio}px system-ui, sans-serif`;
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  ctx.lineWidth = ratio;
  const right = u.bbox.left + u.bbox.width;
  for (const l of labels) {
    ctx.strokeStyle = stroke(l.s);
    ctx.setLineDash(l.x < right - 8 * ratio ? [ratio, 5 * ratio] : []); // a curve that has ended does not go on
    ctx.beginPath();
    ctx.moveTo(Math.min(l.x, right) + 2 * ratio, l.from);
    ctx.lineTo(right + 12 * ratio, l.y);
    ctx.stroke();
    ctx.fillStyle = ink;
    ctx.fillText(l.s.name, right + 16 * ratio, l.y, u.width * ratio - right - 16 * ratio);
  }
  ctx.restore();
}
