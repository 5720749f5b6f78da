"""The streams of the soak test: the source of each, how it is lost, and how it comes back."""

import os
import shutil
import signal
import socket
import subprocess
import sys

from measuring import gst_launch

#: Where the tests keep their network camera.
RTSP_SERVER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "rtsp", "server.py")
#: Short, so that a soak of minutes sees many losses. The pauses between tries are the daemon's own.
LIMITS = "caps_timeout_ms = 3000\nstall_timeout_ms = 500\nrestart_timeout_ms = 1500\n"


def free_port(kind):
    """A free port of the loopback."""
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def view(name, policy, more="", gaze=""):
    """A `[[stream.view]]`; of several policies those of its foveae."""
    # A list of strings is written in TOML as in Python.
    return f"[[stream.view]]\nname = '{name}'\n{more}[stream.view.gaze]\npolicy = {policy!r}\n{gaze}"


class Stream:
    """Base of all streams: a part of the configuration, and a source that can be broken and repaired."""

    name = ""
    #: That of the first view.
    policy = "feedback"
    #: More keys of its gaze.
    gaze = ""

    def __init__(self):
        self.is_harmed = False
        self.settle()

    def settle(self):
        """Resets all variations."""
        #: Lines of `[stream.change]`: where they change, the stream restarts.
        self.change = ""
        #: Most tokens of the first view: where they change, it goes on with a new segment.
        self.budget = 273

    def text(self):
        """The `[[stream]]` tables."""
        change = f"[stream.change]\n{self.change}" if self.change else ""
        main = view("main", self.policy, f"budget = {self.budget}\n", self.gaze)
        return f"[[stream]]\nname = '{self.name}'\n{self.keys()}{change}{self.tables()}{main}{self.other_views()}"

    def keys(self):
        """The keys specific to the stream."""
        raise NotImplementedError

    def tables(self):
        """The tables between the keys and the views."""
        return ""

    def other_views(self):
        """The views after the first."""
        raise NotImplementedError

    def start(self):
        """Prepares the source."""

    def ways_to_harm(self):
        """Possible events of the source: functions that return a description."""
        return []

    def heal(self):
        """Brings the source back."""
        self.is_harmed = False

    def stop(self):
        """Ends the source's processes."""


class Served(Stream):
    """A stream whose source is a process of its own."""

    def __init__(self):
        super().__init__()
        self._source = None

    def command(self, chance=None):
        """What makes the frames; with a source of chance perhaps otherwise than at first."""
        raise NotImplementedError

    def start(self):
        self._begin(self.command())

    def _begin(self, command):
        null = subprocess.DEVNULL
        self._source = subprocess.Popen(command, stdin=null, stdout=null, stderr=null)

    def _kill(self):
        if self._source is not None:
            self._source.kill()
            self._source.wait()
            self._source = None

    def _killed(self, _chance):
        self._kill()
        return "killed"

    def _stopped(self, _chance):
        self._source.send_signal(signal.SIGSTOP)
        return "stopped"

    def _restarted(self, chance):
        self._kill()
        self._begin(self.command(chance))
        return "started otherwise"

    def ways_to_harm(self):
        return [self._killed, self._stopped, self._restarted]

    def heal(self):
        self._kill()
        self.start()
        super().heal()

    def stop(self):
        self._kill()


class Clip(Stream):
    """A file, over and over, that is spoiled while it plays."""

    name = "clip"
    policy = "saliency"
    gaze = "pursuit = true\n"

    def __init__(self, folder):
        super().__init__()
        self._whole = os.path.join(folder, "whole.mp4")
        self.path = os.path.join(folder, "clip.mp4")

    def keys(self):
        # Not by its name alone: then the daemon would take the first loss for the end of the file.
        pipeline = f"filesrc location={self.path} ! decodebin ! appsink name=frames"
        return f"backend = 'cpu'\npipeline = '{pipeline}'\nloop = true\nevents = true\n{LIMITS}"

    def other_views(self):
        return view("corner", "fixed", "budget = 64\ndtype = 'u8'\nmax_fps = 5.0\n")

    def start(self):
        source = "videotestsrc num-buffers=240 pattern=smpte horizontal-speed=3 ! video/x-raw,width=640,height=360,framerate=30/1"
        gst_launch(f"{source} ! openh264enc gop-size=15 ! h264parse ! mp4mux ! filesink location={self._whole}")
        self.heal()

    def ways_to_harm(self):
        return [self._cut, self._garbled, self._removed]

    def _cut(self, chance):
        os.truncate(self.path, chance.randrange(os.path.getsize(self._whole)))
        return "cut"

    def _garbled(self, chance):
        with open(self.path, "r+b") as file:
            file.seek(chance.randrange(os.path.getsize(self._whole)))
            file.write(chance.randbytes(20_000))
        return "garbled"

    def _removed(self, _chance):
        os.unlink(self.path)
        return "removed"

    def heal(self):
        # In one step, so that no try sees half of it.
        shutil.copyfile(self._whole, f"{self.path}.new")
        os.replace(f"{self.path}.new", self.path)
        super().heal()


class Pattern(Stream):
    """A live pipeline in the daemon itself, with depth, masks and events. Nothing can happen to it; it shows whether others disturb
    it."""

    name = "pattern"
    gaze = "pursuit = true\n"

    def keys(self):
        caps = "video/x-raw,format=NV12,width=1280,height=720,framerate=30/1"
        pipeline = f"videotestsrc is-live=true pattern=ball ! {caps} ! appsink name=frames"
        return f"backend = 'cpu'\npipeline = '{pipeline}'\nevents = true\nmotion = true\n{LIMITS}"

    def tables(self):
        caps = "video/x-raw,format=GRAY16_LE,width=640,height=360,framerate=30/1"
        depth = f"videotestsrc is-live=true pattern=ball ! {caps} ! appsink name=frames"
        mask = "[[stream.mask]]\nname = 'window'\npoints = [[0.7, 0.1], [0.9, 0.1], [0.8, 0.4]]\n"
        return f"[stream.depth]\npipeline = '{depth}'\nscale_m = 0.001\nbound_ms = 40\n{mask}"

    def other_views(self):
        model = view("model", "feedback", "patch = 14\ndtype = 'bf16'\nbudget = 400\ndepth = true\n")
        return model + view("both", ["feedback", "saliency"], "foveae = 2\nbudget = 128\n", self.gaze)


class Door(Served):
    """A network camera, by RTSP, whose server dies, hangs, or comes back with another picture."""

    name = "door"

    def __init__(self):
        super().__init__()
        self._port = free_port(socket.SOCK_STREAM)

    def keys(self):
        return (
            f"backend = 'cpu'\nsource = 'rtsp://127.0.0.1:{self._port}/camera'\nparameters = {{ protocols = 'tcp' }}\n"
            f"latency_ms = 50\n{LIMITS}"
        )

    def other_views(self):
        return view("overview", "fixed", "layout = 'uniform'\nbudget = 256\ndtype = 'u8'\n")

    def command(self, chance=None):
        looks = [("h264", "640", "480"), ("jpeg", "640", "480"), ("h264", "320", "240")]
        look = looks[0] if chance is None else chance.choice(looks[1:])
        # The system's own Python: GStreamer's modules belong to that.
        return [sys.executable, "-B", RTSP_SERVER, str(self._port), *look]


class Window(Served):
    """JPEG over UDP, on a Vulkan device where there is one. Nobody says that its sender is gone: it just falls silent."""

    name = "window"
    policy = "saliency"

    def __init__(self, device):
        super().__init__()
        self._port = free_port(socket.SOCK_DGRAM)
        self._device = device

    def keys(self):
        backend = "backend = 'cpu'\n" if self._device is None else f"backend = 'vulkan'\ndevice = '{self._device}'\n"
        caps = "application/x-rtp,media=video,encoding-name=JPEG,payload=26,clock-rate=90000"
        source = f"udpsrc address=127.0.0.1 port={self._port} caps=\"{caps}\" ! rtpjpegdepay ! jpegdec"
        return f"{backend}pipeline = '{source} ! appsink name=frames'\n{LIMITS}"

    def other_views(self):
        return view("second", "feedback", "budget = 128\npublish = 'when-read'\n")

    def command(self, chance=None):
        width, height = (640, 480) if chance is None else chance.choice([(320, 240), (800, 600)])
        caps = f"video/x-raw,format=I420,width={width},height={height},framerate=15/1"
        sender = f"jpegenc ! rtpjpegpay ! udpsink host=127.0.0.1 port={self._port}"
        pipeline = f"videotestsrc is-live=true pattern=ball ! {caps} ! {sender}"
        return ["gst-launch-1.0", "-q", *pipeline.split()]
