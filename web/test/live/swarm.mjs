// A swarm at work: all pages are compared with what swarmctl prints of the same moment, while somebody kills, bans, refuses and approves.
import assert from "node:assert/strict";
import { contracts, about, node, nodes } from "./nodes.mjs";
import { failures, models, training } from "./contract.mjs";
import { approve, job, refuse, tasks } from "./tasks.mjs";
import { events } from "./events.mjs";
import { everywhere, verifies } from "./keys.mjs";
import { agree, complaints, enter, json, live, liveSign, newTab, page, run, sound, stage, table, tell, to, write } from "./stage.mjs";

const { contract, sns } = live;

/** An address that was used lets nobody else in. */
async function usedAddress() {
  const other = await newTab();
  assert.equal((await other.goto(live.address)).status(), 403);
  await other.getByText("was used before").first().waitFor();
  assert.match(await other.locator("body").innerText(), /swarmctl/);
  await other.close();
}

/** While peers train the page has each round as soon as it is committed. */
async function growing() {
  await to(`contract/${contract}`, contract);
  await agree("rounds while peers train", async () => {
    const { rounds } = await json("get", "contract", "history", contract);
    assert.ok(rounds.length >= 3);
    const shown = await table("Rounds");
    for (const r of rounds.slice(-3)) assert.ok(shown.some((row) => row.round === write.count(r.round) && row.model === r.digest), `round ${r.round}`);
  });
}

/** An SL dies when its model is to be merged: an attempt fails, and the page says why. */
async function killedSL() {
  await stage("killReady", "sl-3");
  await agree("a failed attempt", async () => {
    const { rounds } = await json("get", "contract", "history", contract);
    assert.ok(rounds.some((r) => r.failed.some((f) => f.reason)), "no attempt has failed");
  });
  await agree("a killed SL", async () => {
    const lost = (await json("get", "contract", "status", contract)).sessions.find((s) => s.node === "sl-3");
    assert.ok(lost && (!lost.live || lost.state === "ended"), "sl-3 still lives");
  });
}

async function lostSN() {
  const word = await page.locator(".live .sn").innerText();
  const asked = Object.keys(sns).find((name) => word.includes(name) || word.includes(sns[name])); // the page says a name or an address
  assert.ok(asked, `the page asks ${word}`);
  await stage("kill", asked);
  await to("", "Swarm");
  await agree("another SN", async () => {
    assert.notEqual(await page.locator(`${liveSign} .sn`).innerText({ timeout: 1000 }), word);
    await nodes();
  });
}

export async function play() {
  await enter();
  await usedAddress();
  await tasks();
  await sound("tasks");
  await approve("train");
  await refuse("primes", "no room for primes"); // which its host is asked as soon as it is free
  await growing();
  await killedSL();
  await run("ban", "node", "sl-2", "--reason", "laptop was stolen");
  await agree("a banned node", async () => assert.equal((await json("get", "contract", "status", contract)).sessions.filter((s) => s.live && s.state !== "ended").length, 1));
  await run("pause", "contract", contract);
  await agree("a pause", async () => assert.match((await json("explain", "contract", contract)).waiting, /paused/));

  await training(contract);
  await failures(contract);
  await sound("contract");
  await everywhere("contract");
  await models(contract);
  await sound("models");
  await verifies(contract);
  await contracts();
  await sound("contracts");
  await tasks();
  await job("primes");
  await sound("job");
  for (const name of ["sl-1", "sl-2", "sl-3", "sn-1", "swop"]) await node(name);
  await sound("node");
  await events("laptop was stolen");
  await sound("events");
  await to("", "Swarm");
  await agree("swarm", nodes);
  await agree("about the swarm", about);
  await sound("swarm");
  await everywhere("swarm");

  await run("resume", "contract", contract);
  await lostSN();
  assert.equal(await page.evaluate(() => window.same), true, "the page was loaded again");
  assert.deepEqual(complaints, []);
  tell("all is well");
}
