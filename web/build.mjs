// Builds the page of swarmctl dashboard and report.html, and says what they weigh: node build.mjs [DIRECTORY]
//
// The page is one script and one style sheet with names that never change, so that the same sources make the same bytes. The
// report is one file. In a DIRECTORY they lie as below internal/swci.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createHash } from "node:crypto";
import { tmpdir } from "node:os";
import path from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "vite";

const bound = 300 * 1024; // bytes, compressed, of each: pages are read over slow links too
const root = import.meta.dirname;
const out = path.resolve(process.argv[2] ?? path.join(root, "../internal/swci"));

/** Builds what an HTML file of the sources refers to. */
const bundle = (entry, dir, base) =>
  build({
    root,
    configFile: false,
    logLevel: "warn",
    base,
    publicDir: entry === "index.html" ? "public" : false,
    oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
    build: {
      outDir: dir,
      emptyOutDir: false, // the folder may have a file that is none of the page's
      target: "es2022",
      cssCodeSplit: false,
      assetsInlineLimit: 0,
      modulePreload: false,
      reportCompressedSize: false,
      rollupOptions: {
        input: path.join(root, entry),
        output: {
          entryFileNames: "app.js",
          chunkFileNames: "[name].js",
          assetFileNames: (asset) => (asset.names.some((name) => name.endsWith(".css")) ? "app.css" : "[name][extname]"),
        },
      },
    },
  });

// What others wrote goes out with their terms.
const { dependencies } = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8"));
const terms = Object.entries(dependencies).map(([name, version]) => `${name} ${version}\n\n${readFileSync(path.join(root, "node_modules", name, "LICENSE"), "utf8").trim()}\n`);

const page = path.join(out, "dashboard/page");
await bundle("index.html", page, "/");
writeFileSync(path.join(page, "licenses.txt"), terms.join("\n----\n\n"));
weigh("dashboard", page);

const report = path.join(out, "report/page");
const parts = mkdtempSync(path.join(tmpdir(), "swarm-report-"));
await bundle("report.html", parts, "./");
mkdirSync(report, { recursive: true });
writeFileSync(path.join(report, "report.html"), inOneFile(parts));
rmSync(parts, { recursive: true });
weigh("report", report);

/** The report's script and style sheet in its HTML, which lets the browser run these and fetch nothing. */
function inOneFile(dir) {
  const read = (name) => readFileSync(path.join(dir, name), "utf8").trim();
  const sha = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
  const [script, style] = [read("app.js"), read("app.css")];
  const end = /<\/(script|style)|<!--|%REPORT_/i;
  if ([script, style, ...terms].some((text) => end.test(text)) || terms.some((text) => text.includes("-->")) || /(^|[;}])(import|export)\b/m.test(script)) {
    throw new Error("web: the report's script or style can't stand in HTML");
  }
  const policy = `default-src 'none'; script-src ${sha(script)}; style-src ${sha(style)}; base-uri 'none'; form-action 'none'`;
  const put = (html, what, instead) => {
    if (html.split(what).length !== 2) throw new Error(`web: report.html does not have ${what} once`);
    return html.replace(what, () => instead);
  };
  let html = read("report.html");
  html = put(html, html.match(/ *<script type="module"[^>]*><\/script>\n/)[0], "");
  html = put(html, html.match(/ *<link rel="stylesheet"[^>]*>\n/)[0], `    <style>${style}</style>\n`);
  html = put(html, '<meta charset="utf-8" />\n', `<meta charset="utf-8" />\n    <meta http-equiv="Content-Security-Policy" content="${policy}" />\n`);
  return put(html, "  </body>", `    <script type="module">${script}</script>\n    <!--\nContains:\n\n${terms.join("\n")}-->\n  </body>`) + "\n";
}

/** Fails if what a folder holds is too heavy. */
function weigh(what, dir) {
  let all = 0;
  for (const name of readdirSync(dir).filter((name) => /\.(html|js|css|svg)$/.test(name)).sort()) {
    const bytes = gzipSync(readFileSync(path.join(dir, name)), { level: 9 }).length;
    all += bytes;
    console.log(`${name.padEnd(12)} ${(bytes / 1024).toFixed(1).padStart(6)} KiB compressed`);
  }
  console.log(`${what.padEnd(12)} ${(all / 1024).toFixed(1).padStart(6)} KiB of at most ${bound / 1024}`);
  if (all > bound) {
    console.error(`web: ${what} is too heavy: leave something out, or use less of a library`);
    process.exit(1);
  }
}
