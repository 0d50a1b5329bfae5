"""An auditor, who belongs to none of the hospitals and runs nothing of the swarm."""

import re

from machine import Machine

CONTRACT = "defaultbb.cqdb.sml.hpe"


def comes_in(walk, a, auditor):
    """Give the auditor an identity that changes nothing."""
    with walk.step("auditor") as step:
        token = a.machine.type("swarmd spire-token audit/dr-who --create").text
        token = next(x for x in token.split() if re.fullmatch("[0-9a-f-]{36}", x))
        a.machine.type("spire-server bundle show -socketPath /var/lib/swarmd/spire-server/api.sock > bundle.pem")
        walk.carried(a.machine, "the token")
        a.machine.carry("bundle.pem", auditor)
        auditor.type(
            f"SWARM_SPIRE_JOIN_TOKEN={token} swarmctl create context prod with ip hospital-a.example -serverAddress hospital-a.example -trustBundle bundle.pem"
        )
        auditor.type("swarmctl switch context prod")
        auditor.type("swarmctl list nodes").want("hospital-d")
        step.result = "reads; `ban node` is refused"
    auditor.quietly("swarmctl ban node hospital-b").ends(None).want("audit")


def walk_3(walk, a, binaries):
    """Walk as person 3."""
    with Machine(walk, "auditor.example", network=walk.network(), mounts=[f"{binaries}:/opt/swarmd:ro"]) as auditor:
        comes_in(walk, a, auditor)
        a.machine.quietly(f"swarmctl get model {CONTRACT} --out model.safetensors").want()
        a.machine.carry("model.safetensors", auditor)
        with walk.step("ledger") as step:
            auditor.type("swarmctl get bundle --out founding-ca.pem")
            auditor.type("swarmctl get ledger --out ledger.jsonl")
            auditor.type("swarmctl verify ledger ledger.jsonl --bundle founding-ca.pem").want(
                "^verified: the chain of .* records is whole", "hospital-d", "weight cap|at most"
            )
            step.result = (
                auditor.quietly("wc -l <ledger.jsonl").text.strip()
                + " records verified, by run, with rules and by whom"
            )
        with walk.step("who") as step:
            verify = "swarmctl verify model {} --ledger ledger.jsonl --bundle founding-ca.pem"
            auditor.type(verify.format("model.safetensors")).want(
                "digest .*: the tensors have it",
                "committed: the ledger has it",
                "made in rounds .* by mean, from .*hospital-b .*signatures checked",
                "train.py sha256:",
                "rules: .*min peers 2.*by spiffe://swarm.learning/swarm/swci",
            )
            step.result = "peers with shares, rounds, time, method, program, rules and by whom"
        auditor.quietly("""python3 - <<'END'
import re
d = open("model.safetensors", "rb").read()
def other(m):
    return m[1] + str((int(m[2][:1]) % 9) + 1).encode() + m[2][1:]
open("forged.safetensors", "wb").write(re.sub(rb'("round":")(\\d+)', other, d, count=1))
END""").want()
        with walk.step("forged") as step:
            auditor.type(verify.format("forged.safetensors"), code=1).want("this model was committed as round")
            step.result = "`the file says round …; this model was committed as round …`"
