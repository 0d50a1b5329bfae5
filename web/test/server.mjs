// Serves the built page with documents of the tests, with the headers of swarmctl dashboard.
import { createReadStream, existsSync } from "node:fs";
import { createServer } from "node:http";
import path from "node:path";

const page = path.join(import.meta.dirname, "../../internal/swci/dashboard/page");
const types = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };
/** What the page is let in with. */
export const key = "PAGEKEY";
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** Starts the server; what it returns changes what pages see. */
export async function serve(docs, { at = new Date().toISOString(), proofs, port = 0 } = {}) {
  const streams = new Set();
  const logs = new Set(); // that pages follow
  let noLog; // what is said instead of one
  const acts = [];
  let linked = { state: "live", sn: "127.0.41.1:30304", since: at, problem: "", remedy: "" }; // what each stream begins with, until it changes
  let refused = 0; // a status instead of answers
  let good = key;
  let answer = { said: "approved on swop-1" };
  let models = (response) => response.writeHead(404).end();
  const doc = (name) => {
    const value = docs[name];
    if (value?.error) return { name, at, error: value.error, remedy: value.remedy ?? "", ...(value.gone && { gone: true }) };
    if (value === undefined) return { name, at, error: `there is no ${name.split("/")[0]} of ${name.split("/")[1] ?? name}`, remedy: "" };
    return { name, at, value };
  };
  const send = (to, event, data) => to.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  const server = createServer((request, response) => {
    const url = new URL(request.url, "http://x");
    response.setHeader("Content-Security-Policy", policy);
    response.setHeader("Cache-Control", "no-store");
    if (refused && url.pathname.startsWith("/api/")) {
      response.writeHead(refused, { "Content-Type": "application/json" }).end(JSON.stringify(refused === 401 ? { error: "this browser was not let in", remedy: "open the address that swarmctl dashboard printed last" } : {}));
      return;
    }
    if (url.pathname.startsWith("/api/") && request.headers["x-swarm-page"] !== good) {
      response.writeHead(401, { "Content-Type": "application/json" }).end(JSON.stringify({ error: "this page was not let in", remedy: "open the address that swarmctl dashboard printed last" }));
      return;
    }
    if (url.pathname === "/api/key") {
      response.writeHead(204).end();
      return;
    }
    if (url.searchParams.has("token")) {
      response.writeHead(303, { Location: `/#key=${good}` }).end();
      return;
    }
    if (url.pathname === "/api/stream") {
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      const stream = { response, names: url.searchParams.get("watch").split(",") };
      streams.add(stream);
      request.on("close", () => streams.delete(stream));
      send(response, "link", linked);
      for (const name of stream.names) if (docs[name] !== null) send(response, "doc", doc(name));
      return;
    }
    if (url.pathname.startsWith("/api/logs/")) {
      if (noLog) {
        response.writeHead(503, { "Content-Type": "application/json" }).end(JSON.stringify(noLog));
        return;
      }
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      response.write(": asked\n\n");
      const log = { response, of: decodeURIComponent(url.pathname.slice(10)), host: url.searchParams.get("host"), member: url.searchParams.get("member") };
      logs.add(log);
      request.on("close", () => logs.delete(log));
      return;
    }
    if (url.pathname.startsWith("/api/model/")) {
      models(response, { contract: decodeURIComponent(url.pathname.slice(11)), ...Object.fromEntries(url.searchParams) });
      return;
    }
    if (url.pathname === "/api/act") {
      let body = "";
      request.on("data", (part) => (body += part));
      request.on("end", () => {
        const act = JSON.parse(body);
        const waits = (docs.approvals?.approvals ?? []).some((a) => a.task === act.task && a.host === act.host && a.digest === act.digest);
        if (!waits) {
          response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify({ error: "which task on which host is meant, and its digest, was not said", remedy: "reload the page" }));
          return;
        }
        acts.push(act);
        response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify(answer));
      });
      return;
    }
    if (url.pathname.startsWith("/api/doc/")) {
      const name = url.pathname.slice(9).split("/").map(decodeURIComponent).join("/");
      const proof = name.match(/^proof\/(.+)\/(\d+)$/);
      if (docs[name] === undefined && !(proof && proofs)) {
        response.writeHead(404, { "Content-Type": "application/json" }).end(JSON.stringify({ error: `there is no document "${name}"`, remedy: "" }));
        return;
      }
      response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify(proof && proofs && docs[name] === undefined ? { name, at, value: proofs(Number(proof[2])) } : doc(name)));
      return;
    }
    const file = path.join(page, url.pathname === "/" ? "index.html" : path.basename(url.pathname));
    if (!existsSync(file)) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, { "Content-Type": types[path.extname(file)] ?? "application/octet-stream" });
    createReadStream(file).pipe(response);
  });
  await new Promise((done) => server.listen(port, "127.0.0.1", done));
  return {
    url: `http://127.0.0.1:${server.address().port}/`,
    acts,
    watched: () => [...streams].flatMap((s) => s.names),
    set(name, value) {
      docs[name] = value;
      for (const s of streams) if (s.names.includes(name)) send(s.response, "doc", doc(name));
    },
    /** Sends a document without keeping it, as rounds that follow come. */
    streams: () => streams.size,
    push: (name, value) => streams.forEach((s) => s.names.includes(name) && send(s.response, "doc", { name, at, value })),
    link: (link) => {
      linked = link;
      streams.forEach((s) => send(s.response, "link", link));
    },
    drop: () => streams.forEach((s) => s.response.destroy()),
    refuse: (status) => (refused = status),
    /** Has another key, as the browser has another cookie after a new address. */
    rekey: (key) => (good = key),
    answer: (said) => (answer = said),
    /** Logs that are followed, and what comes of them. */
    followed: () => [...logs].map(({ of, host, member }) => ({ of, host, member })),
    print: (lines) => logs.forEach((l) => send(l.response, "lines", lines)),
    endLog: (end) => logs.forEach((l) => (send(l.response, "end", end), l.response.end())),
    noLog: (said) => (noLog = said),
    /** Answers who fetches a model. */
    models: (answer) => (models = answer),
    async close() {
      if (!server.listening) return;
      const closed = new Promise((done) => server.close(done)); // nobody comes in any more, also not in place of who goes
      server.closeAllConnections();
      await closed;
    },
  };
}
