// Pages have addresses behind #, so that the server needs to know none of them.
import { useEffect, useState } from "preact/hooks";

export const path = (...parts: string[]) => `#/${parts.map(encodeURIComponent).join("/")}`;

const read = () => {
  const parts = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean);
  try {
    return parts.map(decodeURIComponent);
  } catch {
    return [];
  }
};

/** The parts of the address: ["contract", "study"]. */
export function useRoute(): string[] {
  const [route, set] = useState(read);
  useEffect(() => {
    const changed = () => set(read());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}
