"""Topics are what another implementation of ROS 2's messages reads, and a point that it writes is looked at."""

from __future__ import annotations

import io
import sys
import threading
import unittest
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bridges" / "zenoh" / "tests"))

from processes import BRIDGE, Process, free_endpoint, router, session
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from support import HANG, RealDaemon, within

import foveate

DEFINITION = ROOT / "bridges" / "ros2" / "foveate_msgs" / "msg" / "TokenFrame.msg"
STORE = get_typestore(Stores.ROS2_JAZZY)
STORE.register(get_types_from_msg(DEFINITION.read_text(), "foveate_msgs/msg/TokenFrame"))

CALIBRATION = """
image_width: 640
image_height: 480
camera_name: front
camera_matrix: {rows: 3, cols: 3, data: [600, 0, 320, 0, 610, 240, 0, 0, 1]}
distortion_model: plumb_bob
distortion_coefficients: {rows: 1, cols: 5, data: [0.1, -0.2, 0.001, 0.002, 0.05]}
"""

CONFIGURATION = """
[[stream]]
name = "front"
pipeline = "videotestsrc is-live=true pattern=ball ! video/x-raw,format=NV12,width=320,height=240,framerate=10/1 ! \
appsink name=frames"
[stream.camera]
calibration = "CALIBRATION"
optical_frame = "front_optical"

[[stream.view]]
name = "policy"
budget = 80
"""


class Topics(unittest.TestCase):
    def setUp(self) -> None:
        import tempfile

        folder = self.enterContext(tempfile.TemporaryDirectory())
        calibration = Path(folder, "front.yaml")
        calibration.write_text(CALIBRATION)
        self.daemon = self.enterContext(RealDaemon(CONFIGURATION.replace("CALIBRATION", str(calibration))))
        endpoint = free_endpoint()
        self.enterContext(router([endpoint]))
        command = [str(BRIDGE.with_name("foveate-ros2")), "front/policy", "--socket", self.daemon.path]
        self.enterContext(Process([*command, "--connect", endpoint, "--domain", "7"], "publishing as"))
        self.session = self.enterContext(session(endpoint))

    def key(self, topic: str, of: str) -> str:
        """As rmw_zenoh makes it."""
        package, kind, name = of.split("/")
        return f"7/foveate/front/policy/{topic}/{package}::{kind}::dds_::{name}_/{STORE.hash_rihs01(of)}"

    def messages(self, topic: str, of: str, count: int) -> list[tuple[Any, bytes]]:
        """What comes on a topic, and what is attached."""
        got: list[tuple[Any, bytes]] = []
        is_enough = threading.Event()

        def take(sample: Any) -> None:
            got.append((STORE.deserialize_cdr(sample.payload.to_bytes(), of), sample.attachment.to_bytes()))
            if len(got) == count:
                is_enough.set()

        subscriber = self.session.declare_subscriber(self.key(topic, of), take)
        self.assertTrue(is_enough.wait(HANG), f"nothing came on {topic}")
        subscriber.undeclare()
        return got[:count]

    def test_tokens_are_those_of_the_ring(self) -> None:
        frames: dict[int, foveate.Frame] = {}
        is_over = threading.Event()

        def read() -> None:
            with foveate.open("front/policy", self.daemon.path) as view:
                while not is_over.is_set():
                    frame = view.read(HANG, newest=False)
                    frames[frame.frame_seq] = frame

        reader = threading.Thread(target=read)
        reader.start()
        try:
            messages = self.messages("tokens", "foveate_msgs/msg/TokenFrame", 5)
        finally:
            is_over.set()
            reader.join(HANG)
        compared = 0
        for message, _ in messages:
            frame = frames.get(message.frame_seq)
            if frame is None:
                continue
            compared += 1
            self.assertEqual(message.texels.tobytes(), frame.pixels.tobytes())
            for name in (*foveate.picture.PLACE, "changed_frame", "relevance"):
                np.testing.assert_array_equal(getattr(message, name), frame.tokens[name], name)
            stamp = message.header.stamp
            self.assertEqual(stamp.sec * 10**9 + stamp.nanosec, frame.capture_unix_ns)
            self.assertEqual((message.header.frame_id, message.epoch), ("front_optical", frame.epoch))
            self.assertEqual((message.width, message.height), frame.info.extent)
            self.assertEqual((message.dtype, message.patch), (frame.info.dtype, frame.info.patch))
            self.assertEqual(tuple(message.mean), frame.info.mean)
            self.assertEqual((message.fixation_x[0], message.fixation_y[0]), frame.fixation[:2])
        self.assertGreater(compared, 2)

    def test_pictures_and_cameras_are_what_ros_expects(self) -> None:
        from PIL import Image

        [(message, attached)] = self.messages("compressed", "sensor_msgs/msg/CompressedImage", 1)
        self.assertEqual(message.format, "png")
        self.assertEqual(Image.open(io.BytesIO(message.data.tobytes())).size, (320, 240))
        self.assertEqual((len(attached), attached[16]), (33, 16))

        [(info, _)] = self.messages("camera_info", "sensor_msgs/msg/CameraInfo", 1)
        self.assertEqual((info.width, info.height, info.distortion_model), (320, 240, "plumb_bob"))
        np.testing.assert_allclose(info.d, [0.1, -0.2, 0.001, 0.002, 0.05])
        # Half as large; the centre of the first pixel is 0.
        np.testing.assert_allclose(info.k.reshape(3, 3), [[300, 0, 159.75], [0, 305, 119.75], [0, 0, 1]])
        np.testing.assert_allclose(info.p.reshape(3, 4)[:, :3], info.k.reshape(3, 3))
        np.testing.assert_allclose(info.r.reshape(3, 3), np.eye(3))

    def test_a_point_is_looked_at(self) -> None:
        types = STORE.types
        header = types["std_msgs/msg/Header"](types["builtin_interfaces/msg/Time"](0, 0), "front_optical")
        point = types["geometry_msgs/msg/PointStamped"](header, types["geometry_msgs/msg/Point"](40.0, 30.0, 0.0))
        key = self.key("look", "geometry_msgs/msg/PointStamped")
        with foveate.open("front/policy", self.daemon.path) as view:
            for _ in within():
                self.session.put(key, bytes(STORE.serialize_cdr(point, "geometry_msgs/msg/PointStamped")))
                frame = view.read(HANG)
                if frame.fixation.reason == "look":
                    break
            self.assertEqual(frame.fixation[:2], (40, 30))

    def test_the_graph_has_the_node_and_its_topics(self) -> None:
        for _ in within():
            tokens = [str(reply.ok.key_expr) for reply in self.session.liveliness().get("@ros2_lv/7/**") if reply.ok]
            if len(tokens) == 5:
                break
        kinds = sorted(token.split("/")[5] for token in tokens)
        self.assertEqual(kinds, ["MP", "MP", "MP", "MS", "NN"])
        for token in tokens:
            self.assertEqual(token.split("/")[8], "foveate")


if __name__ == "__main__":
    unittest.main()
