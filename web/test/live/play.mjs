// Runs a play that drives the page of a real swarm: node test/live/play.mjs, with the swarm in LIVE as JSON.
import { close, live } from "./stage.mjs";

try {
  const { play } = await import(`./${live.play}.mjs`);
  await play();
} finally {
  await close();
}
