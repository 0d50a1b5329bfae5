// The page of events.
import assert from "node:assert/strict";
import { agree, json, live, page, same, table, to, write } from "./stage.mjs";

const kind = (d) => (d.task ? ["task", d.task] : d.round ? ["model", d.contract] : d.contract ? ["contract", d.contract] : d.does === "set rights" ? ["rights", ""] : ["node", d.node || d.peer_id]);

/** The page has each deed of the audit, newest first, and finds those that somebody looks for. */
export async function events(word) {
  await to("events", "Events");
  await page.getByRole("combobox").selectOption("recorded");
  await agree("events", async () => {
    const { deeds } = await json("audit", "--bundle", live.bundle);
    same(await table("Events"), deeds.reverse().map((d) => ({ when: d.at, what: d.does, about: kind(d).join(" ").trim(), who: d.by || "the SNs", source: `verified record ${write.count(d.record)}` })), "events");
    for (const d of deeds.filter((d) => d.reason)) assert.ok((await table("Events")).some((row) => row.source.endsWith(` record ${write.count(d.record)}`) && row.more.includes(d.reason)), d.reason);
  });
  const { deeds } = await json("audit");
  await page.getByRole("searchbox").fill(word);
  const found = await table("Events");
  assert.equal(found.length, deeds.filter((d) => d.reason.includes(word)).length, word);
  await page.getByRole("searchbox").fill("");
  await page.getByRole("combobox").selectOption("task");
  assert.equal((await table("Events")).length, deeds.filter((d) => kind(d)[0] === "task").length);
}
