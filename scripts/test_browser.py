#!/usr/bin/env python3
"""Opens the pages that Windrow writes in a real browser (headless Chromium, driven by its DevTools protocol).

usage: scripts/test_browser.py PROGRAM [--pictures FOLDER]   (make test-browser)

- The automaton's page: it loads without an error, plays, pauses, makes one step; a click wounds it, and it mends.
- Reports of trainings and of several runs, circuits, profiles: no error, no text over another or outside of its
  picture; the mouse over a chart shows the values there.
With --pictures the pages are also kept as PNG files, to be looked at.
"""
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time


class Browser:
    """Chromium, spoken to over a pair of pipes: one JSON message after the other, each ended by a zero byte."""

    def __init__(self, folder):
        name = next((n for n in ("chromium", "chromium-browser", "google-chrome") if shutil.which(n)), None)
        assert name, "no Chromium: apt-get install chromium"
        to_read, self.to = os.pipe()
        self.of, to_write = os.pipe()

        def as_three_and_four():
            a, b = os.dup(to_read), os.dup(to_write)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            [name, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
             f"--user-data-dir={folder}/profile", "about:blank"],
            preexec_fn=as_three_and_four, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.number, self.left, self.errors, self.session = 0, b"", [], None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.ask(domain + ".enable")

    def receive(self):
        while b"\0" not in self.left:
            more = os.read(self.of, 1 << 20)
            assert more, "the browser is gone"
            self.left += more
        message, _, self.left = self.left.partition(b"\0")
        return json.loads(message)

    def ask(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("method") == "Runtime.exceptionThrown":
                self.errors.append(answer["params"]["exceptionDetails"].get("exception", {}).get("description", "?"))
            if answer.get("method") == "Log.entryAdded" and answer["params"]["entry"]["level"] == "error":
                self.errors.append(answer["params"]["entry"]["text"])
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]

    def open(self, path, width=1200, height=900):
        self.errors = []
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.ask("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        self.wait_for("document.readyState === 'complete'")

    def value(self, script):
        result = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait_for(self, script, seconds=60):
        end = time.monotonic() + seconds
        while not self.value(script):
            assert time.monotonic() < end, f"never came true: {script}"
            time.sleep(0.05)

    def mouse(self, kind, x, y, **more):
        self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)

    def middle_of(self, selector, index=0):
        box = self.value(f"(() => {{ const e = document.querySelectorAll('{selector}')[{index}]; e.scrollIntoView(); "
                         "const b = e.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; })()")
        return box

    def picture(self, path):
        data = self.ask("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def close(self):
        self.process.terminate()
        self.process.wait()


# Texts of each picture that can be seen: those over another, and those that are cut off by its edge.
UNREADABLE = """(() => {
  const bad = [];
  for (const svg of document.querySelectorAll('svg')) {
    const edge = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll('text')].filter(t => getComputedStyle(t).visibility !== 'hidden' && t.textContent.trim());
    const boxes = texts.map(t => t.getBoundingClientRect());
    for (let i = 0; i < texts.length; ++i) {
      const a = boxes[i];
      if (a.left < edge.left - 1 || a.right > edge.right + 1 || a.top < edge.top - 1 || a.bottom > edge.bottom + 1)
        bad.push('cut off: ' + texts[i].textContent);
      if (texts[i].getAttribute('transform')) continue;  // the box of a slanted text is more than the text
      for (let k = 0; k < i; ++k) {
        const b = boxes[k];
        if (texts[k].getAttribute('transform')) continue;
        if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3)
          bad.push(texts[k].textContent + ' over ' + texts[i].textContent);
      }
    }
  }
  return bad;
})()"""


def check_page(browser, path, pictures, charts=0, width=1200):
    browser.open(path, width=width)
    assert not browser.errors, (path, browser.errors)
    unreadable = browser.value(UNREADABLE)
    assert not unreadable, (path, unreadable)
    if charts:
        assert browser.value("document.querySelectorAll('svg').length") >= charts, path
        x, y = browser.middle_of(".band")
        browser.mouse("mouseMoved", x, y)
        browser.wait_for("[...document.querySelectorAll('.tip')].some(t => getComputedStyle(t).visibility === 'visible')", 5)
    if pictures:
        browser.picture(os.path.join(pictures, pathlib.Path(path).stem + ".png"))
    print(f"ok  {pathlib.Path(path).name}", flush=True)


def check_automaton(browser, path, pictures):
    right = "parseFloat(document.getElementById('right').textContent)"
    steps = "+document.getElementById('steps').textContent"
    browser.open(path)
    assert not browser.errors, browser.errors
    browser.wait_for(steps + " > 3")  # it plays
    browser.wait_for(right + " === 100")
    browser.click(*browser.middle_of("#play"))  # pause
    before = browser.value(steps)
    time.sleep(0.4)
    assert browser.value(steps) == before, "it does not pause"
    browser.click(*browser.middle_of("#one"))
    assert browser.value(steps) == before + 1, "one step is not one"
    assert browser.value(right) == 100
    browser.click(*browser.middle_of("#grid"))
    wounded = browser.value(right)
    assert wounded < 100, "a click wounds nothing"
    assert browser.value(steps) == before + 1
    if pictures:
        browser.picture(os.path.join(pictures, "wounded.png"))
    browser.click(*browser.middle_of("#play"))
    browser.wait_for(right + " === 100")  # it mends
    browser.value("document.getElementById('speed').value = 0")
    slow = browser.value(steps)
    time.sleep(1.5)
    assert browser.value(steps) - slow <= 3, "speed 0 is about one step a second"
    assert not browser.errors, browser.errors
    print(f"ok  automaton: wounded {100 - wounded:.2f} % of the cells by a click, all of them mended", flush=True)


def make_pages(program, folder):
    def run(*words, good=(0,)):
        done = subprocess.run([program, *words], cwd=folder, capture_output=True, text=True)
        assert done.returncode in good, (words, done.stdout, done.stderr)

    run("train", "checkerboard", "--seed", "14", "--save", "c.safetensors")
    run("run", "c.safetensors", "--grid", "48x48", "--html", "automaton.html")
    run("circuit", "c.safetensors", "--svg", "circuit.svg", "--curve", "curve.svg")
    # Gates that nobody trained, of every kind: a large circuit at once.
    run("train", "pattern", "--updates", "1", "--pass", "0", "--noise", "3", "--channels", "16", "--update-gates",
        "64x2,32,16", "--save", "p.safetensors", good=(0, 1))
    run("circuit", "p.safetensors", "--svg", "pattern.svg")
    run("train", "fashion", "--net", "mlp", "--epochs", "4", "--log", "mlp.csv", "--report", "fashion.html")
    run("train", "fashion", "--net", "softmax", "--epochs", "4", "--log", "softmax.jsonl")
    run("train", "cube", "--hidden", "64", "--steps", "200", "--save", "cube.safetensors", "--report", "cube.html")
    run("report", "mlp.csv", "softmax.jsonl", "--out", "both.html")
    run("profile", "--out", "profile.html", "bench", "dqn_step_b64", "--runs", "20")


def main():
    program, pictures = os.path.abspath(sys.argv[1]), None
    if len(sys.argv) > 3 and sys.argv[2] == "--pictures":
        pictures = os.path.abspath(sys.argv[3])
        os.makedirs(pictures, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="windrow-browser-", ignore_cleanup_errors=True) as folder:
        make_pages(program, folder)
        browser = Browser(folder)
        try:
            check_automaton(browser, f"{folder}/automaton.html", pictures)
            for name, charts in (("fashion.html", 2), ("cube.html", 4), ("both.html", 4), ("curve.svg", 1),
                                 ("circuit.svg", 0), ("pattern.svg", 0), ("profile.html", 0)):
                check_page(browser, f"{folder}/{name}", pictures, charts)
                if name == "pattern.svg":
                    assert browser.value("document.querySelectorAll('rect').length") > 250, "this is no large circuit"
            check_page(browser, f"{folder}/both.html", None, 4, width=400)  # a telephone
        finally:
            browser.close()


if __name__ == "__main__":
    main()
