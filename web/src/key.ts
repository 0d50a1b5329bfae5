// The page's key, without which swarmctl answers nothing. The address that lets a browser in leads to it, behind the #; it stays in the storage
// of this origin, port and all, where no other server of this machine sees it, and tabs tell it each other.
const place = "key";
const channel = new BroadcastChannel("swarm-page");
const wait = 400; // ms for another tab to answer

let key = "";
let changed = () => {};

/** Calls back when there is another key. */
export function onKey(call: () => void): void {
  changed = call;
}

/** What goes with each request. */
export const headers = () => ({ "X-Swarm-Page": key });

function keep(one: string): void {
  if (!one || one === key) return;
  key = one;
  try {
    sessionStorage.setItem(place, one);
  } catch {
    // then it lasts as long as the page
  }
  changed();
}

function stored(): string {
  try {
    return sessionStorage.getItem(place) ?? "";
  } catch {
    return "";
  }
}

/** Takes the key from the address or from the tab's storage, or else from another tab, if one has it. */
export const keyed: Promise<void> = new Promise((done) => {
  const [, came = ""] = /^#key=([A-Za-z0-9]+)$/.exec(location.hash) ?? [];
  if (came) history.replaceState(null, "", "/");
  channel.onmessage = (e: MessageEvent<{ key?: string }>) => {
    if (e.data.key) {
      keep(e.data.key);
      done();
    } else if (key) {
      channel.postMessage({ key });
    }
  };
  keep(came || stored());
  if (key) done();
  else setTimeout(done, wait);
  channel.postMessage(came ? { key } : {});
});
