// The one place that talks to swarmctl: documents come over one stream, and pages read them from here.
import { useEffect, useReducer } from "preact/hooks";
import { readEvents } from "./events";
import { merged } from "./history";
import { headers, keyed, onKey, refuse } from "./key";
import type { Act, Acted, Document, DocumentValues, History, Link, LogLine } from "./documents.gen";

export type Doc<T> = Omit<Document, "value"> & { value?: T };

/** How the page stands with the swarm. */
export interface Contact {
  /** connecting: nothing came yet; live; stale: swarmctl has no SN; ended: it has said so; lost: it does not answer; out: it refuses this page */
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

  constructor() {
    setInterval(() => this.listen(), 5_000);
    addEventListener("online", () => this.reopen());
    document.addEventListener("visibilitychange", () => this.reopen(0)); // browsers have few streams to one server, for all tabs together
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
    if (why) this.meet({ state: "out", sn: "", since: this.known(), problem: why.error, remedy: why.remedy });
    else if (!came) this.lose();
    this.reopen(came && this.contact.state !== "ended" ? 0 : retry);
  }

  private hear(event: string, data: string): void {
    this.heard = Date.now();
    if (["lost", "connecting", "out"].includes(this.contact.state)) {
      this.meet({ state: "live", sn: this.contact.sn, since: Date.now(), problem: "", remedy: "" });
    }
    if (event === "doc") this.take(JSON.parse(data) as Doc<unknown>);
    if (event === "link") {
      const link = JSON.parse(data) as Link;
      const state = link.state === "live" || link.state === "ended" ? link.state : "stale";
      this.meet({ state, sn: link.sn, since: Date.parse(link.since) || Date.now(), problem: link.problem, remedy: link.remedy });
    }
  }

  /** Of when what is shown is. */
  private known(): number {
    const { state, since } = this.contact;
    return state === "live" || state === "connecting" ? this.heard || Date.now() : since;
  }

  private lose(): void {
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
    const answer = await fetch(`/api/doc/${encodeName(name)}`, { headers: headers() });
    if (answer.ok) return (await answer.json()) as Doc<T>;
    return { name, at, missing: answer.status === 404, ...(await refusal(answer)) };
  } catch {
    return { name, at, unanswered: true, error: "swarmctl dashboard does not answer", remedy: "start it again" };
  }
}

/** Follows a log until the signal, or until it says how it ends: one at a time. */
export async function follow(of: string, part: { host: string; member: string }, signal: AbortSignal, tell: (lines: LogLine[]) => void): Promise<Acted> {
  let end: Acted = { error: "swarmctl dashboard does not answer", remedy: "start it again" };
  const stop = new AbortController();
  following?.abort();
  following = stop;
  try {
    await keyed;
    const sent = headers();
    const answer = await fetch(`/api/logs/${encodeName(of)}?${new URLSearchParams(part)}`, { headers: sent, signal: AbortSignal.any([signal, stop.signal]) });
    if (answer.status === 401) refuse(sent);
    if (!answer.ok || !answer.body) return await refusal(answer);
    await readEvents(answer.body, (event, data) => {
      if (event === "lines") tell(JSON.parse(data) as LogLine[]);
      if (event === "end") end = JSON.parse(data) as Acted;
    });
  } catch {
    if (stop.signal.aborted) return { said: "another log is followed" };
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
