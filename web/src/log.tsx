// A log: its last lines, and those that follow while its reader looks.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Acted, LogLine } from "./documents.gen";
import { sentence } from "./format";
import { Empty, Words } from "./parts";
import { follow } from "./store";

const kept = 500; // lines on a page

/** Lines of a log, the newest at the bottom and in sight, unless older ones are looked at or some are selected. What comes is put behind what is there, which stays as it is. */
export function Lines({ of, label }: { of: LogLine[]; label: string }) {
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  const has = useRef<LogLine[]>([]); // for each a text node
  useLayoutEffect(() => {
    const b = box.current!;
    const from = has.current.indexOf(of[0]!); // those before it have gone
    const gone = from < 0 ? has.current.length : from;
    const stay = has.current.length - gone;
    const { scrollTop: top, scrollHeight: height } = b;
    for (let i = 0; i < gone; i++) b.firstChild!.remove();
    const less = height - b.scrollHeight;
    b.append(...of.slice(stay).map((x) => `${x.from ? `${x.from}  ` : ""}${x.text}\n`));
    has.current = of;
    if (!atEnd.current || selects(b)) b.scrollTop = top - less; // what is read stays where it is
    else b.scrollTop = b.scrollHeight;
  }, [of]);
  const look = () => {
    const b = box.current!;
    atEnd.current = b.scrollHeight - b.scrollTop - b.clientHeight < 8;
  };
  return <pre class="log" ref={box} tabIndex={0} role="region" aria-label={label} onScroll={look} />;
}

/** Whether somebody has selected something in an element. */
function selects(e: Element): boolean {
  const s = getSelection();
  return !!s && !s.isCollapsed && (e.contains(s.anchorNode) || e.contains(s.focusNode));
}

/** Follows the log of a node, or of a member of a job, while it is on the page; the button ends that, and its lines stay. With takesFocus the button stands where the pressed one was. */
export function Followed({ of, host = "", member = "", label, takesFocus, done }: { of: string; host?: string; member?: string; label: string; takesFocus?: boolean; done: () => void }) {
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (takesFocus) button.current?.focus();
  }, []);
  const [lines, set] = useState<LogLine[]>([]);
  const [end, setEnd] = useState<Acted | undefined>();
  const [cut, setCut] = useState(false);
  useEffect(() => {
    if (end) return;
    const stop = new AbortController();
    let all: LogLine[] = [];
    let due = 0; // what comes at once is drawn at once
    const draw = () => {
      due = 0;
      set(all);
    };
    void follow(of, { host, member }, stop.signal, (came) => {
      setCut((had) => had || all.length + came.length > kept);
      all = [...all, ...came.map((l) => (member ? { ...l, from: "" } : l))].slice(-kept); // who prints is said above
      due ||= requestAnimationFrame(draw);
    }).then((end) => {
      if (!stop.signal.aborted) setEnd(end);
    });
    return () => {
      stop.abort();
      cancelAnimationFrame(due);
      set(all);
    };
  }, [!end]);
  return (
    <>
      <p>
        {end ? (
          <button type="button" ref={button} onClick={done}>
            Close
          </button>
        ) : (
          <button type="button" ref={button} onClick={() => setEnd({ said: "you have stopped following it" })}>
            Stop following
          </button>
        )}{" "}
        <span class="soft" role="status">
          {end ? (end.error ? "No more lines come." : sentence(end.said ?? "")) : lines.length ? "Lines are shown as they come." : "Asking the host…"} {cut && `The newest ${kept} are kept.`}
        </span>
      </p>
      {end?.error && (
        <Empty title={sentence(end.error)}>
          <p>
            <Words text={end.remedy ?? ""} />
          </p>
        </Empty>
      )}
      {lines.length > 0 && <Lines of={lines} label={label} />}
    </>
  );
}
