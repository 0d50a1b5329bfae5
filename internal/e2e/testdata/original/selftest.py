"""Checks the client itself: bytes of frames against examples, and whole conversations with a server of a few lines."""

import os
import pickle
import tempfile
import threading
import unittest
import warnings

import client
import frames
import numpy as np


class Frames(unittest.TestCase):
    """The bytes on the pipes."""

    def test_header(self):
        """The example of the original's documentation: version 2, type 1, size 1."""
        want = bytes.fromhex("0a0a 0d02000000 1502000000 1501000000 1d01000000".replace(" ", ""))
        self.assertEqual(frames.header(2, 1, 1), want)
        self.assertEqual(len(want), frames.HEADER_SIZE)
        self.assertEqual(frames.parse_header(want), (2, 1, 1))
        self.assertEqual(frames.parse_header(frames.header(1, 6, 0)), (1, 6, 0))

    def test_messages(self):
        """Bytes as protoc --encode makes them of the original's messages."""
        session = {"syncInterval": 300, "minPeers": 2, "checkinModelOnTrainEnd": "active", "trainingContract": "c"}
        self.assertEqual(frames.encode(frames.SESSION_REQUEST, session).hex(), "08ac0210022a066163746976653a0163")
        loss = {"sessionID": "s", "lossSeqNum": 1, "status": {"code": 2, "msg": "no"}, "loss": -1.0}
        self.assertEqual(frames.encode(frames.LOSS_RESPONSE, loss).hex(), "0a017318012206080212026e6f2d000080bf")
        response = frames.decode(frames.SYNC_RESPONSE, bytes.fromhex("0a0173100320ffffffffffffffffff012801"))
        self.assertEqual([response[name] for name in ("syncSeqNum", "nextSyncInterval", "trainingOver")], [3, -1, True])
        array = {"w": np.array([[1.5]], np.float32)}
        want = "0a210a0177121c0a10" + b"dtype('float32')".hex() + "120201011a040000c03f"
        self.assertEqual(frames.encode_weights(array).hex(), want)
        back = frames.decode_weights(bytes.fromhex(want))
        self.assertEqual((back["w"].dtype, back["w"].shape, back["w"][0, 0]), (np.float32, (1, 1), 1.5))


class Install(unittest.TestCase):
    """How merged weights come into the model."""

    def test_traps(self):
        """A whole number without dimensions, a numpy scalar, another shape and other names are refused."""
        model = {"n": np.array(3, np.int64), "b": np.zeros(2, np.float64)}
        client.install(model, {"b": np.array([1.0, 0.1]), "n": np.array(7.6)})
        self.assertEqual((int(model["n"]), model["b"][1]), (7, np.float32(0.1)))
        fine = {"n": np.array(1.0), "b": np.ones(2)}
        for wrong, error in [
            ({"n": np.array(7)}, IndexError),
            ({"n": np.float64(7)}, TypeError),
            ({"b": np.ones(3)}, RuntimeError),
            ({"x": np.ones(3)}, client.SwarmError),
        ]:
            with self.assertRaises(error):
                client.install(model, {**fine, **wrong})
        fine["b"].setflags(write=False)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            client.install(model, fine)
        self.assertIn("not writable", str(found[0].message))


class Server(threading.Thread):
    """The other side: doubles the weights at each merge, and answers the closing with one merge more."""

    def __init__(self, dialect, folder, over=False):
        """Make the files, then the pipes."""
        super().__init__(daemon=True)
        self.version, self.files, self.folder, self.over = client.VERSIONS[dialect], dialect == "2.3", folder, over
        for name in (client.TRAINED, client.MERGED):
            open(os.path.join(folder, name), "wb").close()
        self.paths = [os.path.join(folder, name) for name in ("response", "request")]
        for path in self.paths:
            os.mkfifo(path)
        self.log = []

    def run(self):
        """Answer until the client is gone."""
        with open(self.paths[0], "wb", 0) as self.out, open(self.paths[1], "rb", 0) as request:
            while True:
                head = request.read(frames.HEADER_SIZE)
                if not head:
                    return
                _, kind, size = frames.parse_header(head)
                body = bytearray()
                while len(body) < size:
                    body += request.read(size - len(body))
                self.log.append(kind)
                self.answer(kind, bytes(body))

    def answer(self, kind, body):
        """Answer one frame."""
        ok = {"code": frames.OK, "msg": ""}
        if kind == frames.OPEN_SESSION:
            self.request = frames.decode(frames.SESSION_REQUEST, body)
            self.send(frames.OPENED_SESSION, frames.SESSION_RESPONSE, {"status": ok, "sessionID": "s-1"})
        elif kind in (frames.SYNC, frames.CLOSE_SESSION):
            fields = frames.SYNC_REQUEST if self.files else frames.in_band(frames.SYNC_REQUEST)
            self.last = frames.decode(fields, body)
            merged = {name: 2 * np.array(a, np.float32) for name, a in self.weights(self.last).items()}
            merged = {name: np.array(a) for name, a in merged.items()}
            loss = {"sessionID": "s-1", "syncSeqNum": self.last["syncSeqNum"], "lossSeqNum": 1}
            loss.update(weights=merged, fileName=client.MERGED)
            if self.files:
                with open(os.path.join(self.folder, client.MERGED), "wb") as f:
                    pickle.dump(merged, f, protocol=4)
            fields = frames.LOSS_REQUEST if self.files else frames.in_band(frames.LOSS_REQUEST)
            self.send(frames.GET_LOSS, fields, loss)
            self.after = frames.SYNCED if kind == frames.SYNC else frames.CLOSED_SESSION
        elif kind == frames.LOSS:
            self.loss = frames.decode(frames.LOSS_RESPONSE, body)
            done = {"sessionID": "s-1", "syncSeqNum": self.last["syncSeqNum"], "status": ok, "nextSyncInterval": 4}
            self.send(self.after, frames.SYNC_RESPONSE, {**done, "trainingOver": self.over})

    def weights(self, request):
        """The weights that came with a request."""
        if not self.files:
            return request["weights"]
        with open(os.path.join(self.folder, request["fileName"]), "rb") as f:
            return pickle.load(f)

    def send(self, kind, fields, values):
        """Send one frame."""
        body = frames.encode(fields, values)
        self.out.write(frames.header(self.version, kind, len(body)) + body)


class Conversation(unittest.TestCase):
    """All that is said between opening the pipes and closing them."""

    def talk(self, dialect, over=False):
        """Train 21 batches and return the server, the model, and after which batches it merged."""
        with tempfile.TemporaryDirectory() as folder:
            server = Server(dialect, folder, over)
            server.start()
            os.environ["SL_RESPONSE_CHANNEL"], os.environ["SL_REQUEST_CHANNEL"] = server.paths
            model = {"w": np.asfortranarray(np.ones((2, 3), np.float32)), "n": np.array(1)}
            callback = client.Callback(
                model, dialect, lambda: (0.5, 0.25), syncFrequency=4, minPeers=1, poll=0, folder=folder
            )
            callback.on_train_begin()
            merged = []
            for batch in range(1, 22):
                before = callback.session.merges
                callback.on_batch_end(batch)
                merged += [batch] if callback.session.merges > before else []
            callback.on_epoch_end()
            callback.on_train_end()
            server.join(10)
            self.assertFalse(server.is_alive())
        return server, model, merged

    def test_dialects(self):
        """Each release opens, merges at the same batches, and closes; what a release lacks it does not send."""
        for dialect in client.VERSIONS:
            server, model, merged = self.talk(dialect)
            self.assertEqual(merged, [5, 9, 13, 17, 21], dialect)
            merges = [frames.SYNC, frames.LOSS]
            self.assertEqual(server.log, [frames.OPEN_SESSION, *merges * 6, frames.CLOSE_SESSION, frames.LOSS])
            self.assertEqual((model["w"][1, 2], int(model["n"])), (128, 128))
            self.assertEqual(server.last["syncSeqNum"], 1)
            self.assertEqual(server.request["mergeMethod"], "" if dialect == "2.0" else "mean")
            reported = (server.loss["metrics"], server.loss["epochsdone"])
            self.assertEqual(reported, (0, 0) if dialect == "2.0" else (0.25, 1))

    def test_training_over(self):
        """When the others have ended the training the session is killed, not closed."""
        server, _, merged = self.talk("2.3", over=True)
        self.assertEqual(merged, [])
        self.assertEqual(server.log, [frames.OPEN_SESSION, frames.SYNC, frames.LOSS, frames.KILL_SESSION])


if __name__ == "__main__":
    unittest.main()
