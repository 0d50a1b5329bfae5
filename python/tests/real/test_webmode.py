"""Swci against the real web mode of a swarm whose nodes have certificates from files."""

from __future__ import annotations

import http.client
import json
import logging
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Iterator
from typing import Callable, NamedTuple

import pytest

from realswarm import ROOT, START_SECONDS, STOP_SECONDS, alarm, environment
from swarmlearning import errors
from swarmlearning.swci import Swci, SwciError

OTHER = "other.example"


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for sock in sockets:
        sock.bind(("127.0.0.1", 0))
    ports: list[int] = [sock.getsockname()[1] for sock in sockets]
    for sock in sockets:
        sock.close()
    return ports


class Place(NamedTuple):
    folder: pathlib.Path
    usr: pathlib.Path
    api: int
    port: int
    start: Callable[..., subprocess.Popen[str]]

    def client(self, name: str = "swci-ada") -> Swci:
        cert, key = (str(self.folder / f"{name}-{part}.pem") for part in ("cert", "key"))
        bundle = str(self.folder / "swarm-ca" / "ca.pem")
        return Swci("127.0.0.1", self.port, cert, key, bundle, logging.getLogger("test_webmode"), raiseErrors=True)

    def nodes(self) -> list[str]:
        s = self.client()
        s.createContext("nodes", ip="127.0.0.1", port=self.api)
        s.switchContext("nodes")
        return s.listNodes()


@pytest.fixture(scope="module")
def place(swarm_binaries: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("swci")
    usr = folder / "usr"
    usr.mkdir()
    env = environment(folder)
    started: list[subprocess.Popen[str]] = []

    def start(program: str, *words: str, **more: str) -> subprocess.Popen[str]:
        with open(folder / f"{program}.log", "wb") as log:
            command = [str(swarm_binaries / program), *words]
            started.append(
                subprocess.Popen(
                    command, cwd=folder, env={**env, **more}, stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1
                )
            )
        return started[-1]

    def identity(name: str) -> list[str]:
        return ["--cert", f"{name}-cert.pem", "--key", f"{name}-key.pem", "--capath", "cas", "--trust-domain", OTHER]

    (folder / "cas").mkdir()
    for words in (
        *(
            "init",
            "issue sn/sn-0",
            "issue sl/sl-0",
            "issue sl/swop-0-sl-0",
            "issue swop/swop-0",
            "issue swci/web",
            "issue swci/ada",
            "issue swci/eve",
            "issue audit/ann",
        ),
        *(f"init other-ca --trust-domain {OTHER}", "issue swci/bob --dir other-ca"),
    ):
        subprocess.run(
            [str(swarm_binaries / "swarmctl"), "cert", *words.split()],
            cwd=folder,
            env=env,
            check=True,
            capture_output=True,
        )
    for name in ("swarm-ca", "other-ca"):
        (folder / "cas" / f"{name}.pem").write_bytes((folder / name / "ca.pem").read_bytes())
    api, p2p, fs, port = free_ports(4)
    try:
        with alarm(START_SECONDS, "SN and web mode do not become ready"):
            ports = ("--sn-api-port", str(api), "--sn-p2p-port", str(p2p), "--sn-fs-port", str(fs))
            where = ("--name", "sn-0", "--sentinel", "--host-ip", "127.0.0.1", "--state-dir", "sn")
            start("swarmd", "run-sn", *where, *ports, *identity("sn-sn-0"))
            until_up(api)
            usr_and_clients = ("--usr-dir=usr", "--web-client=spiffe://swarm.learning/swarm/swci/ada")
            web = start(
                "swarmctl",
                "run-swci",
                *usr_and_clients,
                *identity("swci-web"),
                SWCI_MODE="WEB",
                SWCI_WEB_PORT=str(port),
            )
            assert web.stdout is not None
            said = web.stdout.readline()
        assert re.match(r"SWCI WEB MODE : \S+ as spiffe://swarm.learning/swarm/swci/web\n", said), said
        yield Place(folder, usr, api, port, start)
        web.send_signal(signal.SIGTERM)
        assert web.wait(STOP_SECONDS) == 0
    finally:
        for process in started:
            process.kill()
            process.communicate()


def until_up(port: int) -> None:
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 5).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.02)


@pytest.fixture
def s(place: Place) -> Swci:
    s = place.client()
    s.createContext("example", ip="127.0.0.1", port=place.api)
    s.switchContext("example")
    return s


def test_contexts(place: Place) -> None:
    s = place.client()
    assert s.createContext("a", ip="127.0.0.1", port=place.api) == ["API Server is UP!", "CONTEXT CREATED : a"]
    assert s.switchContext("a") == ["DEFAULT CONTEXT SET TO : a"]
    assert "a" in s.listContexts()
    assert f"PORT                      : {place.api}" in s.getContextInfo("a")
    for value in ("two words", "-v w"):
        want = [f"K                         : {value}"]
        assert s.setContextEnv("K", value) == want
        assert s.listContextEnv() == s.getContextEnv("K", "a") == want


def test_nodes(s: Swci, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = s.listNodes()
    assert {len(line.split(",")) for line in nodes} == {7}
    assert any(line.startswith("SENTINEL,127.0.0.1,") for line in nodes[1:])
    assert s.plotTopology().startswith("SENTINEL sn-0 (127.0.0.1:")


def test_contracts(s: Swci) -> None:
    assert s.createTrainingContract("mnist") == ["CONTRACT CREATED : mnist"]
    assert "mnist" in s.listTrainingContracts()
    assert "STATE                     : UNINITIALIZED" in s.getTrainingContractStatus("mnist")
    assert s.getTrainingContractInfo("mnist")[0] == "NAME                      : mnist"
    assert s.resetTrainingContract("mnist") == ["CONTRACT RESET : mnist"]
    with pytest.raises(errors.SwarmError, match='no contract "none"'):
        s.getTrainingContractStatus("none")


def test_files(place: Place, s: Swci, tmp_path: pathlib.Path) -> None:
    (tmp_path / "task.yaml").write_text("Name: x\n")
    assert s.uploadTaskDefintion(str(tmp_path / "task.yaml")) == ["Task definition uploaded : task.yaml"]
    assert (place.usr / "task.yaml").read_text() == "Name: x\n"
    assert "task.yaml" in s.ls()
    assert s.cd("/platform/swarm/usr") == s.pwd() == [f"Current Directory : {place.usr}"]
    with pytest.raises(errors.SwarmError, match="is not in the user directory"):
        s.ls(str(place.folder))
    (tmp_path / "swci-init").write_text("x")
    with pytest.raises(errors.SwarmError, match="is not taken"):
        s.uploadTaskDefintion(str(tmp_path / "swci-init"))


def test_tasks(s: Swci, tmp_path: pathlib.Path) -> None:
    (tmp_path / "pull.yaml").write_text(
        "Name: pull\nTaskType: PULL_IMAGE\nAuthor: ada\nPrereq: ROOTTASK\nOutcome: alpine\n"
        "Body:\n  OrgAndReg: library\n  RepoName: alpine\n  Tag: '3'\n  Auth: null\n"
    )
    s.uploadTaskDefinition(str(tmp_path / "pull.yaml"))
    said = s.registerTask("pull.yaml", finalize=False)
    assert "Task Registered : pull" in said
    body = s.getTaskBody("pull")
    assert s.appendTaskBody("pull", len(body), '# - it\'s "the" end, --so') != []
    assert s.getTaskBody("pull")[-1].endswith(': # - it\'s "the" end, --so')
    assert s.finalizeTask("pull") != []
    tasks = s.listTasks()
    assert tasks[0] == "ROOTTASK"
    assert "pull" in tasks
    assert any("PULL_IMAGE" in line for line in s.getTaskInfo("pull"))
    with pytest.raises(errors.SwarmError, match="finalised"):
        s.appendTaskBody("pull", 1, "late")
    s.createTaskrunner("runner")
    assert "runner" in s.listTaskRunners()
    with pytest.raises(errors.SwarmError, match="is not in the user directory"):
        s.createTaskFrom(str(tmp_path / "pull.yaml"))


def test_taskrunner_without_hosts(s: Swci, place: Place) -> None:
    """Nobody takes tasks here: an assignment says so at once, and the taskrunner stays idle."""
    s.createTaskrunner("nobodys")
    assert s.isTaskDone("nobodys")
    assert s.waitForTaskRunner("nobodys")[-1] == "  STATE : IDLE"
    assert any(re.match(r"TASK_STATE +: IDLE$", line) for line in s.getTaskRunnerStatus("nobodys"))
    (place.usr / "idle.yaml").write_text(
        "Name: idle\nTaskType: PULL_IMAGE\nAuthor: ada\nPrereq: ROOTTASK\nOutcome: alpine\n"
        "Body:\n  OrgAndReg: library\n  RepoName: alpine\n  Tag: '3'\n  Auth: null\n"
    )
    s.registerTask("idle.yaml")
    for peers in (1, "ALL"):
        with pytest.raises(errors.SwarmError, match="nobodys"):
            s.executeTask("idle", "nobodys", peers)
    with pytest.raises(errors.SwarmError, match="no SWOP takes tasks"):
        s.assignTask("idle", "nobodys", target="absent")
    assert s.isTaskDone("nobodys")
    assert s.waitForTaskRunner("nobodys")[-1] == "  STATE : IDLE"
    assert s.listTaskRunnerPeers("nobodys")[1:] == []
    s.resetTaskRunner("nobodys")


PROFILE = """
groupname : hospital
taskrunner : defaulttaskbb.taskdb.sml.hpe
policyuri : policy.yaml
network : none
resourcemgr : {{mgrtype : DOCKER, accessinfo : {{accesstype : FROMENV}}}}
apls : {{locator : {{host : null, port : null}}}}
apisrv : {{locator : {{host : 127.0.0.1, port : {api}, service : null}}}}
envvars : null
nodes :
    - slnodedef :
        idx : 0
        identity :
            - attribute : {{aType : KEY, mType : BIND, src : {folder}/sl-swop-0-sl-0-key.pem, tgt : /swarm-cert/key.pem}}
            - attribute : {{aType : CERT, mType : BIND, src : {folder}/sl-swop-0-sl-0-cert.pem, tgt : /swarm-cert/cert.pem}}
            - attribute : {{aType : CAPATH, mType : BIND, src : {folder}/cas, tgt : /swarm-cert/ca}}
        slhostname : sl1
        slhostip : 127.0.0.1
        slport : {port}
        usrhostname : user1
        privatedata : {{src : {folder}/model, mType : BIND}}
        slenvvars : null
        usrenvvars : null
"""
POLICY = """
sentences:
  - Allow spiffe://swarm.learning/swarm/swci/web to use host where task.type='RUN_SWARM'
"""
# A program that trains by itself.
TRAIN = """
import os
from swarmlearning.arrays import SwarmCallback
import numpy
swarm = SwarmCallback(syncFrequency=1, minPeers=int(os.environ["MIN_PEERS"]), weights={"w": numpy.zeros(2, numpy.float32)})
swarm.on_train_begin()
swarm.on_batch_end()
swarm.on_train_end()
"""
RUN = (
    "Name : {0}\nTaskType : RUN_SWARM\nAuthor : ada\nPrereq : ROOTTASK\nOutcome : none\nBody :\n    Command : {0}.py\n"
    "    Entrypoint : python3\n    WorkingDir : /app\n    PrivateContent : /app\n    SharedContent : null\n"
    '    Envvars : ["MIN_PEERS" : 1]\n'
)
DEFAULT_RUNNER = "defaulttaskbb.taskdb.sml.hpe"


@pytest.fixture(scope="module")
def host(place: Place) -> str:
    """A SWOP that starts an SL as a process, as its owner's policy lets the operators of web mode have it."""
    folder = place.folder
    (folder / "model").mkdir()
    (folder / "model" / "train.py").write_text(TRAIN)
    (folder / "model" / "boom.py").write_text('raise SystemExit("no data here")\n')
    (folder / "swop").mkdir()
    (folder / "swop" / "policy.yaml").write_text(POLICY)
    port = free_ports(1)[0]
    (folder / "swop" / "profile.yaml").write_text(PROFILE.format(api=place.api, folder=folder, port=port))
    with alarm(START_SECONDS, "no SWOP becomes ready"):
        place.start(
            *(
                "swarmd",
                "run-swop",
                "--name",
                "swop-0",
                "--host-ip",
                "127.0.0.1",
                "--usr-dir",
                "swop",
                "--state-dir",
                "swop-state",
            ),
            *("--profile-file-name", "profile.yaml", "--runtime", "process", "--ml-runtime", "process"),
            *("--cert", "swop-swop-0-cert.pem", "--key", "swop-swop-0-key.pem", "--capath", "cas"),
            PATH=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
        )
        while not any(node.startswith("SWOP,") for node in place.nodes()):
            time.sleep(0.05)
    return "swop-0"


def test_execute_task(s: Swci, place: Place, host: str) -> None:
    """A task from its file to the model, by the methods that the original's examples call."""
    for name in ("train", "boom"):
        (place.usr / f"{name}.yaml").write_text(RUN.format(name))
        assert f"Task Finalized : {name}" in s.registerTask(f"{name}.yaml")
    assert s.executeTask("train", DEFAULT_RUNNER, 1, pollWaitInSec=0.5, resetTROnSuccess=False)
    assert s.isTaskDone(DEFAULT_RUNNER)
    status = s.getTaskRunnerPeerStatus(DEFAULT_RUNNER, 0)
    for want in ("NAME : hospital", "SWOP_NAME : swop-0", "SWOP_PEER_STATUS : COMPLETE", "SL_NAME : swop-0-sl-0"):
        assert want in [re.sub(" +:", " :", line) for line in status]
    assert s.getTaskRunnerPeerStatus(DEFAULT_RUNNER, host) == status
    assert len(s.listTaskRunnerPeers(DEFAULT_RUNNER)) == 2
    assert any(re.match("STATE +: COMPLETED", line) for line in s.getTrainingContractStatus("defaultbb.cqdb.sml.hpe"))
    header, peer = s.getTrainingContractPerformanceData("defaultbb.cqdb.sml.hpe")
    assert header.startswith("SL_UID,SL_ADMIN,LOSS,METRIC,")
    assert peer.split(",")[1] == "TRUE"
    assert "SWOP swop-0" in s.plotTopology()
    s.resetTaskRunner(DEFAULT_RUNNER)
    s.resetTrainingContract("defaultbb.cqdb.sml.hpe")
    why = "task boom ended on .* with TASK_STATE : ERROR: swop-0 exited with code 1: .*no data here"
    with pytest.raises(errors.SwarmError, match=why):
        s.executeTask("boom", DEFAULT_RUNNER, "ALL", pollWaitInSec=0.5)
    with pytest.raises(errors.SwarmError, match="Task has failed, check TASKRUNNER PEER STATUS"):
        s.waitForTaskRunner(DEFAULT_RUNNER)
    s.resetTaskRunner(DEFAULT_RUNNER)
    assert s.executeTask("train", DEFAULT_RUNNER, target=host, pollWaitInSec=0.5)
    assert any(re.match("TASK_NAME +: Empty", line) for line in s.getTaskRunnerStatus(DEFAULT_RUNNER))


def test_commands_of_the_host_are_refused(s: Swci) -> None:
    for words in ("LOCAL UP", "GET MODEL mnist", "EXIT", "LIST NODES --cert x"):
        with pytest.raises(errors.SwarmError, match="is not for web mode"):
            s._do(words)


@pytest.mark.parametrize("name", ["sl-sl-0", "sn-sn-0", "audit-ann", "swci-bob"])
def test_only_operators_are_let_in(place: Place, name: str) -> None:
    """All are of the swarm; bob is an operator of another trust domain, which the nodes accept."""
    with pytest.raises(errors.UnavailableError):
        place.client(name).pwd()


def test_an_operator_who_is_not_named_is_turned_away(place: Place) -> None:
    with pytest.raises(SwciError, match=r"403: .*/swarm/swci/eve is no client of this web mode"):
        place.client("swci-eve").pwd()


def test_clients_are_apart(place: Place, s: Swci) -> None:
    """The server's own identity is a client too, and sees nothing of what ada has created."""
    assert "example" in s.listContexts()
    assert place.client("swci-web").listContexts() == []
    assert s.sleep(0) == ["DONE"]


class OriginalClient:
    """Calls as the original's client does: it checks nothing of the server, sends no body and reads CONTENT."""

    def __init__(self, place: Place) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE
        self.context.load_cert_chain(str(place.folder / "swci-web-cert.pem"), str(place.folder / "swci-web-key.pem"))
        self.port = place.port

    def connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context, timeout=STOP_SECONDS)

    def run(self, command: str) -> list[str]:
        connection = self.connect()
        connection.request("POST", "/exec?cmd=" + urllib.parse.quote_plus(command))
        reply = connection.getresponse()
        assert reply.status == http.client.OK
        content: list[str] = json.loads(reply.read())["CONTENT"]
        connection.close()
        return content


def test_the_originals_client(place: Place) -> None:
    client = OriginalClient(place)
    assert client.run(f"CREATE CONTEXT orig WITH IP 127.0.0.1 {place.api}") == [
        "API Server is UP!",
        "CONTEXT CREATED : orig",
    ]
    waiting = client.connect()
    waiting.request("POST", "/exec?cmd=SLEEP+600")
    for command, want in (
        ("switch context orig", ["DEFAULT CONTEXT SET TO : orig"]),
        ("sleep 0", ["DONE"]),
        ("list Contexts", ["orig"]),
        ("list context env", [""]),
        ("EXIT ON FAILURE", ["EXIT ON FAILURE IS TURNED ON"]),
    ):
        assert client.run(command) == want
    waiting.close()
    assert client.run("list Nodes")[0].count(",") == 6
    failed = client.run("finalize task nosuch")
    assert len(failed) == 1
    assert failed[0].startswith("ERROR : finalize task nosuch: no such task")


def test_the_documents_example(
    place: Place, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "docs" / "reference" / "swci-python.md").read_text()
    code = text.split("```python\n")[1].split("```")[0]
    for name, path in (("cert", "swci-ada-cert"), ("key", "swci-ada-key"), ("ca", "swarm-ca/ca")):
        (tmp_path / f"{name}.pem").write_bytes((place.folder / f"{path}.pem").read_bytes())
    monkeypatch.chdir(tmp_path)
    for old, new in (("port=30306", f"port={place.port}"), ('ip="sn1"', f'ip="127.0.0.1", port={place.api}')):
        assert old in code
        code = code.replace(old, new)
    run: Callable[..., None] = exec
    run(code, {})
    printed = capsys.readouterr()
    assert "MIN_PEERS" in printed.out
    assert "SENTINEL sn-0" in printed.out
    assert printed.err == ""
