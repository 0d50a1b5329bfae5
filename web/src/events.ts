// Server-sent events over fetch, which sends the page's key: EventSource sends no header.

/** Tells of each event, and of a comment as one without a name, until the stream ends. */
export async function readEvents(body: ReadableStream<Uint8Array<ArrayBuffer>>, tell: (event: string, data: string) => void): Promise<void> {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest: string[] = []; // of a line that has not ended
  let event = "";
  let data = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = value.split("\n");
    if (lines.length === 1) {
      rest.push(value);
      continue;
    }
    lines[0] = rest.join("") + lines[0];
    rest = [lines.pop()!];
    for (const line of lines) {
      if (line.startsWith("event: ")) event = line.slice(7);
      else if (line.startsWith("data: ")) data = line.slice(6);
      else if (line.startsWith(":")) tell("", "");
      else if (line === "") {
        if (event) tell(event, data);
        event = data = "";
      }
    }
  }
}
