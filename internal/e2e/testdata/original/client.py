"""A client of the bridge as the original's Python package has it, for tests.

It was written from the description of the protocol alone, not from the server's code. Three dialects stand for the
releases: 2.0 says version 1 and sends weights in messages, 2.2 the same in version 2, and 2.3 leaves them as pickles in
one folder that it does not let anyone choose.

In one thing it is sterner than the original: merged weights must have the model's names, all and no others.
"""

import os
import pickle
import stat
import time
import warnings

import frames
import numpy as np

FOLDER = "/tmp/hpe-swarm"
TRAINED = "trained_weights.pkl"
MERGED = "merged_weights.pkl"

VERSIONS = {"2.0": 1, "2.2": 2, "2.3": 2}


class SwarmError(Exception):
    """What the original raises for everything that fails."""


class Channel:
    """The two named pipes: whole frames out and in."""

    def __init__(self, version, poll=1.0, folder=FOLDER, files=False):
        """Wait for the pipes, and for the files if weights travel in them, then open response before request."""
        self.version = version
        self.folder = folder
        paths = [_variable("SL_REQUEST_CHANNEL"), _variable("SL_RESPONSE_CHANNEL")]
        for path in paths:
            while not os.path.exists(path):
                time.sleep(poll)
            if not stat.S_ISFIFO(os.stat(path).st_mode):
                raise SwarmError(f"{path}: not a named pipe; cannot create bridge")
        for name in (TRAINED, MERGED) if files else ():
            time.sleep(poll)
            if not os.path.isfile(os.path.join(folder, name)):
                raise SwarmError(f"cannot create file {os.path.join(folder, name)}")
        self.response = open(paths[1], "rb", buffering=0)  # noqa: SIM115 (closed by close)
        self.request = open(paths[0], "wb", buffering=0)  # noqa: SIM115 (closed by close)

    def send(self, kind, body):
        """Write one frame."""
        self.write(frames.header(self.version, kind, len(body)) + body)

    def write(self, data):
        """Write all of these bytes: an unbuffered pipe may take fewer at a time."""
        view = memoryview(data)
        while view:
            view = view[self.request.write(view) :]

    def receive(self):
        """Read one frame: its type and its message."""
        version, kind, size = frames.parse_header(self._read(frames.HEADER_SIZE))
        if version != self.version:
            raise SwarmError(
                "Mismatch in the Swarm API version between ML and SL containers. "
                f"Expected version {self.version}, but the version received from the header is {version}"
            )
        if not frames.STATUS <= kind <= frames.KILL_SESSION:
            raise SwarmError(f"unsupported message type: {kind}")
        return kind, self._read(size)

    def close(self):
        """Close both pipes."""
        self.request.close()
        self.response.close()

    def _read(self, size):
        data = bytearray()
        while len(data) < size:
            part = self.response.read(size - len(data))
            if not part:
                raise SwarmError(f"wanted: {size} bytes, got {len(data)} bytes: pipe closed?")
            data += part
        return bytes(data)


class Session:
    """The conversation: open, sync as often as wanted, close or kill."""

    def __init__(self, dialect, channel, install, loss):
        """Install takes a merged dict of arrays, loss returns the loss and the metric with what is installed."""
        self.files = dialect == "2.3"
        self.old = dialect == "2.0"
        self.channel = channel
        self.install = install
        self.loss = loss
        self.id = ""
        self.syncs = 0
        self.closes = 0
        self.merges = 0
        self.last_merged = None
        self.epochs = (0, 0)

    def open(self, **request):
        """Open the session with these fields of a SessionRequest."""
        if self.old:
            request.pop("mergeMethod", None)
        self.channel.send(frames.OPEN_SESSION, frames.encode(frames.SESSION_REQUEST, request))
        response = self._expect(frames.OPENED_SESSION, frames.SESSION_RESPONSE)
        self.id = response["sessionID"]

    def sync(self, weights, weightage):
        """Merge once. Returns the next interval and whether training is over."""
        self.syncs += 1
        return self._merge(frames.SYNC, frames.SYNCED, self.syncs, weights, weightage)

    def close(self, weights, weightage):
        """End the session. It may be long until the others are done; their merges are installed until then."""
        self.closes += 1
        self._merge(frames.CLOSE_SESSION, frames.CLOSED_SESSION, self.closes, weights, weightage)

    def kill(self):
        """Leave a session whose training the others have ended. There is no answer."""
        reason = "Swarm training is over before local training. Exit gracefully."
        values = {"sessionID": self.id, "reason": {"code": frames.OK, "msg": reason}}
        self.channel.send(frames.KILL_SESSION, frames.encode(frames.KILL_REQUEST, values))

    def _merge(self, kind, answer, number, weights, weightage):
        request = {"sessionID": self.id, "syncSeqNum": number, "nodeWeightage": weightage}
        fields = frames.SYNC_REQUEST if self.files else frames.in_band(frames.SYNC_REQUEST)
        if self.files:
            with open(os.path.join(self.channel.folder, TRAINED), "wb") as f:
                pickle.dump(weights, f, protocol=5)
            request["fileName"] = TRAINED
        else:
            request["weights"] = weights
        self.channel.send(kind, frames.encode(fields, request))
        while True:
            got, body = self._receive()
            if got != frames.GET_LOSS:
                break
            self._answer_loss(body, number)
        response = self._decode(got, body, answer, frames.SYNC_RESPONSE)
        self._same(response, number)
        return response["nextSyncInterval"], response["trainingOver"]

    def _answer_loss(self, body, number):
        request = frames.decode(frames.LOSS_REQUEST if self.files else frames.in_band(frames.LOSS_REQUEST), body)
        self._same(request, number)
        response = {"sessionID": self.id, "syncSeqNum": number, "lossSeqNum": request["lossSeqNum"]}
        try:
            merged = request.get("weights")
            if self.files:
                with open(os.path.join(self.channel.folder, request["fileName"]), "rb") as f:
                    merged = pickle.load(f)
            self.install(merged)
            self.last_merged = merged
            loss, metric = self.loss()
        except Exception as e:
            status = {"code": frames.ERROR_IN_USER, "msg": str(e)}
            self._send_loss({**response, "status": status, "loss": -1.0})
            raise
        self.merges += 1
        status = {"code": frames.OK, "msg": ""}
        done, total = self.epochs
        self._send_loss(
            {**response, "status": status, "loss": loss, "metrics": metric, "epochsdone": done, "totalepochs": total}
        )

    def _send_loss(self, response):
        fields = frames.LOSS_RESPONSE[:5] if self.old else frames.LOSS_RESPONSE
        self.channel.send(frames.LOSS, frames.encode(fields, response))

    def _same(self, message, number):
        if message["sessionID"] != self.id:
            raise SwarmError(f"session ID is {message['sessionID']!r}, expected {self.id!r}")
        if message["syncSeqNum"] != number:
            raise SwarmError(f"sync sequence number is {message['syncSeqNum']}, expected {number}")

    def _receive(self):
        kind, body = self.channel.receive()
        if kind == frames.STATUS:
            raise SwarmError("SL error: " + frames.decode(frames.STATUS_FIELDS, body)["msg"])
        return kind, body

    def _expect(self, kind, fields):
        return self._decode(*self._receive(), kind, fields)

    def _decode(self, got, body, kind, fields):
        if got != kind:
            raise SwarmError(f"message type is {got}, expected {kind}")
        message = frames.decode(fields, body)
        status = message["status"] or {"code": frames.OK, "msg": ""}
        if status["code"] != frames.OK:
            raise SwarmError("SL error: " + status["msg"])
        return message


class Callback:
    """What a program calls: the hooks of the original's callback for PyTorch, on a dict of numpy arrays."""

    def __init__(self, model, dialect, loss=lambda: (0.0, 0.0), **options):
        """Model is changed in place. Poll and folder are of Channel; the rest are the original's parameters."""
        self.model = model
        self.weightage = options.get("nodeWeightage", 1)
        self.checkin = options.get("checkinModelOnTrainEnd", "snapshot")
        self.epochs, self.total_epochs = 0, options.get("totalEpochs", 0)
        self.request = {
            "syncInterval": options["syncFrequency"],
            "minPeers": options["minPeers"],
            "maxPeers": 0,
            "useAdaptiveSync": options.get("useAdaptiveSync", False),
            "checkinModelOnTrainEnd": self.checkin,
            "nodeWeightage": self.weightage,
            "trainingContract": options.get("trainingContract", "defaultbb.cqdb.sml.hpe"),
            "mergeMethod": options.get("mergeMethod", "mean"),
        }
        self.steps = options["syncFrequency"]
        self.training_over = False
        files = dialect == "2.3"
        where = {name: options[name] for name in ("poll", "folder") if name in options}
        self.channel = Channel(VERSIONS[dialect], files=files, **where)
        self.session = Session(dialect, self.channel, lambda merged: install(self.model, merged), loss)

    def on_train_begin(self):
        """Open the session and merge, so that all start equal."""
        self.session.open(**self.request)
        self._sync()

    def on_batch_end(self, batch=None):
        """Merge when the counter is exactly zero, then count. An interval of zero means that it never merges again."""
        if self.training_over:
            return
        if self.steps == 0:
            self._sync()
        self.steps -= 1

    def on_epoch_end(self, epoch=None):
        """Count the epoch."""
        self.epochs += 1
        self.session.epochs = (self.epochs, self.total_epochs)

    def on_train_end(self):
        """Close the session, or leave it if the others have ended the training."""
        if self.training_over:
            if self.session.last_merged is not None:
                install(self.model, self.session.last_merged)
            self.session.kill()
        elif self.checkin == "inactive":
            self.session.close(self.model, 0)
        elif self.checkin == "active" and self.session.last_merged is not None:
            self.session.close(self.session.last_merged, self.weightage)
        else:
            self.session.close(self.model, self.weightage)
        self.channel.close()
        print(
            time.strftime("%Y-%m-%d %H:%M:%S,000") + " : SwarmCallback : INFO : "
            "All peers and Swarm training rounds finished. Final Swarm model was loaded.",
            flush=True,
        )

    def _sync(self):
        self.steps, self.training_over = self.session.sync(self.model, self.weightage)


def install(model, merged):
    """Put merged weights into the model as the original does: through torch.Tensor, which makes each a float32 one."""
    if not isinstance(merged, dict) or set(merged) != set(model):
        raise SwarmError(f"merged weights have the names {list(merged or ())}, the model has {list(model)}")
    for name, value in merged.items():
        tensor = tensor_of(value)
        if tensor.shape != model[name].shape:
            raise RuntimeError(f"size mismatch for {name}: {tensor.shape}, the model has {model[name].shape}")
        model[name][...] = tensor.astype(model[name].dtype)


def tensor_of(value):
    """Do as torch.Tensor of release 1.13 does, with its refusals and its warning."""
    if not isinstance(value, np.ndarray):
        raise TypeError(f"new(): data must be a sequence (got {type(value).__module__}.{type(value).__name__})")
    if value.ndim == 0 and value.dtype.kind in "iu":
        # An array of one whole number is taken for a size. What comes out has no elements that could be copied.
        raise IndexError("index 0 is out of bounds for dimension 0 with size 0")
    if not value.flags.writeable:
        warnings.warn("The given NumPy array is not writable, and PyTorch does not support it.", stacklevel=2)
    return value.astype(np.float32)


def _variable(name):
    if not os.environ.get(name):
        raise SwarmError(f"{name}: bad environment variable; cannot create bridge")
    return os.environ[name]
