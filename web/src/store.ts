// The one place that talks to swarmctl: documents come over one stream, and pages read them from here.
import { useEffect, useReducer, useState } from "preact/hooks";
import { readEvents } from "./events";
import { size } from "./format";
import { merged } from "./history";
import { headers, keyed, onKey, refuse } from "./key";
import type { Act, Acted, Document, DocumentValues, History, Link, LogLine } from "./documents.gen";

export type Doc<T> = Omit<Document, "value"> & { value?: T };

/** How the page stands with the swarm. */
export interface Contact {
  /** connecting: nothing came yet, or nothing since the page was left; live; stale: swarmctl has no SN; ended: it has said so; lost: it does not answer; out: it refuses this page */
  state: "connecting" | "live" | "stale" | "ended" | "lost" | "out";
  sn: string;
  since: number;
  problem: string;
  remedy: string;
}

const silence = 25_000; // ms without an event
const retry = 2_000;
const together = 15; // ms in which documents that come together do so
const pace = 250; // ms between two times that watchers are told of what changes
const kept = 80; // documents of pages that were left
const asked = ["swarm", "nodes"]; // documents that come of an SN which answers now, and of nothing else

class Store {
  contact: Contact = { state: "connecting", sn: "", since: Date.now(), problem: "", remedy: "" };

  private docs = new Map<string, Doc<unknown>>();
  private watchers = new Map<string, Set<() => void>>();
  private onContact = new Set<() => void>();
  private stop: AbortController | undefined; // of the stream
  private open = new Set<string>(); // what the stream watches
  private due: number | undefined;
  private later = new Set<string>(); // documents that changed, of which watchers are not told yet
  private telling: number | undefined; // the timer until they are
  private heard = 0; // when an event came last: of then is what is shown
  private opened = 0;
  private left = 0; // of when what is shown is, from the page's leaving on until something comes that is newer; else 0
  private told: Link | undefined; // how swarmctl stands with the swarm, as it has said last
  private failed = new Map<string, Doc<unknown>>(); // documents that did not come meanwhile: the swarm may be gone, and what was known stays

  constructor() {
    setInterval(() => this.listen(), 5_000);
    addEventListener("online", () => this.reopen());
    document.addEventListener("visibilitychange", () => this.turn()); // browsers have few streams to one server, for all tabs together
    onKey(() => this.reopen());
  }

  get(name: string): Doc<unknown> | undefined {
    return this.docs.get(name);
  }

  /** Keeps a document fresh until the function that it returns is called. */
  watch(name: string, changed: () => void): () => void {
    const all = this.watchers.get(name) ?? new Set();
    this.watchers.set(name, all.add(changed));
    if (!this.open.has(name)) this.reopen();
    return () => {
      all.delete(changed);
      if (all.size === 0) this.watchers.delete(name);
    };
  }

  /** Calls back when the contact changes. */
  watchContact(changed: () => void): () => void {
    this.onContact.add(changed);
    return () => this.onContact.delete(changed);
  }

  /** Takes a document that came, whole or as rounds to add. */
  take(doc: Doc<unknown>): void {
    if (doc.name.startsWith("history/") && doc.value) {
      const value = merged(this.docs.get(doc.name)?.value as History | undefined, doc.value as History);
      if (!value) return this.reopen(); // a stream begins with all of it
      doc = { ...doc, value };
    }
    const first = !this.docs.get(doc.name)?.value || !doc.value;
    this.docs.delete(doc.name); // the newest are the last
    this.docs.set(doc.name, doc);
    for (const name of this.docs.keys()) {
      if (this.docs.size <= kept) break;
      if (!this.watchers.has(name)) this.docs.delete(name);
    }
    if (first) return this.tell(doc.name);
    this.later.add(doc.name);
    this.telling ??= setTimeout(() => this.tellAll(), together);
  }

  private tell(name: string): void {
    this.later.delete(name);
    for (const changed of this.watchers.get(name) ?? []) changed();
  }

  /** Tells of all that changed, and then of nothing for a while. */
  private tellAll(): void {
    const names = [...this.later];
    for (const name of names) this.tell(name);
    this.telling = names.length > 0 ? setTimeout(() => this.tellAll(), pace) : undefined;
  }

  /** Leaves the swarm when nobody sees the page, and comes back when somebody does: until something is newer the page is not live. */
  private turn(): void {
    if (document.hidden) this.leave();
    else if (this.contact.state === "live") this.meet({ ...this.contact, state: "connecting" });
    this.reopen(0);
  }

  /** Notes of when what is shown is. */
  private leave(): void {
    if (this.contact.state !== "connecting") this.left ||= this.known();
  }

  private reopen(delay = 20): void {
    clearTimeout(this.due);
    this.due = setTimeout(() => void this.connect(), delay);
  }

  /** Opens one stream for all that is watched, in place of the one before. A page that nobody sees has none. */
  private async connect(): Promise<void> {
    this.stop?.abort();
    this.stop = undefined;
    const names = document.hidden ? [] : [...this.watchers.keys()].sort();
    this.open = new Set(names);
    if (names.length === 0) return;
    const stop = (this.stop = new AbortController());
    await keyed;
    if (stop !== this.stop) return;
    this.opened = Date.now();
    let why: { error: string; remedy: string } | undefined;
    let came = false;
    const sent = headers();
    try {
      const answer = await fetch(`/api/stream?watch=${names.map(encodeName).join(",")}&points=600`, { headers: sent, signal: stop.signal });
      if (answer.status === 401) refuse(sent);
      if (!answer.ok || !answer.body) why = await refusal(answer);
      else {
        await readEvents(answer.body, (event, data) => {
          if (stop !== this.stop) return;
          came = true;
          this.hear(event, data);
        });
      }
    } catch {
      // it has broken off, or nobody is there
    }
    if (stop !== this.stop) return;
    if (why) this.leave();
    if (why) this.meet({ state: "out", sn: "", since: this.known(), problem: why.error, remedy: why.remedy });
    else if (!came) this.lose();
    this.reopen(came && this.contact.state !== "ended" ? 0 : retry);
  }

  private hear(event: string, data: string): void {
    this.heard = Date.now();
    if (event === "link") {
      this.told = JSON.parse(data) as Link;
      if (this.told.state === "stale") this.failed.clear();
    }
    if (event === "doc") this.come(JSON.parse(data) as Doc<unknown>);
    if (event === "" && this.told?.state === "live") this.renewed(); // it would have said by now that no SN answers
    if (event === "link" || ["lost", "connecting", "out"].includes(this.contact.state)) this.stand();
  }

  /** Takes a document. One that did not come takes no value's place while the swarm can't be asked, or may not have been. */
  private come(doc: Doc<unknown>): void {
    this.failed.delete(doc.name);
    if (doc.value === undefined && this.docs.get(doc.name)?.value !== undefined) {
      if (this.told?.state === "stale") return;
      if (this.left) return void this.failed.set(doc.name, doc);
    }
    if (doc.value !== undefined && asked.includes(doc.name)) this.renewed();
    this.take(doc);
  }

  /** Notes that what is shown is of now again. */
  private renewed(): void {
    if (!this.left) return;
    this.left = 0;
    for (const doc of this.failed.values()) this.take(doc);
    this.failed.clear();
    this.stand();
  }

  /** Shows how swarmctl stands with the swarm; while what is shown is older than that, of when it is. */
  private stand(): void {
    const { state, sn, since, problem, remedy } = this.told ?? { state: "live", sn: this.contact.sn, since: "", problem: "", remedy: "" };
    const is = state === "live" ? (this.left ? "connecting" : "live") : state === "ended" ? "ended" : "stale";
    const at = Date.parse(since) || Date.now();
    this.meet({ state: is, sn, since: this.left ? Math.min(this.left, at) : at, problem, remedy });
  }

  /** Of when what is shown is. */
  private known(): number {
    const { state, since } = this.contact;
    return this.left || (state === "live" || state === "connecting" ? this.heard || Date.now() : since);
  }

  private lose(): void {
    this.leave();
    if (this.contact.state === "lost" || this.contact.state === "ended") return;
    this.meet({ state: "lost", sn: this.contact.sn, since: this.known(), problem: "swarmctl dashboard does not answer", remedy: "start it again if it has ended, and open the address that it prints" });
  }

  /** Where nothing changes swarmctl says every few seconds that it is there. */
  private listen(): void {
    if (!this.stop || this.contact.state === "lost" || Date.now() - Math.max(this.heard, this.opened) < silence) return;
    this.lose();
    this.reopen();
  }

  private meet(contact: Contact): void {
    this.contact = contact;
    for (const changed of this.onContact) changed();
  }
}

const encodeName = (name: string) => name.split("/").map(encodeURIComponent).join("/");

export const store = new Store();

/** The document of a name, kept fresh while the caller is on the page; undefined: it has not come yet. */
export function useDoc<K extends keyof DocumentValues>(name: K): Doc<DocumentValues[K]> | undefined;
export function useDoc<T>(name: string): Doc<T> | undefined;
export function useDoc<T>(name: string): Doc<T> | undefined {
  const [, changed] = useReducer((n: number) => n + 1, 0);
  useEffect(() => (name ? store.watch(name, () => changed(undefined)) : undefined), [name]);
  return store.get(name) as Doc<T> | undefined;
}

/** How the page stands with the swarm. */
export function useContact(): Contact {
  const [, changed] = useReducer((n: number) => n + 1, 0);
  useEffect(() => store.watchContact(() => changed(undefined)), []);
  return store.contact;
}

/** Asks for a document once. */
export async function ask<T>(name: string): Promise<Doc<T> & { unanswered?: boolean; missing?: boolean }> {
  const at = new Date().toISOString();
  try {
    await keyed;
    const sent = headers();
    const answer = await fetch(`/api/doc/${encodeName(name)}`, { headers: sent });
    if (answer.status === 401) refuse(sent);
    if (answer.ok) return (await answer.json()) as Doc<T>;
    return { name, at, missing: answer.status === 404, ...(await refusal(answer)) };
  } catch {
    return { name, at, unanswered: true, error: "swarmctl dashboard does not answer", remedy: "start it again" };
  }
}

/** Asks for a document once, when it is first shown. One that has not come is asked for again when the swarm can be asked again, and by the function. */
export function useAsked<T>(name: string): { doc: Doc<T> | undefined; asking: boolean; again: () => void } {
  const [came, set] = useState<Doc<T>>();
  const [asking, setAsking] = useState(true);
  const [turn, again] = useReducer((n: number) => n + 1, 0);
  const live = useContact().state === "live";
  const doc = came?.name === name ? came : undefined;
  useEffect(() => {
    let left = false;
    setAsking(true);
    void ask<T>(name).then((d) => !left && (set(d), setAsking(false)));
    return () => void (left = true);
  }, [name, turn]);
  useEffect(() => {
    if (live && doc?.error && !doc.gone) again(undefined);
  }, [live]);
  return { doc, asking, again: () => again(undefined) };
}

/** Has swarmctl fetch a model, and saves it when it is whole. */
export async function fetchModel(contract: string, round: number, digest: string): Promise<Acted> {
  const broken = { error: `the model of round ${round} has not come whole, and nothing was saved`, remedy: `fetch it again, or in a terminal, which says why: swarmctl get model ${contract} --round ${round}` };
  let begun = false;
  try {
    await keyed;
    const answer = await fetch(`/api/model/${encodeURIComponent(contract)}?${new URLSearchParams({ round: String(round), digest })}`, { headers: headers() });
    if (!answer.ok) return await refusal(answer);
    begun = true;
    const file = await answer.blob();
    if (file.size !== Number(answer.headers.get("Content-Length"))) return broken;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(file);
    link.download = /filename="?([\w.-]+)/.exec(answer.headers.get("Content-Disposition") ?? "")?.[1] ?? `round-${round}.safetensors`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    return { said: `${link.download}, ${size(file.size)}, was handed to the browser; its digest was checked` };
  } catch {
    return begun ? broken : { error: "swarmctl dashboard does not answer", remedy: "start it again" };
  }
}

/** Follows a log until the signal, until it says how it ends, or until nobody has said for long that it goes on: one at a time. */
export async function follow(of: string, part: { host: string; member: string }, signal: AbortSignal, tell: (lines: LogLine[]) => void): Promise<Acted> {
  let end: Acted = { error: "swarmctl dashboard does not answer", remedy: "start it again" };
  const stop = new AbortController();
  following?.abort();
  following = stop;
  let due: number | undefined;
  const hear = () => {
    clearTimeout(due);
    due = setTimeout(() => stop.abort(silence), silence);
  };
  try {
    await keyed;
    const sent = headers();
    hear();
    const answer = await fetch(`/api/logs/${encodeName(of)}?${new URLSearchParams(part)}`, { headers: sent, signal: AbortSignal.any([signal, stop.signal]) });
    if (answer.status === 401) refuse(sent);
    if (!answer.ok || !answer.body) return await refusal(answer);
    await readEvents(answer.body, (event, data) => {
      hear();
      if (event === "lines") tell(JSON.parse(data) as LogLine[]);
      if (event === "end") end = JSON.parse(data) as Acted;
    });
  } catch {
    if (stop.signal.reason === silence) return { error: `swarmctl dashboard has sent nothing for ${silence / 1000} s`, remedy: "see whether it runs and can be reached, and follow the log again" };
    if (stop.signal.aborted) return { said: "another log is followed" };
  } finally {
    clearTimeout(due);
  }
  return end;
}

let following: AbortController | undefined;

async function refusal(answer: Response): Promise<{ error: string; remedy: string }> {
  const said = (await answer.json().catch(() => ({}))) as { error?: string; remedy?: string };
  return { error: said.error || `swarmctl answers with status ${answer.status}`, remedy: said.remedy ?? "" };
}

/** Has swarmctl do something in the name of its own identity. */
export async function act(what: Act): Promise<Acted> {
  try {
    const answer = await fetch("/api/act", { method: "POST", headers: { "Content-Type": "application/json", ...headers() }, body: JSON.stringify(what) });
    const said = (await answer.json().catch(() => ({}))) as Acted;
    return said.said || said.error ? said : { error: `swarmctl answers with status ${answer.status}`, remedy: "" };
  } catch {
    return { error: "swarmctl dashboard does not answer", remedy: "start it again" };
  }
}
