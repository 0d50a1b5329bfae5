// The page by keyboard alone.
import assert from "node:assert/strict";
import { page, tell } from "./stage.mjs";

const reachable = "a[href], button:not(:disabled), input, select, summary, [tabindex='0']";

/** Presses Tab until what has the focus is called so. */
async function tabTo(name) {
  for (let i = 0; i < 300; i++) {
    await page.keyboard.press("Tab");
    const here = await page.evaluate(() => {
      const x = document.activeElement;
      const { outlineStyle, outlineWidth } = getComputedStyle(x);
      return { name: (x.ariaLabel ?? x.textContent).replace(/\s+/g, " ").trim(), seen: outlineStyle !== "none" && parseFloat(outlineWidth) > 0 };
    });
    if (!(typeof name === "string" ? here.name === name : name.test(here.name))) continue;
    assert.ok(here.seen, `${here.name} does not show that it has the focus`);
    return;
  }
  assert.fail(`Tab does not come to ${name}`);
}

async function press(name, heading) {
  await tabTo(name);
  await page.keyboard.press("Enter");
  if (heading) await page.getByRole("heading", { level: 1, name: heading, exact: true }).waitFor();
}

/** Verifies a model, from the page of the swarm on. */
export async function verifies(contract) {
  await page.evaluate(() => (location.hash = "#/"));
  await page.getByRole("heading", { level: 1, name: "Swarm" }).waitFor();
  await press("Contracts", "Contracts");
  await press(contract, contract);
  await press("Models", contract);
  await page.getByRole("button", { name: /^verify round/ }).first().waitFor();
  await press(/^verify round/);
  await press("Verify now");
  await page.getByText("The ledger proves this model").waitFor();
  tell("a model is verified by keyboard alone");
}

/** Tab comes to all that can be used, and all that can be clicked can be used by keyboard. */
export async function everywhere(what) {
  const clickable = await page.evaluate(
    (reachable) => [...document.querySelectorAll("body *")].filter((x) => x.checkVisibility() && getComputedStyle(x).cursor === "pointer" && !x.closest(`${reachable}, label`)).map((x) => x.outerHTML.slice(0, 200)),
    reachable,
  );
  assert.deepEqual(clickable, [], `${what}: what can be clicked, and not by keyboard`);
  const all = await page.evaluate((reachable) => {
    document.activeElement.blur();
    getSelection().removeAllRanges();
    const all = [...document.querySelectorAll(reachable)].filter((x) => x.checkVisibility({ visibilityProperty: true }));
    window.unreached = new Set(all);
    addEventListener("focusin", (window.reached = (e) => window.unreached.delete(e.target)));
    return all.length;
  }, reachable);
  for (let i = 0; i < all + 3; i++) await page.keyboard.press("Tab");
  const left = await page.evaluate(() => {
    removeEventListener("focusin", window.reached);
    return [...window.unreached].filter((x) => x.isConnected).map((x) => x.outerHTML.slice(0, 200));
  });
  assert.deepEqual(left, [], `${what}: what Tab does not come to`);
}
