// Runs of a contract: a reset begins another one, and of the one before it the SNs keep a history.
import { path } from "./route";

/** The address of a contract's page, of an earlier run or, for 0, of the run now. */
export const runPath = (page: "contract" | "models", name: string, run: number) => path(page, name, ...(run ? [String(run)] : []));

const most = 12; // runs to choose from

/** Lets one look at a run from before a reset. */
export function RunChooser({ name, now, run, page }: { name: string; now: number; run: number; page: "contract" | "models" }) {
  if (now < 2) return null;
  const runs = Array.from({ length: Math.min(now, most) }, (_, i) => now - i);
  if (run && !runs.includes(run)) runs.push(run);
  return (
    <label class="run">
      <span class="hidden">run of the contract</span>
      <select value={run || now} onChange={(e) => (location.hash = runPath(page, name, Number(e.currentTarget.value) === now ? 0 : Number(e.currentTarget.value)))}>
        {runs.map((r) => (
          <option key={r} value={r}>
            run {r}
            {r === now && " (now)"}
          </option>
        ))}
      </select>
    </label>
  );
}
