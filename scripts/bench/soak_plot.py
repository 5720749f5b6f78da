"""Plots the samples of the soak test."""

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402: the backend comes first
from matplotlib.ticker import FuncFormatter  # noqa: E402

import measuring  # noqa: E402

# Okabe and Ito's colours, which most colour-blind people tell apart.
COLORS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7"]
MIB = 1 << 20
# Above the chart, so that it covers no line.
LEGEND = {"loc": "lower right", "bbox_to_anchor": (1, 0.97), "ncol": 4, "frameon": False, "fontsize": 9}


def draw(samples, streams, rests, title, path):
    """Memory, descriptors and threads, each stream's ages, and when it was live, one below the other over the same time.
    `rests` are the times, in seconds, in which nothing happened."""
    minutes = [sample["seconds"] / 60 for sample in samples]
    figure, axes = pyplot.subplots(4, 1, figsize=(11, 9), sharex=True, height_ratios=[1, 1, 1.5, 0.45])
    memory, held, ages, lives = axes
    draw_memory(memory, minutes, samples)
    held.plot(minutes, [s["open_descriptors"] for s in samples], color=COLORS[0], label="open descriptors")
    held.plot(minutes, [s["threads"] for s in samples], color=COLORS[2], label="threads")
    for row, name in enumerate(streams):
        draw_ages(ages, minutes, samples, name, COLORS[row])
        draw_lives(lives, minutes, samples, name, len(streams) - 1 - row, COLORS[row])
    finish_ages(ages)
    lives.set_yticks(range(len(streams)), reversed(streams), fontsize=8.5)
    lives.set_ylim(-0.6, len(streams) - 0.4)
    lives.set_xlabel("minutes")
    for axis in axes:
        finish(axis, rests)
    for axis in (memory, held):
        axis.set_ylim(bottom=0)
        axis.legend(**LEGEND)
    write_around(figure, title)
    figure.savefig(path, dpi=130)


def draw_memory(axis, minutes, samples):
    """What the process has in RAM, how much of it is neither rings nor files, and what GPUs have."""
    axis.plot(minutes, [s["resident_bytes"] / MIB for s in samples], color=COLORS[0], label="resident memory")
    axis.plot(minutes, [s["anonymous_bytes"] / MIB for s in samples], color=COLORS[2], label="of it anonymous")
    axis.plot(minutes, [s["gpu_memory_bytes"] / MIB for s in samples], color=COLORS[1], label="GPU memory")
    axis.set_ylabel("MiB")


def draw_ages(axis, minutes, samples, name, color):
    """One stream: a line with gaps where no frame came."""
    values = [sample.get(f"{name}.p99_ms") for sample in samples]
    axis.plot(minutes, [float("nan") if v is None else v for v in values], color=color, label=name, linewidth=1.2)


def draw_lives(axis, minutes, samples, name, row, color):
    """One stream: a bar where it was live."""
    axis.fill_between(
        minutes,
        row - 0.32,
        row + 0.32,
        where=[sample.get(f"{name}.state") == "live" for sample in samples],
        step="mid",
        color=color,
        linewidth=0,
    )


def finish_ages(axis):
    """The scale of the ages."""
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(FuncFormatter(lambda ms, _: f"{ms:g}"))
    axis.set_ylabel("age at publish, p99, ms")
    axis.legend(**LEGEND)


def finish(axis, rests):
    """What all charts have in common."""
    for start, end in rests:
        axis.axvspan(start / 60, end / 60, color="#EEEEEE", linewidth=0, zorder=0)
    axis.grid(True, which="major", color="#DDDDDD", linewidth=0.7)
    axis.set_axisbelow(True)
    axis.margins(x=0.01)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def write_around(figure, title):
    """The title, and what there is to know."""
    figure.suptitle("A daemon whose readers, sources and configuration come and go", y=0.985, fontsize=13)
    note = (
        "Bars: times in which a stream was live. Sources are lost and streams are removed at random, so gaps and high ages\n"
        f"are what was done to them; in the grey times nothing happened. {title}; {measuring.processor()}; {measuring.today()}."
    )
    figure.text(0.5, 0.012, note, ha="center", fontsize=8.5, color="#444444")
    figure.tight_layout(rect=(0, 0.045, 1, 0.985))
