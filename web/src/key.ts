// The page's key, without which swarmctl answers nothing. The address that lets a browser in leads to it, behind the #; it stays in the storage
// of this origin, port and all, where no other server of this machine sees it, and tabs tell it each other. Anybody can have a key behind the #:
// the browser that completes an earlier address, or another site that opens this page. So one that comes is tried before it takes another's place.
const place = "key";
const channel = new BroadcastChannel("swarm-page");
const wait = 400; // ms for another tab to answer

let key = "";
let refused = false; // swarmctl does not take it
let changed = () => {};

/** Calls back when there is another key. */
export function onKey(call: () => void): void {
  changed = call;
}

const header = (one: string) => ({ "X-Swarm-Page": one });

/** What goes with each request. */
export const headers = () => header(key);

/** Notes that swarmctl did not take what went with a request, and asks other tabs for another key. */
export function refuse(sent: Record<string, string>): void {
  if (sent["X-Swarm-Page"] !== key) return;
  refused = true;
  channel.postMessage({});
}

function keep(one: string): void {
  key = one;
  refused = false;
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

/** Keeps a key that swarmctl takes, and says whether it is kept: of all that there are the browser's cookie goes with one. */
async function tried(one: string): Promise<boolean> {
  if (one === key && !refused) return true;
  try {
    if (!(await fetch("/api/key", { headers: header(one) })).ok) return false;
  } catch {
    if (key) return false; // nobody is there to say which is good
  }
  keep(one);
  return true;
}

/** Takes the key from the address or from the tab's storage, or else from another tab, if one has it. */
export const keyed: Promise<void> = new Promise((done) => {
  const [, came = ""] = /^#key=([A-Za-z0-9]+)$/.exec(location.hash) ?? [];
  if (came) history.replaceState(null, "", "/");
  channel.onmessage = (e: MessageEvent<{ key?: string }>) => {
    if (e.data.key) void tried(e.data.key).then((kept) => kept && done());
    else if (key && !refused) channel.postMessage({ key });
  };
  key = stored();
  void (came ? tried(came) : Promise.resolve(false)).then((kept) => {
    channel.postMessage(kept ? { key } : {});
    if (key) done();
    else setTimeout(done, wait);
  });
});
