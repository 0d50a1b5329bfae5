// How pages are looked at: in light and dark, as wide as a phone, and on paper.
import { mkdirSync } from "node:fs";
import path from "node:path";

const looks = [
  ["light", { width: 1280, height: 900 }, { colorScheme: "light", media: "screen" }],
  ["dark", { width: 1280, height: 900 }, { colorScheme: "dark", media: "screen" }],
  ["phone", { width: 390, height: 844 }, { colorScheme: "light", media: "screen" }],
  ["print", { width: 718, height: 1016 }, { colorScheme: "dark", media: "print" }], // A4 within margins; paper is light
];

/** Writes pictures of a page into a directory, one for each look, and says where it is wider than its window. */
export async function picture(page, out, name) {
  mkdirSync(out, { recursive: true });
  for (const [look, size, media] of looks) {
    await page.setViewportSize(size);
    await page.emulateMedia(media);
    await page.waitForTimeout(150); // curves are drawn anew
    await page.waitForFunction(() => !document.querySelector("[data-drawing]"));
    const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (over > 0) console.log(`${name}, ${look}: ${over} px too wide`);
    await page.screenshot({ path: path.join(out, `${name}-${look}.png`), fullPage: true, timeout: 120_000 }); // a long page on a slow machine
  }
  await page.setViewportSize(looks[0][1]);
  await page.emulateMedia(looks[0][2]);
}
