// Builds the page, and says what it weighs: node build.mjs [DIRECTORY]
//
// The page is one script and one style sheet with names that never change, so that the same sources make the same bytes.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "vite";

const bound = 300 * 1024; // bytes, compressed: the page is read over slow links too
const root = import.meta.dirname;
const out = path.resolve(process.argv[2] ?? path.join(root, "../internal/swci/dashboard/page"));

await build({
  root,
  configFile: false,
  logLevel: "warn",
  base: "/",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: out,
    emptyOutDir: false, // the folder may have a file that is none of the page's
    target: "es2022",
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    modulePreload: false,
    reportCompressedSize: false,
    rollupOptions: {
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
writeFileSync(path.join(out, "licenses.txt"), terms.join("\n----\n\n"));

let all = 0;
for (const name of readdirSync(out).filter((name) => /\.(html|js|css|svg)$/.test(name)).sort()) {
  const bytes = gzipSync(readFileSync(path.join(out, name)), { level: 9 }).length;
  all += bytes;
  console.log(`${name.padEnd(12)} ${(bytes / 1024).toFixed(1).padStart(6)} KiB compressed`);
}
console.log(`${"all".padEnd(12)} ${(all / 1024).toFixed(1).padStart(6)} KiB of at most ${bound / 1024}`);
if (all > bound) {
  console.error("web: the page is too heavy: leave something out, or use less of a library");
  process.exit(1);
}
