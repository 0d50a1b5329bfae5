// What all pages are made of.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useReducer, useRef, useState } from "preact/hooks";
import { absolute, count, names, relative, rough, short } from "./format";
import { useContact, type Doc } from "./store";
import type { NoQuorum } from "./documents.gen";

/** Something that pages share and that changes: listeners are told. */
class Shared<T> {
  private listeners = new Set<() => void>();
  constructor(public value: T) {}
  set(value: T) {
    this.value = value;
    for (const changed of this.listeners) changed();
  }
  use(): T {
    const [, changed] = useReducer((n: number) => n + 1, 0);
    useEffect(() => {
      const on = () => changed(undefined);
      this.listeners.add(on);
      return () => void this.listeners.delete(on);
    }, []);
    return this.value;
  }
}

const clock = new Shared(Date.now());
setInterval(() => document.hidden || clock.set(Date.now()), 1000);
const clockTimes = new Shared(remembered("times") === "absolute");

const paper = matchMedia("print");
const printing = new Shared(paper.matches);
paper.addEventListener("change", (e) => printing.set(e.matches));
addEventListener("beforeprint", () => printing.set(true));
addEventListener("afterprint", () => printing.set(paper.matches));

function remembered(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/** The time now, once a second. */
export const useNow = () => clock.use();

/** Chooses between "25 s ago" and the time in UTC, on all pages. */
export function TimesButton() {
  const exact = clockTimes.use();
  const toggle = () => {
    clockTimes.set(!exact);
    try {
      localStorage.setItem("times", exact ? "relative" : "absolute");
    } catch {
      // then it lasts as long as the page
    }
  };
  return (
    <button type="button" class="quiet" aria-pressed={exact} onClick={toggle} title={exact ? "show how long ago" : "show times in UTC"}>
      UTC times
    </button>
  );
}

/** A moment: how long ago, and exactly; on paper exactly. With words: "for 25 s" or "since TIME", "for another 25 s" or "until TIME". */
export function Time({ at, none = "–", words }: { at: string | null | undefined; none?: string; words?: "since" | "until" }) {
  const now = useNow();
  const onPaper = printing.use();
  const exact = clockTimes.use() || onPaper;
  const ms = at ? Date.parse(at) : NaN;
  if (Number.isNaN(ms)) return <span class="soft">{none}</span>;
  return (
    <time dateTime={at!} title={exact ? relative(ms, now) : absolute(ms)} class="nowrap">
      {exact ? <Exact at={ms} words={words} /> : words === "since" ? `for ${rough(Math.max(0, now - ms))}` : words === "until" && ms > now ? `for another ${rough(ms - now)}` : relative(ms, now)}
    </time>
  );
}

/** A moment in UTC, whose day stays on one line where its column is narrow. */
function Exact({ at, words }: { at: number; words: string | undefined }) {
  const [day, ...rest] = absolute(at).split(" ");
  return (
    <>
      {words && `${words} `}
      <span class="nowrap">{day}</span> {rest.join(" ")}
    </>
  );
}

export type Tone = "good" | "busy" | "warn" | "bad" | "off";

/** A state in a word, with a mark whose form says the same as its colour. */
export function State({ tone, children }: { tone: Tone; children: ComponentChildren }) {
  return (
    <span class={`state ${tone}`}>
      <svg class="mark" viewBox="0 0 10 10" aria-hidden="true">
        {tone === "good" && <circle cx="5" cy="5" r="4" />}
        {tone === "busy" && <path d="M5 1a4 4 0 1 1-4 4h4z" />}
        {tone === "warn" && <path d="M5 .8 9.6 9.2H.4z" />}
        {tone === "bad" && <path d="M1.2 1.2h7.6v7.6H1.2z" />}
        {tone === "off" && <circle cx="5" cy="5" r="3.3" fill="none" />}
      </svg>
      {children}
    </span>
  );
}

/** A part of a page with a heading. What stands beside it may say where its figures come from. */
export function Section({ title, note, aside, children, id }: { title: string; note?: ComponentChildren; aside?: ComponentChildren; children: ComponentChildren; id?: string }) {
  const own = useId();
  return (
    <section aria-labelledby={own} id={id}>
      <div class="head">
        <h2 id={own}>{title}</h2>
        {note && <p class="soft small">{note}</p>}
        {aside && <div class="aside">{aside}</div>}
      </div>
      {children}
    </section>
  );
}

const sources = {
  reported: "Nodes have reported these figures, and nobody has checked them.",
  recorded: "The SN that is asked has these figures in its state and its ledger. They were not checked here.",
  verified: "swarmctl has read the ledger, and has checked its chain and the signatures in it.",
};

/** Where figures come from. */
export function Source({ of }: { of: keyof typeof sources }) {
  return (
    <span class={`source ${of}`} title={sources[of]}>
      {of}
    </span>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p>
        <b>{title}</b>
      </p>
      {children}
    </div>
  );
}

/** What is wrong, and what to do about it. */
export function Problem({ error, remedy, tone = "bad", alert = false }: { error: string; remedy?: string | undefined; tone?: "bad" | "warn" | "off"; alert?: boolean }) {
  return (
    <div class={`problem ${tone}`} role={alert ? "alert" : undefined}>
      <p>{error}</p>
      {remedy && (
        <p>
          <b>To do:</b> <Words text={remedy} />
        </p>
      )}
    </div>
  );
}

/** What has been asked for and has not come. */
export function Awaited({ what }: { what: string }) {
  const { state } = useContact();
  if (state !== "live" && state !== "connecting") return <p class="awaited">Nobody who answers can be asked for {what}.</p>;
  return (
    <p class="awaited" role="status">
      Asking the swarm for {what}…
    </p>
  );
}

/** A document's value in what is given, or in its place that it is awaited or why it is not there. */
export function Shown<T>({ doc, what, instead, children }: { doc: Doc<T> | undefined; what: string; instead?: ComponentChildren; children: (value: T) => ComponentChildren }) {
  if (instead) return <>{instead}</>;
  if (!doc) return <Awaited what={what} />;
  if (doc.value === undefined) return <Problem error={doc.error ?? `there is no answer about ${what}`} remedy={doc.remedy} />;
  return <>{children(doc.value)}</>;
}

/** As Shown, and under an error what there was last: nobody loses what they work in. */
export function Kept<T>({ doc, what, children }: { doc: Doc<T> | undefined; what: string; children: (value: T) => ComponentChildren }) {
  const last = useRef<T | undefined>(undefined);
  if (doc?.value !== undefined) last.current = doc.value;
  const value = last.current;
  return (
    <>
      {!doc && value === undefined && <Awaited what={what} />}
      {doc && doc.value === undefined && <Problem alert error={doc.error ?? `there is no answer about ${what}`} remedy={doc.remedy} />}
      {value !== undefined && children(value)}
    </>
  );
}

/** Too few SNs answer. */
export function Quorum({ of }: { of: NoQuorum | null | undefined }) {
  if (!of) return null;
  return (
    <Problem
      error={`${of.message}. This is what ${of.sn} knew last.`}
      remedy={of.remedy + (of.missing.length ? ` Missing: ${of.missing.map((m) => `${m.name} at ${m.address}`).join(", ")}.` : "")}
    />
  );
}

/** A table in a frame of its own that can be scrolled, also by keyboard. */
export function Table({ caption, head, children, class: name = "" }: { caption: string; head: ComponentChildren; children: ComponentChildren; class?: string }) {
  return (
    <div class={`frame ${name}`} role="region" aria-label={caption} tabIndex={0}>
      <table>
        <caption class="hidden">{caption}</caption>
        <thead>
          <tr>{head}</tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

/** The first of many rows, and a button for all of them. */
export function useFirst<T>(all: T[], most = 25): [shown: T[], more: ComponentChildren] {
  const [whole, set] = useState(false);
  if (whole || all.length <= most + 5) return [all, null];
  return [
    all.slice(0, most),
    <>
      <button type="button" class="more" onClick={() => set(true)}>
        show all {count(all.length)}
      </button>
      <Cut shown={most} all={all.length} />
    </>,
  ];
}

/** Says on paper that a list goes on. */
export function Cut({ shown, all }: { shown: number; all: number }) {
  if (shown >= all) return null;
  return (
    <p class="paper soft small">
      {count(shown)} of {count(all)} are on paper; the screen has all.
    </p>
  );
}

/** Names and values. What is null is left out. */
export function Facts({ of }: { of: [name: string, value: ComponentChildren][] }) {
  return (
    <dl class="facts">
      {of
        .filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false)
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

/** A digest or another long name: its start, and all of it in the clipboard. */
export function Digest({ of, whole = false }: { of: string; whole?: boolean }) {
  const [copied, set] = useState(false);
  if (!of) return <span class="soft">–</span>;
  const copy = () =>
    navigator.clipboard?.writeText(of).then(
      () => {
        set(true);
        setTimeout(() => set(false), 1500);
      },
      () => undefined,
    );
  return (
    <button type="button" class={whole ? "digest whole" : "digest"} title={copied ? "copied" : `${of}: click to copy`} onClick={copy}>
      <code>{whole ? of : short(of)}</code>
      <span class="copied" role="status">
        {copied ? "copied" : ""}
      </span>
    </button>
  );
}

/** A line in which commands stand out, so that they can be copied. */
export function Words({ text }: { text: string }) {
  const parts = text.split(/(swarmctl [^;]*?(?=$|;|, or |\. ))/);
  const isCommand = (i: number) => i % 2 === 1 && !/\bthat $/.test(parts[i - 1]!); // "the address that swarmctl dashboard printed"
  return <>{parts.map((part, i) => (isCommand(i) ? <code key={i}>{part}</code> : part))}</>;
}

/** A SPIFFE ID or an address, which breaks at its slashes if it must. */
export function Id({ of }: { of: string }) {
  return <>{of.split("/").map((part, i) => [i > 0 && "/", i > 2 && <wbr key={i} />, part])}</>;
}

/** Names of nodes, each of which stays on one line. */
export function Names({ of, most }: { of: string[]; most: number }) {
  return (
    <>
      {names(of, most)
        .split(" ")
        .map((word, i) => [
          i > 0 && " ",
          <span class="nowrap" key={i}>
            {word}
          </span>,
        ])}
    </>
  );
}

/** A part of a whole, drawn. */
export function Bar({ share, label }: { share: number; label: string }) {
  return (
    <svg class="bar" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label={label}>
      <rect class="track" width="100" height="6" />
      <rect class="fill" width={100 * Math.min(1, Math.max(0, share))} height="6" />
    </svg>
  );
}
