"""The report in headless Chromium: its scripts and style sheets, on a phone, in the dark, printed.

A probe is appended to a copy of the page. It works on the page as a reader would and reports its
findings. The copy is opened in a frame, because a window cannot be as narrow as a phone. The
findings are left in an attribute of the frame's page, which ``--dump-dom`` shows.
"""

import html
import json
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from analysis.judge.compare import compare
from analysis.judge.other_campaigns import compare_alone
from analysis.read.load import load
from analysis.show.report import write_report
from harness.store.spec import Reason
from tests.fixtures.campaigns import write_campaign

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PHONE = 390  # pixels
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium here (make setup-dev)"),
]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("campaign")
    write_campaign(
        folder / "c",
        levels=("conventional-ext4", "conventional-xfs", "f2fs", "btrfs"),
        skipped={"xfs": Reason("kernel-too-old", "the kernel has no zoned xfs")},
    )
    other = compare_alone(load(write_campaign(folder / "other", series=False)))
    return write_report(compare(load(folder / "c")), folder / "c/report", others=[other])[0]


def look(
    page: Path, probe: str, *, width: int = 1200, dark: bool = False, fragment: str = ""
) -> Any:
    """Open the page at a width in pixels and return the value of the probe's expression."""
    probe = f"parent.postMessage(JSON.stringify(await (async () => {{{probe}}})()), '*');"
    copy, frame = page.with_name("probed.html"), page.with_name("frame.html")
    text = page.read_text(encoding="utf-8")
    copy.write_text(
        text.replace("</body>", f'<script type="module">{probe}</script></body>'), encoding="utf-8"
    )
    frame.write_text(
        "<!doctype html><body style='margin: 0'><script>"
        "addEventListener('message', (one) => { document.body.dataset.found = one.data; });"
        f"</script><iframe width={width} height=900 frameborder=0 src='{copy.name}{fragment}'>"
    )
    theme = ["--blink-settings=preferredColorScheme=0"] if dark else []
    arguments = [
        str(CHROMIUM),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        f"--user-data-dir={page.parents[2] / 'chromium'}",
        "--window-size=1300,900",
        "--virtual-time-budget=3000",
        *theme,
        "--dump-dom",
        f"file://{frame}",
    ]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=True)
    found = re.search(r'data-found="([^"]*)"', done.stdout)
    assert found, done.stderr[-2000:]
    return json.loads(html.unescape(found[1]))


@pytest.mark.parametrize("width", [1200, PHONE])
def test_question_and_verdict_are_in_the_first_screen_and_nothing_is_too_wide(
    page: Path, width: int
) -> None:
    found = look(
        page,
        """const box = (one) => document.querySelector(one).getBoundingClientRect();
        for (const one of document.querySelectorAll("details")) one.open = true;
        document.querySelector("#table-runs td a").textContent = "x".repeat(60);
        const cut = [...document.querySelectorAll(".scroll")].filter((one) =>
          one.scrollWidth > one.clientWidth).map((one) => one.querySelector("tr").textContent);
        return {width: innerWidth, page: document.documentElement.scrollWidth, cut,
                tables: document.querySelectorAll(".scroll").length,
                question: box("h1").bottom, verdict: box(".headline li").bottom,
                svg: box("figure svg").width, text: getComputedStyle(document.body).fontSize};""",
        width=width,
    )
    assert found["width"] == width
    assert found["page"] <= width
    assert found["tables"] > 30
    assert width > PHONE or not found["cut"]
    assert found["question"] < found["verdict"] < 900
    assert 300 < found["svg"] < width
    assert float(found["text"].removesuffix("px")) >= 15


@pytest.mark.parametrize("width", [1200, PHONE])
def test_cells_have_their_columns_name_where_there_is_no_header(page: Path, width: int) -> None:
    found = look(
        page,
        """const shown = (one) => getComputedStyle(one).display !== "none";
        const tables = [...document.querySelectorAll("table.cards:not(.verdicts)")].map((table) => {
          const heads = [...table.tHead.rows[0].cells].map((one) => one.textContent);
          const cells = [...table.tBodies[0].rows[0].cells];
          const before = cells.map((one) => getComputedStyle(one, "::before").content);
          return {heads, names: cells.map((one) => one.dataset.name), before,
                  header: shown(table.tHead), shown: cells.map(shown),
                  texts: cells.map((one) => one.textContent)};
        });
        return tables;""",
        width=width,
    )
    assert len(found) > 20
    for table in found:
        names, heads = table["names"], table["heads"]
        assert table["header"] is (width > PHONE)
        assert names == [None, *(heads[1:] if len(heads) > 2 else [None])]
        if width <= PHONE:
            assert table["before"] == [f'"{name} "' if name else "none" for name in names]
            assert table["shown"] == [bool(text) for text in table["texts"]]


def test_paper_and_ink_change_places_in_the_dark(page: Path) -> None:
    probe = """const style = (one) => getComputedStyle(one);
        const light = (color) => color.match(/\\\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0);
        const text = document.querySelector("figure svg text");
        return {paper: light(style(document.body).backgroundColor), ink: light(style(text).fill),
                card: light(style(document.querySelector("figure")).backgroundColor)};""".replace(
        "\\\\", "\\"
    )
    light, dark = look(page, probe), look(page, probe, dark=True)
    assert light["paper"] > 700
    assert light["ink"] < 150
    assert dark["paper"] < 150
    assert dark["ink"] > 600
    assert dark["card"] < 150


def test_a_click_sorts_a_table_by_size_not_by_text(page: Path) -> None:
    found = look(
        page,
        """const table = document.querySelector("#table-utilisation table");
        const heads = [...table.tHead.rows[0].cells];
        const column = heads.findIndex((head) => head.textContent === "run");
        const runs = () => [...table.tBodies[0].rows].map((row) => row.cells[column].textContent);
        heads[column].click();
        const up = runs();
        heads[column].click();
        const values = document.querySelector("[id='values-overwrite.device_written'] table");
        values?.tHead.rows[0].cells[2].click();
        const sizes = [...(values?.tBodies[0].rows ?? [])].map((row) => row.cells[3].textContent);
        return {up, down: runs(), sizes, sort: heads[column].getAttribute("aria-sort")};""",
    )
    assert found["up"] == sorted(found["up"])
    assert found["down"] == sorted(found["up"], reverse=True)
    assert found["sort"] == "descending"
    sizes = [int(size) for size in found["sizes"]]
    assert len(sizes) == 12
    assert all(one < 1.01 * after for one, after in pairwise(sizes))  # they are sorted as shown
    assert sizes[0] < sizes[-1]


def test_rows_of_verdicts_stay_with_their_metric(page: Path) -> None:
    found = look(
        page,
        """const table = document.querySelector("table.verdicts");
        table.tHead.rows[0].cells[0].click();
        table.tHead.rows[0].cells[0].click();
        return [...table.tBodies].map((body) => [...body.rows].map((row) => row.className + "|" +
          row.cells[0].textContent));""",
    )
    for body in found:
        assert body[0].startswith("metric|")
        assert not any(row.startswith("metric|") for row in body[1:])
    assert [row.partition("|")[2] for row in found[0][1:]] == ["f2fs", "conventional-xfs", "btrfs"]


def test_a_link_into_a_folded_table_unfolds_it_and_print_unfolds_all(page: Path) -> None:
    found = look(
        page,
        """const open = () => document.querySelectorAll("details[open]").length;
        const one = document.getElementById("values-overwrite.device_written").open;
        const before = open();
        dispatchEvent(new Event("beforeprint"));
        const printed = document.querySelectorAll("details:not([open])").length;
        dispatchEvent(new Event("afterprint"));
        return {one, before, printed, after: open()};""",
        fragment="#values-overwrite.device_written",
    )
    assert found["one"] is True
    assert found["printed"] == 0
    assert found["after"] == found["before"]
