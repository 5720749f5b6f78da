"""A network camera for tests: server.py PORT CODEC WIDTH HEIGHT serves rtsp://127.0.0.1:PORT/camera, a moving pattern of 25
frames a second as `jpeg` or `h264`, until it is killed. It says `ready` once it listens."""

import sys

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer  # noqa: E402

ENCODERS = {
    "jpeg": "video/x-raw,format=I420 ! jpegenc ! rtpjpegpay name=pay0",
    "h264": "openh264enc gop-size=5 bitrate=2000000 ! h264parse ! rtph264pay config-interval=-1 name=pay0",
}


def main():
    port, codec, width, height = sys.argv[1:]
    Gst.init(None)
    factory = GstRtspServer.RTSPMediaFactory()
    factory.set_launch(
        f"( videotestsrc is-live=true pattern=ball ! video/x-raw,width={width},height={height},framerate=25/1 "
        f"! videoconvert ! {ENCODERS[codec]} )"
    )
    factory.set_shared(True)
    server = GstRtspServer.RTSPServer()
    server.set_address("127.0.0.1")
    server.set_service(port)
    server.get_mount_points().add_factory("/camera", factory)
    if server.attach(None) == 0:
        sys.exit(f"port {port} is taken")
    print("ready", flush=True)
    GLib.MainLoop().run()


main()
