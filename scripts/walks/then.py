"""What the same took at commit 812e6a0, as three people noted it who tried swarmd then, on a loaded machine of 2 cores."""

from typing import NamedTuple


class Then(NamedTuple):
    """A row of their table."""

    person: str
    task: str
    commands: str
    carried: str
    time: str


NONE = "-"
THEN = {
    "build": Then("P1", "clone and `make`", "2", NONE, "8.3 s, Go's cache warm"),
    "demo": Then("P1", "`make demo`", "1", NONE, "68 s"),
    "new": Then("P1", "a project of one's own, generated", "did not exist", NONE, NONE),
    "own": Then(
        "P1",
        "own program, accuracy and curves",
        "1 + 5 lines, and 4 parameters that README did not show",
        NONE,
        "25 s; with README's lines alone table and report were empty",
    ),
    "hand": Then(
        "P1",
        "the swarm by hand, looked at, run twice",
        "4; README did not say how to look, nor how to run it again",
        NONE,
        "22 s to the final model",
    ),
    "spire": Then("P2", "SPIRE: 3 SNs, 2 SLs, 3 hosts", "12", "5: bundle x 2, token x 3", "26 s to training"),
    "third": Then("P2", "a third organisation joins", "5, the server restarted", "2: bundle, token", "17 s"),
    "context": Then("P2", "swarmctl remembers swarm and agent", "each look a line of 100 characters", NONE, NONE),
    "rules": Then("P2", "rules, and letting models out", "1, which left no trace", NONE, NONE),
    "ban": Then("P2", "ban, and back", "1 + 2", NONE, "< 3 s"),
    "restart": Then("P2", "an SN is restarted", "2 (an upgrade)", NONE, "3-5 s"),
    "port": Then(
        "P2",
        "an SL behind a closed inbound port, SLs restarted",
        "4",
        NONE,
        "∞: they never trained; nothing named the port",
    ),
    "doctor": Then("P2", "which link is it", "did not exist", NONE, NONE),
    "apart": Then(
        "P2",
        "two SLs that can't reach each other, restarted",
        "4, and 1 that named neither address nor port",
        NONE,
        "∞: nobody trained",
    ),
    "opened": Then("P2", "the firewalls are opened", NONE, NONE, "8 s"),
    "end": Then("P2", "a training is ended", "did not exist", NONE, NONE),
    "ledger": Then("P3", "the ledger, copied and verified", "3", "2", "< 1 s"),
    "who": Then(
        "P3",
        "who contributed to this model, by which rules, approved by whom",
        "no command",
        NONE,
        "by hand with a JSON parser; rules and approvals nowhere",
    ),
    "forged": Then("P3", "a model whose round was edited", "1, which said `committed`", NONE, NONE),
    "auditor": Then("P3", "an auditor with an identity that changes nothing", "did not exist: role `swci`", NONE, NONE),
}
