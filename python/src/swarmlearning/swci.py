"""The SWCI of a swarm from Python: the class of the original's wheel, over SWCI's web mode.

from swarmlearning.swci import Swci

s = Swci("swci.example", clientCert="cert.pem", clientPKey="key.pem", clientCABundle="ca.pem")
s.createContext("example", ip="sn1")
s.switchContext("example")
print(s.listNodes())
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import sys
import time
from collections.abc import Sequence
from typing import Optional, Union

from swarmlearning import _swci_topology as topology
from swarmlearning._swci_link import MAX_UPLOAD, Link, SwciError, plain, trust
from swarmlearning.errors import ParameterError, TimeoutError, UnavailableError

__all__ = ["Swci", "SwciError", "swci"]

LOG_FILE = "swci-web.log"
ERROR = "ERROR "
# What a taskrunner's status says when nothing runs any more.
DONE = ("COMPLETE", "ERROR", "IDLE")
CACHE_SECONDS = 30.0
MAX_CACHED = 64
# A status that can't be had, say while the SNs elect a leader, is asked for again.
STATUS_TRIES = 5
FIRST_POLL = 1.0
SECONDS = 300.0
# A little more than for which SWCI waits for a task, unless it is told otherwise.
LONGEST_WAIT = 2 * 3600.0

_PLAIN_WORD = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")


class Swci:
    """SWCI in web mode. Methods that are commands give the lines of the answer, as SWCI's prompt shows them.

    A command that SWCI answers with an error gives the lines before it: none as a rule. getErrors has the error then,
    and it is logged; with raiseErrors it is raised as SwciError. A SWCI that can not be reached, or whose answer is not
    understood, raises another SwarmError in any case. Not for several threads at a time.
    """

    def __init__(  # noqa: PLR0913
        self,
        swciIp: str,
        port: int = 30306,
        clientCert: Optional[str] = None,
        clientPKey: Optional[str] = None,
        clientCABundle: Optional[str] = None,
        logger: Optional[logging.Logger] = None,
        logLv: int = logging.WARNING,
        enableCaching: bool = True,
        *,
        insecure: bool = False,
        raiseErrors: bool = False,
        timeout: float = SECONDS,
        spiffePrefix: str = "/swarm",
    ) -> None:
        """Read certificates and key; connect to nothing yet.

        clientCABundle is a file, or a folder of files .pem and .crt, with the CAs of SWCI's certificate. Without it
        nothing is checked, which insecure must allow. Without a logger swci-web.log is written, and standard error.
        timeout is in seconds, for one command.
        """
        if not 0 < port < 1 << 16:
            raise ParameterError(f"port {port} is none", "SWCI's web mode listens on 30306 unless told otherwise")
        context = trust(clientCert, clientPKey, clientCABundle, insecure, f"{swciIp}:{port}")
        self._link = Link(swciIp, port, context, spiffePrefix, timeout)
        self._log = logger if logger is not None else _own_logger()
        self.setLogLevel(logLv)
        self._caching, self._raise = enableCaching, raiseErrors
        self._cache: dict[str, tuple[float, list[str]]] = {}
        self._errors: list[str] = []
        if clientCABundle is None:
            self._log.warning("%s:%d: whoever answers is believed to be SWCI: insecure is set", swciIp, port)

    # What concerns this object.

    def setLogLevel(self, logLv: int) -> None:
        """Log what is at least of this level: logging.DEBUG has each command."""
        self._log.setLevel(logLv)

    def getErrors(self) -> list[str]:
        """Give the errors of the last method that asked SWCI; none if it succeeded."""
        return list(self._errors)

    def clearCache(self) -> None:
        """Forget answers that were kept: what others changed is seen at once."""
        self._cache.clear()

    # The shell.

    def ls(self, options: str = "") -> list[str]:
        """List files of SWCI's working directory; options are those of ls, and names."""
        return self._do("LS", *options.split())

    def pwd(self) -> list[str]:
        """Name SWCI's working directory."""
        return self._do("PWD")

    def cd(self, directory: str) -> list[str]:
        """Change SWCI's working directory."""
        return self._do("CD", directory)

    def sleep(self, seconds: float) -> list[str]:
        """Have SWCI wait."""
        self._errors = []
        return self._exec(f"SLEEP {seconds:g}", more_seconds=max(0.0, seconds))

    # Contexts.

    def createContext(
        self, contextName: str, ip: Optional[str] = None, port: int = 30304, service: Optional[str] = None
    ) -> list[str]:
        """Create a context: the SN at ip and port, or the API behind a proxy at service."""
        if (ip is None) == (service is None):
            raise ParameterError("a context needs an SN's ip or a service, one of them")
        if ip is not None:
            return self._do("CREATE CONTEXT", contextName, "WITH", "IP", ip, str(port))
        return self._do("CREATE CONTEXT", contextName, "WITH", "SERVICE", service)

    def switchContext(self, contextName: str) -> list[str]:
        """Use a context for what follows."""
        return self._do("SWITCH CONTEXT", contextName)

    def listContexts(self) -> list[str]:
        """List the contexts' names."""
        return self._get("LIST CONTEXTS")

    def getContextInfo(self, contextName: Optional[str] = None) -> list[str]:
        """Show a context; the current one if none is named."""
        return self._get("GET CONTEXT INFO", contextName)

    def getContextVersion(self) -> list[str]:
        """Show the versions of SWCI, of the SN and of the API."""
        return self._see("GET CONTEXT VERSION")

    def setContextEnv(self, key: str, value: str, contextName: Optional[str] = None) -> list[str]:
        """Keep a variable in a context."""
        words = ("--", value) if value.startswith("-") else (value,)  # else it reads like an option
        return self._do("SET CONTEXT ENV", contextName, key, *words)

    def getContextEnv(self, key: str, contextName: Optional[str] = None) -> list[str]:
        """Show a variable of a context."""
        return self._get("GET CONTEXT ENV", contextName, key)

    def listContextEnv(self, contextName: Optional[str] = None) -> list[str]:
        """List the variables of a context."""
        return self._get("LIST CONTEXT ENV", contextName)

    # Nodes.

    def listNodes(self) -> list[str]:
        """List the nodes: a header, then seven columns a line, divided by commas."""
        self._errors = []
        return self._exec("LIST NODES")

    def plotTopology(self, picture: str = "") -> str:
        """Print the nodes as a tree, and give it. matplotlib draws it into the file picture too, if one is named."""
        lines = self.listNodes()
        if self._errors:
            return ""
        found = topology.nodes(lines)
        text = topology.tree(found)
        if picture:
            topology.draw(found, picture)
        print(text)
        return text

    # Training contracts.

    def createTrainingContract(self, contractName: str) -> list[str]:
        """Create a training contract."""
        return self._do("CREATE CONTRACT", contractName)

    def listTrainingContracts(self) -> list[str]:
        """List the contracts' names."""
        return self._get("LIST CONTRACTS")

    def getTrainingContractInfo(self, contractName: str) -> list[str]:
        """Show what of a contract training does not change."""
        return self._get("GET CONTRACT INFO", contractName)

    def getTrainingContractStatus(self, contractName: str) -> list[str]:
        """Show what training changes."""
        return self._see("GET CONTRACT STATUS", contractName)

    def getTrainingContractPerformanceData(self, contractName: str) -> list[str]:
        """Show loss, metric and progress of each peer."""
        return self._see("PERFDATA", contractName)

    def resetTrainingContract(self, contractName: str) -> list[str]:
        """Make a contract as new."""
        return self._do("RESET CONTRACT", contractName)

    # Tasks.

    def uploadTaskDefintion(self, taskFilePath: str) -> list[str]:
        """Copy a task file of this machine into SWCI's user directory, under its base name."""
        self._errors = []
        try:
            with open(taskFilePath, "rb") as file:
                data = file.read(MAX_UPLOAD + 1)
        except OSError as err:
            raise ParameterError(f"task file {taskFilePath}: {err.strerror}") from None
        self._log.debug("upload %s", taskFilePath)
        return self._judged(plain(self._link.upload(os.path.basename(taskFilePath), data)).strip().splitlines())

    uploadTaskDefinition = uploadTaskDefintion

    def createTaskFrom(self, taskDefFile: str) -> list[str]:
        """Register the task of a file in SWCI's working directory, which may still be changed then."""
        return self._do("CREATE TASK FROM", taskDefFile)

    def createTask(self, taskType: str, name: str, author: str, prereq: str, outcome: str) -> list[str]:
        """Create a task without a body, whose lines appendTaskBody adds."""
        return self._do("CREATE TASK", taskType, name, author, prereq, outcome)

    def registerTask(self, yamlFileName: str, finalize: bool = True) -> list[str]:
        """Register the task of a file in SWCI's working directory, and finalise it."""
        lines = self.createTaskFrom(yamlFileName)
        if self._errors or not finalize:
            return lines
        name = _value(lines, "Task Registered")
        if not name:
            return self._fail(lines, f"{ERROR}: the answer to CREATE TASK FROM names no task, so none is finalised")
        return lines + self.finalizeTask(name)

    def appendTaskBody(self, taskName: str, index: int, line: str) -> list[str]:
        """Add a line to a task's body, or replace it; the first one is 1."""
        return self._do("APPEND TASK BODY", taskName, str(index), line)

    def finalizeTask(self, taskName: str) -> list[str]:
        """Let a task be assigned, and never be changed again."""
        return self._do("FINALIZE TASK", taskName)

    def deleteTask(self, taskName: str) -> list[str]:
        """Delete a task that is not finalised."""
        return self._do("DELETE TASK", taskName)

    def listTasks(self) -> list[str]:
        """List the tasks' names."""
        return self._get("LIST TASKS")

    def getTaskInfo(self, taskName: str) -> list[str]:
        """Show a task."""
        return self._get("GET TASK INFO", taskName)

    def getTaskBody(self, taskName: str) -> list[str]:
        """Show a task's body with the numbers of its lines."""
        return self._get("GET TASK BODY", taskName)

    # Taskrunners.

    def createTaskrunner(self, trName: str) -> list[str]:
        """Create a taskrunner."""
        return self._do("CREATE TASKRUNNER", trName)

    createTaskRunner = createTaskrunner

    def listTaskRunners(self) -> list[str]:
        """List the taskrunners' names."""
        return self._get("LIST TASKRUNNERS")

    def getTaskRunnerInfo(self, trName: str) -> list[str]:
        """Show what of a taskrunner tasks do not change."""
        return self._get("GET TASKRUNNER INFO", trName)

    def getTaskRunnerStatus(self, trName: str) -> list[str]:
        """Show what a taskrunner does; TASK_STATE is among it."""
        return self._see("GET TASKRUNNER STATUS", trName)

    def getTaskRunnerPeerStatus(self, trName: str, idx: Union[int, str]) -> list[str]:
        """Show what one peer of a taskrunner does, named by its index or by its UID."""
        return self._see("GET TASKRUNNER PEER STATUS", trName, str(idx))

    def listTaskRunnerPeers(self, trName: str) -> list[str]:
        """List the peers that work for a taskrunner."""
        return self._see("LIST TASKRUNNER PEERS", trName)

    def resetTaskRunner(self, trName: str) -> list[str]:
        """Make a taskrunner idle; what its last task left on the hosts is removed."""
        return self._do("RESET TASKRUNNER", trName)

    def assignTask(
        self, taskName: str, trName: str, peers: Union[int, str] = 1, target: Optional[str] = None
    ) -> list[str]:
        """Assign a task to so many peers; to all with peers="ALL"; to one SWOP by its UID with target."""
        if target is not None:
            return self._do("ASSIGN TASK", taskName, "TO", trName, "TARGET", target)
        count = str(peers).upper()
        if count != "ALL" and not (count.isdecimal() and int(count) > 0):
            raise ParameterError(f"peers is {peers!r}", 'give a number of 1 or more, or "ALL"')
        return self._do("ASSIGN TASK", taskName, "TO", trName, "WITH", count, "PEERS")

    def waitForTaskRunner(self, trName: str) -> list[str]:
        """Have SWCI wait for the end of a taskrunner's task, as long as it waits for one; an error if the task failed.

        Others of its commands do not wait meanwhile. The last lines say the STATE.
        """
        self._errors = []
        return self._exec(_line("WAIT FOR TASKRUNNER", (trName,)), more_seconds=LONGEST_WAIT)

    def isTaskDone(self, trName: str) -> bool:
        """Tell whether a taskrunner's task has come to its end, a good or a bad one."""
        return _state(self.getTaskRunnerStatus(trName)) in DONE

    def executeTask(  # noqa: PLR0913
        self,
        taskName: str,
        trName: str,
        peers: Union[int, str] = 1,
        pollWaitInSec: float = 120,
        resetTROnSuccess: bool = True,
        target: Optional[str] = None,
    ) -> bool:
        """Assign a task and wait for its end; tell whether it succeeded. getErrors says why it did not.

        The status is asked for after a second, then after twice as long each time, up to pollWaitInSec. After success
        the taskrunner is reset, unless resetTROnSuccess says otherwise.
        """
        self.assignTask(taskName, trName, peers, target)
        if self._errors:
            return False
        pause, failed = min(FIRST_POLL, pollWaitInSec), 0
        while True:
            time.sleep(pause)
            pause = min(2 * pause, pollWaitInSec)
            try:
                lines = self.getTaskRunnerStatus(trName)
            except (SwciError, TimeoutError, UnavailableError) as err:
                lines, self._errors = [], [f"{ERROR}: {err}"]
            state = _state(lines)
            failed = 0 if state else failed + 1
            if failed >= STATUS_TRIES:
                self._fail([], *(self._errors or [f"{ERROR}: the status of {trName} has no TASK_STATE"]))
                return False
            if state == "COMPLETE":
                if resetTROnSuccess:
                    self.resetTaskRunner(trName)
                return not self._errors
            if state in DONE:
                reason = _value(lines, "REASON")
                why = f": {reason}" if reason else ""
                self._fail(lines, f"{ERROR}: task {taskName} ended on {trName} with TASK_STATE : {state}{why}")
                return False

    # How commands are asked for.

    def _do(self, command: str, *values: Optional[str]) -> list[str]:
        """Have a command executed that may change something."""
        self._errors = []
        self._cache.clear()
        return self._exec(_line(command, values))

    def _see(self, command: str, *values: Optional[str]) -> list[str]:
        """Ask for what changes by itself."""
        self._errors = []
        return self._exec(_line(command, values))

    def _get(self, command: str, *values: Optional[str]) -> list[str]:
        """Ask for what only commands change. Others may give them too, so an answer is kept for a short time only."""
        self._errors = []
        line = _line(command, values)
        at, lines = self._cache.get(line, (0.0, []))
        if lines and time.monotonic() - at < CACHE_SECONDS:
            return list(lines)
        lines = self._exec(line)
        if self._caching and lines and not self._errors:
            while len(self._cache) >= MAX_CACHED:
                del self._cache[next(iter(self._cache))]
            self._cache[line] = (time.monotonic(), list(lines))
        return lines

    def _exec(self, command: str, more_seconds: float = 0.0) -> list[str]:
        self._log.debug("%s", command)
        return self._judged(self._link.run(command, more_seconds))

    def _judged(self, content: Sequence[str]) -> list[str]:
        """Give the lines of an answer up to the first element that is an error."""
        lines: list[str] = []
        for element in content:
            if element.startswith(ERROR):
                return self._fail(lines, element.rstrip())
            lines += element.splitlines()
        return lines

    def _fail(self, lines: list[str], *errors: str) -> list[str]:
        self._errors = list(errors)
        for error in errors:
            self._log.error("%s", error)
        if self._raise:
            raise SwciError(errors[0][len(ERROR) :].lstrip(": "))
        return lines


swci = Swci  # as some of the original's pages write it


def _own_logger() -> logging.Logger:
    """Give the logger that writes swci-web.log, once there is something to write, and standard error."""
    log = logging.getLogger("swarmlearning.swci")
    if not log.handlers:
        log.propagate = False
        file = logging.FileHandler(LOG_FILE, encoding="utf-8", delay=True)
        file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        log.addHandler(file)
        log.addHandler(logging.StreamHandler(sys.stderr))
    return log


def _line(command: str, values: Sequence[Optional[str]]) -> str:
    """Make a command line of a command's words and its values, of which those that are None are left out."""
    return " ".join([command, *(_quoted(value) for value in values if value is not None)])


def _quoted(value: str) -> str:
    """Give a value as one word of a command line."""
    if value != plain(value) or "\n" in value or "\t" in value:
        raise ParameterError(f"{value!r} has control characters", "a command is one line of text")
    return value if _PLAIN_WORD.fullmatch(value) else shlex.quote(value)


def _value(lines: Sequence[str], name: str) -> str:
    """Give what stands behind the first colon of the line that has name in it; "" if there is none."""
    for line in lines:
        if name in line and ":" in line:
            return line.split(":", 1)[1].strip()
    return ""


def _state(lines: Sequence[str]) -> str:
    return _value(lines, "TASK_STATE").upper()
