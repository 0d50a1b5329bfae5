// Runs of a contract: a reset begins another one, and of the one before it the SNs keep a history.
import { path } from "./route";

/** The address of a contract's page, of an earlier run or, for 0, of the run now. */
export const runPath = (page: "contract" | "models", name: string, run: number) => path(page, name, ...(run ? [String(run)] : []));

/** Leads to runs from before a reset, of which the SNs keep a history: lower numbers may be of other contracts. The run 0 is that of now. */
export function Runs({ name, now, run, earlier, page }: { name: string; now: number; run: number; earlier: number[]; page: "contract" | "models" }) {
  const others = [...new Set(run ? [...earlier, run] : earlier)].filter((r) => r !== now).sort((a, b) => b - a);
  if (others.length === 0) return null;
  return (
    <nav class="tabs runs" aria-label={`runs of ${name}`}>
      {[now, ...others].map((r) => (
        <a key={r} href={runPath(page, name, r === now ? 0 : r)} aria-current={r === (run || now) ? "page" : undefined}>
          run {r}
          {r === now && " (now)"}
        </a>
      ))}
    </nav>
  );
}
