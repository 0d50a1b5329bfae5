// Lists that grow at their head, a page at a time. They hold still for whoever reads or works in them.
import { useRef, useState } from "preact/hooks";
import { count } from "./format";

export const page = 25;

export interface Pages<T> {
  shown: T[];
  first: number; // how many are newer than those shown
  all: number;
  /** Shows the page that begins behind so many newer ones; 0: the newest, whatever comes. */
  go: (first: number) => void;
  /** Keeps what is shown where it is, until the list is left for its newest page. */
  keep: () => void;
  /** What makes an element hold the list still while the pointer or the focus is in it. */
  still: { onPointerEnter: () => void; onPointerLeave: () => void; onFocusIn: () => void; onFocusOut: (e: FocusEvent) => void };
}

/** Pages of a list whose newest round comes first. */
export function usePages<T extends { round: number }>(list: T[]): Pages<T> {
  const [at, setAt] = useState<{ round: number; held: boolean } | null>(null); // the first round that is shown; held: only while somebody points at it
  const found = at ? list.findIndex((x) => x.round <= at.round) : 0;
  const first = found < 0 ? Math.max(0, list.length - page) : found;
  const anchor = (held: boolean) => {
    const top = list[first];
    if (top && !at) setAt({ round: top.round, held });
    else if (at?.held && !held) setAt({ ...at, held });
  };
  const go = (next: number) => {
    const top = list[Math.min(Math.max(0, next), list.length - 1)];
    setAt(next <= 0 || !top ? null : { round: top.round, held: false });
  };
  const inside = useRef({ pointer: false, focus: false });
  const stay = (what: "pointer" | "focus", is: boolean) => {
    inside.current[what] = is;
    if (is) anchor(true);
    else if (at?.held && !inside.current.pointer && !inside.current.focus) setAt(null);
  };
  const out = (e: FocusEvent) => {
    if (!(e.currentTarget as Element).contains(e.relatedTarget as Element | null)) stay("focus", false);
  };
  return { shown: list.slice(first, first + page), first, all: list.length, go, keep: () => anchor(false), still: { onPointerEnter: () => stay("pointer", true), onPointerLeave: () => stay("pointer", false), onFocusIn: () => stay("focus", true), onFocusOut: out } };
}

export function Pager({ first, shown, all, go }: { first: number; shown: number; all: number; go: (first: number) => void }) {
  return (
    <>
      <span class="soft small">{all === 0 ? "none" : `${count(first + 1)} to ${count(first + shown)} of ${count(all)}`}{shown < all && <span class="paper"> are on paper; the screen has all</span>}</span>
      {first > page && (
        <button type="button" class="quiet" onClick={() => go(0)}>
          newest
        </button>
      )}
      <button type="button" class="quiet" disabled={first === 0} onClick={() => go(Math.max(0, first - page))}>
        newer
      </button>
      <button type="button" class="quiet" disabled={first + shown >= all} onClick={() => go(first + page)}>
        older
      </button>
    </>
  );
}
