"""A walk: steps, in each of which what a person types, writes and carries is counted."""

import contextlib
import json
import os
import pathlib
import re
import time

from machine import WalkError
from then import THEN

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def documents():
    """Give the text of README and of all pages."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return {str(p.relative_to(ROOT)): p.read_text(encoding="utf-8") for p in pages}


class Step:
    """What one step took."""

    def __init__(self, key):
        """Begin."""
        self.key, self.commands, self.files, self.carried, self.seconds, self.result = key, 0, 0, 0, 0.0, ""


class Walk:
    """The steps of all persons, and a transcript of what was typed and printed."""

    def __init__(self, folder, proxy):
        """Begin."""
        self.folder, self.proxy = folder, proxy
        self.steps, self.current = [], None
        self.text = "\n".join(documents().values())
        self.transcript = open(folder / "transcript.txt", "w", encoding="utf-8")  # noqa: SIM115 - as long as the walk

    def environment(self):
        """Give what of the environment a machine has: none but where Go modules are fetched."""
        return ["-e", f"GOPROXY={self.proxy}"]

    def network(self):
        """Give the name of the hosts' network."""
        return f"swarm-walks-{os.getpid()}"

    @contextlib.contextmanager
    def step(self, key):
        """Count what is done within the block."""
        then, outer = THEN[key], self.current
        self.current = Step(key)
        self.say(f"\n## {then.person} {then.task}\n")
        begin = time.monotonic()
        yield self.current
        self.current.seconds = self.current.seconds or time.monotonic() - begin
        s = self.current
        self.steps.append(s)
        print(
            f"{then.person} {then.task}: {s.commands} commands, {s.files} files written, {s.carried} carried, {s.seconds:.1f} s: {s.result}",
            flush=True,
        )
        self.current = outer

    def say(self, text):
        """Write into the transcript."""
        self.transcript.write(text)
        self.transcript.flush()

    def typed(self, machine, command):
        """Count a command, whose words the documents must have."""
        self.say(f"\n{machine.user}@{machine.name}:{machine.cwd}$ {command}\n")
        for word in re.findall(r"(?<=\s)--?[a-zA-Z][a-zA-Z-]*", command):
            if word not in self.text and word != "-q":
                raise WalkError(f"{command}: no page has {word}")
        verb = re.match(r"(?:bin/)?(swarmd|swarmctl) ([a-z-]+)", command)
        if verb and f"{verb[1]} {verb[2]}" not in self.text:
            raise WalkError(f"{command}: no page has {verb[1]} {verb[2]}")
        if self.current:
            self.current.commands += 1

    def printed(self, text):
        """Put what a command printed into the transcript."""
        self.say(text)

    def wrote(self, machine, path):
        """Count a file that is written by hand."""
        self.say(f"\n[{machine.name}: {path} is written]\n")
        if self.current:
            self.current.files += 1

    def carried(self, machine, path):
        """Count a file or a line that is carried by hand."""
        self.say(f"\n[{path} of {machine.name} is carried]\n")
        if self.current:
            self.current.carried += 1

    def table(self):
        """Give the steps beside what they took then, in Markdown."""
        lines = [
            "| | commands then | now | carried by hand then | now | time then | now | result now |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for s in self.steps:
            t = THEN[s.key]
            carried = f"{s.carried}" if not s.files else f"{s.carried}, {s.files} written"
            lines.append(
                f"| {t.person} {t.task} | {t.commands} | {s.commands} | {t.carried} | {carried} | {t.time} | {s.seconds:.1f} s | {s.result} |"
            )
        return "\n".join(lines) + "\n"

    def save(self):
        """Write table and numbers."""
        (self.folder / "table.md").write_text(self.table(), encoding="utf-8")
        rows = [vars(s) for s in self.steps]
        (self.folder / "steps.json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
