// Debian's Chromium, driven by playwright-core, which brings none.
import { existsSync } from "node:fs";
import { chromium } from "playwright-core";
import { key } from "./server.mjs";

export const executable = process.env.SWARM_CHROMIUM ?? "/usr/bin/chromium";

export const there = existsSync(executable);

export const launch = () => chromium.launch({ executablePath: executable, args: ["--no-sandbox", "--disable-gpu"] });

/** Opens the page with a clock that stands still, and fails on whatever the browser complains of. */
export async function open(browser, url, { at, hash = "", dark = false, width = 1280, height = 900 } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: dark ? "dark" : "light", deviceScaleFactor: width < 500 ? 2 : 1, reducedMotion: "reduce" });
  await context.addInitScript((key) => sessionStorage.setItem("key", key), key); // as in a tab that was let in before
  const page = await context.newPage();
  const complaints = [];
  page.on("console", (m) => m.type() === "error" && complaints.push(m.text()));
  page.on("pageerror", (e) => complaints.push(String(e)));
  if (at) await page.clock.setFixedTime(new Date(at));
  await page.goto(url + (hash && `#/${hash}`));
  await page.waitForSelector("main h1");
  return { page, complaints, close: () => context.close() };
}
