"""Measures how the cost of a frame scales with its size, its changes, its tokens and its views, and plots it."""

import json
import sys

import matplotlib
import measuring
from matplotlib.figure import Figure

SIZES = [(640, 480), (1024, 1024), (1920, 1080), (2560, 1440), (3840, 2160), (5120, 2880), (7680, 4320)]
# Of each chart: name, label of the axis, whether it is logarithmic, and for each point its place and its arguments.
CHARTS = [
    ("size", "megapixels (10% changed)", True, [(x * y / 1e6, ["--size", f"{x}x{y}"]) for x, y in SIZES]),
    (
        "change",
        "tiles that change, %",
        False,
        [(100 * p, ["--changed", p]) for p in (0, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1)],
    ),
    ("tokens", "tokens of one view", True, [(n, ["--budget", n]) for n in (64, 128, 273, 512, 1024, 2048, 4096)]),
    ("views", "views of 273 tokens", True, [(n, ["--views", n]) for n in (1, 2, 4, 8, 16)]),
]
# Okabe and Ito's colours, which most colour-blind people tell apart.
COLORS = {
    "change": "#0072B2",
    "ingest": "#E69F00",
    "reduce": "#009E73",
    "sample": "#CC79A7",
    "publish": "#D55E00",
    "total": "#000000",
}
STYLE = {
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def measure(arguments):
    """The report of each point of each chart."""
    frames = ["--frames", 40 if arguments.quick else 300]
    charts = []
    for name, label, is_log, points in CHARTS:
        measured = []
        for place, varied in points[:: 2 if arguments.quick else 1]:
            print(f"{name} {place:g}", file=sys.stderr)
            measured.append(
                {"at": place, "report": measuring.report(arguments.foveate, "--backend", "cpu", *frames, *varied)}
            )
        charts.append({"name": name, "label": label, "is_log": is_log, "points": measured})
    return {"date": measuring.today(), "processor": measuring.processor(), "charts": charts}


def draw(document, path):
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(11, 8.4))
        axes = figure.subplots(2, 2).flat
        for axis, chart in zip(axes, document["charts"], strict=True):
            draw_chart(axis, chart)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncol=len(labels), frameon=False, bbox_to_anchor=(0.5, 0.95))
    report = document["charts"][0]["points"][0]["report"]
    figure.suptitle(f"What a frame costs: {report['backend']} on {report['device']}", y=0.985, fontsize=13)
    note = (
        f"Lines: median; shades: up to the 99th percentile. Unless an axis says otherwise: 1920x1080 NV12, 10% of the\n"
        f"tiles change, 273 foveal f16 tokens of 16x16. {document['processor']}; {document['date']}."
    )
    figure.text(0.5, 0.012, note, ha="center", fontsize=8.5, color="#444444")
    figure.tight_layout(rect=(0, 0.05, 1, 0.93))
    figure.savefig(path, dpi=130)


def draw_chart(axis, chart):
    places = [point["at"] for point in chart["points"]]
    for stage, color in COLORS.items():
        quantiles = [point["report"]["stages"][stage] for point in chart["points"]]
        middle, high = ([quantile[name] for quantile in quantiles] for name in ("p50_us", "p99_us"))
        width = 2.4 if stage == "total" else 1.4
        axis.plot(places, middle, color=color, label=stage, linewidth=width, marker="o", markersize=3.5)
        axis.fill_between(places, middle, high, color=color, alpha=0.12, linewidth=0)
    axis.set(yscale="log", xlabel=chart["label"])
    axis.set_ylim(bottom=1)
    if chart["is_log"]:
        axis.set_xscale("log", base=2)
        axis.set_xticks(places)
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:.2g}" if value < 10 else f"{value:.0f}")
    axis.yaxis.set_major_formatter(lambda us, _: f"{us / 1e3:g} ms" if 1e3 <= us else f"{us:g} us")
    axis.minorticks_off()


def run(arguments):
    document = measure(arguments)
    figures, picture = (measuring.ROOT / "docs" / "images" / name for name in ("scaling.json", "scaling.png"))
    figures.write_text(json.dumps(document, indent=1), encoding="utf-8")
    draw(document, picture)
    yield "scaling", f"{figures}\n{picture}"
