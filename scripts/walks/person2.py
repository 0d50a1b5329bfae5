"""The people who run hospitals' machines: three hosts, then a fourth of another organisation, on SPIRE."""

import contextlib
import re

from machine import Machine, docker
from program import PLAIN, joined, readme_lines
from walk import ROOT

CONTRACT = "defaultbb.cqdb.sml.hpe"
PROGRAM = "--model-program train.py --sl-platform PYT --data-dir data"
ROUND = r"model handed to the program .*contributed=true"


class Hospital:
    """A host with what runs on it."""

    def __init__(self, machine):
        """Begin."""
        self.machine, self.name = machine, machine.name.partition(".")[0]
        self.sn = self.sl = None
        self.sl_command = ""

    def start_sl(self, command, paste=""):
        """Start the SL by a line that is the same from then on."""
        self.sl_command = command
        self.sl = self.machine.open(command, paste)
        return self.sl

    def restart_sl(self, command=None):
        """Stop the SL and start it again."""
        self.sl.interrupt()
        return self.start_sl(command or self.sl_command)

    def rounds(self):
        """Wait for a round from now on that the SL takes part in."""
        self.sl.sees(ROUND, since=len(self.sl.text()))


@contextlib.contextmanager
def hospitals(walk, binaries):
    """Give the hosts, each with a program and data of its own, on one network."""
    network = walk.network()
    program = joined(PLAIN, readme_lines(ROOT / "README.md"))[0]
    # Theirs trains until it is told to end, and waits for its data at each batch: the hosts share the processors of this machine.
    program = program.replace("epochs = 24", "epochs = 100000").replace(
        "for x, y in loader:", "for x, y in loader:\n        time.sleep(0.02)"
    )
    over = "    swarm.on_epoch_end(epoch)\n"
    program = "import time\n" + program.replace(over, over + "    if swarm.training_over:\n        break\n")
    mounts = [f"{binaries}:/opt/swarmd:ro", f"{ROOT}/examples/digits-pyt:/source/example:ro"]
    docker("network", "create", network)
    try:
        with contextlib.ExitStack() as stack:
            hosts = []
            for i, letter in enumerate("abcd"):
                machine = stack.enter_context(
                    Machine(walk, f"hospital-{letter}.example", network=network, mounts=mounts)
                )
                machine.quietly(
                    f"mkdir model && python3 /source/example/split.py --peers 4 --out all && mv all/{i} model/data && rm -r all"
                ).want()
                machine.quietly("cat >model/train.py", stdin=program).want()
                machine.cwd = "/root/model"
                hosts.append(Hospital(machine))
            yield hosts
    finally:
        docker("network", "rm", network)


def found(walk, a, b, c):
    """Found a swarm of three SNs and two SLs."""
    with walk.step("spire") as step:
        server = a.machine.open("swarmd run-spire-server --node sn/sn-1")
        server.sees("SPIRE server is ready")
        a.sn = a.machine.open(
            "swarmd run-sn --name sn-1 --host-ip hospital-a.example --sentinel-ip hospital-a.example -serverAddress localhost --gen-join-token"
        )
        a.sn.sees("Starting SWARM-API-SERVER")
        for host, n in ((b, 2), (c, 3)):
            a.machine.type(f"swarmctl invite sn/sn-{n} sl/{host.name} --sn hospital-a.example --out {host.name}.invite")
            a.machine.carry(f"{host.name}.invite", host.machine)
            host.sn = host.machine.open(f"swarmd run-sn --invite {host.name}.invite")
        for host in (b, c):
            host.sn.sees("Starting SWARM-API-SERVER")
        with walk.step("context") as inner:
            a.machine.type(
                "swarmctl create context prod with ip hospital-a.example -serverAddress localhost -genJoinToken"
            )
            a.machine.type("swarmctl switch context prod")
            inner.result = "`swarmctl list nodes` needs no more"
        with walk.step("rules") as inner:
            a.machine.type(f"swarmctl create contract {CONTRACT} --export --min-peers 2 --weight-cap 0.6")
            inner.result = "signed, in the ledger"
        for host in (b, c):
            host.start_sl(f"swarmd run-sl --invite {host.name}.invite --sl-fs-port 31305 {PROGRAM}")
        for host in (b, c):
            host.sl.sees(ROUND)
        a.machine.type("swarmctl list nodes").want("hospital-b .* alive", "hospital-c .* alive", "sn-3 .* alive")
        step.result = "trains"


def third(walk, a, d):
    """Let a third organisation join."""
    with walk.step("third") as step:
        said = a.machine.type("swarmctl invite sl/hospital-d --expires 24h")
        line = next(x for x in said.text.splitlines() if len(x) > 300)
        walk.carried(a.machine, "the line")
        d.start_sl(f"swarmd run-sl --invite - {PROGRAM}", line + "\n").sees(ROUND)
        step.result = "joined a running training; nothing restarted, no file"
    a.machine.type("swarmctl list nodes").want("hospital-d .* alive")


def bans(walk, a, d):
    """Shut a host out, and let it in again."""
    with walk.step("ban") as step:
        a.machine.type('swarmctl ban node hospital-d --reason "laptop was stolen"')
        d.sl.sees("laptop was stolen")
        d.sl.client.wait(60)
        a.machine.type("swarmctl unban node hospital-d").want("no longer banned")
        d.start_sl(f"swarmd run-sl {PROGRAM}").sees(ROUND)
        step.result = "told by whom and why, and back in the training"


def restarts(walk, b, c):
    """Restart an SN, and see the training go on."""
    with walk.step("restart") as step:
        c.sn.interrupt()
        b.rounds()
        c.sn = c.machine.open("swarmd run-sn --invite hospital-c.invite")
        c.sn.sees("Starting SWARM-API-SERVER")
        step.result = "training went on"


def closed(walk, a, b, c):
    """Close a port, and see that training goes on and who says which port it is."""
    c.machine.firewall("-A INPUT -p tcp --dport 31305 --syn -j DROP")
    with walk.step("port") as step:
        for host in (b, c):
            host.restart_sl()
        for host in (b, c):
            host.sl.sees(ROUND)
        c.sl.sees(r":31305")
        a.machine.type("swarmctl list nodes").want(r"hospital-c .*not reached")
        step.result = "trains all the same; named by the SL's log, `list nodes`"
    with walk.step("doctor") as step:
        a.machine.type("swarmctl doctor", code=1).want(r":31305")
        step.result = "the red lines name hospital-c:31305"


def apart(walk, a, b, c, d):
    """Close the ports of two SLs, so that they can't reach each other."""
    b.machine.firewall("-A INPUT -p tcp --dport 31305 --syn -j DROP")
    with walk.step("apart") as step:
        for host in (b, c):
            host.restart_sl()
        d.rounds()
        a.machine.until(
            lambda: said(a.machine, f"swarmctl explain contract {CONTRACT}", r":31305"), "explain names no port"
        )
        a.machine.type(f"swarmctl explain contract {CONTRACT}")
        step.result = "those train that reach each other; `explain contract` names both ports"
    for host in (b, c):
        host.machine.firewall("-D INPUT -p tcp --dport 31305 --syn -j DROP")
    with walk.step("opened") as step:
        for host in (b, c):
            host.rounds()
        step.result = "all train"


def said(machine, command, pattern):
    """Tell whether a command prints that."""
    return re.search(pattern, machine.quietly(command).text)


def ends(walk, a, *others):
    """End the training with a final round."""
    with walk.step("end") as step:
        a.machine.type(f"swarmctl end contract {CONTRACT}")
        for host in others:
            host.sl.sees("training is over: loaded the final model")
            host.sl.ends()
        step.result = "a final round; all programs have its model"


def walk_2(walk, a, b, c, d):
    """Walk as person 2."""
    found(walk, a, b, c)
    third(walk, a, d)
    bans(walk, a, d)
    restarts(walk, b, c)
    closed(walk, a, b, c)
    apart(walk, a, b, c, d)
