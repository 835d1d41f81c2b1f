"""The report: one page that needs nothing from elsewhere, looked at in a real browser without a screen."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess

import pytest

from comp_comm.configs.study import load_study, study_from
from comp_comm.report.html_report import html_report
from comp_comm.sweeps.result import sweep

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
EVIL = '</script><img src=x onerror="document.body.dataset.evil=1">'
SMALL = {"hidden": 2048, "layers": 8, "heads": 16, "vocab": 32000, "seq_len": 2048, "gpus": 16, "pp": 2,
         "global_batch": 32}  # fmt: skip


@pytest.fixture(scope="module")
def page():
    """The page of a small step, with a title that tries to be more than a text."""
    return html_report(study_from({"title": EVIL, "hardware": "h100-sxm", "set": SMALL}, "x.yaml"))


@pytest.mark.slow
def test_a_page_asks_nobody_for_anything_and_its_texts_are_texts(page):
    assert EVIL not in page
    assert html.escape(EVIL) in page
    assert not re.search(r"""(?:src|href|action|url\()\s*=?\s*["']?(?:https?:|//|data:text)""", page)
    assert page.count("<script") == page.count("</script>") == 2  # the explorer's numbers, and what moves the page
    for section in ("step", "pipeline", "communication", "memory", "operations", "assumptions", "provenance"):
        assert f'<section id="{section}">' in page
    assert "assumed" in page
    assert "NVIDIA" in page


def test_the_explorer_has_the_numbers_of_a_sweep(page):
    data = json.loads(re.search(r'id="explorer-data">(.*?)</script>', page, re.S)[1])
    sizes = [len(axis["values"]) for axis in data["axes"]]
    for place in ([0, 0, 0, 2, 0], [6, 2, 0, 8, 3], [3, 5, 1, 4, 1]):
        flat = 0
        for size, at in zip(sizes, place, strict=True):
            flat = flat * size + at
        point = {axis["name"]: axis["values"][at] for axis, at in zip(data["axes"], place, strict=True)}
        row = sweep({"cost_model": "comp_vs_comm", "hardware": "h100-sxm", "set": point}).to_records()[0]
        for name, about in data["columns"].items():
            assert about["values"][flat] == pytest.approx(100 * row[name], abs=1e-3)


ACTIONS = """
<script>
const said = {}, box = document.querySelector("#operations .table"), heads = [...box.querySelectorAll("th")];
const column = name => heads.findIndex(head => head.textContent.startsWith(name));
const read = name => [...box.querySelectorAll("tbody tr")].filter(row => !row.hidden)
  .map(row => row.cells[column(name)].textContent);
heads[column("share")].click(); said.up = read("share").map(Number);
heads[column("share")].click(); said.down = read("share").map(Number);
const words = box.querySelector("input.filter");
words.value = "ffn backward"; words.dispatchEvent(new Event("input")); said.kept = read("operation");
said.count = box.querySelector("span.shown").textContent;
const answer = () => document.querySelector(".explorer .answer").textContent;
const sliders = document.querySelectorAll(".explorer input[type=range]");
said.before = answer();
sliders[3].value = 8; sliders[3].dispatchEvent(new Event("input")); said.after = answer();
said.points = document.querySelectorAll(".explorer svg circle").length;
const over = document.querySelector(".explorer select.across");
over.value = "hidden"; over.dispatchEvent(new Event("change"));
said.over = document.querySelectorAll(".explorer svg circle").length;
said.wide = document.documentElement.scrollWidth <= document.documentElement.clientWidth;
said.evil = document.body.dataset.evil || null;
const done = document.createElement("pre"); done.id = "said"; done.textContent = JSON.stringify(said);
document.body.append(done);
</script>
"""


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium here")
@pytest.mark.parametrize("width", [1280, 500])
def test_tables_sort_and_filter_and_the_explorer_redraws(page, tmp_path, width):
    path = tmp_path / "page.html"
    path.write_text(page.replace("</body>", ACTIONS + "</body>"))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
             f"--window-size={width},900", "--dump-dom"]  # fmt: skip
    ran = subprocess.run([BROWSER, *flags, path.as_uri()], capture_output=True, text=True, timeout=120, check=False)
    said = json.loads(html.unescape(re.search(r'<pre id="said">(.*?)</pre>', ran.stdout, re.S)[1]))
    assert len(said["up"]) > 20
    assert said["up"] == sorted(said["up"])
    assert said["down"] == said["up"][::-1]
    assert set(said["kept"]) == {"FFN up", "FFN activation", "FFN down"}
    assert said["count"] == f"3 of {len(said['up'])} rows"
    shares = [float(re.search(r"([0-9.]+) %", said[name])[1]) for name in ("before", "after")]
    assert shares[0] < shares[1]  # TP 8, then TP 256
    assert (said["points"], said["over"]) == (9, 7)
    assert said["wide"]
    assert said["evil"] is None


@pytest.mark.slow
def test_a_sweep_is_a_plot_and_a_table_of_every_point():
    page = html_report(load_study("future", ["hidden=4K,16K", "seq_len=2K", "micro_batch=1", "flop_vs_bw=1,4"]))
    rows = page[page.index('<section id="rows">') : page.index('<section id="assumptions">')]
    assert rows.count("<tr>") == 1 + 2 * 2 * 7
    assert '<section id="plot">' in page
    assert "<svg" in page[: page.index('<section id="rows">')]
