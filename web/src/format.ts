// Numbers, sizes and times for people, as the commands print them.

/** A measure such as a loss, with four digits. */
export function measure(x: number | null | undefined): string {
  if (x == null || !Number.isFinite(x)) return "–";
  const size = Math.abs(x);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return x.toExponential(2);
  return size >= 1000 ? count(Math.round(x)) : x.toFixed(size >= 100 ? 1 : size >= 10 ? 2 : 4);
}

const grouped = new Intl.NumberFormat("en-GB"); // to make one takes longer than to format with it

/** A whole number, in groups of three. */
export const count = (n: number) => grouped.format(n);

/** A size with its unit. */
export function size(bytes: number | null | undefined): string {
  if (bytes == null) return "–";
  if (bytes < 1000) return `${bytes} bytes`;
  let x = bytes;
  let unit = "";
  for (const next of ["kB", "MB", "GB", "TB", "PB"]) {
    if (x < 999.5) break;
    x /= 1000;
    unit = next;
  }
  return `${x < 9.995 ? x.toFixed(2) : x < 99.95 ? x.toFixed(1) : x.toFixed(0)} ${unit}`;
}

/** Memory as it is sold. */
export const gibi = (bytes: number) => `${Math.round(bytes / 2 ** 30)} GiB`;

/** What a machine has of memory and disk, as get node prints it. */
export const binary = (bytes: number) => (bytes < 2 ** 30 ? `${(bytes / 2 ** 20).toFixed(1)} MiB` : `${(bytes / 2 ** 30).toFixed(1)} GiB`);

/** A length of time with its unit. */
export function span(ms: number | null | undefined): string {
  if (ms == null || !Number.isFinite(ms)) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 9.95) return `${s.toFixed(1)} s`;
  return rough(ms);
}

/** A length of time from whole seconds on, in at most two units. */
export function rough(ms: number): string {
  const s = Math.max(0, Math.round(ms / 1000));
  const two = (big: number, one: string, small: number, other: string) => (small ? `${big} ${one} ${small} ${other}` : `${big} ${one}`);
  if (s < 120) return `${s} s`;
  if (s < 3600) return s < 600 ? two(Math.floor(s / 60), "min", s % 60, "s") : `${Math.round(s / 60)} min`;
  if (s < 48 * 3600) return two(Math.floor(s / 3600), "h", Math.floor((s % 3600) / 60), "min");
  return `${Math.floor(s / 86400)} days`;
}

/** A moment as seen from now: "25 s ago", "in 3 h". */
export function relative(at: number, now: number): string {
  const ms = now - at;
  if (Math.abs(ms) < 1500) return "now";
  return ms > 0 ? `${rough(ms)} ago` : `in ${rough(-ms)}`;
}

/** A moment in UTC, as commands print it. */
export const absolute = (at: number) => `${new Date(at).toISOString().slice(0, 19).replace("T", " ")} UTC`;

/** The start of a digest, as logs have it. */
export const short = (digest: string) => digest.slice(0, 12);

/** "1 round", "2 rounds". */
export const many = (n: number, word: string) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

/** "a, b and 3 more"; nobody for none. */
export function names(list: string[], most = 6): string {
  if (list.length === 0) return "nobody";
  return list.length > most ? `${list.slice(0, most).join(", ")} and ${list.length - most} more` : list.join(", ");
}

export const percent = (share: number) => `${(100 * share).toFixed(share >= 0.0995 ? 0 : 1)} %`;

/** The last words of a SPIFFE ID, enough to tell people apart. */
export const who = (id: string) => id.replace(/^spiffe:\/\//, "");

/** A line as a sentence. */
export const sentence = (text: string) => text && `${text.startsWith("swarmctl ") ? "s" : text[0]!.toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;
