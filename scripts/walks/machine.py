"""Clean machines: containers with a network, a home and a file system of their own."""

import contextlib
import os
import pathlib
import re
import subprocess
import time

IMAGE = "swarm-walks"
# What a laptop of a PyTorch user and a hospital's server have: Debian, Python with torch and sklearn, git, make.
RECIPE = f"""FROM swarm-torch
RUN apt-get update -qq \\
 && apt-get install -y -qq --no-install-recommends git make iptables iproute2 \\
 && apt-get clean && rm -rf /var/lib/apt/lists/* && useradd -m -s /bin/bash anna
LABEL io.swarmd.walks={IMAGE}
"""
PATIENCE = 180  # seconds after which what was to be seen will not come any more
PATH = "/opt/swarmd:/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class WalkError(Exception):
    """What a walk found to be otherwise than the documents say."""


def docker(*args, **more):
    """Run the engine's client and give what it printed."""
    done = subprocess.run(["docker", *args], capture_output=True, text=True, check=False, **more)
    if done.returncode:
        raise WalkError(f"docker {' '.join(args)}: {done.stderr.strip()}")
    return done.stdout


def make_image():
    """Make the machines' image, in which nothing of swarmd is."""
    subprocess.run(["scripts/engine"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["scripts/images", "pyt"], check=True, stdout=subprocess.DEVNULL)
    env = {**os.environ, "DOCKER_BUILDKIT": "0"}
    docker("build", "-q", "--network", "host", "-t", IMAGE, "-", input=RECIPE, env=env)


class Typed:
    """A command that ended: its exit code and all that it printed."""

    def __init__(self, command, code, text):
        """Begin."""
        self.command, self.code, self.text, self.expected = command, code, text, 0

    def ends(self, code):
        """Fail unless it ended so (None: anyhow)."""
        self.expected = code
        return self.want()

    def want(self, *patterns):
        """Fail unless it ended as expected and printed all of these."""
        if self.expected is not None and self.code != self.expected:
            raise WalkError(f"{self.command}: exit code {self.code}, want {self.expected}:\n{self.text}")
        for pattern in patterns:
            if not re.search(pattern, self.text, re.MULTILINE):
                raise WalkError(f"{self.command}: does not print {pattern!r}:\n{self.text}")
        return self


class Terminal:
    """A command that goes on in a terminal of its own."""

    def __init__(self, machine, command, number, paste):
        """Begin."""
        self.machine, self.command = machine, command
        self.pid = f"/tmp/.terminal-{number}"
        self.log = machine.folder / f"{machine.name}-{number}.log"
        self.client = machine.popen(f"echo $$ >{self.pid}; exec {command}", self.log, paste)

    def text(self):
        """Give all that it has printed."""
        return self.log.read_text(errors="replace")

    def sees(self, *patterns, since=0):
        """Wait until it has printed all of these."""
        for pattern in patterns:
            self.machine.until(
                lambda p=pattern: re.search(p, self.text()[since:], re.MULTILINE),
                f"{self.command}: never prints {pattern!r}",
                self,
            )
        return self

    def ends(self, code=0):
        """Wait for its end, and fail unless it ends so."""
        try:
            got = self.client.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise WalkError(f"{self.command}: does not end:\n{self.text()[-3000:]}") from None
        if got != code:
            raise WalkError(f"{self.command}: exit code {got}, want {code}:\n{self.text()[-3000:]}")
        return self

    def interrupt(self):
        """Press Ctrl-C, and wait for the end."""
        docker("exec", self.machine.container, "bash", "-c", f"kill -INT $(cat {self.pid})")
        self.client.wait(PATIENCE)
        return self


class Machine:
    """A container in which commands are typed. It is gone after the block that it is made for."""

    def __init__(self, walk, name, user="root", network="none", mounts=()):
        """Switch the machine on."""
        self.walk, self.name, self.user = walk, name, user
        self.folder = walk.folder
        self.container = f"swarm-walks-{os.getpid()}-{name.partition('.')[0]}"
        self.home = "/root" if user == "root" else f"/home/{user}"
        self.cwd = self.home
        self.terminals = []
        args = [
            "run",
            "-d",
            "--rm",
            "--init",
            "--name",
            self.container,
            "--hostname",
            name,
            "--network",
            network,
            "--shm-size",
            "1g",
            "--cap-add",
            "NET_ADMIN",
        ]
        args += [f"--network-alias={name}"] if network != "none" else []
        for mount in mounts:
            args += ["-v", mount]
        docker(*args, "-e", f"PATH={PATH}", *walk.environment(), IMAGE, "sleep", "infinity")

    def __enter__(self):
        """Give itself."""
        return self

    def __exit__(self, *_):
        """Switch the machine off."""
        with contextlib.suppress(WalkError):
            docker("rm", "-f", self.container)
        for terminal in self.terminals:
            with contextlib.suppress(subprocess.TimeoutExpired):
                terminal.client.wait(PATIENCE)

    def popen(self, command, log, paste):
        """Start a command whose output goes to a file."""
        argv = ["docker", "exec", "-i", "-u", self.user, "-w", self.cwd, self.container, "bash", "-c", command]
        with open(log, "wb") as out:
            client = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT)
        with client.stdin as line:
            line.write(paste.encode())
        return client

    def quietly(self, command, stdin=None):
        """Run what nobody types: what stands for another person, or looks."""
        argv = ["docker", "exec", "-i", "-u", self.user, "-w", self.cwd, self.container, "bash", "-c", command]
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
        return Typed(command, done.returncode, done.stdout + done.stderr)

    def type(self, command, stdin=None, code=0):
        """Type a command, wait for its end, and fail unless it ends so."""
        self.walk.typed(self, command)
        done = self.quietly(command, stdin)
        self.walk.printed(done.text)
        return done.ends(code)

    def open(self, command, paste=""):
        """Type a command in a terminal of its own, and paste a line into it."""
        self.walk.typed(self, command)
        self.terminals.append(Terminal(self, command, len(self.terminals), paste))
        return self.terminals[-1]

    def write(self, path, text):
        """Write a file by hand."""
        self.walk.wrote(self, path)
        self.quietly(f"mkdir -p $(dirname {path}) && cat >{path}", stdin=text).want()

    def read(self, path):
        """Give what stands in a file."""
        return self.quietly(f"cat {path}").want().text

    def carry(self, path, other):
        """Bring a file to another machine by hand."""
        self.walk.carried(self, path)
        command = ["docker", "exec", "-i", "-u", self.user, "-w", self.cwd, self.container, "cat", path]
        data = subprocess.run(command, capture_output=True, check=True).stdout  # not always text
        command = ["docker", "exec", "-i", "-u", other.user, "-w", other.cwd, other.container]
        subprocess.run([*command, "bash", "-c", f"umask 077 && cat >{path}"], input=data, check=True)

    def install(self, source, path):
        """Put a folder of this machine there, of which no walk is: a hospital's data, say."""
        docker("cp", str(source), f"{self.container}:{path}")
        docker("exec", self.container, "chown", "-R", self.user, path)

    def fetch(self, path, target):
        """Copy a file or folder out."""
        docker("cp", f"{self.container}:{path}", str(target))
        return pathlib.Path(target)

    def firewall(self, rule):
        """Have the firewall changed by whom it belongs to, which is nobody of this walk."""
        docker("exec", self.container, "bash", "-c", f"iptables -w {rule}")

    def until(self, holds, otherwise, terminal=None):
        """Wait for a condition."""
        end = time.monotonic() + PATIENCE
        while not (got := holds()):
            if time.monotonic() > end or (terminal and terminal.client.poll() is not None and not holds()):
                tail = f":\n{terminal.text()[-3000:]}" if terminal else ""
                raise WalkError(f"{self.name}: {otherwise}{tail}")
            time.sleep(0.1)
        return got
