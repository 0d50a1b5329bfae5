"""Swci against a small SWCI that speaks mutual TLS, and against servers that are none."""

from __future__ import annotations

import http.server
import json
import logging
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from fakeswci import NODES, Authority, FakeSwci, serving
from swarmlearning import _swci_link, errors
from swarmlearning import _swci_topology as topology
from swarmlearning import swci as module
from swarmlearning.swci import Swci, SwciError

SPIFFE = "URI:spiffe://a.example/swarm/"


class Place(NamedTuple):
    ca: Authority
    server: tuple[str, str]
    client: tuple[str, str]


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    ca = Authority(tmp_path_factory.mktemp("ca") / "own")
    return Place(ca, ca.issue("swci", "/O=SPIRE", SPIFFE + "swci"), ca.issue("user", "/O=SPIRE", SPIFFE + "swci/ada"))


@pytest.fixture
def fake() -> FakeSwci:
    return FakeSwci()


@pytest.fixture
def port(place: Place, fake: FakeSwci) -> Iterator[int]:
    with serving(fake, place.server, place.ca.bundle) as port:
        yield port


def client(place: Place, port: int, **options: Any) -> Swci:
    given = {"clientCert": place.client[0], "clientPKey": place.client[1], "clientCABundle": place.ca.bundle}
    given.update({"logger": logging.getLogger("test_swci"), "timeout": 20.0})
    given.update(options)
    return Swci("127.0.0.1", port, **given)


@pytest.fixture
def s(place: Place, port: int) -> Swci:
    return client(place, port)


def test_session(s: Swci, fake: FakeSwci) -> None:
    """What the original's pages show."""
    assert s.createContext("testContext", ip="sn1") == ["API Server is UP!", "CONTEXT CREATED : testContext"]
    assert s.switchContext("testContext") == ["DEFAULT CONTEXT SET TO : testContext"]
    assert s.createTrainingContract("c1") == ["CONTRACT CREATED : c1"]
    assert s.listTrainingContracts() == ["c1"]
    assert s.listNodes() == NODES
    assert s.getErrors() == []
    assert fake.commands[0] == "CREATE CONTEXT testContext WITH IP sn1 30304"


def test_commands(s: Swci, fake: FakeSwci) -> None:
    """Every method says what the original's grammar has."""
    fake.context = "c"
    s.ls("-l usr")
    s.pwd()
    s.cd("/platform/swarm/usr")
    s.sleep(0.5)
    s.createContext("b", service="api.example:443")
    s.getContextInfo()
    s.getContextInfo("b")
    s.getContextVersion()
    s.setContextEnv("K", "two words")
    s.setContextEnv("K", "", contextName="b")
    s.setContextEnv("K", "-v w")
    s.getContextEnv("K", "b")
    s.listContextEnv()
    s.listContexts()
    s.getTrainingContractInfo("t")
    s.getTrainingContractStatus("t")
    s.getTrainingContractPerformanceData("t")
    s.resetTrainingContract("t")
    s.createTaskFrom("y.yaml")
    s.createTask("RUN_SWARM", "y", "Ada L", "ROOTTASK", "y")
    s.appendTaskBody("y", 1, 'Name: "it\'s"')
    s.deleteTask("y")
    s.getTaskInfo("y")
    s.getTaskBody("y")
    s.listTasks()
    s.createTaskRunner("r")
    s.listTaskRunners()
    s.getTaskRunnerInfo("r")
    s.getTaskRunnerPeerStatus("r", 0)
    s.listTaskRunnerPeers("r")
    s.resetTaskRunner("r")
    s.assignTask("y", "r", 3)
    s.assignTask("y", "r", "all")
    s.assignTask("y", "r", target="uid-1")
    s.waitForTaskRunner("r")
    assert fake.commands == [
        "LS -l usr",
        "PWD",
        "CD /platform/swarm/usr",
        "SLEEP 0.5",
        "CREATE CONTEXT b WITH SERVICE api.example:443",
        "GET CONTEXT INFO",
        "GET CONTEXT INFO b",
        "GET CONTEXT VERSION",
        "SET CONTEXT ENV K 'two words'",
        "SET CONTEXT ENV b K ''",
        "SET CONTEXT ENV K -- '-v w'",
        "GET CONTEXT ENV b K",
        "LIST CONTEXT ENV",
        "LIST CONTEXTS",
        "GET CONTRACT INFO t",
        "GET CONTRACT STATUS t",
        "PERFDATA t",
        "RESET CONTRACT t",
        "CREATE TASK FROM y.yaml",
        "CREATE TASK RUN_SWARM y 'Ada L' ROOTTASK y",
        """APPEND TASK BODY y 1 'Name: "it'"'"'s"'""",
        "DELETE TASK y",
        "GET TASK INFO y",
        "GET TASK BODY y",
        "LIST TASKS",
        "CREATE TASKRUNNER r",
        "LIST TASKRUNNERS",
        "GET TASKRUNNER INFO r",
        "GET TASKRUNNER PEER STATUS r 0",
        "LIST TASKRUNNER PEERS r",
        "RESET TASKRUNNER r",
        "ASSIGN TASK y TO r WITH 3 PEERS",
        "ASSIGN TASK y TO r WITH ALL PEERS",
        "ASSIGN TASK y TO r TARGET uid-1",
        "WAIT FOR TASKRUNNER r",
    ]


def test_first_error_ends_an_answer(s: Swci, caplog: pytest.LogCaptureFixture) -> None:
    s.createContext("a", ip="sn1")
    assert s.createContext("a", ip="sn1") == []
    assert s.getErrors() == ["ERROR : context a exists"]
    assert [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR] == ["ERROR : context a exists"]
    s.switchContext("a")
    assert s.getErrors() == []


def test_errors_are_raised_if_asked_for(place: Place, port: int) -> None:
    s = client(place, port, raiseErrors=True)
    with pytest.raises(SwciError, match="^no SN is known\nhint: switch context NAME$"):
        s.listNodes()
    assert s.getErrors() == ["ERROR : no SN is known\nhint: switch context NAME"]


def test_cache(place: Place, s: Swci, port: int, fake: FakeSwci, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    fake.context = "c"

    def asked() -> int:
        before = len(fake.commands)
        s.listTasks()
        return len(fake.commands) - before

    assert [asked(), asked()] == [1, 0]
    s.clearCache()
    assert [asked(), asked()] == [1, 0]
    s.createTrainingContract("x")  # whatever changes something
    assert [asked(), asked()] == [1, 0]
    now[0] += module.CACHE_SECONDS + 1
    assert [asked(), asked()] == [1, 0]
    fake.contracts.clear()
    assert s.listTrainingContracts() == []  # an empty answer is not kept
    fake.contracts.append("late")
    assert s.listTrainingContracts() == ["late"]
    s = client(place, port, enableCaching=False)
    assert [asked(), asked()] == [1, 1]


def test_what_is_kept_is_the_callers_to_change(s: Swci, fake: FakeSwci) -> None:
    fake.context = "c"
    s.listTasks().clear()
    assert s.listTasks() == ["ROOTTASK"]


def test_register(s: Swci, fake: FakeSwci, tmp_path: pathlib.Path) -> None:
    fake.context = "c"
    (tmp_path / "x.yaml").write_bytes(b"Name: x\r\n--swarm\r\n")
    assert s.uploadTaskDefintion(str(tmp_path / "x.yaml")) == ["x.yaml is stored"]
    assert fake.files == {"x.yaml": b"Name: x\r\n--swarm\r\n"}
    assert s.registerTask("x.yaml", finalize=False)[1] == "Task Registered : x"
    assert fake.finalized == []
    assert s.registerTask("x.yaml")[-1] == "Task Finalized : x"
    assert fake.finalized == ["x"]
    assert s.registerTask("nameless.yaml") == ["CREATE TASK FROM nameless.yaml : done"]
    assert s.getErrors() == ["ERROR : the answer to CREATE TASK FROM names no task, so none is finalised"]


def test_upload_refusals(s: Swci, fake: FakeSwci, tmp_path: pathlib.Path) -> None:
    (tmp_path / "big.yaml").write_bytes(b"x" * (1 << 20) + b"x")
    (tmp_path / "a b.yaml").write_bytes(b"x")
    for name, want in (("big.yaml", "at most 1048576"), ("a b.yaml", "is not taken"), ("none.yaml", "No such file")):
        with pytest.raises(errors.ParameterError, match=want):
            s.uploadTaskDefinition(str(tmp_path / name))
    assert fake.files == {}


@pytest.mark.parametrize(
    ("states", "want", "error", "last"),
    [
        (["RUNNING", "COMPLETE"], True, [], "RESET TASKRUNNER r"),
        (["RUNNING", "ERROR"], False, ["ERROR : task t ended on r with TASK_STATE : ERROR"], "GET TASKRUNNER STATUS r"),
        (["IDLE"], False, ["ERROR : task t ended on r with TASK_STATE : IDLE"], "GET TASKRUNNER STATUS r"),
        (["ERROR : no leader", "COMPLETE"], True, [], "RESET TASKRUNNER r"),
        (["ERROR : no leader"] * 5, False, ["ERROR : no leader"], "GET TASKRUNNER STATUS r"),
    ],
)
def test_execute(
    s: Swci, fake: FakeSwci, monkeypatch: pytest.MonkeyPatch, states: list[str], want: bool, error: list[str], last: str
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(module.time, "sleep", pauses.append)
    fake.context, fake.states = "c", list(states)
    assert s.executeTask("t", "r", 2, pollWaitInSec=3) is want
    assert s.getErrors() == error
    assert fake.commands[0] == "ASSIGN TASK t TO r WITH 2 PEERS"
    assert fake.commands[-1] == last
    assert pauses == [1.0, 2.0, 3.0, 3.0, 3.0][: len(states)]


def test_execute_keeps_the_taskrunner_if_asked(s: Swci, fake: FakeSwci, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    fake.context, fake.states = "c", ["COMPLETE", "RUNNING", "COMPLETE"]
    assert s.executeTask("t", "r", resetTROnSuccess=False)
    assert fake.commands[-1] == "GET TASKRUNNER STATUS r"
    assert [s.isTaskDone("r"), s.isTaskDone("r")] == [False, True]


def test_execute_needs_the_assignment(s: Swci, fake: FakeSwci) -> None:
    assert not s.executeTask("t", "r")
    assert fake.commands == ["ASSIGN TASK t TO r WITH 1 PEERS"]
    assert s.getErrors() == ["ERROR : no SN is known\nhint: switch context NAME"]


def test_topology(s: Swci, fake: FakeSwci, capsys: pytest.CaptureFixture[str]) -> None:
    assert s.plotTopology() == ""
    assert len(s.getErrors()) == 1
    assert capsys.readouterr().out == ""
    fake.context = "c"
    want = (
        "SENTINEL sn-0 (10.0.0.1:30304), 2026-11-25 20:00:01\n"
        "  SWOP swop-0 (10.0.0.2:0), 2026-11-25 20:00:02\n"
        "    SL sl-0 (10.0.0.3:30305), 2026-11-25 20:00:00"
    )
    assert s.plotTopology() == want
    assert capsys.readouterr().out == want + "\n"


def test_topology_of_what_can_not_be() -> None:
    """Rings, nodes of one UID, nodes of unknown parents: each stands once."""
    lines = [
        "header",
        "SL,h,1,a,u1,u2,",
        "SL,h,1,b,u2,u1,",
        "SL,h,1,c,u3,u3,",
        "SN,h,1,d,u4,gone,",
        "SL,h,1,e,u4,u4,",
        "?,h,,f,,,",
    ]
    text = topology.tree(topology.nodes(lines))
    assert sorted(line.split()[1] for line in text.splitlines()) == list("abcdef")
    with pytest.raises(errors.ProtocolError, match="2 columns, not 7"):
        topology.nodes(["header", "SN,h"])
    deep = ["header", *(f"SL,h,1,n{n},u{n},u{n + 1}," for n in range(5000))]
    assert len(topology.tree(topology.nodes(deep)).splitlines()) == 5000


def test_picture_needs_matplotlib(
    s: Swci, fake: FakeSwci, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    fake.context = "c"
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(errors.ParameterError, match="matplotlib, which draws pictures, is not installed"):
        s.plotTopology(str(tmp_path / "nodes.png"))


def test_nobody_is_believed_without_a_bundle(
    place: Place, port: int, fake: FakeSwci, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(
        errors.ParameterError, match=rf"nothing would prove that 127.0.0.1:{port} is SWCI .*insecure=True"
    ):
        client(place, port, clientCABundle=None)
    s = client(place, port, clientCABundle=None, insecure=True)
    assert "insecure is set" in caplog.text
    assert s.pwd() == ["PWD : done"]


@pytest.mark.parametrize(
    ("subject", "san", "believed"),
    [
        ("/O=SPIRE", SPIFFE + "swci", True),
        ("/O=SPIRE", SPIFFE + "swci/one", True),
        ("/O=SPIRE", SPIFFE + "sl/swci", False),
        ("/O=SPIRE", SPIFFE + "swcix", False),
        ("/O=SPIRE", "URI:https://a.example/swarm/swci", False),
        ("/OU=Swarm-Learning/CN=SWCI-1", "DNS:SWCI-1", True),
        ("/OU=Swarm-Learning/CN=SL-1", "DNS:SL-1", False),
        ("/CN=anything", "IP:127.0.0.1", True),
        ("/CN=anything", "DNS:other.example", False),
    ],
)
def test_whose_certificate_is_believed(place: Place, fake: FakeSwci, subject: str, san: str, believed: bool) -> None:
    """An SL's certificate is of the same CA as SWCI's."""
    with serving(fake, place.ca.issue("other", subject, san), place.ca.bundle) as port:
        s = client(place, port)
        if believed:
            assert s.pwd() == ["PWD : done"]
        else:
            with pytest.raises(errors.UnavailableError, match="which is not SWCI's"):
                s.pwd()
            assert fake.commands == []


def test_prefix_of_spiffe_ids(place: Place, fake: FakeSwci) -> None:
    cert = place.ca.issue("bare", "/O=SPIRE", "URI:spiffe://a.example/swci")
    with serving(fake, cert, place.ca.bundle) as port:
        assert client(place, port, spiffePrefix="/").pwd() == ["PWD : done"]
        with pytest.raises(errors.UnavailableError, match="pass spiffePrefix"):
            client(place, port).pwd()


def test_strangers(place: Place, port: int, fake: FakeSwci, tmp_path: pathlib.Path) -> None:
    """Neither side speaks with a certificate of another CA, nor the server without one."""
    other = Authority(tmp_path / "other")
    with pytest.raises(errors.UnavailableError, match="its certificate is not believed: .*clientCABundle must hold"):
        client(place, port, clientCABundle=other.bundle).pwd()
    cert, key = other.issue("user", "/O=SPIRE", SPIFFE + "swci/eve")
    for given in ({"clientCert": cert, "clientPKey": key}, {"clientCert": None, "clientPKey": None}):
        with pytest.raises(errors.UnavailableError, match="SWCI takes certificates of the role swci"):
            client(place, port, **given).pwd()
    assert fake.commands == []


def test_folder_of_cas(place: Place, port: int, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "capath"
    folder.mkdir()
    with pytest.raises(errors.ParameterError, match="has 0 files"):
        client(place, port, clientCABundle=str(folder))
    (folder / "ca-1-cert.pem").write_bytes(pathlib.Path(place.ca.bundle).read_bytes())
    assert client(place, port, clientCABundle=str(folder)).pwd() == ["PWD : done"]


def test_bad_parameters(place: Place, port: int, s: Swci, tmp_path: pathlib.Path) -> None:
    (tmp_path / "text").write_text("no PEM")
    locked = str(tmp_path / "locked.pem")
    subprocess.run(
        ["openssl", "pkey", "-in", place.client[1], "-aes256", "-passout", "pass:x", "-out", locked], check=True
    )
    for options, want in (
        ({"clientCert": None}, "belong together"),
        ({"clientCert": str(tmp_path / "none")}, "clientCert .*none is no file"),
        ({"clientCABundle": str(tmp_path / "none")}, "neither a file nor a folder"),
        ({"clientCABundle": str(tmp_path / "text")}, "can not be read"),
        ({"clientPKey": str(tmp_path / "text")}, "can not be read"),
        ({"clientPKey": place.server[1]}, "can not be read"),
        ({"clientPKey": locked}, "can not be read"),
    ):
        with pytest.raises(errors.ParameterError, match=want):
            client(place, port, **options)
    with pytest.raises(errors.ParameterError, match="port 0"):
        client(place, 0)
    for value in ("a\nRESET CONTRACT b", "a\x1b[2J", "a\tb"):
        with pytest.raises(errors.ParameterError, match="control characters"):
            s.createTrainingContract(value)
    for peers in (0, -1, "some", 1.5):
        with pytest.raises(errors.ParameterError, match="peers is"):
            s.assignTask("t", "r", peers)  # type: ignore[arg-type]
    with pytest.raises(errors.ParameterError, match="one of them"):
        s.createContext("c")


def content(*elements: str) -> bytes:
    return json.dumps({"CONTENT": elements}).encode()


@pytest.mark.parametrize(
    ("data", "want"),
    [
        (b"", "is no JSON"),
        (b"<html>", "is no JSON"),
        (b"\xff\xfe", "is no JSON"),
        (b"[" * 100_000, "is no JSON"),
        (b"[]", "no list of texts named CONTENT"),
        (b'{"CONTENT": "x"}', "no list of texts"),
        (b'{"CONTENT": ["x", 1]}', "no list of texts"),
        (b'{"CONTENT": {"0": "x"}}', "no list of texts"),
        (content(*[""] * 20), "more than 10 elements"),
        (content("x" * 2000), "longer than 1000 bytes"),
    ],
)
def test_hostile_answers(s: Swci, fake: FakeSwci, monkeypatch: pytest.MonkeyPatch, data: bytes, want: str) -> None:
    if len(data) < 100_000:
        monkeypatch.setattr(_swci_link, "MAX_ANSWER", 1000)
    monkeypatch.setattr(_swci_link, "MAX_LINES", 10)
    fake.raw = lambda handler: handler.answer(data)  # type: ignore[attr-defined]
    with pytest.raises(errors.ProtocolError, match=want):
        s.listNodes()


def test_endless_answer(s: Swci, fake: FakeSwci, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that names no length is read no further than the bound."""
    monkeypatch.setattr(_swci_link, "MAX_ANSWER", 1 << 20)

    def endless(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while True:
            handler.wfile.write(b"x" * 65536)

    fake.raw = endless
    with pytest.raises(errors.ProtocolError, match="longer than"):
        s.listNodes()


def test_escape_sequences_are_not_obeyed(s: Swci, fake: FakeSwci) -> None:
    fake.raw = lambda handler: handler.answer(content("a\x1b[2J\u202eb\r", "c\td\ne"))  # type: ignore[attr-defined]
    assert s.listNodes() == ["a?[2J?b?", "c\td", "e"]


def test_refusals(s: Swci, fake: FakeSwci) -> None:
    fake.raw = lambda handler: handler.answer(b"too many commands wait\n", status=503)  # type: ignore[attr-defined]
    with pytest.raises(SwciError, match="refused the request with status 503: too many commands wait"):
        s.listNodes()
    fake.raw = lambda handler: None  # hangs up
    with pytest.raises(errors.UnavailableError, match="can not be reached"):
        s.listNodes()


def test_nobody_there(place: Place) -> None:
    with serving(FakeSwci(), place.server, place.ca.bundle) as port:
        pass
    with pytest.raises(errors.UnavailableError, match="is it running in web mode"):
        client(place, port).pwd()


def test_silence(place: Place, port: int, fake: FakeSwci) -> None:
    fake.raw = lambda handler: handler.rfile.read(1)  # type: ignore[assignment]
    with pytest.raises(errors.TimeoutError, match="did not answer in 0.2 s"):
        client(place, port, timeout=0.2).pwd()


def test_own_log(place: Place, port: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = logging.getLogger("swarmlearning.swci")
    monkeypatch.setattr(log, "handlers", [])
    s = client(place, port, logger=None)
    assert not pathlib.Path(module.LOG_FILE).exists()
    s.listNodes()
    s.setLogLevel(logging.DEBUG)
    s.pwd()
    lines = pathlib.Path(module.LOG_FILE).read_text().splitlines()
    assert lines[0].endswith("ERROR ERROR : no SN is known")
    assert lines[-1].endswith("DEBUG PWD")
    for handler in log.handlers:
        handler.close()


def test_names() -> None:
    assert module.swci is Swci
    assert Swci.uploadTaskDefinition is Swci.uploadTaskDefintion
