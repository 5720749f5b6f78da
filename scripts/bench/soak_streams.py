"""The streams of the soak test: their configuration, and how their sources are lost and come back."""

import os
import shutil
import signal
import socket
import subprocess
import sys

from measuring import ROOT, gst_launch

#: Where the tests keep their network camera.
RTSP_SERVER = ROOT / "tests" / "rtsp" / "server.py"
#: Short, so that a soak of minutes sees many losses. The pauses between tries are the daemon's own.
LIMITS = "caps_timeout_ms = 3000\nstall_timeout_ms = 500\nrestart_timeout_ms = 1500\n"
DEPTH_AND_MASK = """[stream.depth]
pipeline = '''videotestsrc is-live=true pattern=ball
! video/x-raw,format=GRAY16_LE,width=640,height=360,framerate=30/1 ! appsink name=frames'''
scale_m = 0.001
bound_ms = 40
[[stream.mask]]
name = 'window'
points = [[0.7, 0.1], [0.9, 0.1], [0.8, 0.4]]
"""


class NoSource:
    """A pipeline in the daemon itself, to which nothing can happen: it shows whether others disturb it."""

    def start(self):
        """Begins to make frames."""

    def harm(self, chance):
        """Makes the source fail, and returns how; None if it cannot fail."""

    def heal(self):
        """Makes the source work again."""

    def stop(self):
        """Ends its processes."""


class FileSource(NoSource):
    """A clip that is spoiled while it plays."""

    def __init__(self, path):
        self._path, self._whole = path, f"{path}.whole"

    def start(self):
        source = "videotestsrc num-buffers=240 pattern=smpte horizontal-speed=3"
        caps = "video/x-raw,width=640,height=360,framerate=30/1"
        gst_launch(f"{source} ! {caps} ! openh264enc gop-size=15 ! h264parse ! mp4mux ! filesink location={self._whole}")
        self.heal()

    def harm(self, chance):
        way, place = chance.choice(["cut", "garbled", "removed"]), chance.randrange(os.path.getsize(self._whole))
        if way == "cut":
            os.truncate(self._path, place)
        elif way == "garbled":
            with open(self._path, "r+b") as file:
                file.seek(place)
                file.write(chance.randbytes(20_000))
        else:
            os.unlink(self._path)
        return way

    def heal(self):
        # In one step, so that no try sees half of it.
        shutil.copyfile(self._whole, f"{self._path}.new")
        os.replace(f"{self._path}.new", self._path)


class ProcessSource(NoSource):
    """A process that sends frames.

    :param usual: its command.
    :param others: commands that send frames of other sizes or formats.
    """

    def __init__(self, usual, others):
        self._usual, self._others = usual, others
        self._process = None

    def start(self, command=None):
        null = subprocess.DEVNULL
        self._process = subprocess.Popen(command or self._usual, stdin=null, stdout=null, stderr=null)

    def harm(self, chance):
        way = chance.choice(["killed", "stopped", "started otherwise"])
        if way == "stopped":
            self._process.send_signal(signal.SIGSTOP)
            return way
        self.stop()
        if way == "started otherwise":
            self.start(chance.choice(self._others))
        return way

    def heal(self):
        self.stop()
        self.start()

    def stop(self):
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class Stream:
    """A stream whose first view is `main`.

    :param keys: lines of its `[[stream]]` table.
    :param gaze: lines of the `[stream.view.gaze]` table of the first view.
    :param views: the tables of the other views.
    :param tables: tables between the keys and the views.
    """

    def __init__(self, name, source, keys, gaze, views, tables=""):
        self.name, self.source = name, source
        self._keys, self._gaze, self._views, self._tables = keys, gaze, views, tables
        self.is_harmed = False
        self.settle()

    def settle(self):
        """Resets what reloads have changed."""
        #: Lines of `[stream.change]`: where they change, the stream restarts.
        self.change = ""
        #: Most tokens of the first view: where they change, it goes on with a new segment.
        self.budget = 273

    def harm(self, chance):
        """Makes the source fail, and returns how; None if it cannot fail."""
        way = self.source.harm(chance)
        self.is_harmed = way is not None
        return way

    def heal(self):
        """Makes the source work again."""
        self.source.heal()
        self.is_harmed = False

    def text(self):
        """Its part of the configuration."""
        head = f"[[stream]]\nname = '{self.name}'\n{self._keys}{LIMITS}[stream.change]\n{self.change}{self._tables}"
        return head + view("main", self._gaze, f"budget = {self.budget}") + self._views


def view(name, gaze, keys):
    """A `[[stream.view]]` table."""
    return f"[[stream.view]]\nname = '{name}'\n{keys}\n[stream.view.gaze]\n{gaze}\n"


def clip(folder):
    """A file, over and over."""
    path = os.path.join(folder, "clip.mp4")
    # Not by its name alone: then the daemon would take the first loss for the end of the file.
    pipeline = f"filesrc location={path} ! decodebin ! appsink name=frames"
    keys = f"backend = 'cpu'\npipeline = '{pipeline}'\nloop = true\nevents = true\n"
    corner = view("corner", "policy = 'fixed'", "budget = 64\ndtype = 'u8'\nmax_fps = 5.0")
    return Stream("clip", FileSource(path), keys, "policy = 'saliency'\npursuit = true", corner)


def pattern():
    """A test pattern with depth, masks and events."""
    caps = "video/x-raw,format=NV12,width=1280,height=720,framerate=30/1"
    pipeline = f"videotestsrc is-live=true pattern=ball ! {caps} ! appsink name=frames"
    keys = f"backend = 'cpu'\npipeline = '{pipeline}'\nevents = true\nmotion = true\n"
    model = view("model", "policy = 'feedback'", "patch = 14\ndtype = 'bf16'\nbudget = 400\ndepth = true")
    both = view("both", "policy = ['feedback', 'saliency']\npursuit = true", "layout = 'foveal'\nfoveae = 2\nbudget = 128")
    return Stream("pattern", NoSource(), keys, "policy = 'feedback'\npursuit = true", model + both, DEPTH_AND_MASK)


def door():
    """A network camera, by RTSP."""
    port = free_port(socket.SOCK_STREAM)
    # The system's own Python, which has GStreamer's modules.
    server = [sys.executable, "-B", RTSP_SERVER, str(port)]
    source = ProcessSource(
        [*server, "h264", "640", "480"], [[*server, "jpeg", "640", "480"], [*server, "h264", "320", "240"]]
    )
    keys = (
        f"backend = 'cpu'\nsource = 'rtsp://127.0.0.1:{port}/camera'\n"
        "parameters = { protocols = 'tcp' }\nlatency_ms = 50\n"
    )
    overview = view("overview", "policy = 'fixed'", "layout = 'uniform'\nbudget = 256\ndtype = 'u8'")
    return Stream("door", source, keys, "policy = 'feedback'", overview)


def window(device):
    """JPEG over UDP, on a Vulkan device if there is one. A sender that is gone just falls silent."""
    port = free_port(socket.SOCK_DGRAM)

    def sender(width, height):
        caps = f"video/x-raw,format=I420,width={width},height={height},framerate=15/1"
        sink = f"udpsink host=127.0.0.1 port={port}"
        pipeline = f"videotestsrc is-live=true pattern=ball ! {caps} ! jpegenc ! rtpjpegpay ! {sink}"
        return ["gst-launch-1.0", "-q", *pipeline.split()]

    caps = "application/x-rtp,media=video,encoding-name=JPEG,payload=26,clock-rate=90000"
    received = f"udpsrc address=127.0.0.1 port={port} caps=\"{caps}\" ! rtpjpegdepay ! jpegdec ! appsink name=frames"
    backend = "backend = 'cpu'\n" if device is None else f"backend = 'vulkan'\ndevice = '{device}'\n"
    source = ProcessSource(sender(640, 480), [sender(320, 240), sender(800, 600)])
    second = view("second", "policy = 'feedback'", "budget = 128\npublish = 'when-read'")
    return Stream("window", source, f"{backend}pipeline = '{received}'\n", "policy = 'saliency'", second)


def free_port(kind):
    """A free port of the loopback."""
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
