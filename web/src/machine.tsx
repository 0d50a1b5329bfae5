// What a node's machine has, and uses now.
import type { ComponentChildren } from "preact";
import type { Figures, GPU } from "./documents.gen";
import { binary, count, percent, rough, sentence } from "./format";
import { Bar, Empty, Facts, Shown, Time, Words } from "./parts";
import { useDoc } from "./store";

/** What a node says that its machine has and uses, asked for while it is on the page. */
export function Machine({ node, live }: { node: string; live: boolean }) {
  return live ? <Asked node={node} /> : <Empty title="Nobody is there who could say what its machine has and uses." />;
}

function Asked({ node }: { node: string }) {
  const doc = useDoc(`node/${node}`);
  return (
    <Shown
      doc={doc}
      what="what its machine has and uses"
      instead={
        doc?.error && (
          <Empty title={sentence(doc.error)}>
            <p>
              <Words text={doc.remedy ?? ""} />
            </p>
          </Empty>
        )
      }
    >
      {({ figures: f }) => <Has figures={f} />}
    </Shown>
  );
}

function Has({ figures: f }: { figures: Figures }) {
  const loads = [f.load_1, f.load_5, f.load_15];
  return (
    <>
      <Facts
        of={[
          ["CPUs", said(f.cpus, count)],
          ["load", loads.every((x) => x != null) ? `${loads.map((x) => x!.toFixed(2)).join(", ")} (means of 1, 5 and 15 min)` : unsaid],
          ["memory", <Used whole={f.memory_total_bytes} left={f.memory_available_bytes} what="of its memory" rest="available" />],
          ["disk", <Used whole={f.disk_total_bytes} left={f.disk_free_bytes} what="of the file system that its state is on" rest="free" />],
          ...(f.gpus.length === 0 ? [["GPUs", "none that it sees"] as [string, ComponentChildren]] : f.gpus.map((g, i): [string, ComponentChildren] => [`GPU ${i}`, <Gpu of={g} />])),
          ["open streams", f.streams_opened_by_it == null && f.streams_opened_by_others == null ? unsaid : <>opened by it {said(f.streams_opened_by_it, count)}, by others {said(f.streams_opened_by_others, count)}</>],
          ["peers with a connection", said(f.connected_peers, count)],
          ["memory of the daemon", said(f.daemon_memory_bytes, binary)],
          ["the daemon has run", f.up_seconds == null ? unsaid : <>for {rough(1000 * f.up_seconds)}, and taken {said(f.daemon_cpu_seconds, (s) => rough(1000 * s))} of processors</>],
        ]}
      />
      <p class="soft small">
        As the node said <Time at={f.taken_at} /> by its clock. It is asked every 10 s while this page shows it.
      </p>
    </>
  );
}

const unsaid = <span class="soft">not reported</span>;

/** A number as it is written, or that there is none. */
const said = (n: number | null, write: (n: number) => string): ComponentChildren => (n == null ? unsaid : write(n));

/** How much of something is used, drawn where it is known. */
function Used({ whole, left, used = whole != null && left != null ? whole - left : null, what, rest }: { whole: number | null; left?: number | null; used?: number | null; what: string; rest?: string }) {
  if (!whole) return unsaid;
  if (used == null) return <> {binary(whole)}, what of it is used is not reported</>;
  return (
    <span class="life wraps">
      <Bar share={used / whole} label={`${percent(used / whole)} ${what} is used`} />
      <span>
        {binary(used)} of {binary(whole)} used{rest && left != null ? `, ${binary(left)} ${rest}` : ""}
      </span>
    </span>
  );
}

function Gpu({ of: g }: { of: GPU }) {
  return (
    <>
      {g.name || "without a name"}, busy: {said(g.busy_percent, (n) => `${n} %`)}
      {g.memory_total_bytes == null ? <>, memory: {unsaid}</> : <Used whole={g.memory_total_bytes} used={g.memory_used_bytes} what="of its memory" />}
    </>
  );
}
