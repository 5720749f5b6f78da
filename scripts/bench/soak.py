"""Puts a daemon with four streams through the events of months in minutes, and checks its state at the end.

Readers come, go and are killed, views are steered and made, streams are added, changed and removed, sources die and come
back: all at random, from a seed.
"""

import contextlib
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter

import measuring
import soak_streams
from daemon import COUNTS, Daemon, stats
from measuring import FoveateError

import foveate

CLIENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "soak_client.py")
#: Interval of samples, in seconds.
SAMPLE_S = 2.5
#: How long a lost source may need to come back once it is whole: the longest pause of the daemon, which it moves by up to a
#: quarter, and the start of a pipeline.
RETURN_S = 60
#: How long the daemon is left alone before and after: threads that GLib keeps for later end after 15 s.
REST_S = 20
#: Timeout for the return to the initial state.
SETTLE_S = 60
#: glibc gives each thread an arena and keeps what ended threads had freed in theirs. With as many as it likes, that takes
#: minutes to fill up, to a hundred MiB, and would hide a leak. Two of them are full after the first fifth.
ALLOCATOR = {"MALLOC_ARENA_MAX": "2"}
#: By how much anonymous memory may grow from the second fifth of the time to the last one. Two arenas waver by less. In two
#: minutes there are some fifty losses and reloads: a frame of 1.4 MB that leaked with every fourth would be above it.
GROWTH_MAX_BYTES = 16 << 20
#: Frames of a stream that may be on their way: in the mailbox, in the frame loop, and come while it was counted.
IN_FLIGHT_MAX = 3
CLIENTS_MAX = 8
#: Attempts for a request that gets no answer.
TRIES = 5
#: Errors of a request to the daemon.
UNHEARD = (foveate.FoveateError, foveate.control.HungUp)
MIB = 1 << 20
WAYS = ["newest", "all", "borrow", "poll", "steer", "steer", "own", "still"]
GOOD_KEYS = ["budget=64", "max_fps=10", "publish=when-read", "publish=always", "layout=uniform", "gaze.policy=fixed"]
BAD_KEYS = ["budget=0", "colour=red", "gaze.policy=elsewhere", "name=other", "max_fps=-1"]
BAD_CONFIGURATIONS = [
    "[[stream]\n",
    "[[stream]]\nname = 'clip'\nsource = 'test'\ncolour = 'red'\n",
    "[[stream]]\nname = 'a'\nsource = 'test'\n[[stream]]\nname = 'a'\nsource = 'test'\n",
    "[[stream]]\nname = 'pattern'\nsource = 'test'\n[[stream.view]]\nname = 'main'\nbudget = 0\n",
    "",
]


class OperatedDaemon(Daemon):
    """`foveated`, and the operator's commands."""

    def __init__(self, programs, folder, streams):
        self.streams = streams
        #: Names of streams that the file lacks.
        self.missing = set()
        self.has_extra = False
        #: Wrong answers to an operator.
        self.wrong = []
        self._foveate = os.path.join(programs, "foveate")
        self._extra = os.path.join(folder, "extra.toml")
        super().__init__(programs, self._configuration(), folder, ALLOCATOR)

    def _configuration(self):
        return "\n".join(stream.text() for stream in self.streams if stream.name not in self.missing)

    def order(self, *arguments, succeeds=True):
        """Runs `foveate`, and notes where it ends otherwise than it should. On a busy machine a stream may be busy, too."""
        command = [self._foveate, "--socket", self.socket, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=90)
        said = (done.stderr or done.stdout).strip()
        if (done.returncode == 0) != succeeds and "its stream is busy" not in said:
            self.wrong.append(f"foveate {' '.join(arguments)} ended with {done.returncode}: {said}")

    def reload(self):
        """Reloads the valid configuration."""
        self.write(self._configuration())
        self.order("reload")
        self.has_extra = False

    def reload_bad(self, text):
        """Reloads an invalid configuration: all streams must stay as they are."""
        before = set(self.look()[1])
        self.write(text)
        self.order("reload", succeeds=False)
        self.write(self._configuration())
        if set(self.look()[1]) != before:
            self.wrong.append(f"a configuration that was refused changed the streams: {text!r}")

    def add_extra(self, budget):
        """Adds a stream that the file lacks, which is refused if it is there."""
        stream = "[[stream]]\nname = 'extra'\nsource = 'test'\nbackend = 'cpu'\nmax_fps = 10.0\n"
        with open(self._extra, "w", encoding="utf-8") as file:
            file.write(f"{stream}[[stream.view]]\nname = 'main'\nbudget = {budget}\n")
        self.order("add-stream", self._extra, succeeds=not self.has_extra)
        self.has_extra = True

    def remove_extra(self):
        """Removes that stream, which is refused if it is gone."""
        self.order("remove-stream", "extra", succeeds=self.has_extra)
        self.has_extra = False

    def look(self):
        """Its statistics, and those of its streams by name. On a busy machine an answer may take a while."""
        for _ in range(TRIES):
            try:
                return stats(self.socket)
            except foveate.TimedOut as error:
                late = error
        raise late

    def last_words(self, error):
        """The message if it does not answer."""
        try:
            return f"foveated has ended with {self.process.wait(2)}"
        except subprocess.TimeoutExpired:
            return f"the daemon could not be asked: {error!r}"

    def live(self):
        """The names of the streams that are live."""
        return {name for name, stream in self.look()[1].items() if stream["state"] == "live"}

    def held(self):
        """Descriptors, that of this request among them, and threads."""
        process = self.look()[0]["process"]
        return process["open_descriptors"], process["threads"]

    def anonymous_bytes(self):
        """What it has in RAM that is neither a ring nor part of a file: what can leak."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))

    def stop(self):
        """Asks it to stop; returns its exit code, or None if it does not stop. Leaving the `with` block kills it then."""
        self.process.terminate()
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            return None


class Crowd:
    """The clients that come and go."""

    def __init__(self, daemon, folder, chance):
        self._daemon, self._chance = daemon, chance
        self._log_path = os.path.join(folder, "clients.log")
        self._clients = []
        self.begun = self.killed = self.stopped = self.failed = 0

    def come(self):
        """Starts another client, if there is room."""
        self._sweep()
        if CLIENTS_MAX <= len(self._clients):
            return
        stream = self._chance.choice(self._daemon.streams)
        views = re.findall(r"^\[\[stream\.view\]\]\nname = '(\w+)'", stream.text(), re.MULTILINE)
        address = f"{stream.name}/{self._chance.choice(views)}"
        seconds, seed = self._chance.uniform(2, 20), self._chance.randrange(1 << 31)
        arguments = [self._daemon.socket, address, self._chance.choice(WAYS), str(seconds), str(seed)]
        with open(self._log_path, "ab") as log:
            client = subprocess.Popen(
                [sys.executable, "-B", CLIENT, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._clients.append(client)
        self.begun += 1

    def kill_one(self):
        """Kills a client."""
        if self._clients:
            self._chance.choice(self._clients).kill()
            self.killed += 1

    def stop_one(self):
        """Stops a client."""
        if self._clients:
            self._chance.choice(self._clients).send_signal(signal.SIGSTOP)
            self.stopped += 1

    def go_on(self):
        """Continues all stopped clients."""
        for client in self._clients:
            client.send_signal(signal.SIGCONT)

    def leave(self):
        """Kills all clients."""
        for client in self._clients:
            client.kill()
            client.wait()
        self._sweep()

    def _sweep(self):
        """Forgets those that have ended. Ours may have been killed; otherwise only 0 is a good end."""
        for client in [client for client in self._clients if client.poll() is not None]:
            self._clients.remove(client)
            self.failed += client.returncode not in (0, -signal.SIGKILL)


class Sampler:
    """Samples the daemon periodically, on a thread of its own."""

    def __init__(self, daemon):
        self._daemon = daemon
        self._started = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.anonymous_bytes = []
        #: Most frames of a stream that are not accounted for, either way.
        self.worst = 0
        self.failure = None

    def start(self):
        """Begins."""
        self._thread.start()

    def stop(self):
        """Ends, after the sample at hand."""
        self._stop.set()
        self._thread.join()

    def _run(self):
        try:
            while not self._stop.wait(SAMPLE_S):
                self._sample()
        except UNHEARD as error:
            self.failure = self._daemon.last_words(error)

    def _sample(self):
        daemon, streams = self._daemon.look()
        process, anonymous = daemon["process"], self._daemon.anonymous_bytes()
        for stream in streams.values():
            captured, *known = (stream[count] for count in COUNTS)
            self.worst = max(self.worst, abs(captured - sum(known)))
        self.anonymous_bytes.append(anonymous)
        states = ", ".join(f"{name} {stream['state']}" for name, stream in streams.items())
        print(
            f"{time.monotonic() - self._started:5.0f} s: {process['resident_bytes'] / MIB:.0f} MiB, "
            f"{anonymous / MIB:.0f} anonymous, {process['open_descriptors']} descriptors, {process['threads']} threads; "
            f"{states}",
            flush=True,
        )

    def growth(self):
        """By how many bytes the median of the last fifth lies above that of the second."""
        fifth = max(1, len(self.anonymous_bytes) // 5)
        early, late = self.anonymous_bytes[fifth : 2 * fifth], self.anonymous_bytes[-fifth:]
        return statistics.median(late) - statistics.median(early)


class Churn:
    """Random events."""

    def __init__(self, daemon, crowd, chance):
        self._daemon, self._crowd, self._chance = daemon, crowd, chance
        self._healing = {}
        #: How often each thing was done.
        self.done = Counter()
        self._deeds = {
            self._crowd.come: 10,
            self._crowd.kill_one: 4,
            self._crowd.stop_one: 3,
            self._crowd.go_on: 3,
            self._harm: 2,
            self._change: 1,
            self._spoil_configuration: 1,
            self._operate: 1,
            self._set: 1,
            self._mask: 1,
        }

    def run(self, seconds):
        """Runs random events for this long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._chance.choices(list(self._deeds), self._deeds.values())[0]()
            self._heal(time.monotonic())
            time.sleep(self._chance.uniform(0.05, 0.5))

    def rest(self):
        """Rests: no clients, all sources intact, and the original configuration."""
        self._heal(float("inf"))
        self._crowd.leave()
        self._daemon.missing.clear()
        for stream in self._daemon.streams:
            stream.settle()
        self._daemon.reload()

    def _live(self):
        """Live streams with whole sources."""
        live = self._daemon.live()
        return [stream for stream in self._daemon.streams if stream.name in live and not stream.is_harmed]

    def _harm(self):
        """A source is lost that frames come from. One that has shown nothing could be taken for a wrong configuration."""
        streams = self._live()
        if streams:
            stream = self._chance.choice(streams)
            way = stream.harm(self._chance)
            if way:
                self.done[f"{stream.name} {way}"] += 1
                self._healing[stream] = time.monotonic() + self._chance.uniform(0.3, 8)

    def _heal(self, now):
        for stream in [stream for stream, when in self._healing.items() if when <= now]:
            del self._healing[stream]
            stream.heal()

    def _change(self):
        """The file says something else of a stream, or says nothing of it any more, and is read."""
        # A stream that restarts without a source may rightly end for good.
        stream = self._chance.choice([stream for stream in self._daemon.streams if not stream.is_harmed])
        # What was missing is there again. Only whole sources are taken out, and only missing streams cannot be harmed.
        self._daemon.missing.clear()
        if self._chance.random() < 0.3:
            self._daemon.missing.add(stream.name)
        elif self._chance.random() < 0.5:
            stream.change = f"threshold = {self._chance.randrange(8)}\nrefresh_frames = 300\n"
        else:
            stream.budget = self._chance.choice([48, 273, 1000])
        self.done["reload"] += 1
        self._daemon.reload()

    def _spoil_configuration(self):
        """Reloads an invalid file."""
        self.done["bad reload"] += 1
        self._daemon.reload_bad(self._chance.choice(BAD_CONFIGURATIONS))

    def _operate(self):
        """Adds or removes a stream that is not in the file, and once more, which is refused."""
        if self._daemon.has_extra:
            self.done["remove-stream"] += 1
            self._daemon.remove_extra()
            self._daemon.remove_extra()
        else:
            self.done["add-stream"] += 1
            self._daemon.add_extra(self._chance.choice([64, 273]))
            self._daemon.add_extra(64)

    def _mask(self):
        """Something may not be seen for a while."""
        if "pattern" not in self._daemon.live():
            return
        self.done["mask"] += 1
        if self._chance.random() < 0.5:
            left, top = self._chance.uniform(0, 0.8), self._chance.uniform(0, 0.8)
            self._daemon.order("mask", "pattern", "passer-by", "--box", f"{left},{top},{left + 0.1},{top + 0.2}")
        else:
            self._daemon.order("mask", "pattern", "--clear")

    def _set(self):
        """A view becomes another one while it runs, for as long as the file is not read again."""
        streams = self._live()
        if streams:
            self.done["set"] += 1
            view = f"{self._chance.choice(streams).name}/main"
            self._daemon.order("set", view, self._chance.choice(GOOD_KEYS))
            self._daemon.order("set", view, self._chance.choice(BAD_KEYS), succeeds=False)


def wait_until(seconds, is_so):
    """Whether a condition becomes true in time."""
    end = time.monotonic() + seconds
    while not is_so():
        if end <= time.monotonic():
            return False
        time.sleep(0.25)
    return True


def rested(churn, daemon):
    """Waits until all is live and quiet, and returns the streams that are not live, and what is held then."""
    churn.rest()
    names = {stream.name for stream in daemon.streams}
    wait_until(RETURN_S, lambda: names <= daemon.live())
    time.sleep(REST_S)
    return names - daemon.live(), daemon.held()


def errors_in(path):
    """The lines of a log that tell of a bug: what survives one says `ERROR`, and a panic says so."""
    with open(path, encoding="utf-8", errors="replace") as log:
        return [line.strip() for line in log if " ERROR " in line or "panicked at" in line or "BUG" in line]


def judge(daemon, crowd, sampler, base, missing):
    """Prints what is demanded of the final state, and returns whether all of it is so."""
    why = reasons(daemon.look()[1], missing)
    is_back = wait_until(SETTLE_S, lambda: all(now <= then for now, then in zip(daemon.held(), base, strict=True)))
    now, grown, worst = daemon.held(), sampler.growth(), sampler.worst
    code = daemon.stop()
    errors = errors_in(daemon.log_path)
    demands = [
        (sampler.failure is None, sampler.failure or "the daemon answered whenever it was asked"),
        (not missing, f"every stream is live {why}"),
        (is_back, f"descriptors {base[0]} -> {now[0]}, threads {base[1]} -> {now[1]}"),
        (
            grown < GROWTH_MAX_BYTES,
            f"anonymous memory grew from the second fifth to the last by {grown / MIB:.1f} MiB (expected less than"
            f" {GROWTH_MAX_BYTES // MIB})",
        ),
        (
            worst <= IN_FLIGHT_MAX,
            f"captured = published + dropped + corrupted + refused + rested, but for {worst} frames on their way",
        ),
        (crowd.failed == 0, f"{crowd.failed} of {crowd.begun} clients failed; {crowd.killed} were killed"),
        (not daemon.wrong, f"operators were answered as they should be {'; '.join(daemon.wrong)}"),
        (code == 0, f"it stopped when it was asked to, with exit code {code}"),
        (not errors, f"{len(errors)} errors in the log {' // '.join(errors[:3])}"),
    ]
    for is_so, what in demands:
        print(f"{'  ok  ' if is_so else 'FAILED'} {what}")
    return all(is_so for is_so, _ in demands)


def reasons(streams, missing):
    """Why streams are not live."""
    gone = {"state": "gone", "reason": ""}
    found = {name: streams.get(name, gone) for name in sorted(missing)}
    return "; ".join(f"{name}: {stream['state']} {stream['reason']}" for name, stream in found.items())


def vulkan_device(foveate):
    """The software device, or None where there is none."""
    try:
        measuring.trial(foveate, "--backend", "vulkan", "--device", "llvmpipe")
        return "llvmpipe"
    except FoveateError:
        return None


def soak(arguments, folder):
    """Runs the soak test, and returns whether it passed."""
    chance = random.Random(arguments.seed)
    device = vulkan_device(arguments.foveate)
    streams = [soak_streams.clip(folder), soak_streams.pattern(), soak_streams.door(), soak_streams.window(device)]
    where = f"{measuring.processor()}, Vulkan: {device or 'none, so CPU alone'}"
    print(f"{arguments.minutes} minutes, seed {arguments.seed}, {where}")
    with contextlib.ExitStack() as stack:
        for stream in streams:
            stream.source.start()
            stack.callback(stream.source.stop)
        daemon = stack.enter_context(OperatedDaemon(arguments.programs, folder, streams))
        crowd = Crowd(daemon, folder, chance)
        stack.callback(crowd.leave)
        try:
            return live_through(arguments, daemon, crowd, chance)
        except UNHEARD as error:
            raise FoveateError(daemon.last_words(error)) from error


def live_through(arguments, daemon, crowd, chance):
    """A fifth of the time to fill what is filled once, a rest, the other four fifths, a rest, and the verdict."""
    names = {stream.name for stream in daemon.streams}
    sampler = Sampler(daemon)
    sampler.start()
    if not wait_until(RETURN_S, lambda: names <= daemon.live()):
        raise FoveateError(f"not all streams began: {reasons(daemon.look()[1], names - daemon.live())}")
    churn = Churn(daemon, crowd, chance)
    churn.run(arguments.minutes * 12)
    missing, base = rested(churn, daemon)
    churn.run(arguments.minutes * 48)
    late, _ = rested(churn, daemon)
    sampler.stop()
    print("\nWhat happened: " + ", ".join(f"{deed} {count}x" for deed, count in sorted(churn.done.items())))
    print(f"{crowd.begun} clients came, {crowd.killed} were killed, {crowd.stopped} stood still\n")
    return judge(daemon, crowd, sampler, base, missing | late)


def run(arguments):
    """Keeps the folder with the logs after a failure."""
    arguments.seed = random.randrange(1 << 31) if arguments.seed is None else arguments.seed
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = tempfile.mkdtemp(prefix="foveate-soak-")
    try:
        is_good = soak(arguments, folder)
    except (FoveateError, subprocess.TimeoutExpired) as error:
        print(f"FAILED {error}")
        is_good = False
    if not is_good:
        sys.exit(f"\nThe logs are in {folder}; again with --seed {arguments.seed}")
    shutil.rmtree(folder)
    yield "soak", "Everything came back."
