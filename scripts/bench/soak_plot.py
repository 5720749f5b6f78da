"""Draws what the soak has seen."""

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402: the backend comes first
from matplotlib.ticker import FuncFormatter  # noqa: E402

import measuring  # noqa: E402

# Okabe and Ito's colours, which most colour-blind people tell apart.
COLORS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7"]
MIB = 1 << 20


def draw(samples, streams, title, path):
    """Memory, descriptors and threads, and each stream's ages, one below the other over the same time."""
    minutes = [sample["seconds"] / 60 for sample in samples]
    figure, axes = pyplot.subplots(3, 1, figsize=(11, 8.4), sharex=True, height_ratios=[1, 1, 1.5])
    memory, held, ages = axes
    memory.plot(minutes, [s["resident_bytes"] / MIB for s in samples], color=COLORS[0], label="resident memory")
    if any(s["gpu_memory_bytes"] for s in samples):
        memory.plot(minutes, [s["gpu_memory_bytes"] / MIB for s in samples], color=COLORS[1], label="GPU memory")
    memory.set_ylabel("MiB")
    held.plot(minutes, [s["open_descriptors"] for s in samples], color=COLORS[0], label="open descriptors")
    held.plot(minutes, [s["threads"] for s in samples], color=COLORS[2], label="threads")
    for name, color in zip(streams, COLORS):
        draw_ages(ages, minutes, samples, name, color)
    ages.set_yscale("log")
    ages.yaxis.set_major_formatter(FuncFormatter(lambda ms, _: f"{ms:g}"))
    ages.set_ylabel("p99 of the age at publish, ms")
    ages.set_xlabel("minutes")
    for axis in axes:
        finish(axis)
    for axis in (memory, held):
        axis.set_ylim(bottom=0)
    figure.suptitle("A daemon of four streams whose readers, sources and configuration come and go", y=0.985, fontsize=13)
    note = (
        "Crosses below: times at which a stream was not live. Sources are lost at random, so gaps and high ages are what was done to\n"
        f"them. The two quiet times are the rests. {title}; {measuring.processor()}; {measuring.today()}."
    )
    figure.text(0.5, 0.012, note, ha="center", fontsize=8.5, color="#444444")
    figure.tight_layout(rect=(0, 0.05, 1, 0.97))
    figure.savefig(path, dpi=130)


def draw_ages(axis, minutes, samples, name, color):
    """One stream: a line with gaps where no frame came, and crosses where it was not live."""
    values = [sample.get(f"{name}.p99_ms") for sample in samples]
    axis.plot(minutes, [float("nan") if v is None else v for v in values], color=color, label=name, linewidth=1.4)
    away = [minute for minute, s in zip(minutes, samples) if s.get(f"{name}.state", "gone") != "live"]
    row = 0.02 + 0.025 * COLORS.index(color)
    axis.plot(away, [row] * len(away), "x", color=color, markersize=4, transform=axis.get_xaxis_transform())


def finish(axis):
    """What all charts have in common."""
    axis.grid(True, which="major", color="#DDDDDD", linewidth=0.7)
    axis.set_axisbelow(True)
    axis.legend(loc="upper right", ncol=4, frameon=False, fontsize=9)
    axis.margins(x=0.01)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
